"""A process that must not outlive another one, however that one dies.

The kernel tells: on Linux by the parent-death signal and a descriptor of the process, on macOS and BSD by a kernel
queue; elsewhere it is asked each second. Nothing of it costs anything while both live. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from memory import processes

GRACE_SECONDS = 8.0
"""From the wish to end in order to the end of the whole process group."""
_SET_PARENT_DEATH_SIGNAL = 1
_POLL_SECONDS = 1.0


def name_of(pid: int) -> str:
    """`<pid>:<when it began>`, as `follow` takes it."""
    return f"{pid}:{processes.born(pid)}"


def tie_to_parent(name: str) -> None:
    """For a process whose parent has the name and starts it from its only thread: ends in order with the parent, even
    after `kill -9`; exits at once where the parent is gone already."""
    told = False
    if sys.platform == "linux":
        # Not from processes with threads: the kernel means the thread that forked, not its process.
        with suppress(OSError, AttributeError):
            told = ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0) == 0
    pid, _, mark = name.partition(":")
    if os.getppid() != int(pid) or not processes.alive(int(pid), mark):
        sys.exit(0)
    # Whom the kernel has told already is not told twice: a second signal means "at once".
    follow(name, end=_insist if told else None)


def follow(name: str, *, grace_seconds: float = GRACE_SECONDS, end: Callable[[float], None] | None = None) -> None:
    """Ends this process and its group once the process of the name is gone: SIGTERM, then SIGKILL after the grace."""
    pid, _, mark = name.partition(":")
    ending = end or _end

    def wait() -> None:
        wait_for(int(pid), mark)
        ending(grace_seconds)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def wait_for(pid: int, mark: str) -> None:
    """Returns once the very process of that number and mark is gone."""
    if not processes.alive(pid, mark):
        return
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                # Another process may have taken the number before we had the descriptor.
                if processes.alive(pid, mark):
                    poll = select.poll()
                    poll.register(descriptor, select.POLLIN)
                    poll.poll()
                return
            finally:
                os.close(descriptor)
    if hasattr(select, "kqueue"):
        with suppress(OSError):
            _wait_by_queue(pid)
            return
    while processes.alive(pid, mark):
        time.sleep(_POLL_SECONDS)


def _wait_by_queue(pid: int) -> None:
    queue = select.kqueue()  # type: ignore[attr-defined, unused-ignore] # macOS and BSD
    try:
        exits = select.kevent(  # type: ignore[attr-defined, unused-ignore]
            pid,
            filter=select.KQ_FILTER_PROC,  # type: ignore[attr-defined, unused-ignore]
            flags=select.KQ_EV_ADD | select.KQ_EV_ONESHOT,  # type: ignore[attr-defined, unused-ignore]
            fflags=select.KQ_NOTE_EXIT,  # type: ignore[attr-defined, unused-ignore]
        )
        queue.control([exits], 1, None)
    finally:
        queue.close()


def _end(grace_seconds: float) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    _insist(grace_seconds)


def _insist(grace_seconds: float) -> None:
    time.sleep(grace_seconds)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
