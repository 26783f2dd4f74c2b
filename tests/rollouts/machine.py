"""A machine with session folders, a state and a clock, and a watch on the files that are opened."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard

from memory.model import Reason, RolloutId
from memory.settings import RolloutSettings, Settings
from memory.state import RolloutRow, Store
from memory.testing import FrozenClock
from rollouts.discover import DiscoverReport, discover

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
IDLE = NOW - timedelta(hours=7)

# -- what was opened ---------------------------------------------------------------------------------------

_opened: list[str] = []
_watching = [False]


def _hook(name: str, arguments: tuple[Any, ...]) -> None:
    if _watching[0] and name == "open" and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_hook)


@contextmanager
def opened(below: Path) -> Iterator[list[str]]:
    """The files below a folder that were opened inside the block, by whatever means."""
    _opened.clear()
    _watching[0] = True
    found: list[str] = []
    try:
        yield found
    finally:
        _watching[0] = False
        found += [path for path in _opened if path.startswith(str(below))]


# -- a machine with sessions -------------------------------------------------------------------------------


class Machine:
    """A home with session folders, a state and a clock."""

    def __init__(self, base: Path, **rollouts: Any) -> None:
        self.user = base / "user"
        self.user.mkdir()
        self.clock = FrozenClock(NOW)
        self.settings = Settings(
            home=base / "slowwave",
            rollouts=RolloutSettings(**rollouts),
            host_environment={"HOME": str(self.user)},
        )
        self.store = Store.open(self.settings, self.clock)

    def look(self, **rollouts: Any) -> DiscoverReport:
        return discover(self.with_(**rollouts), self.clock, self.store)

    def with_(self, **rollouts: Any) -> Settings:
        changed = self.settings.rollouts.model_copy(update=rollouts)
        return self.settings.model_copy(update={"rollouts": changed})

    def row(self, name: str) -> RolloutRow:
        found = self.store.rollouts.get(RolloutId.parse(name))
        assert found is not None, [str(row.id) for row in self.store.rollouts.all()]
        return found

    def reasons(self) -> dict[str, Reason | None]:
        return {str(row.id): row.reason for row in self.store.rollouts.all()}

    @property
    def pi(self) -> Path:
        return self.user / ".pi" / "agent" / "sessions" / "--w-app--"

    @property
    def codex(self) -> Path:
        return self.user / ".codex" / "sessions" / "2026" / "11" / "30"

    def pi_session(
        self, name: str, *texts: str, at: datetime = IDLE, folder: Path | None = None, **header: Any
    ) -> Path:
        stamp = at.isoformat().replace("+00:00", "Z")
        head = {"type": "session", "version": 3, "id": name, "timestamp": stamp, "cwd": "/w/app", **header}
        lines = [head]
        for number, text in enumerate(texts or ("do it",)):
            message = {"role": "user", "content": [{"type": "text", "text": text}]}
            one = {"type": "message", "id": f"{number:08x}", "parentId": None, "timestamp": stamp, "message": message}
            lines.append(one)
        return write((folder or self.pi) / f"2026-11-30T05-00-00-000Z_{name}.jsonl", *lines)

    def codex_session(self, number: int, *, folder: Path | None = None, at: datetime = IDLE, **meta: Any) -> Path:
        name = f"01a00000-0000-7000-8000-{number:012}"
        stamp = at.isoformat().replace("+00:00", "Z")
        head = {"id": name, "timestamp": stamp, "cwd": "/w/app", "originator": "codex-tui", "source": "cli", **meta}
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"task {number}"}]}
        return write(
            (folder or self.codex) / f"rollout-2026-11-30T05-00-00-{name}.jsonl",
            {"timestamp": stamp, "type": "session_meta", "payload": head},
            {"timestamp": stamp, "type": "response_item", "payload": said},
        )

    def claude_session(self, number: int, *, at: datetime = IDLE) -> Path:
        name = f"00000000-0000-4000-8000-{number:012}"
        stamp = at.isoformat().replace("+00:00", "Z")
        line = {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": None,
            "sessionId": name,
            "timestamp": stamp,
            "version": "2.1.237",
            "cwd": "/w/app",
            "isSidechain": False,
            "userType": "external",
            "message": {"role": "user", "content": f"task {number}"},
        }
        return write(self.user / ".claude" / "projects" / "-w-app" / f"{name}.jsonl", line)

    def generic_session(self, name: str) -> Path:
        return write(
            self.settings.home / "rollouts" / f"{name}.jsonl",
            {"type": "session", "version": 1, "id": name, "host_name": "aider", "cwd": "/w/app"},
            {"type": "event", "role": "user", "text": "hello", "time": IDLE.isoformat()},
        )


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def append(path: Path, *records: Any) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(record) + "\n" for record in records))


def snapshot(folder: Path) -> list[tuple[str, int, int, int]]:
    return sorted(
        (str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns, stat.st_mode)
        for path in folder.rglob("*")
        if (stat := path.lstat())
    )


def pack(path: Path) -> Path:
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    return packed
