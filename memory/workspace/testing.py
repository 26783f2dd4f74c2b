"""Doubles for tests of what happens when the disk says no. Never used in production."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from memory.workspace import files
from memory.workspace.files import Syscalls


class FaultySyscalls(Syscalls):
    """Real system calls, counted; the `nth` call of `name` (from 1) fails with `code`, `times` times in a row.

    Only calls that change something are counted under `open` (those with O_CREAT); reading ones are `open_read`.
    """

    def __init__(self, name: str = "", nth: int = 1, code: int = 0, *, times: int = 1) -> None:
        self.calls: Counter[str] = Counter()
        self._name, self._first, self._last, self._code = name, nth, nth + times - 1, code

    def _count(self, name: str) -> None:
        self.calls[name] += 1
        if name == self._name and self._first <= self.calls[name] <= self._last:
            raise OSError(self._code, os.strerror(self._code))

    def open(self, path: str, flags: int, mode: int, *, folder: int) -> int:
        self._count("open" if flags & os.O_CREAT else "open_read")
        return super().open(path, flags, mode, folder=folder)

    def read(self, fd: int, count: int) -> bytes:
        self._count("read")
        return super().read(fd, count)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """A disk that fills up takes half of it first."""
        try:
            self._count("write")
        except OSError:
            super().write(fd, data[: len(data) // 2])
            raise
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._count("fsync")
        super().fsync(fd)

    def rename(self, old: str, new: str, *, old_folder: int, new_folder: int) -> None:
        self._count("rename")
        super().rename(old, new, old_folder=old_folder, new_folder=new_folder)

    def unlink(self, name: str, *, folder: int) -> None:
        self._count("unlink")
        super().unlink(name, folder=folder)

    def mkdir(self, name: str, mode: int, *, folder: int) -> None:
        self._count("mkdir")
        super().mkdir(name, mode, folder=folder)

    def rmdir(self, name: str, *, folder: int) -> None:
        self._count("rmdir")
        super().rmdir(name, folder=folder)


@contextmanager
def disk(calls: Syscalls) -> Iterator[None]:
    """Puts `calls` in place of the real ones for the block."""
    before = files.syscalls
    files.syscalls = calls
    try:
        yield
    finally:
        files.syscalls = before
