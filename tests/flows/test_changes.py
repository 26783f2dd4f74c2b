"""What the service hears of its folders, from the system and by looking."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from flows.changes import Changes, Inotify
from flows.place import Place
from tests.flows.home import Home


@pytest.fixture
def place(home: Home) -> Place:
    made = Place(home.data)
    made.make()
    return made


def wake(place: Place, session: str) -> None:
    temporary = place.spool / f"wake-codex-{session}.tmp"
    temporary.write_text("{}")
    temporary.rename(place.spool / f"wake-codex-{session}.json")


def no_watches(self: Inotify, folders: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refuse_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a system without watches left does."""
    real: Callable[..., Any] = watchfiles.awatch

    def awatch(*folders: Path, force_polling: bool, **more: Any) -> Any:
        if not force_polling:
            raise OSError("OS file watch limit reached")
        more["poll_delay_ms"] = 50
        return real(*folders, force_polling=True, **more)

    monkeypatch.setattr(watchfiles, "awatch", awatch)


async def told(changes: Callable[[], Awaitable[set[str]]], words: set[str], deed: Callable[[], object]) -> set[str]:
    """What is heard until the words are. The deed is done again meanwhile: a watcher needs a moment to begin, and one
    that looks for itself tells two states of a file apart by the second."""
    heard: set[str] = set()
    async with asyncio.timeout(60):
        while not words <= heard:
            deed()
            with suppress(TimeoutError):
                heard |= await asyncio.wait_for(changes(), 1.5)
    return heard


@pytest.mark.parametrize("way", ["inotify", "watchfiles", "by-looking"])
async def test_wake_ups_new_runs_and_settings_are_heard_of_and_nothing_else(
    place: Place, home: Home, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    notes: list[str] = []
    if way != "inotify":
        monkeypatch.setattr(Inotify, "__init__", no_watches)
    if way == "by-looking":
        refuse_once(monkeypatch)

    def leave() -> None:
        (place.spool / "used-codex-a.json").write_text("{}")
        (home.data / "state.db-wal").write_text("x")
        wake(place, "a")

    def change() -> None:
        place.poke()
        home.configure(schedule={"every_minutes": 60})

    async with Changes(place, home.data / "config.toml", notes.append) as changes:
        await asyncio.sleep(0.2)  # most often enough for the watcher to begin
        assert await told(changes, {"wake"}, leave) == {"wake"}
        assert await told(changes, {"run", "settings"}, change) <= {"wake", "run", "settings"}
    assert len(notes) == (1 if way == "by-looking" else 0)


linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")


@linux
async def test_the_system_tells_at_once_and_whole_files_only(place: Place, home: Home) -> None:
    async with Changes(place, home.data / "config.toml", print) as changes:
        half = (place.spool / "wake-codex-half.json").open("w")
        half.write("{")
        half.flush()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(changes(), 0.2)
        half.close()
        assert await asyncio.wait_for(changes(), 60) == {"wake"}
        place.poke()
        assert await asyncio.wait_for(changes(), 60) == {"run"}


@linux
async def test_too_many_changes_to_be_told_are_all_of_them(
    place: Place, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Changes(place, home.data / "config.toml", print) as changes:
        overflow = (-1).to_bytes(4, sys.byteorder, signed=True) + (0x4000).to_bytes(4, sys.byteorder) + bytes(8)
        monkeypatch.setattr("flows.changes.os.read", lambda *_: overflow)
        wake(place, "a")
        assert await asyncio.wait_for(changes(), 60) == {"wake", "run", "settings"}
        monkeypatch.undo()


@linux
def test_a_folder_that_cannot_be_watched_is_an_error_that_leaves_nothing_open(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(FileNotFoundError):
        Inotify([tmp_path, tmp_path / "missing"])
    assert len([*Path("/proc/self/fd").iterdir()]) == before
