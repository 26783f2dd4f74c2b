"""Which process is it? A number alone does not say: the system gives it to another one later."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_DARWIN_INFO, _DARWIN_SIZE, _DARWIN_STARTED = 3, 136, 120
"""`PROC_PIDTBSDINFO`, the size of what it fills, and where the start time lies in it (seconds, microseconds)."""


def born(pid: int) -> str:
    """A mark of when the process began, the same for as long as it lives; empty where there is none or nobody says.

    On Linux the boot and the clock ticks since it, on macOS the time of day.
    """
    if sys.platform == "darwin":
        return _born_on_darwin(pid)
    try:
        # The name in brackets may hold anything, so count from the last bracket: field 22 is the 20th after it.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
    except OSError:
        return ""
    return f"{boot}-{fields[19].decode()}" if len(fields) > 19 and fields[0] not in {b"Z", b"X"} else ""


def alive(pid: int, mark: str = "") -> bool:
    """Whether the very process that had `mark` from `born` lives; without a mark, whether any of this number does."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        pass
    except (OSError, OverflowError):
        return False
    now = born(pid)
    if not now:
        # No mark to be had: a zombie on Linux, which is dead to us, or a system that keeps none.
        return not Path("/proc/self/stat").exists()
    return not mark or now == mark


def _born_on_darwin(pid: int) -> str:
    try:
        library = ctypes.CDLL(None)
        buffer = ctypes.create_string_buffer(_DARWIN_SIZE)
        filled = library.proc_pidinfo(pid, _DARWIN_INFO, ctypes.c_uint64(0), buffer, _DARWIN_SIZE)
    except (OSError, AttributeError):
        return ""
    if filled != _DARWIN_SIZE:
        return ""
    seconds, parts = (int.from_bytes(buffer.raw[at : at + 8], "little") for at in (_DARWIN_STARTED, 128))
    return f"{seconds}.{parts:06d}"
