"""Kernel advisory locks with an owner record: released by the kernel when the holder dies, never stolen by age."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory.errors import StateBusyError, StorageError

WRITER = "writer.lock"
"""Held while the confirmed summary or its generation is being replaced: publish, clear, forget, restore."""
_POLL_SECONDS = 0.02


@contextmanager
def hold(path: Path, *, owner: str, wait_seconds: float = 0.0) -> Iterator[None]:
    """Holds the lock file for the block. Raises StateBusyError naming the holder when it stays taken.

    A stopped (SIGSTOP) holder still holds it: a lock tells who is inside, a lease tells who should be.
    """
    descriptor = _open(path)
    try:
        _take(descriptor, path, wait_seconds)
        record = json.dumps({"owner": owner, "pid": os.getpid()}).encode()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, record, 0)
        yield
    finally:
        os.close(descriptor)


def holder(path: Path) -> str:
    """The owner record of a lock that is held now, else an empty text."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 4096, 0).decode("utf-8", "replace") or "unknown"
    finally:
        os.close(descriptor)
    return ""


def _open(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(
            f"The lock file {path} cannot be opened ({error.strerror}).", hint="Check the folder's permissions."
        ) from None


def _take(descriptor: int, path: Path, wait_seconds: float) -> None:
    end = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                who = os.pread(descriptor, 4096, 0).decode("utf-8", "replace")
                raise StateBusyError(
                    f"Another process holds {path}: {who or 'unknown'}.", hint="Try again when it has finished."
                ) from None
            time.sleep(_POLL_SECONDS)
