"""The memory tools over streamable HTTP: on this machine unless told otherwise, and never without a token.

A browser is a client of this machine too: requests whose Host or Origin is not the server's own are refused, so that
no web page reaches memory by a name that leads here [DNS rebinding].
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import logging
import os
import secrets
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory.errors import StorageError, UsageError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

TOKEN_FILE = "mcp.token"
MIN_TOKEN = 20
PATH = "/mcp"
MAX_BODY_BYTES = 4 << 20
MAX_SESSIONS = 64
IDLE_SECONDS = 1_800.0

_log = logging.getLogger("slowwave.mcp")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address. A name is one only if it is `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def token_for(home: Path, said: str, host: str) -> str:
    """The token clients must send: the setting's, else on loopback one that is kept in the data folder (0600).

    Raises UsageError for a token that is too short or missing, StorageError when the file cannot be used.
    """
    if said:
        if len(said) < MIN_TOKEN:
            raise UsageError(
                f"mcp.token has fewer than {MIN_TOKEN} characters.",
                hint='python -c "import secrets; print(secrets.token_urlsafe(32))" makes one.',
            )
        return said
    if not is_loopback(host):
        raise UsageError(
            f"Other machines can reach {host}, and no token is set.",
            hint="Set SLOWWAVE_MCP_TOKEN or mcp.token, or stay on 127.0.0.1.",
        )
    return _kept_token(home / TOKEN_FILE)


def _kept_token(path: Path) -> str:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.geteuid():
                raise StorageError(f"{path} is not yours alone.", hint="Delete it; a new one is made.")
            token = file.read(1_000).strip()
    except OSError as error:
        raise StorageError(
            f"{path} cannot be used ({error.strerror}).", hint="Set SLOWWAVE_MCP_TOKEN instead."
        ) from None
    if len(token) < MIN_TOKEN:
        raise StorageError(f"{path} holds no token.", hint="Delete it; a new one is made.")
    return token


class Guard:
    """Lets in who sends the token, from this server's own name. What is refused is logged without what was sent."""

    def __init__(self, app: App, token: str, names: tuple[str, ...]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(names)
        self._origins = frozenset(f"http://{name}" for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refused = self._refused(scope)
            if refused:
                await _refuse(send, *refused)
                return
        elif scope["type"] != "lifespan":
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, bytes] | None:
        found: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            found.setdefault(bytes(name).lower(), []).append(bytes(value))
        hosts, origins = found.get(b"host", []), found.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            _log.warning("a request was refused: its Host is not this server's")
            return 421, b"This is not the host you asked for."
        if any(origin.decode("latin-1").lower() not in self._origins for origin in origins):
            _log.warning("a request was refused: its Origin is not this server's")
            return 403, b"Pages of other sites are not answered."
        said = found.get(b"authorization", [])
        scheme, _, token = said[0].partition(b" ") if len(said) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
            _log.warning("a request was refused: its token is missing or wrong")
            return 401, b"Send the token: Authorization: Bearer ..."
        return None


async def _refuse(send: Send, code: int, says: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(says)).encode())]
    headers += [(b"www-authenticate", b'Bearer realm="slowwave"')] if code == 401 else []
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": says})


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises UsageError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"Nothing can listen at {host}:{port} ({why}).", hint="Choose another --port, or 0 for a free one."
        ) from None
    return listener


def names_of(host: str, port: int, more: tuple[str, ...]) -> tuple[str, ...]:
    """What clients may call this server, as Host says it."""
    names = ["127.0.0.1", "localhost", "[::1]"] if is_loopback(host) else []
    names += [f"[{host}]" if ":" in host else host, *more]
    ports = [f":{port}", *([""] if port == 80 else [])]
    return tuple(dict.fromkeys(f"{name.lower()}{end}" for name in names for end in ports))


async def serve(
    sdk: Server[Any], listener: socket.socket, token: str, names: tuple[str, ...], began: Callable[[Any], None]
) -> None:
    """Serves until told to stop: `began` is given what to call for that."""
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    from memory.serving import QuietServer

    app = sdk.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=list(names), allowed_origins=[f"http://{name}" for name in names]
        ),
    )

    class Unsignalled(QuietServer):
        """Signals are the process's own business."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    config = uvicorn.Config(
        Guard(app, token, names),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )
    server = Unsignalled(config)
    began(server.stop)
    await server.serve(sockets=[listener])
