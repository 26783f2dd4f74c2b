"""Secrets known by the name before them: `KEY=value`, JSON and YAML fields, flags, attributes, command lines.

A value after a naming word is judged, not only matched: references, placeholders, types, names and counts survive.
"""

from __future__ import annotations

import re

from memory.redact.measures import (
    classes,
    entropy,
    is_code,
    is_expression,
    is_hex,
    is_name,
    is_ordinary,
    is_placeholder,
    is_random,
    is_scrambled,
    word_set,
    words,
)
from memory.redact.table import Match, Rule, Span, rule, text_at

_KEYWORD = (
    r"(?:(?i:pass(?:word|wd|phrase|code)|passwort|kennwort|contraseña|pwd"
    r"|secret|token|credential|connection[_-]?string"
    r"|(?:api|access|private|auth|encrypt|encryption|sign|signing|master|account|shared|app|service|license)[_-]?key"
    r"|\b_auth\b)|_PASS\b|[_.-]pass\b|\bpass\b|\bpw\b)"
)
_TAIL = r"[\w-]{0,32}"
_CLOSE = r"\\{0,3}[\"'`]?\]?[ \t]{0,4}"
_SIGN = r"(?:=>|:=|={1,3}|:|：|＝)"
_TYPED = r"(?::[ \t]{0,2}[A-Za-z_][\w.\[\], |?]{0,40}[ \t]{0,2}=[ \t]{0,2})"
_PASS = r"(?:(?i:pass(?:word|wd|phrase|code)|passwort|kennwort|contraseña|pwd)|_PASS\b|[_.-]pass\b|\bpass\b|\bpw\b)"
_GATE_SIGN = rf"[\w-]*\\*[\"'`]?\]?[ \t]*(?::[ \t]*[A-Za-z_][\w.\[\], |?]*=|{_SIGN})\s*"
_BREAK = r"(?:[ \t]{0,4}[|>]?[-+]?\\?\r?\n[ \t]{0,24}(?:-[ \t])?)?"
_ASSIGN = rf"{_CLOSE}(?:{_TYPED}|{_SIGN})[ \t]{{0,4}}{_BREAK}"
_VALUE = (
    r"(?:[bBrRuUfF]{0,2}\"(?P<a>(?:[^\"\\\n]|\\[^\n])+)\"|\\{1,3}\"(?P<b>[^\"\\\n]+)\\{1,3}\""
    r"|[bBrRuUfF]{0,2}'(?P<c>(?:[^'\\\n]|\\[^\n])+)'|`(?P<d>[^`\n]+)`|\\{0,3}[\"'`](?P<f>[^\"'`\n]+)|(?P<e>[^\s\"'`]+))"
)
_TAIL_NOT = word_set(
    """
    s count counts counter limit limits length len min max size id ids name names type types typ field fields
    file files path paths dir url uri urls endpoint header headers param params prefix suffix policy policies
    rule rules regex pattern expires expiry expiration ttl age timeout usage used budget window algorithm algo
    label placeholder hint input form error errors message msg prompt required valid invalid validator
    validation schema ref refs provider manager store service class model cost price index idx pos position kind
    format version status state strength izer ized ization ize less generator source rotation selector arn
    namespace ary aries mount vault engine
    """
)
_HEAD_NOT = word_set(
    """
    max min num total input output prompt completion cached reasoning per has is show hide forgot require
    required allow enable enabled disable use generate validate check verify confirm toggle count estimated used
    budget
    """
)
_LINE_START = re.compile(
    rb"(?:^|\n)[ \t]*(?:export |set |setx |ENV |ARG |-e |--env |- |\+ ?|> |\d+(?:[:|]|\xe2\x86\x92)\s*)?[\"']?$"
)
_CUT = re.compile(rb"[;,&][\w.\"'-]{1,40}[=:]|\\n|\\r|</")
_QUERY_CUT = re.compile(_CUT.pattern + rb"|[&#]")
_TRIM = b",;.|)}]>"
_PAIRS = {b")"[0]: b"(", b"}"[0]: b"{", b"]"[0]: b"["}


def _head(data: bytes, start: int) -> int:
    """Where the key around a naming word begins."""
    floor = max(0, start - 48)
    while start > floor and (data[start - 1 : start].isalnum() or data[start - 1] in b"_-.$"):
        start -= 1
    return start


def trimmed(data: bytes, span: Span, *, query: bool = False) -> Span:
    """An unquoted value without what belongs to the text around it."""
    start, end = span
    cut = (_QUERY_CUT if query else _CUT).search(data, start, end)
    if cut:
        end = cut.start()
    while (
        end > start
        and data[end - 1] in _TRIM
        and not (data[end - 1] in _PAIRS and _PAIRS[data[end - 1]] in data[start:end])
    ):
        end -= 1
    return start, end


def _is_password(key: str) -> bool:
    return re.search(r"pass|pwd|\bpw|kennwort|contrase", key, re.IGNORECASE) is not None


def _good_password(value: str, *, quoted: bool, alone: bool, tight: bool = False) -> bool:
    """`alone`: the value is all that its line assigns; `tight`: by a bare equals sign, as in a properties file."""
    if len(value) < 3 or is_name(value):
        return False
    if quoted:
        return " " not in value.strip() or classes(value) >= 4
    digits = any(c.isdigit() for c in value)
    if is_expression(value):
        return False
    if is_scrambled(value) or (alone and tight and value.isalnum() and len(value) >= 6):
        return True
    if is_code(value) and not digits:
        return False
    if digits or classes(value) >= 3:
        return len(value) >= 4
    if any(not c.isalnum() and c not in "_-.:/" for c in value):
        return True
    return alone and len(value) >= 4 and value.isascii()


def _good_secret(value: str, *, quoted: bool, env: bool) -> bool:
    """`env`: an upper-case key of an environment file or a constant."""
    if is_ordinary(value) or is_name(value) or " " in value:
        return False
    if not quoted and is_code(value) and (is_expression(value) or "." in value or not is_random(value, length=12)):
        return False
    if is_random(value):
        return True
    if len(value) >= 16 and classes(value) >= 2 and entropy(value) >= 3.2 and re.fullmatch(r"[\w+/=.-]+", value):
        return not re.fullmatch(r"(?:[A-Za-z][a-z]{1,14}[-_. ]?){2,8}", value)
    return env and len(value) >= 6


def _assigned(data: bytes, match: Match) -> Span | None:
    key_start, key_end, after_key = match.start("k"), match.end("k"), match.end("t")
    begin = _head(data, key_start)
    key, tail = text_at(data, (begin, key_end)), text_at(data, (key_end, after_key))
    if not _TAIL_NOT.isdisjoint(words(tail)) or not _HEAD_NOT.isdisjoint(words(text_at(data, (begin, key_start)))):
        return None
    group = next(name for name in "abcdfe" if match.group(name) is not None)
    quoted, span = group != "e", match.span(group)
    before = data[max(0, begin - 24) : begin]
    if not quoted:
        if before.endswith((b"${", b"%(", b"{{", b"{{ ")):
            return None
        if is_placeholder(text_at(data, span)):
            return None
        span = trimmed(data, span, query=before[-1:] in {b"?", b"&"})
    value = text_at(data, span)
    if is_placeholder(value):
        return None
    between = data[after_key : span[0]]
    at_start = _LINE_START.search(before) is not None
    ends_line = not data[match.end() : match.end() + 2].strip(b" \t,;\r\n\x1e") or data[span[1] : span[1] + 1] in {
        b"",
        b"\n",
    }
    if b"\n" in between and not (is_random(value) or (quoted and classes(value) >= 2)):
        return None
    plain_sign = between.strip(b" \t\"'`\\") == b"="
    constant = at_start and plain_sign and (key + tail).isupper()
    env = constant and (quoted or b" " not in between or not is_code(value))
    if _is_password(key):
        good = _good_password(value, quoted=quoted, alone=at_start and ends_line, tight=between == b"=")
    else:
        good = _good_secret(value, quoted=quoted, env=env)
    return span if good else None


def only_secrets(data: bytes, match: Match) -> Span | None:
    """A value in a place that holds nothing but a secret."""
    value = text_at(data, match.span("s"))
    return None if is_placeholder(value) or is_name(value) else match.span("s")


def _flag(data: bytes, match: Match) -> Span | None:
    span = trimmed(data, match.span("s"))
    value = text_at(data, span)
    if is_placeholder(value) or is_name(value):
        return None
    password = _is_password(text_at(data, match.span("k")))
    good = _good_password(value, quoted=False, alone=True) if password else _good_secret(value, quoted=False, env=False)
    return span if good else None


def _set_by_command(data: bytes, match: Match) -> Span | None:
    value = text_at(data, match.span("s"))
    return match.span("s") if not is_placeholder(value) and _good_secret(value, quoted=False, env=False) else None


def _entropic(data: bytes, match: Match) -> Span | None:
    value = text_at(data, match.span("s")).rstrip(".-")
    if is_hex(value) or is_ordinary(value) or is_placeholder(value):
        return None
    if data[match.end("s") : match.end("s") + 1] in {b"(", b"["}:
        return None
    mixed = classes(re.sub(r"[^A-Za-z0-9]", "", value)) >= 3
    return (match.start("s"), match.start("s") + len(value)) if mixed and entropy(value) >= 4.0 else None


_NAMED = (
    rf"(?i:name|key)[\"']?\s{{0,2}}[:=]\s{{0,2}}[\"']?[\w.-]{{0,40}}{_KEYWORD}[\w.-]{{0,24}}[\"']?,?\s{{1,40}}[\"']?"
)
_NAMED_GATE = rf"(?i:name|key)[\"']?\s*[:=]\s*[\"']?[\w.-]*{_KEYWORD}[\w.-]*[\"']?,?\s+[\"']?"
_XML_WORD = r"(?i:password|passwd|secret|token|api_?key)"
_WEAK = (
    r"(?i:key|salt|session(?:[_-]?id)?|signature|hmac|auth|otp|seed|nonce|jwt|bearer|cert|webhook|login)"
    r"\\{0,3}[\"'`]?\]?[ \t]{0,3}(?:=>|:=|=|:)[ \t]{0,3}\\{0,3}[\"'`]?"
)
_SET = rf"(?i:configure set|config set|\bENV|setx)[ \t]{{1,3}}[\w.:-]{{0,40}}{_KEYWORD}[\w.-]{{0,24}}[ \t]{{1,3}}[\"']?"
_SIGNATURE = r"[?&](?i:sig|signature|x-(?:amz|goog)-(?:signature|security-token))="
_IDENTIFIED = r"(?i:identified (?:with \w{1,40} )?by|password)[ \t]{1,3}'"

RULES: tuple[Rule, ...] = (
    rule(
        "assignment",
        rf"{_PASS}{_GATE_SIGN}\S|{_KEYWORD}{_GATE_SIGN}\\*[\"'`]*(?:[^\s\d\"'`\\]|[\d.,_]+[A-Za-z+/=-])",
        rf"(?P<k>{_KEYWORD})(?P<t>{_TAIL}){_ASSIGN}{_VALUE}",
        _assigned,
        rank=5,
    ),
    rule(
        "flag",
        r"--(?i:pass|pwd|token|secret|api-?key|access-?key|auth)[\w-]{0,16}[ \t]+[^\s-]",
        r"--(?P<k>[\w-]{1,40})[ \t]+[\"']?(?P<s>[^\s\"']{2,256})",
        _flag,
        rank=5,
    ),
    rule(
        "xml-field",
        rf"<[\w.:-]*{_XML_WORD}[\w.-]*>[^<\s]{{3}}",
        rf"<[\w.:-]{{0,24}}{_XML_WORD}[\w.-]{{0,24}}>(?P<s>[^<\s]{{3,}})<",
        only_secrets,
        rank=5,
    ),
    rule(
        "named-value",
        rf"{_NAMED_GATE}(?i:value)",
        rf"{_NAMED}(?i:value)[\"']?\s{{0,2}}[:=]\s{{0,2}}[\"']?(?P<s>[^\s\"'<>]{{3,}})",
        only_secrets,
        rank=5,
    ),
    rule("set-command", rf"{_SET}\S{{6}}", rf"{_SET}(?P<s>[^\s\"']{{6,}})", _set_by_command, rank=5),
    rule(
        "set-command",
        r"\bsecret set \S+ (?:--body|-b)[ =]",
        r"\bsecret set \S{1,64} (?:--body|-b)[ =][\"']?(?P<s>[^\s\"']{6,})",
        _set_by_command,
        rank=5,
    ),
    rule("sql-password", rf"{_IDENTIFIED}[^'\n]{{2}}", rf"{_IDENTIFIED}(?P<s>[^'\n]{{2,128}})'", only_secrets, rank=5),
    rule(
        "netrc",
        r"(?i:login)\s+\S+\s+password\s+\S{3}",
        r"(?i:login)\s{1,4}\S{1,64}\s{1,8}password\s{1,4}(?P<s>\S{3,128})",
        only_secrets,
        rank=5,
    ),
    rule(
        "shell-password",
        r"\bsshpass\s+-p",
        r"\bsshpass\s{1,3}-p\s{0,3}[\"']?(?P<s>[^\s\"']{2,128})",
        only_secrets,
        rank=5,
    ),
    rule(
        "shell-password",
        r"\becho\s[^\n|]*\|\s*sudo\s[^\n]*S",
        r"\becho\s{1,3}(?:-n\s)?[\"']?(?P<s>[^\s\"'|]{2,128})[\"']?\s{0,3}\|\s{0,3}sudo\s[^\n]{0,12}-\w*S",
        only_secrets,
        rank=5,
    ),
    rule(
        "shell-password",
        r"\bmysql(?:dump|admin)?\s[^\n|;]*-p[^\s\"'=-]",
        r"\bmysql(?:dump|admin)?\s[^\n|;]{0,120}-p(?P<s>[^\s\"'=-][^\s\"']{2,64})",
        only_secrets,
        rank=5,
    ),
    rule("signature", rf"{_SIGNATURE}[\w%+/=-]{{8}}", rf"{_SIGNATURE}(?P<s>[\w%+/=-]{{16,}})", only_secrets, rank=3),
)
"""Rules that read the name before a value."""

ENTROPY: Rule = rule(
    "high-entropy", rf"{_WEAK}[A-Za-z0-9+/_-]{{16}}", rf"{_WEAK}(?P<s>[\w+/=.-]{{24,}})", _entropic, rank=9
)
"""A random string after a name that often, not always, names a secret; off by `redact.entropy = false`."""
