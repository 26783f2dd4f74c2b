"""What every host asks first, answered with what the SDK answered to the same request the last time.

A host waits for a server only so long before it sends the first prompt on its way, and the tools of a server that is
late are none. Loading the protocol's library takes most of a second. So the handshake and the list of tools, which are
the same at each start, are answered from a file in the data folder while the library loads; the library then gets the
same requests, and its answers are compared, not sent. A change of our code, of the library or of what a host asks makes
the next start a slow one again. Nothing of memory is in that file.

Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

NAME = "mcp.greeting.json"
OPENINGS = frozenset({"initialize", "server/discover"})
ASKED = OPENINGS | {"tools/list", "resources/list", "resources/templates/list"}
"""Requests whose answers depend on nothing but the request and the code."""
MAX_BYTES = 1 << 20
MAX_ANSWERS = 32
NOTED = 16
"""Messages of a client, from the first on, whose answers may be kept."""
VERSION = "io.modelcontextprotocol/protocolVersion"
_OF_CLIENT = frozenset({"_meta", "capabilities", "clientInfo", "protocolVersion"})

Id = tuple[str, str]


class Greeting:
    """The answers known from before. `answer` and `note` belong to the thread that reads, `settle` to the one that
    writes."""

    def __init__(self, home: str) -> None:
        """`home` is the data folder; where there is none yet, nothing is kept."""
        self._path = Path(home) / NAME if home and Path(home).is_dir() else None
        self._stamp = _stamp()
        self._answers = _read(self._path, self._stamp) if self._path is not None else {}
        self._asked: dict[Id, str] = {}
        self._sent: set[Id] = set()
        self._open = True
        self._version = ""
        self._left = NOTED

    def answer(self, line: bytes) -> bytes:
        """The answer to a message, with its line end; b"" where the library has to say it."""
        request = _request(line)
        if request is None:
            return b""
        key = self._asks(request)
        known = self._answers.get(key)
        if known is None:
            self._open = self._open and request["method"] not in OPENINGS
        if known is None or not self._open:
            return b""
        self._sent.add(_id(request))
        said = {"jsonrpc": "2.0", "id": request["id"], "result": known}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def note(self, line: bytes) -> None:
        """A message the library answers: what it says of the first ones is kept for the next start."""
        self._left -= 1
        if self._left >= 0 and (request := _request(line)) is not None:
            self._asks(request)

    def _asks(self, request: dict[str, Any]) -> str:
        self._version = _version(request) or self._version
        key = _key(request, self._version)
        self._asked[_id(request)] = key
        return key

    @property
    def waits(self) -> bool:
        """Whether an answer of the library is still to be compared or to be kept."""
        return bool(self._asked)

    def settle(self, text: str) -> bool:
        """Takes what the library says; true for the answer to something that was answered already."""
        try:
            said = json.loads(text)
        except ValueError:
            return False
        if not isinstance(said, dict) or "id" not in said or "method" in said or _id(said) not in self._asked:
            return False
        key, sent = self._asked.pop(_id(said)), _id(said) in self._sent
        self._sent.discard(_id(said))
        result = said.get("result")
        if result is not None and self._answers.get(key) != result:
            self._answers[key] = result
            self._save()
        return sent

    def _save(self) -> None:
        if self._path is None:
            return
        kept = _read(self._path, self._stamp) | self._answers
        kept = dict(list(kept.items())[-MAX_ANSWERS:])
        temporary = self._path.with_name(f".{NAME}.{os.getpid()}")
        with contextlib.suppress(OSError):  # a convenience: a full or read-only disk makes the next start a slow one
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump({"stamp": self._stamp, "answers": kept}, file, ensure_ascii=False)
            temporary.replace(self._path)


def _request(line: bytes) -> dict[str, Any] | None:
    """A request whose answer may be known."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("jsonrpc") != "2.0" or said.get("method") not in ASKED:
        return None
    good = isinstance(said.get("id"), (int, str)) and isinstance(said.get("params", {}), dict)
    return said if good else None


def _id(message: dict[str, Any]) -> Id:
    return type(message["id"]).__name__, str(message["id"])


def _version(request: dict[str, Any]) -> str | None:
    """The protocol's version as an opening names it, or a request that carries it with it."""
    params = request.get("params", {})
    meta = params.get("_meta")
    named = params.get("protocolVersion") or (meta.get(VERSION) if isinstance(meta, dict) else None)
    return named if isinstance(named, str) else None


def _key(request: dict[str, Any], version: str) -> str:
    """What the answer depends on: not on who asks, nor on what he can."""
    params = {key: value for key, value in request.get("params", {}).items() if key not in _OF_CLIENT}
    text = json.dumps([request["method"], version, params], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _stamp() -> str:
    """Changes with our code, with what is installed beside it, and with the interpreter."""
    found = [sys.version]
    library = importlib.util.find_spec("mcp")
    files = sorted(Path(__file__).parent.glob("mcp_*.py"))
    if library is not None and library.origin:
        files += [Path(library.origin), Path(library.origin).parent.parent]
    for file in files:
        status = file.stat()
        found.append(f"{file} {status.st_mtime_ns} {status.st_size}")
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path, stamp: str) -> dict[str, Any]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022
            data = json.loads(file.read(MAX_BYTES)) if ours and status.st_size < MAX_BYTES else {}
    except (OSError, ValueError, RecursionError):
        return {}
    good = isinstance(data, dict) and data.get("stamp") == stamp and isinstance(data.get("answers"), dict)
    return data["answers"] if good else {}
