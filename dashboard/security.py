"""The wall around the dashboard: who may ask, from where, how much; and what every answer carries [O30].

- Only names on the list may stand in `Host`, so that a foreign name pointed at this machine reads nothing (rebinding).
- A request that names a foreign `Origin`, or that a foreign page sent, is refused, reading ones too.
- With a token (always where the server is not on loopback) a request shows it as `Bearer`, or the cookie of the login.
- Every change needs the CSRF token of this server and this browser, in a hidden field or a header.
- Bodies are bounded. Every answer forbids scripts, styles, frames and connections that are not ours, and caching.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import traceback
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 256_000
"""Bytes of one request's body: the longest form is a note."""
CSRF_COOKIE = "slowwave_csrf"
CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
LOGIN_COOKIE = "slowwave_login"
LOGIN_PATH = "/login"
OPEN_PATHS = ("/static/", LOGIN_PATH)
"""What may be had without the token."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Nothing goes to other sites. `no-referrer` would make browsers send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_log = logging.getLogger("slowwave.dashboard")


class Guard:
    """The secrets of one server process: CSRF and login tokens are void after a restart."""

    def __init__(self, token: str | None, allowed_hosts: Sequence[str]) -> None:
        self.token = token
        self.hosts = frozenset(name.lower() for name in (allowed_hosts or LOOPBACK))
        self._secret = secrets.token_bytes(32)

    # -- hosts and origins ------------------------------------------------------------------------------

    def knows(self, host: str) -> bool:
        """Whether a `Host` is ours; a name on the list without a port stands for every port."""
        name = host.lower()
        return name in self.hosts or _without_port(name) in self.hosts

    def foreign(self, headers: Headers, method: str) -> bool:
        """Whether another site sent this, as far as the browser says."""
        origin = headers.get("origin")
        if origin is not None:
            parts = urlsplit(origin)
            return parts.scheme not in {"http", "https"} or parts.netloc.lower() != headers.get("host", "").lower()
        site = headers.get("sec-fetch-site", "none")
        if site in {"same-origin", "none"}:
            return False
        # A link from elsewhere may open a page; nothing may be embedded, fetched or sent from there.
        return method not in SAFE or headers.get("sec-fetch-mode", "") != "navigate"

    # -- tokens -----------------------------------------------------------------------------------------

    def new_seed(self) -> str:
        """What the CSRF cookie of a new browser holds."""
        return secrets.token_urlsafe(24)

    def csrf(self, seed: str) -> str:
        """The token that forms and the script of this browser send. The cookie alone does not give it away."""
        return hmac.new(self._secret, b"csrf\0" + seed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def is_csrf(self, seed: str | None, token: str | None) -> bool:
        return bool(seed and token) and same(self.csrf(seed or ""), token or "")

    def login_cookie(self) -> str:
        """What a browser that showed the token keeps instead of it."""
        return hmac.new(self._secret, b"login", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        return self.token is not None and same(self.token, given)

    def is_let_in(self, headers: Headers, jar: dict[str, str]) -> bool:
        return self.token is None or self.bears(headers) or same(self.login_cookie(), jar.get(LOGIN_COOKIE, ""))

    def bears(self, headers: Headers) -> bool:
        """Whether the request carries the token itself, which no foreign page can make a browser send."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(given.strip())


def same(known: str, given: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "replace"))


def cookies(headers: Headers) -> dict[str, str]:
    """The cookies of a request, read leniently: those of all other programs on this machine come along, and a malformed
    one of theirs must not hide ours."""
    return cookie_parser(headers.get("cookie", ""))


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


class Wall:
    """The outermost layer: refuses, bounds, stamps, and turns what nothing else caught into a plain 500."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self.app = app
        self.guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        refusal = self._refusal(scope)
        try:
            if refusal is not None:
                await refusal(scope, receive, answer)
            else:
                await self.app(scope, _Bounded(receive), answer)
        except _TooLarge:
            if not answer.begun:
                await _say(scope, 413, f"The body is larger than {MAX_BODY:,} bytes.")(scope, receive, answer)
        except Exception as error:  # what it says may quote content: only where it happened is logged
            frames = traceback.extract_tb(error.__traceback__)[-4:]
            where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
            _log.error("%s %s failed: %s at %s", scope["method"], _route(scope), type(error).__name__, where)
            if answer.begun:
                raise
            await _say(scope, 500, "Something went wrong in slowwave; its log says where.")(scope, receive, answer)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if not self.guard.knows(headers.get("host", "")):
            return _say(scope, 421, "This server is not known by that name.")
        if self.guard.foreign(headers, method):
            return _say(scope, 403, "Another site sent this request.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return _say(scope, 413, f"The body is larger than {MAX_BODY:,} bytes.")
        jar = cookies(headers)
        if path.startswith(OPEN_PATHS) or self.guard.is_let_in(headers, jar):
            return None
        if path.startswith("/api/") or method not in SAFE:
            return _say(scope, 401, "This server asks for its token.", {"www-authenticate": "Bearer"})
        wanted = path + (f"?{query}" if (query := scope["query_string"].decode("latin-1")) else "")
        return RedirectResponse(LOGIN_PATH if wanted == "/" else f"{LOGIN_PATH}?{urlencode({'back': wanted})}", 303)


def _route(scope: Scope) -> str:
    """The pattern of a path, never the path itself: it may hold an id."""
    return getattr(scope.get("route"), "path", "a request")


def _say(scope: Scope, status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    if scope["path"].startswith("/api/"):
        problem = {"type": "about:blank", "title": text, "status": status}
        return JSONResponse(problem, status, headers, media_type="application/problem+json")
    return PlainTextResponse(text + "\n", status, headers)


class _TooLarge(Exception):
    pass


class _Bounded:
    """A request whose body ends at the limit, whatever length it claimed."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MAX_BODY

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise _TooLarge
        return message


class _Answer:
    """A response with the headers every response has."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await self._send(message)
