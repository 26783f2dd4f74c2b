"""The service's log: one line for each line a process of it prints, bounded, for its owner alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 2_000_000
KEEP = 3
"""Former files: `service.log.1` is the youngest."""
MAX_LINE = 2_000
"""Bytes; what is longer is cut, visibly."""


def stamp() -> str:
    """UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Log:
    """Appends lines and turns the files over. A disk that refuses is no reason to stop: then lines are lost.

    `hide` are texts that never reach the file.
    """

    def __init__(
        self,
        path: Path,
        *,
        hide: Collection[str] = (),
        max_bytes: int = MAX_BYTES,
        keep: int = KEEP,
        now: Callable[[], str] = stamp,
    ) -> None:
        self._path, self._max, self._keep, self._now = path, max_bytes, keep, now
        self._hide = [text.encode() for text in hide if text]
        self._descriptor = -1
        self._size = 0
        with suppress(OSError):
            self._open()

    def write(self, who: str, line: bytes) -> None:
        for text in self._hide:
            line = line.replace(text, b"***")
        if len(line) > MAX_LINE:
            line = line[:MAX_LINE] + b" [cut]"
        # A log is looked at on a terminal: nothing in it may act there.
        plain = bytes(byte if (byte >= 32 and byte != 127) or byte == 9 else 63 for byte in line)
        data = f"{self._now()} {who:<9} ".encode() + plain + b"\n"
        with suppress(OSError):
            if self._size + len(data) > self._max or self._descriptor < 0:
                self._turn_over()
            self._size += os.write(self._descriptor, data)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags, 0o600)
        os.fchmod(self._descriptor, 0o600)
        self._size = os.fstat(self._descriptor).st_size

    def _turn_over(self) -> None:
        full = self._size > 0 and self._descriptor >= 0
        self.close()
        if full:
            for number in range(self._keep, 0, -1):
                older = self._path.with_name(f"{self._path.name}.{number}")
                newer = self._path if number == 1 else self._path.with_name(f"{self._path.name}.{number - 1}")
                if newer.exists():
                    newer.replace(older)
        self._open()
