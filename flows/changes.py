"""What is put into the folders the service watches: wake-ups of hooks, runs that were made, the settings.

Linux tells by inotify, and nobody wakes up before there is something to tell. watchfiles does the same everywhere, but
looks every second whether the system has told it something, which alone takes near one percent of a core of some
virtual machines; so it is for other systems, and for where inotify has no watches left or tells nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from flows.place import RUN_MADE, Place

_CLOSE_WRITE, _MOVED_TO, _ONLYDIR, _OVERFLOW = 0x8, 0x80, 0x1000000, 0x4000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 65_536


class Inotify:
    """Folders of this machine. Raises OSError where the system has no inotify, no watch left or not the folder."""

    def __init__(self, folders: Sequence[Path]) -> None:
        if sys.platform != "linux":
            raise OSError("no inotify on this system")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self.descriptor < 0:
            raise _error()
        self._folders: dict[int, Path] = {}
        for folder in folders:
            number = self._libc.inotify_add_watch(
                self.descriptor, os.fsencode(folder), _CLOSE_WRITE | _MOVED_TO | _ONLYDIR
            )
            if number < 0:
                error = _error()
                self.close()
                raise error
            self._folders[number] = folder

    def read(self) -> list[Path] | None:
        """Files that were written or put there since the last call; None where there were too many to be told."""
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at + _EVENT.size <= len(data):
            number, mask, _, length = _EVENT.unpack_from(data, at)
            at += _EVENT.size + length
            if mask & _OVERFLOW:
                return None
            name = data[at - length : at].rstrip(b"\0")
            if name and number in self._folders:
                found.append(self._folders[number] / os.fsdecode(name))
        return found

    def close(self) -> None:
        os.close(self.descriptor)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


class Changes:
    """`async with Changes(...) as changes: await changes()`: what was put there: `wake`, `run`, `settings`.

    `note` hears in a sentence that the system tells nothing.
    """

    def __init__(self, place: Place, config: Path, note: Callable[[str], None]) -> None:
        self._folders = [folder for folder in (place.spool, place.inbox, config.parent) if folder.is_dir()]
        self._words = {str(place.inbox / RUN_MADE): "run", str(config): "settings"}
        self._note = note
        self._found: asyncio.Queue[str] = asyncio.Queue()
        self._stop = asyncio.Event()
        self._inotify: Inotify | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Callable[[], Awaitable[set[str]]]:
        try:
            self._inotify = Inotify(self._folders)
        except (OSError, AttributeError):
            self._task = asyncio.create_task(self._watch())
        else:
            asyncio.get_running_loop().add_reader(self._inotify.descriptor, self._hear)
        return self._next

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.descriptor)
            self._inotify.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _next(self) -> set[str]:
        words = {await self._found.get()}
        while not self._found.empty():
            words.add(self._found.get_nowait())
        return words

    def _word(self, path: str) -> str:
        return self._words.get(path) or ("wake" if Path(path).name.startswith("wake-") else "")

    def _hear(self) -> None:
        assert self._inotify is not None
        with suppress(OSError):
            paths = self._inotify.read()
            words = {"wake", "run", "settings"} if paths is None else {self._word(str(path)) for path in paths}
            for word in words - {""}:
                self._found.put_nowait(word)

    async def _watch(self) -> None:
        """By watchfiles: as the system tells, or by looking."""
        from watchfiles import Change, awatch

        def ours(change: Change, path: str) -> bool:
            return change is not Change.deleted and bool(self._word(path))

        for polling in (False, True):
            try:
                changes = awatch(
                    *self._folders, watch_filter=ours, debounce=500, step=500, stop_event=self._stop, recursive=False,
                    force_polling=polling, poll_delay_ms=1_000, rust_timeout=600_000,
                )  # fmt: skip
                async for batch in changes:
                    for _, path in batch:
                        self._found.put_nowait(self._word(path))
                return
            except (OSError, RuntimeError) as error:
                self._note(f"the folders cannot be watched ({type(error).__name__}); they are looked at instead")
