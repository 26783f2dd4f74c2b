"""A process the supervisor has started, and what can be asked of it without taking its number away."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from flows.place import Process
from flows.supervision import Restarts


@dataclass(slots=True)
class Child:
    """One process and what became of it."""

    name: str
    expects: str
    """How long it takes, for who waits."""
    arguments: Callable[[], Sequence[str]]
    """Of Python; asked at each start."""
    probe: Callable[[], bool] | None = None
    """None where it says itself when it is ready."""
    state: str = "starting"
    process: subprocess.Popen[bytes] | None = None
    born: str = ""
    since: str = ""
    began: float = 0.0
    restarts: Restarts = field(default_factory=Restarts)
    starts: int = 0
    due: float | None = None
    silent: int = 0
    rest: bytes = b""
    problem: str = ""
    """Its own last word of what is wrong."""

    def shown(self) -> Process:
        pid = self.process.pid if self.process is not None else 0
        return Process(self.name, self.state, pid, self.born, self.since, max(0, self.starts - 1))


def ended(process: subprocess.Popen[bytes]) -> bool:
    """Without taking its number away, where the system can tell so."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def how(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    if code is None and hasattr(os, "waitid"):
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is not None:
            code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    if code is None:
        return "ended"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def group_lives(group: int) -> bool:
    """Whether anything but the ended leader is in the group; True where that cannot be told."""
    if not Path("/proc/self/stat").exists():
        return True
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[2]) == group and fields[0] not in {b"Z", b"X"}:
                return True
    return False


def kill_group(group: int) -> None:
    with suppress(OSError):
        os.killpg(group, signal.SIGKILL)
