"""Secrets known by their own shape, wherever they stand: key prefixes, JWT, PEM, URL credentials, headers.

The catalog (`memory.redact.catalog`) knows many more providers. These stand here because they must be found without
it too, without a test of randomness (a key is a key even where it is made of one letter), and cut or wrapped.
"""

from __future__ import annotations

import base64
import binascii
import re

from memory.redact.measures import classes, entropy, is_hex, is_name, is_placeholder, is_random
from memory.redact.table import SEPARATOR, Match, Rule, Span, rule, text_at

# -- provider keys ------------------------------------------------------------------------------------

_W = r"[A-Za-z0-9_-]"
_A = r"[A-Za-z0-9]"
_PREFIXES: tuple[tuple[str, str], ...] = (
    ("github-token", rf"gh[pousr]_{_A}{{20,255}}|github_pat_\w{{20,255}}"),
    ("gitlab-token", r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|soat|imt|agent|oas|ffct)-[\w.=-]{20,300}"),
    ("slack-token", r"xox[abceoprs]-[A-Za-z0-9.-]{10,250}|xapp-\d-[A-Za-z0-9-]{10,250}"),
    ("slack-webhook", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/+_-]{20,120}"),
    ("discord-webhook", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{10,24}/[\w-]{30,100}"),
    ("anthropic-key", rf"sk-ant-{_W}{{16,250}}"),
    ("openai-key", rf"sk-(?:proj|svcacct|admin|None|or-v1|lf)-{_W}{{16,250}}"),
    ("google-key", rf"AIza{_W}{{35}}|GOCSPX-{_W}{{20,40}}|ya29\.[\w-]{{20,400}}|1//0[\w-]{{40,200}}"),
    ("stripe-key", rf"(?:sk|rk)_(?:live|test|prod)_{_A}{{10,250}}|whsec_[A-Za-z0-9+/=]{{20,100}}"),
    ("npm-token", rf"npm_{_A}{{36}}"),
    ("pypi-token", rf"pypi-AgE{_W}{{40,400}}"),
    ("huggingface-token", rf"(?:hf|api_org)_{_A}{{30,60}}"),
    ("sendgrid-key", rf"SG\.{_W}{{16,32}}\.{_W}{{16,64}}"),
    ("twilio-key", r"\bSK[0-9a-f]{32}\b"),
    ("telegram-token", rf"(?:\bbot|\b)\d{{8,10}}:AA{_W}{{32,34}}"),
    ("discord-token", rf"\b[MNO]{_W}{{23,28}}\.{_W}{{6,7}}\.{_W}{{27,40}}"),
    ("azure-key", r"(?i:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{40,90}={0,2}"),
    ("azure-client-secret", rf"\b{_A}{{3}}\dQ~[\w.~-]{{31,34}}"),
    ("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("dockerhub-token", rf"dckr_(?:pat|oat)_{_W}{{20,60}}"),
    ("databricks-token", r"\bdapi[a-f0-9]{32}(?:-\d)?"),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("vault-token", rf"\bhv[sbr]\.{_W}{{24,300}}"),
    ("linear-key", rf"\blin_(?:api|oauth)_{_A}{{32,64}}"),
    ("notion-token", rf"\b(?:secret_{_A}{{43}}|ntn_{_A}{{40,60}})"),
    ("grafana-token", rf"\bgl(?:sa|c)_{_W}{{30,400}}"),
    ("groq-key", rf"\bgsk_{_A}{{40,60}}"),
    ("xai-key", rf"\bxai-{_A}{{60,90}}"),
    ("perplexity-key", rf"\bpplx-{_A}{{40,60}}"),
    ("replicate-token", rf"\br8_{_A}{{36,42}}"),
    ("supabase-key", rf"\bsb(?:p_[a-f0-9]{{40}}|_secret_{_W}{{20,60}})"),
    ("tailscale-key", r"\btskey-[\w-]{20,100}"),
    ("sentry-token", r"\bsntry[su]_[\w+/=.-]{40,400}"),
    ("atlassian-token", r"\bATATT3[\w=-]{40,400}|\bATBB[A-Za-z0-9]{28,40}"),
    ("figma-token", rf"\bfig[dou]_{_W}{{36,60}}"),
    ("doppler-token", rf"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?{_A}{{40,44}}"),
    ("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{40,70}"),
    ("onepassword-token", rf"\bops_eyJ{_W}{{40,900}}"),
    ("password-hash", r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}|\$(?:5|6|y|argon2\w{1,2})\$[./A-Za-z0-9,=$+-]{30,200}"),
)


def _prefixed(name: str, pattern: str) -> Rule:
    """The gate asks for the first characters only: a short gate is a fast one."""
    short = re.sub(r"\{(\d+)(?:,\d+)?\}(?:\\b)?(?=\||\)|$)", lambda m: f"{{{min(int(m[1]), 8)}}}", pattern)
    return rule(name, f"(?:{short})", f"(?P<s>{pattern})", rank=1)


def _generic_sk(data: bytes, match: Match) -> Span | None:
    """`sk-` followed by letters and digits, not `sk-loading-spinner-large`."""
    value = text_at(data, match.span("s"))
    before = data[match.start("s") - 1 : match.start("s")] if match.start("s") else b""
    body = value[3:]
    if before.isalnum() or before in {b"-", b"_", b"."} or not any(c.isdigit() for c in body):
        return None
    return None if re.fullmatch(r"(?:[a-z]+[-_]?)+\d{0,3}", body) else match.span("s")


def _aws_secret(data: bytes, match: Match) -> Span | None:
    """Forty characters near an access key id: what AWS shows beside it. Hashes are forty hex digits, these are not."""
    value = text_at(data, match.span("s"))
    return None if is_hex(value) or classes(re.sub(r"\W", "", value)) < 3 else match.span("s")


_AKIA = r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
_PAIR = rf"{_AKIA}[^A-Za-z0-9][^\x1e]{{0,200}}?"

# -- tokens and headers -------------------------------------------------------------------------------

_JWT = r"eyJ[\w-]{8,2000}\.[\w-]{8,4000}(?:\.[\w-]{0,2000})?"


def _jwt(data: bytes, match: Match) -> Span | None:
    """Grows over the whole token: a window may end inside a long one."""
    start, end = match.span("s")
    while end < len(data) and (data[end : end + 1].isalnum() or data[end] in b"_-.="):
        end += 1
    while end > start and data[end - 1] in b".=":
        end -= 1
    return start, end


def _bearer(data: bytes, match: Match) -> Span | None:
    value = text_at(data, match.span("s")).rstrip(".,;:)")
    if is_placeholder(value) or is_name(value) or not (is_random(value) or (len(value) >= 20 and entropy(value) > 3.4)):
        return None
    return match.start("s"), match.start("s") + len(value.encode())


def _basic(data: bytes, match: Match) -> Span | None:
    raw = match.group("s") or b""
    try:
        plain = base64.b64decode(raw + b"=" * (-len(raw) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return match.span("s") if b":" in plain else None


def _header(data: bytes, match: Match) -> Span | None:
    """The whole value of an authorization header; a reference to one survives."""
    value = text_at(data, match.span("s")).strip()
    scheme, _, rest = value.partition(" ")
    token = rest.strip() if rest else scheme
    if is_placeholder(token) or is_placeholder(value) or is_name(token) or len(token) < 6 or "://" in token:
        return None
    if not rest and not is_random(token):
        return None
    if not any(c.isdigit() for c in token) and not (len(token) >= 16 and classes(token) >= 2):
        return None
    start = match.start("s") + (len(scheme.encode()) + 1 if rest else 0)
    return start, match.start("s") + len(text_at(data, match.span("s")).rstrip().encode())


def _cookie(data: bytes, match: Match) -> Span | None:
    values = re.findall(r"=\s*([^;\s]+)", text_at(data, match.span("s")))
    secret = any(len(v) >= 6 and not is_placeholder(v) and (is_random(v) or len(v) >= 16) for v in values)
    return match.span("s") if secret else None


def _url_password(data: bytes, match: Match) -> Span | None:
    """Up to the last @ before the path, for passwords may hold one."""
    value = text_at(data, match.span("s"))
    return None if is_placeholder(value) or value.startswith(("$", "{", "<", "%(")) else match.span("s")


def _url_token(data: bytes, match: Match) -> Span | None:
    return match.span("s") if is_random(text_at(data, match.span("s")), length=16) else None


def _curl_user(data: bytes, match: Match) -> Span | None:
    return None if is_placeholder(text_at(data, match.span("s"))) else match.span("s")


# -- PEM ----------------------------------------------------------------------------------------------

_PEM_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(rb"|(?:[A-Za-z0-9+/=]|\\[nr]){1,4096}|(?:Proc-Type|DEK-Info|Comment|Version|Public-Lines):.*")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+$")
_MAX_PEM = 16_384


def _pem(data: bytes, match: Match) -> Span | None:
    """From BEGIN to END; without an END as far as key material goes, so a cut key does not stay."""
    start, at = match.span("s")
    if data[at : at + 1].strip(b"\\ \r\n"):
        return None  # the bare words in some code
    limit = min(len(data), at + _MAX_PEM)
    for stop in (SEPARATOR, b"-----BEGIN"):
        found = data.find(stop, at, limit)
        limit = found if found >= 0 else limit
    end = _PEM_END.search(data, at, limit)
    if end:
        return start, end.end()
    for line in _LINE.finditer(data, at, limit):
        if not _is_key_line(line[0]):
            break
        at = line.end()
    return start, at


def _pem_tail(data: bytes, match: Match) -> Span | None:
    """Key material before an END whose BEGIN was cut off."""
    start, end = match.span("s")
    floor = max(0, start - _MAX_PEM)
    floor = max(floor, data.rfind(SEPARATOR, floor, start) + 1)
    while start > floor:
        line_start = data.rfind(b"\n", floor, start - 1) + 1 or floor
        if not _is_key_line(data[line_start:start]):
            break
        start = line_start
    return start, end


def _is_key_line(line: bytes) -> bool:
    return _KEY_LINE.fullmatch(line.strip().strip(b"\"'\\,|+> ")) is not None


_BEGIN, _END = (rf"(?P<s>-----{word} [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)" for word in ("BEGIN", "END"))
_QUOTED = r"\\{0,3}[\"'`]?"
_AUTHORIZATION = rf"(?i:authorization){_QUOTED}\s{{0,3}}[:=]\s{{0,3}}{_QUOTED}"
_COOKIE = rf"(?i:\b(?:set-)?cookie2?){_QUOTED}\s{{0,2}}:\s{{0,2}}{_QUOTED}"
_CURL_GATE = r"\bcurl\b[^\n|;]*\s(?:-\w*u|--user)[= ]?[\"']?[^\s:\"'$<{]+:[^\s\"']"
_CURL = r"\bcurl\b[^\n|;]{0,200}\s(?:-\w*u|--user)[= ]?[\"']?[^\s:\"'$<{]{1,64}:(?P<s>[^\s\"']{2,128})"
_USER = r"[^\s/:@\"'`<>\[\]{}]"

RULES: tuple[Rule, ...] = (
    rule("private-key", "", _BEGIN, _pem, rank=0),
    rule("private-key", "", _END, _pem_tail, rank=0),
    *(_prefixed(name, pattern) for name, pattern in _PREFIXES),
    rule("openai-key", rf"sk-{_W}{{12}}", rf"(?P<s>sk-{_W}{{20,250}})", _generic_sk, rank=1),
    rule(
        "aws-secret-key",
        rf"{_AKIA}[^A-Za-z0-9]",
        rf"{_PAIR}[^A-Za-z0-9+/=](?P<s>[A-Za-z0-9+/]{{40}})(?:[^A-Za-z0-9+/=]|$)",
        _aws_secret,
        rank=1,
    ),
    rule("jwt", r"eyJ[\w-]+\.[\w-]{8}", r"(?P<s>eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)", _jwt, rank=1),
    rule(
        "authorization",
        rf"{_AUTHORIZATION}\S",
        rf"{_AUTHORIZATION}(?P<s>[^\s\"'`\\]{{2,}}(?: [^\s\"'`\\]{{2,}})?)",
        _header,
        rank=4,
    ),
    rule(
        "bearer-token",
        r"(?i:\bbearer)\s+[\w.~+/=-]{12}",
        r"(?i:\bbearer)\s{1,3}(?P<s>[\w.~+/=-]{12,})",
        _bearer,
        rank=4,
    ),
    rule(
        "basic-auth",
        r"(?i:\bbasic)\s+[A-Za-z0-9+/]{8}",
        r"(?i:\bbasic)\s{1,3}(?P<s>[A-Za-z0-9+/]{8,}={0,2})",
        _basic,
        rank=4,
    ),
    rule("cookie", rf"{_COOKIE}[\w.%-]+=", rf"{_COOKIE}(?P<s>[\w.%-]{{1,64}}=[^\r\n\"'`\\]{{4,}})", _cookie, rank=4),
    rule(
        "url-password",
        rf"://{_USER}*:[^\s/@\"'`<>]+@",
        rf"://{_USER}{{0,128}}:(?P<s>[^\s/\"'`<>]{{1,256}})@",
        _url_password,
        rank=3,
    ),
    rule("url-token", r"://[\w-]+@", r"://(?P<s>[\w-]{20,200})@", _url_token, rank=3),
    rule("curl-user", _CURL_GATE, _CURL, _curl_user, rank=4),
)
"""Rules that need no context, strongest first."""
