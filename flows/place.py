"""Where the service keeps what it says of itself, and who it is. Standard library only.

service/lock          kernel lock of the supervisor: held means running, whatever any file says
service/state.json    processes, addresses, problems; written by the supervisor alone
service/auth          what the service's Prefect server wants from its clients, made once
service/inbox/        touched by whoever made a run that should start now
service/logs/         rotated
service/prefect/      home and database of the Prefect server
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memory import locks, processes

FOLDER = "service"
AUTH_USER = "slowwave"
RUN_MADE = "run"
"""File of the inbox."""
MAX_STATE_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class Process:
    """One process of the service. `state`: `starting`, `ready`, `waiting` (for its restart), `given up`, `stopped`."""

    name: str
    state: str
    pid: int = 0
    born: str = ""
    since: str = ""
    restarts: int = 0

    @property
    def lives(self) -> bool:
        return processes.alive(self.pid, self.born)


@dataclass(frozen=True, slots=True)
class State:
    """`started` is ISO. `prefect` and `dashboard` are addresses; `own` is False for somebody else's Prefect server.

    `schedule` is a sentence. `ready`: everything answers. `problems` are sentences.
    """

    pid: int
    born: str
    started: str
    ready: bool = False
    own: bool = True
    prefect: str = ""
    dashboard: str = ""
    schedule: str = ""
    processes: tuple[Process, ...] = ()
    problems: tuple[str, ...] = ()
    units: Mapping[str, float] = field(default_factory=dict)
    """Seconds from the start to readiness, by process."""

    def process(self, name: str) -> Process | None:
        return next((one for one in self.processes if one.name == name), None)


class Place:
    """The folder `service` of a home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / FOLDER
        self.lock = self.root / "lock"
        self.state_file = self.root / "state.json"
        self.auth_file = self.root / "auth"
        self.inbox = self.root / "inbox"
        self.logs = self.root / "logs"
        self.log = self.logs / "service.log"
        self.prefect = self.root / "prefect"
        self.work = self.root / "work"
        """Where its processes start: an empty folder, so that no file of anybody's project changes what they do."""
        self.spool = home / "spool"

    def make(self) -> None:
        """The folders, for their owner alone."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self.root, self.inbox, self.logs, self.prefect, self.work, self.spool, self.home / "live"):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)

    def running(self) -> State | None:
        """What the service says of itself while it runs; None when it does not."""
        if not locks.holder(self.lock):
            return None
        state = self.last()
        return state if state is not None and processes.alive(state.pid, state.born) else None

    def last(self) -> State | None:
        """What the last service said of itself, running or not."""
        try:
            with self.state_file.open("rb") as file:
                values: dict[str, Any] = json.loads(file.read(MAX_STATE_BYTES))
            values["processes"] = tuple(Process(**one) for one in values["processes"])
            values["problems"] = tuple(map(str, values["problems"]))
            return State(**values)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def say(self, state: State) -> None:
        """Replaces the state file. Raises OSError."""
        write(self.state_file, json.dumps(asdict(state)).encode())

    def forget_state(self) -> None:
        with suppress(OSError):
            self.state_file.unlink()

    def auth(self) -> str:
        """`user:password` of the service's Prefect server, made at the first start; empty where there was none yet."""
        try:
            return self.auth_file.read_text(encoding="ascii").strip()
        except OSError:
            return ""

    def make_auth(self) -> str:
        """As `auth`, made where it is missing. Raises OSError."""
        found = self.auth()
        if not found:
            found = f"{AUTH_USER}:{secrets.token_urlsafe(32)}"
            write(self.auth_file, found.encode())
        self.auth_file.chmod(0o600)
        return found

    def poke(self) -> None:
        """Tells the worker that a run was made: it need not wait for its next look."""
        with suppress(OSError):
            write(self.inbox / RUN_MADE, b"")


def write(path: Path, data: bytes) -> None:
    """A file of ours that can be made again: replaced whole, readable by its owner alone."""
    temporary = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
