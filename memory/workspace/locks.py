"""One writer at a time: a kernel lock on a file, with its holder's number in it for people."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory.errors import FencedError, StorageError
from memory.workspace import files as layer
from memory.workspace.files import Files, explain, split

WAIT_SECONDS = 30.0
"""How long a change waits for another process's change, which takes milliseconds unless that process was stopped."""


@contextmanager
def locked(files: Files, path: str, *, wait_seconds: float | None = None) -> Iterator[None]:
    """Holds the kernel's lock on `path` (an existing file); the file names its holder, for people.

    The lock dies with its process, so it is never taken from a living one. Raises FencedError when the file is
    gone or was replaced: the generation it belongs to was cleared.
    """
    full = files.full(path)
    parent, name = split(path)
    try:
        with files.folder(parent) as folder:
            fd = layer.syscalls.open(name, os.O_RDWR, 0, folder=folder)
    except FileNotFoundError:
        raise _cleared(full) from None
    except OSError as error:
        raise explain(error, full, "locked") from error
    try:
        _wait_for_lock(fd, full, WAIT_SECONDS if wait_seconds is None else wait_seconds)
        _require_in_place(files, parent, name, fd)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _wait_for_lock(fd: int, path: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
                raise StorageError(
                    f"{path} is held by process {holder} for more than {seconds:g} seconds.",
                    hint="Wait for it or stop it, then run again.",
                ) from None
            time.sleep(0.005)
        except OSError as error:
            raise explain(error, path, "locked") from error


def _require_in_place(files: Files, parent: str, name: str, fd: int) -> None:
    held = os.fstat(fd)
    try:
        with files.folder(parent) as folder:
            there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise _cleared(files.full(parent)) from None
    except OSError as error:
        raise explain(error, files.full(parent), "locked") from error
    if (held.st_dev, held.st_ino) != (there.st_dev, there.st_ino):
        raise _cleared(files.full(parent))


def _cleared(path: Path) -> FencedError:
    return FencedError(
        f"{path} is gone: its generation was cleared.", hint="Start again; the new generation is used by itself."
    )
