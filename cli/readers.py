"""Whoever reads what a command prints may stop at any time (`| head`): the command goes on as if he read all of it.

What is begun is done to its end and the exit code says how it went; only the words are dropped.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_left: set[int] = set()
"""Streams that nobody reads any more."""


class _Pipe(io.FileIO):
    """A standard stream that swallows what is written to it once nobody reads it any more."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _left.add(self.fileno())
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def outlive() -> None:
    """From here on a closed pipe behind standard output or standard error ends nothing."""
    sys.stdout = _outliving(sys.stdout, sys.__stdout__)
    sys.stderr = _outliving(sys.stderr, sys.__stderr__)


def _outliving(now: TextIO, first: TextIO | None) -> TextIO:
    """Only the process's own streams: what a test or an embedding program put there is left alone."""
    if now is None or now is not first or now.isatty():
        return now
    try:
        raw = _Pipe(now.fileno(), "w", closefd=False)
    except (OSError, ValueError):
        return now
    at_once = bool(now.line_buffering or getattr(now, "write_through", False))
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=now.encoding, errors=now.errors, line_buffering=at_once)


def gone() -> bool:
    """Whether nobody reads standard output any more: for a command that would go on for ever."""
    if 1 in _left:
        return True
    try:
        found = select.poll()
        found.register(1, 0)  # what is not asked for is told all the same: the other end is closed
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in found.poll(0))
    except (OSError, AttributeError):  # a system without poll
        return False
