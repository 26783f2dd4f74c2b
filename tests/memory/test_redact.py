"""Redaction: what must go, what must stay, and that it costs no more than reading."""

from __future__ import annotations

import base64
import json
import os
import random
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory.errors import SettingsError
from memory.redact import Redactor, catalog
from memory.settings import RedactSettings

# -- secrets made up here, in pieces, so that no scanner takes this file for a leak ------------------------

_LOWER = "abcdefghijkmnpqrstuvwxyz"
_ALNUM = _LOWER + _LOWER.upper() + "23456789"


def rnd(size: int, alphabet: str = _ALNUM, seed: str = "") -> str:
    """Random text, the same in every run."""
    return "".join(random.Random(f"{size}{alphabet[:3]}{seed}").choices(alphabet, k=size))


HEX = "0123456789abcdef"
GITHUB = "gh" + "p_" + rnd(36)
GITHUB_FINE = "github" + "_pat_" + rnd(22) + "_" + rnd(59)
GITLAB = "glp" + "at-" + rnd(20)
OPENAI = "sk" + "-" + rnd(48)
OPENAI_PROJECT = "sk" + "-proj-" + rnd(64, _ALNUM + "_-")
ANTHROPIC = "sk" + "-ant-api03-" + rnd(93, _ALNUM + "_-") + "AA"
SLACK = "xo" + "xb-" + rnd(11, "123456789") + "-" + rnd(12, "123456789") + "-" + rnd(24)
SLACK_HOOK = "https://hooks." + "slack.com/services/T" + rnd(8, "ABC123") + "/B" + rnd(8, "ABC123") + "/" + rnd(24)
AWS_ID = "AK" + "IA" + rnd(16, "ABCDEFGHJKLMNPQRSTUVWXYZ234567")
AWS_SECRET = rnd(40, _ALNUM + "/+")
GOOGLE = "AI" + "za" + rnd(35, _ALNUM + "_-")
STRIPE = "sk" + "_live_" + rnd(24)
NPM = "np" + "m_" + rnd(36)
PYPI = "pyp" + "i-AgEIcHlwaS5vcmc" + rnd(70, _ALNUM + "_-")
HUGGING = "h" + "f_" + rnd(34, _LOWER + _LOWER.upper())
SENDGRID = "S" + "G." + rnd(22) + "." + rnd(43)
TWILIO = "S" + "K" + rnd(32, HEX)
TELEGRAM = rnd(10, "123456789") + ":A" + "A" + rnd(33, _ALNUM + "_-")
DISCORD = "M" + rnd(25) + "." + rnd(6) + "." + rnd(38)
AZURE = rnd(86, _ALNUM + "+/") + "=="
AZURE_SECRET = rnd(3) + "8" + "Q~" + rnd(34, _ALNUM + "_.-")
DIGITALOCEAN = "do" + "p_v1_" + rnd(64, HEX)
VAULT = "hv" + "s." + rnd(90, _ALNUM + "_-")
GROQ = "gs" + "k_" + rnd(52)
JWT = ".".join(
    base64.urlsafe_b64encode(part.encode()).decode().rstrip("=")
    for part in ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890","name":"Ada","iat":1516239022}', rnd(32))
)
PEM_BODY = "\n".join(rnd(64, _ALNUM + "+/", str(i)) for i in range(12))
PEM = "-----BEGIN RSA " + "PRIVATE KEY-----\n" + PEM_BODY + "\n-----END RSA " + "PRIVATE KEY-----"
BCRYPT = "$2" + "b$12$" + rnd(53)
PASSWORD = "Tr0ub4" + "dor&3"
SIMPLE = "hunter" + "2"
WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"

UNSIGNED = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkFkYSIsImlhdCI6MTUxNjIzOTAyMn0"
POSITIVES: list[tuple[str, str, str]] = [
    # name, text, what must not survive
    ("openai", f"use {OPENAI} for now", OPENAI),
    ("openai project", f"client = OpenAI(api_key='{OPENAI_PROJECT}')", OPENAI_PROJECT),
    ("openai of an example", "OPENAI_API_KEY=" + "sk-" + "EXAMPLE" + "0" * 22, "EXAMPLE" + "0" * 22),
    ("anthropic", f"x-api-key: {ANTHROPIC}", ANTHROPIC),
    ("github", f"git clone https://{GITHUB}@github.com/a/b", GITHUB),
    ("github of one letter", "token gh" + "p_" + "a" * 36, "a" * 36),
    ("github fine-grained", f"gh auth login --with-token <<< {GITHUB_FINE}", GITHUB_FINE),
    ("gitlab", f"PRIVATE-TOKEN: {GITLAB}", GITLAB),
    ("slack", f"slack bot {SLACK}.", SLACK),
    ("slack webhook", f"curl -d x {SLACK_HOOK}", SLACK_HOOK[-24:]),
    ("aws id", f"key id {AWS_ID} in eu-west-1", AWS_ID),
    ("aws pair", f"{AWS_ID}\n{AWS_SECRET}\n", AWS_SECRET),
    ("aws secret by name", f"aws_secret_access_key = {AWS_SECRET}", AWS_SECRET),
    ("google", f"https://maps.googleapis.com/maps/api/js?key={GOOGLE}&callback=init", GOOGLE),
    ("stripe", f"Stripe.api_key = \"{STRIPE}\"", STRIPE),
    ("npm", f"//registry.npm.example/:_authToken={NPM}", NPM),
    ("pypi", f"twine upload -u __token__ -p {PYPI} dist/*", PYPI),
    ("hugging face", f"login(token='{HUGGING}')", HUGGING),
    ("sendgrid", f"mail via {SENDGRID}", SENDGRID),
    ("twilio", f"auth {TWILIO} end", TWILIO),
    ("telegram", f"https://api.telegram.org/bot{TELEGRAM}/getMe", TELEGRAM[-30:]),
    ("discord", f"bot.run('{DISCORD}')", DISCORD),
    ("azure storage", f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={AZURE};EndpointSuffix=x", AZURE),
    ("azure client secret", f"client secret {AZURE_SECRET} expires", AZURE_SECRET),
    ("digitalocean", f"doctl auth init -t {DIGITALOCEAN}", DIGITALOCEAN),
    ("vault", f"vault login {VAULT}", VAULT),
    ("groq", f"groq: {GROQ}", GROQ),
    ("jwt", f"cookie jar says {JWT} ok", JWT),
    ("jwt cut before its signature", JWT.rpartition(".")[0], JWT.split(".")[1]),
    ("pem", f"here:\n{PEM}\nthanks", PEM_BODY[:200]),
    ("pem without its end", PEM[:400], PEM_BODY[:200]),
    ("pem without its beginning", PEM[300:], PEM[300:360]),
    ("pem in JSON", json.dumps({"private_key": PEM}), PEM_BODY[70:120]),
    ("openssh", PEM.replace("RSA ", "OPENSSH "), PEM_BODY[:64]),
    ("bcrypt", f"INSERT INTO users VALUES ('ada', '{BCRYPT}')", BCRYPT),
    ("env line", f"DB_PASSWORD={SIMPLE}", SIMPLE),
    ("env line of letters", "JWT_SECRET=super" + "secretvalue", "secretvalue"),
    ("export", f"export API_TOKEN={rnd(32)}", rnd(32)),
    ("env dump", f"PATH=/usr/bin\nPGPASSWORD={PASSWORD}\nLANG=C", PASSWORD),
    ("numbered line", f"  12→SECRET_KEY={rnd(40)}", rnd(40)),
    ("JSON field", json.dumps({"user": "ada", "password": PASSWORD}), PASSWORD),
    ("JSON in JSON", json.dumps(json.dumps({"client_secret": rnd(24)})), rnd(24)),
    ("YAML field", f"db:\n  user: ada\n  password: {SIMPLE}\n  port: 5432", SIMPLE),
    ("YAML field of letters", "db:\n  password: sword" + "fish\n  port: 1", "swordfish"),
    ("YAML on the next line", f"apiKey: >-\n    {rnd(32)}\n", rnd(32)),
    ("TOML", f"[x]\ntoken = \"{rnd(30)}\"", rnd(30)),
    ("typed constant", f"password: str = \"{PASSWORD}\"", PASSWORD),
    ("keyword argument", f"connect(host='h', password='{SIMPLE}', port=1)", SIMPLE),
    ("query", f"GET /v1?api_key={rnd(20)}&page=2", rnd(20)),
    ("presigned URL", f"https://s3.example/o?X-Amz-Signature={rnd(64, HEX)}&x=1", rnd(64, HEX)),
    ("XML", f"<password>{PASSWORD}</password>".replace("&", ""), PASSWORD.replace("&", "")),
    ("k8s env", f"- name: DB_PASSWORD\n  value: {SIMPLE}", SIMPLE),
    ("connection string", f"Server=db;User Id=sa;Password={PASSWORD};", PASSWORD),
    ("URL", f"postgres://app:{SIMPLE}@db:5432/app", SIMPLE),
    ("URL with @ in the password", f"redis://:p@{SIMPLE}x@cache:6379", SIMPLE),
    ("bearer", f"curl -H 'Authorization: Bearer {rnd(40)}' https://x", rnd(40)),
    ("bearer in a header map", json.dumps({"headers": {"authorization": f"Bearer {rnd(40)}"}}), rnd(40)),
    ("basic", "Authorization: Basic " + base64.b64encode(b"ada:" + SIMPLE.encode()).decode(), "1bnRlcj"),
    ("token scheme", f"Authorization: token {rnd(40, HEX)}", rnd(40, HEX)),
    ("cookie", f"Cookie: theme=dark; session={rnd(32)}", rnd(32)),
    ("set-cookie", f"< set-cookie: sid=s%3A{rnd(32)}; Path=/; HttpOnly", rnd(32)),
    ("curl user", f"curl -su ada:{SIMPLE} https://x", SIMPLE),
    ("flag", f"docker login -u ada --password {SIMPLE}", SIMPLE),
    ("sshpass", f"sshpass -p '{SIMPLE}' ssh ada@h", SIMPLE),
    ("sudo", f"echo {SIMPLE} | sudo -S apt update", SIMPLE),
    ("mysql", f"mysql -uroot -p{SIMPLE} app", SIMPLE),
    ("sql", f"ALTER USER ada WITH PASSWORD '{SIMPLE}';", SIMPLE),
    ("netrc", f"machine h login ada password {SIMPLE}", SIMPLE),
    ("prose", f"the sudo password is {SIMPLE}-example", SIMPLE),
    ("prose with a place", f"The password for the staging server is {PASSWORD}.", PASSWORD),
    ("prose to", f"I changed the password to {PASSWORD}", PASSWORD),
    ("prose of letters", "the password is sword" + "fish.", "swordfish"),
    ("prose in quotes", "my password is 'correct" + "horse'", "correcthorse"),
    ("prose backwards", f"use {PASSWORD} as the root password", PASSWORD),
    ("prose Chinese", f"服务器密码是 {SIMPLE}，别忘了", SIMPLE),
    ("prose Chinese colon", f"数据库密码：{PASSWORD}", PASSWORD),
    ("prose French", f"Le mot de passe : {PASSWORD}", PASSWORD),
    ("prose German", f"Das Passwort lautet {PASSWORD}", PASSWORD),
    ("prose Japanese", f"パスワードは {SIMPLE} です", SIMPLE),
    ("pin", "the PIN is 48" + "2913", "482913"),
    ("login pair", f"log in with ada/{PASSWORD}", PASSWORD),
    ("high entropy", f"session = '{rnd(44, _ALNUM + '+/')}'", rnd(44, _ALNUM + "+/")),
    ("recovery phrase", f"seed phrase: {WORDS}", WORDS[6:40]),
    ("properties", f"spring.datasource.password={rnd(12, _LOWER + _LOWER.upper())}", rnd(12, _LOWER + _LOWER.upper())),
    ("short name", f"db_pass = '{PASSWORD}'", PASSWORD),
    ("bytes", f"app.secret_key = b'{rnd(24)}'", rnd(24)),
    ("set command", f"aws configure set aws_secret_access_key {AWS_SECRET}", AWS_SECRET),
    ("Dockerfile", f"ENV SECRET_KEY_BASE {rnd(64, HEX)}", rnd(64, HEX)),
    ("prose set to", f"the admin password was set to {PASSWORD}", PASSWORD),
    ("prose quoted", f'use password "{SIMPLE}" for the demo user', SIMPLE),
    ("prose Spanish", f"contraseña: {SIMPLE}", SIMPLE),
    ("prose Russian", f"пароль: {SIMPLE}", SIMPLE),
    ("kubectl", f"kubectl create secret generic x --from-literal=password={SIMPLE}", SIMPLE),
    ("django", f"SECRET_KEY = 'django-insecure-{rnd(50)}'", rnd(50)),
    ("shadow", f"root:$6${rnd(16)}${rnd(86, _ALNUM + './')}:19000:0:99999:7:::", rnd(86, _ALNUM + "./")),
    ("split over lines", f"token: {GITHUB[:20]}\n{GITHUB[20:]}", GITHUB[22:]),
    ("split by a backslash", f"export T={OPENAI[:30]}\\\n  {OPENAI[30:]}", OPENAI[32:]),
    ("split as strings", f"key = '{STRIPE[:20]}' +\n      '{STRIPE[20:]}'", STRIPE[20:]),
    ("assigned on the next line", f"PASSWORD: \\\n   {PASSWORD}", PASSWORD),
]  # fmt: skip

SHA = rnd(40, HEX)
LOOKALIKES: list[tuple[str, str]] = [
    ("git sha", f"commit {SHA} fixes it"),
    ("short sha", "see 3f9a1c2e and deadbee"),
    ("git log", f"{SHA} refs/heads/main\nindex 1a2b3c4..5d6e7f8 100644"),
    ("uuid", "session 019ab178-1682-7892-912f-cd70b0725a0c"),
    ("integrity", '"integrity": "sha512-' + rnd(86, _ALNUM + "+/") + '=="'),
    ("requirements hash", "--hash=sha256:" + rnd(64, HEX)),
    ("docker digest", "node@sha256:" + rnd(64, HEX)),
    ("go sum", "golang.org/x/net v0.17.0 h1:" + rnd(43, _ALNUM + "+/") + "="),
    ("cargo checksum", f'checksum = "{rnd(64, HEX)}"'),
    ("etag", f'etag: "{rnd(32, HEX)}"'),
    ("cache key", f"cache key: {rnd(64, HEX)}"),
    ("vite env", "const key = import.meta.env.VITE_API_KEY;"),
    ("process env", "const token = process.env.GITHUB_TOKEN || ''"),
    ("os environ", 'api_key = os.environ["API_KEY"]'),
    ("getenv", 'password = os.getenv("DB_PASSWORD", "")'),
    ("settings", "client = Client(token=settings.api_token, password=self.password)"),
    ("call", "password = getpass.getpass('Password: ')"),
    ("function", "secret = load_secret(path)\ntoken = create_token(user.id)"),
    ("shell variable", 'curl -H "Authorization: Bearer $TOKEN" -u "$USER:$PASSWORD" x'),
    ("shell braces", "PGPASSWORD=${DB_PASSWORD} psql --password ${PW}"),
    ("template", "password: {{ db_password }}\ntoken: {{ .Values.token }}"),
    ("actions", "token: ${{ secrets.GITHUB_TOKEN }}"),
    ("placeholder", "OPENAI_API_KEY=<your-key>\nTOKEN=your-token-here\nSECRET=changeme"),
    ("stars", "password: ********\ntoken: ••••••••"),
    ("elided", "export ANTHROPIC_API_KEY=sk-ant-...\nXAI_API_KEY=xai-...\nOPENROUTER_API_KEY=sk-or-..."),
    ("x-ed out", "api_key: xxxxxxxxxxxxxxxx"),
    ("type", "interface A { password: string; token?: string | null; apiKey: z.ZodString }"),
    ("python type", "def login(user: str, password: str, token: Optional[str] = None) -> bool: ..."),
    ("pydantic type", "api_key: SecretStr\nsecret: bytes = b''"),
    ("sql type", "password VARCHAR(255) NOT NULL, token TEXT"),
    ("prose field", "the password field is required and the token is optional"),
    ("prose wrong", "the password is incorrect, the secret is missing"),
    ("prose hashed", "Passwords are hashed; the password is stored encrypted."),
    ("prose must", "Password must be at least 8 characters long"),
    ("prose colon", "Password: required. Token: optional. Secret: see the vault."),
    ("prose token", "this token is invalid; refresh the access token: it expires after 3600 seconds"),
    ("prose to", "use the password to log in and the token to authenticate"),
    ("bearer prose", "Bearer token authentication, Basic authentication"),
    ("Chinese prose", "密码是必填的，口令为空时报错；令牌用来登录。"),
    ("Chinese text", "以后统一用 pnpm，不要用 npm。端口改成 9090，密码字段要隐藏。"),
    ("counts", '{"input_tokens": 12345, "output_tokens": 67, "max_tokens": 4096, "total_token_usage": 99999}'),
    ("limits", "max_tokens=8192 token_limit: 200000 password_min_length = 12"),
    ("tokenizer", "tokenizer: o200k_base, tokenizer_sha256: " + rnd(64, HEX)),
    ("token type", '"token_type": "bearer", "expires_in": 3600'),
    ("names", "secretName: db-credentials\nsecretKeyRef:\n  name: my-app-secret\n  key: password"),
    ("storage key", 'const TOKEN_KEY = "auth_token";\nlocalStorage.getItem("access_token")'),
    ("paths", "secret_file: /run/secrets/db_password\ntoken_path = ~/.config/gh/hosts.yml"),
    ("file path", "/home/ada/projects/password-manager/src/components/TokenInput.tsx:42"),
    ("module", "from app.auth.tokens import create_access_token, verify_password"),
    ("html", '<input type="password" name="password" placeholder="Password" id="login-password">'),
    ("css", ".sk-circle-fade-dot-container { animation: sk-circle-fade 1.2s } .token.keyword { color: #ff79c6 }"),
    ("css class", "sk-loading-spinner-container-large-primary"),
    ("css hash", "styles_button__3xK9p Button-module_root_a8fJ2"),
    ("colours", "color: #3f9a1c; background: #deadbeef; --key-color: #FF00AA"),
    ("semver", "typescript@5.9.3 ^18.2.0 v1.2.3-beta.4+build.5"),
    ("nanoid", 'id: "V1StGXR8_Z5jdHi6B-myT"'),
    ("test id", 'data-testid="password-input-3fa85f64"'),
    ("k8s pod", "pod/api-7d9f8b6c5d-x2k4q Running"),
    ("arn", "arn:aws:iam::123456789012:role/deploy"),
    ("url", "https://user.example/reset-password?step=2#token"),
    ("url port", "http://localhost:8080/@scope/pkg and ssh://git@github.com:22/a/b.git"),
    ("ssh remote", "git@github.com:org/repo.git"),
    ("e-mail", "mailto:ada@example.com, ada:admin@example.com"),
    ("public key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + rnd(43) + " ada@host"),
    ("certificate", "-----BEGIN CERTIFICATE-----\n" + rnd(64, _ALNUM + "+/") + "\n-----END CERTIFICATE-----"),
    ("public pem", "-----BEGIN PUBLIC KEY-----\n" + rnd(64, _ALNUM + "+/") + "\n-----END PUBLIC KEY-----"),
    ("time", "2026-11-28T09:14:00.123456+01:00 1782900001000"),
    ("numbers", "4111 1111 1111 1111, +49 170 1234567, 192.168.0.1:5432"),
    ("minified", "!function(e,t){var n=e.token,r=t.password;return n===r?n:e.secret}(a,b)"),
    ("regex", r"const PASSWORD_RE = /^(?=.*[A-Z])(?=.*\d).{8,}$/"),
    ("comparison", "if (token === undefined || password === confirmPassword || secret == expected)"),
    ("dict access", "payload['token'] = data['token']; headers['Authorization'] = f'Bearer {token}'"),
    ("rust", "let private_key = vec![0u8; 32]; let secret: [u8; 32] = [0; 32];"),
    ("torch", "next_token = torch.where(finished.unsqueeze(-1), pad_token, next_token)"),
    ("jq", "gh api x --jq '{login: .[-1].user.login, body: .[-1].body[0:100]}'"),
    ("escape", 'const PASSWORD_CHAR = ff ? "\\u25CF" : "\\u2022";\nif (PASSWORD_CHAR === "\\u2022" && x)'),
    ("anchors", "- Uses vitest instead of jest [e12][e40]; see [3f9a1c2e] and [note:deploy-1]"),
    ("redacted already", "password=[redacted:assignment] token: [redacted:github-token]"),
    ("markdown table", "| password | string | yes | The user's password |"),
    ("yaml anchor", "password: &pw !vault |\ntoken: *token"),
    ("i18n", '"password": "Mot de passe", "forgotPassword": "Forgot your password?"'),
    ("error", 'FATAL: password authentication failed for user "ada"'),
    ("graphql", "mutation Login($password: String!) { login(password: $password) { token } }"),
    ("snapshot id", "key=chunk-vendors.8f3a2b1c.js"),
    ("csrf", "csrfToken: getCookie('csrftoken')"),
    ("feature", "feature_token_refresh: enabled, SECRET_ROTATION=monthly_schedule_name"[:36]),
    ("lowercase words", "api_key_header_name: x-api-key"),
    ("long identifier", "handleUserAuthenticationTokenRefreshRequestCompletedSuccessfully()"),
    ("GPIO", "pin the version; PIN: GPIO17; pin=13"),
    ("sops", "password: ENC[AES256_GCM,data:"),
    ("test results", "--- PASS: TestParseLogLevel/empty_defaults_to_INFO2 (0.00s)\nok ? 'PASS' : 'FAIL1'"),
    ("counts of passes", "pass: 12, fail: 3; 4 passed, pass=True"),
    ("traceparent", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("yarn lock", 'resolved "https://registry.example/left-pad/-/left-pad-1.3.0.tgz#5b8a3a7765dfe001261dde915589e782f8c94d1e"'),
    ("base64 of an image left out", "[image left out: image/png, 20,480 bytes]"),
]  # fmt: skip


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(RedactSettings())


@pytest.fixture(scope="module")
def quick() -> Redactor:
    return Redactor(RedactSettings(), quick=True)


@pytest.mark.req("C021", "C068")
@pytest.mark.fault("X35", "O52", "M56", "M57")
@pytest.mark.parametrize(("name", "text", "secret"), POSITIVES, ids=[name for name, _, _ in POSITIVES])
def test_secret_is_replaced(redactor: Redactor, name: str, text: str, secret: str) -> None:
    assert secret in text
    cleaned = redactor.redact(text)
    assert secret not in cleaned
    assert "[redacted:" in cleaned


@pytest.mark.fault("X35")
@pytest.mark.parametrize(("name", "text"), LOOKALIKES, ids=[name for name, _ in LOOKALIKES])
def test_look_alike_survives(redactor: Redactor, name: str, text: str) -> None:
    assert redactor.redact(text) == text


# -- the figures of docs/redaction.md ----------------------------------------------------------------------


@pytest.mark.fault("X35")
def test_table_is_large_and_both_figures_are_perfect(redactor: Redactor) -> None:
    assert len(POSITIVES) >= 40
    assert len(LOOKALIKES) >= 40
    recall = sum(secret not in redactor.redact(text) for _, text, secret in POSITIVES) / len(POSITIVES)
    kept = sum(redactor.redact(text) == text for _, text in LOOKALIKES) / len(LOOKALIKES)
    assert (recall, kept) == (1.0, 1.0)


@pytest.mark.parametrize(("name", "text", "secret"), POSITIVES, ids=[name for name, _, _ in POSITIVES])
def test_own_rules_find_every_secret_of_the_table_without_the_catalog(
    quick: Redactor, name: str, text: str, secret: str
) -> None:
    assert secret not in quick.redact(text)


def test_what_stands_around_a_secret_stays_readable(redactor: Redactor) -> None:
    assert redactor.redact(f"db:\n  password: {SIMPLE}  # ask Ada\n  port: 1") == (
        "db:\n  password: [redacted:assignment]  # ask Ada\n  port: 1"
    )
    assert redactor.redact(f"postgres://app:{SIMPLE}@db:5432/app").endswith("@db:5432/app")


@pytest.mark.fault("X35")
@pytest.mark.parametrize("place", ["user text", "tool arguments", "tool output", "env dump", "URL", "diff", "log"])
def test_key_is_found_wherever_it_stands(redactor: Redactor, place: str) -> None:
    texts = {
        "user text": "my key is {} please use it",
        "tool arguments": json.dumps({"cmd": ["bash", "-lc", "curl -H 'x: {}' y"]}),
        "tool output": "Exit code: 0\nOutput:\n{}\n",
        "env dump": "A=1\nX={}\nB=2",
        "URL": "https://x.example/a?x={}&y=1",
        "diff": "+X = '{}'\n-X = ''",
        "log": "2026-11-28T09:14:00Z INFO sent {} to server",
    }
    for key in (GITHUB, OPENAI, ANTHROPIC, AWS_ID, STRIPE, GOOGLE, JWT, SLACK):
        assert key not in redactor.redact(texts[place].replace("{}", key))


# -- form --------------------------------------------------------------------------------------------------

_secret = st.sampled_from([text for _, text, _ in POSITIVES])
_noise = st.one_of(
    st.text(max_size=40),
    st.sampled_from([text for _, text in LOOKALIKES]),
    st.sampled_from(
        ["password: ", "token=", "Bearer ", "://a:", "\n", '"', "[redacted:x]", "[redacted:", "sk-", "eyJ"]
    ),
)
_mixture = st.lists(st.one_of(_secret, _noise), max_size=8).map("".join)


@settings(max_examples=150, deadline=None)
@given(_mixture)
def test_redacting_twice_changes_nothing(text: str) -> None:
    redactor = Redactor(RedactSettings())
    once = redactor.redact(text)
    assert redactor.redact(once) == once
    assert not redactor.findings(once)


@settings(max_examples=80, deadline=None)
@given(st.lists(_mixture, max_size=5))
@example(["PASSWD:A?=", ""])
@example(["", PEM[300:]])
@example([f"Authorization: token 11a1928a499b63475236fa836ce8270a3fde6195{UNSIGNED}\x80\x80\u0800\U00010000"])
def test_many_texts_at_once_come_out_as_one_by_one(texts: list[str]) -> None:
    quick = Redactor(RedactSettings(), quick=True)
    assert quick.redact_many(texts) == [quick.redact(text) for text in texts]


@pytest.mark.parametrize("sign", ["\x80", "À", "中", "\u0800", "\U00010000"])
def test_a_secret_with_other_scripts_around_it_never_cuts_a_character(sign: str) -> None:
    redactor = Redactor(RedactSettings())
    for count in range(12):
        for text in (
            f"token {UNSIGNED}{sign * count}",
            f"password: {sign * count}{GITHUB}{sign * 3}",
            sign * count + AWS_ID,
        ):
            found = redactor.redact(text)
            assert "[redacted:" in found
            assert "\ufffd" not in found


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), st.sampled_from([GITHUB, JWT, ANTHROPIC]), st.text(max_size=30))
def test_findings_are_counted_in_code_points(before: str, secret: str, after: str) -> None:
    text = f"{before} {secret} {after}"
    found = Redactor(RedactSettings()).findings(text)
    assert any(secret in text[f.start : f.end] or text[f.start : f.end] in secret for f in found)
    assert all(a.end <= b.start for a, b in pairwise(found))


@pytest.mark.parametrize("text", ["", " ", "\0", "\ud800 lone", "\ufeffbom", "a\x1eb", "🙂" * 50, "\x00" + GITHUB])
def test_odd_text_is_no_trouble(redactor: Redactor, text: str) -> None:
    cleaned = redactor.redact(text)
    assert GITHUB not in cleaned
    assert cleaned == text or GITHUB in text


@pytest.mark.fault("X35")
@settings(max_examples=60, deadline=None)
@given(st.sampled_from([p for p in POSITIVES if "\n" not in p[2]]), st.data())
def test_no_half_of_a_secret_survives_a_cut(case: tuple[str, str, str], data: st.DataObject) -> None:
    _, text, secret = case
    whole = f"start of it\n{text}\nend of it"
    head = data.draw(st.integers(0, len(whole)))
    tail = data.draw(st.integers(0, len(whole) - head))
    redactor = Redactor(RedactSettings())
    first, last = redactor.redact_cut([whole], [(head, tail)])[0]
    for length in range(min(12, len(secret)), len(secret) + 1):
        assert secret[:length] not in first + "\0" + last
        assert secret[-length:] not in first + "\0" + last


def test_cut_without_secrets_is_a_plain_cut(redactor: Redactor) -> None:
    assert redactor.redact_cut(["ordinary text, long"], [(8, 4)]) == [("ordinary", "long")]
    assert redactor.redact_cut(["ordinary"], [(3, 0)]) == [("ord", "")]


# -- settings ----------------------------------------------------------------------------------------------


def test_own_patterns_are_added_and_allowed() -> None:
    redactor = Redactor(RedactSettings(extra_patterns=("ACME-[0-9]{6}",), allow_patterns=(f"^{SIMPLE}$",)))
    assert redactor.redact("ticket ACME-123456") == "ticket [redacted:extra-1]"
    assert redactor.redact(f"password={SIMPLE}") == f"password={SIMPLE}"


def test_pattern_that_is_no_pattern_names_its_setting() -> None:
    with pytest.raises(SettingsError, match=r"redact\.extra_patterns, pattern 2"):
        Redactor(RedactSettings(extra_patterns=("ok", "(?<=look)behind")))


def test_entropy_rule_can_be_switched_off() -> None:
    text = f"session = '{rnd(44, _ALNUM + '+/')}'"
    assert Redactor(RedactSettings(entropy=False), quick=True).redact(text) == text


# -- the maintained rules ----------------------------------------------------------------------------------


def test_catalog_is_installed_large_and_current(redactor: Redactor) -> None:
    assert tuple(map(int, catalog.installed().split(".")[:2])) >= (1, 5)
    assert redactor.catalog.rules >= 450
    assert redactor.catalog.version == catalog.installed()
    released = catalog.released()
    assert released is not None
    assert released >= datetime(2026, 10, 1, tzinfo=UTC)


@pytest.mark.skipif("CI" not in os.environ, reason="the age of the rules is held to its bound in CI")
def test_catalog_is_younger_than_its_bound() -> None:
    released = catalog.released()
    assert released is not None
    assert datetime.now(UTC) - released < timedelta(days=catalog.MAX_AGE_DAYS), (
        f"The rules of {catalog.PACKAGE} are old: raise its lower bound in pyproject.toml and run this file again."
    )


def test_catalog_licence_lets_us_use_it() -> None:
    assert distribution(catalog.PACKAGE).metadata["License-Expression"] == "Apache-2.0"


@pytest.mark.parametrize(
    "text",
    [
        "fly: Fly" + "V1 fm2_" + rnd(500, _ALNUM + "+/"),
        "PMA" + "K-" + rnd(24, HEX) + "-" + rnd(34, HEX),
        "buildkite bku" + "a_" + rnd(40, HEX),
        "rubygems_" + rnd(48, HEX),
    ],
)
def test_catalog_knows_providers_that_we_do_not(redactor: Redactor, quick: Redactor, text: str) -> None:
    assert quick.redact(text) == text
    assert redactor.redact(text) != text


def test_compiled_rules_are_kept_in_the_environment_not_in_the_home(redactor: Redactor) -> None:
    assert redactor.catalog.rules
    place = catalog.default_cache()
    assert place is None or list(place.iterdir())
