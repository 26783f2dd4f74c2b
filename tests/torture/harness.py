"""Rehearsing a deed and killing it."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy.exc import OperationalError

from consolidate.service import LongMemory
from flows.pipeline import RunReport
from memory import failpoints
from memory.errors import SlowwaveError
from memory.testing import FrozenClock
from memory.workspace.files import Syscalls
from memory.workspace.testing import disk
from tests.torture.deeds import Deed, finish
from tests.torture.world import STATE, World, complaints, killed_at

UNFINISHED = ("state", "permissions", "left-overs", "leases", "quarantine")
"""Doctor's checks that may speak up between recovery and the next run: that there is work to do, and that a claim has
not run out yet, is no disagreement."""


@dataclass(frozen=True)
class Kill:
    """SIGKILL at the `nth` passing of a point."""

    point: str
    nth: int


@dataclass(frozen=True)
class Rehearsal:
    """A deed done without a kill: how it stood before (`start`), points with their counts, summaries that a reader may
    see on the way, and the summary in the end."""

    deed: Deed
    start: Path
    now: datetime
    points: Counter[str]
    allowed: frozenset[bytes | None]
    end: str
    asked: Counter[tuple[str, str]]


Copied = Callable[[str], str]
"""Copies the database of a URL and returns the copy's."""


def world_at(folder: Path, start: Path, now: datetime, copied: Copied | None = None) -> World:
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(start, folder, symlinks=True)
    if copied is not None:
        (folder / STATE).write_text(copied((start / STATE).read_text(encoding="utf-8")), encoding="utf-8")
    return World(folder, FrozenClock(now))


def rehearse(folder: Path, deed: Deed, url: str = "", copied: Copied | None = None) -> Rehearsal:
    """Does a deed and what follows it, twice over from the same start if need be; with the state at `url`, if given."""
    first = World(folder / "start")
    first.folder.mkdir(parents=True)
    if url:
        (first.folder / STATE).write_text(url, encoding="utf-8")
    deed.prepare(first)
    now = first.clock.now()
    before = confirmed(first)
    world = world_at(folder / "clean", first.folder, now, copied)
    shown = {before}
    failpoints.arm("workspace.summary.rename.after", lambda: shown.add(confirmed(world)))
    with failpoints.recorded() as seen:
        deed.act(world)
    shown.add(confirmed(world))
    with world.opened() as runtime:
        LongMemory(runtime).recover()
        assert complaints(runtime, ignoring=UNFINISHED) == []
    finish(world, deed)
    settled(world, deed)
    failpoints.disarm("workspace.summary.rename.after")
    return Rehearsal(
        deed,
        first.folder,
        now,
        Counter(seen),
        frozenset({*shown, confirmed(world)}),
        world.summary(),
        asked(world),
    )


def confirmed(world: World) -> bytes | None:
    """What a reader finds now, without opening anything."""
    found = list(world.home.glob("generations/*/memories_v2/memory_summary.md"))
    return found[0].read_bytes() if found else None


def asked(world: World) -> Counter[tuple[str, str]]:
    """How often the model was asked about each boundary of each session."""
    return Counter((session, events) for _, session, events in world.answers())


def settled(world: World, deed: Deed) -> None:
    """Nothing is left to do and nothing is out of order."""
    report = world.run()
    assert report.outcome == "nothing", report
    with world.opened() as runtime:
        assert complaints(runtime, ignoring=("permissions", "quarantine")) == []
        for job in runtime.store.jobs.all("extract"):
            assert job.status in {"done", "released"}, job
    for text in deed.gone:
        assert world.traces(text) == [], text


def kill(folder: Path, rehearsal: Rehearsal, where: Kill, copied: Copied | None = None) -> None:
    """One kill, one restart, everything checked."""
    world = world_at(folder, rehearsal.start, rehearsal.now, copied)
    inputs = world.fingerprint()
    assert killed_at(where.point, where.nth, lambda: rehearsal.deed.act(world)), where
    aftermath(world, rehearsal, inputs, where)


def fail(folder: Path, rehearsal: Rehearsal, where: Fault) -> str:
    """One fault while the deed is done, then the same checks as after a kill. Returns what the deed said of it."""
    world = world_at(folder, rehearsal.start, rehearsal.now)
    inputs = world.fingerprint()
    with faulty(where) as struck:
        said = _said(rehearsal.deed.act, world)
    assert struck, (where, "the fault was never met")
    # One session may fail and the others be consolidated without it: what was published by the rules is allowed, too.
    aftermath(world, rehearsal, inputs, where, more=published(world))
    return said


def published(world: World) -> frozenset[bytes | None]:
    """The summary on disk, if it is that of the latest version."""
    with world.opened() as runtime:
        latest, sha = runtime.store.versions.latest(), runtime.workspace.summary_sha()
    return frozenset({confirmed(world)}) if latest is not None and latest.sha256 == sha else frozenset()


def _said(act: Callable[[World], object], world: World) -> str:
    """The name of the error that came out, or of the outcome. What has no name of ours comes out as it is."""
    try:
        found = act(world)
    except SlowwaveError as error:
        return error.code
    if isinstance(found, RunReport):
        codes = [
            str(getattr(item, "error", item.code)) for item in (found.extracted.outcomes if found.extracted else ())
        ]
        codes.append(str(getattr(found.consolidated, "error", found.outcome)))
        assert "internal" not in codes, found
        return next(
            (code for code in codes if code in {"storage", "path_refused", "workspace", "state"}), found.outcome
        )
    return "done"


def aftermath(
    world: World,
    rehearsal: Rehearsal,
    inputs: dict[str, str],
    where: object,
    more: frozenset[bytes | None] = frozenset(),
) -> None:
    """After the process is gone: what readers see, what the next start makes of it, what the next run finishes."""
    with world.held_open():
        _aftermath(world, rehearsal, inputs, where, rehearsal.allowed | more)


def _aftermath(
    world: World, rehearsal: Rehearsal, inputs: dict[str, str], where: object, allowed: frozenset[bytes | None]
) -> None:
    assert confirmed(world) in allowed, where
    sessions = {path: sha for path, sha in inputs.items() if path.startswith("sessions")}
    assert sessions.items() <= world.fingerprint().items(), where
    with world.opened() as runtime:
        LongMemory(runtime).recover()
        assert complaints(runtime, ignoring=UNFINISHED) == [], where
        assert confirmed(world) in allowed, where
        stored = {str(row.rollout): row.boundary.events for row in runtime.store.outputs.all()}
        running = [job for job in runtime.store.jobs.all("extract") if job.status == "running"]
        assert all(job.attempts >= 1 for job in running), where
    before = asked(world)
    # What was stored is not asked for again, what was not is asked for once more.
    finish(world, rehearsal.deed)
    settled(world, rehearsal.deed)
    assert world.summary() == rehearsal.end, where
    for (session, events), count in (asked(world) - before).items():
        assert count == 1, where
        assert stored.get(session, -1) != int(events) or rehearsal.deed.gone, (where, session)
    for boundary in rehearsal.asked:
        assert asked(world)[boundary] >= rehearsal.asked[boundary], (where, boundary)


# -- faults ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """The first system call after the `nth` passing of a point fails with `code`, `times` times in a row."""

    point: str
    code: int
    nth: int = 1
    times: int = 1


class FailingSyscalls(Syscalls):
    """Real system calls until `left` is set; then so many that change something fail."""

    def __init__(self, code: int) -> None:
        self.code, self.left, self.struck = code, 0, 0

    def _strike(self) -> None:
        if self.left:
            self.left -= 1
            self.struck += 1
            raise OSError(self.code, os.strerror(self.code))

    def open(self, path: str, flags: int, mode: int, *, folder: int) -> int:
        if flags & os.O_CREAT:
            self._strike()
        return super().open(path, flags, mode, folder=folder)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """A disk that fills up takes half of it first."""
        if self.left:
            super().write(fd, data[: len(data) // 2])
        self._strike()
        return super().write(fd, data)

    def fsync(self, fd: int) -> None:
        self._strike()
        super().fsync(fd)

    def rename(self, old: str, new: str, *, old_folder: int, new_folder: int) -> None:
        self._strike()
        super().rename(old, new, old_folder=old_folder, new_folder=new_folder)

    def unlink(self, name: str, *, folder: int) -> None:
        self._strike()
        super().unlink(name, folder=folder)

    def mkdir(self, name: str, mode: int, *, folder: int) -> None:
        self._strike()
        super().mkdir(name, mode, folder=folder)

    def rmdir(self, name: str, *, folder: int) -> None:
        self._strike()
        super().rmdir(name, folder=folder)


@contextmanager
def faulty(where: Fault) -> Iterator[list[str]]:
    """The fault is armed while the block runs; the list is not empty when it was met."""
    struck: list[str] = []
    calls = FailingSyscalls(where.code)
    passed = 0

    def strike() -> None:
        nonlocal passed
        passed += 1
        if not where.nth <= passed < where.nth + where.times:
            return
        struck.append(where.point)
        if where.point.startswith("state."):
            problem = sqlite3.OperationalError("refused")
            problem.sqlite_errorcode = _SQLITE[where.code]
            raise OperationalError(None, None, problem) if "commit" in where.point else problem
        calls.left = 1

    failpoints.arm(where.point, strike)
    try:
        with disk(calls):
            yield struck
    finally:
        failpoints.disarm(where.point)


_SQLITE = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EIO: sqlite3.SQLITE_IOERR,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_CANTOPEN,
}
CODES = tuple(_SQLITE)


# -- which ones -----------------------------------------------------------------------------------------

STEPS = ("workspace.", "state.commit.", "state.scrub")


def kills_of(rehearsals: dict[str, Rehearsal], *, long: bool) -> dict[str, list[Kill]]:
    """Every point once, at the deed that comes first. Commits have one name, so they are killed at one passing in
    eight; in the long tier at every one, and every point at its first and last passing in every deed."""
    seen: set[str] = set()
    chosen: dict[str, list[Kill]] = {}
    for name, rehearsal in rehearsals.items():
        points = rehearsal.points
        if long:
            chosen[name] = [Kill(point, nth) for point, count in points.items() for nth in sorted({1, count})]
        else:
            chosen[name] = [Kill(point, 1) for point in points if point not in seen]
        chosen[name] = [where for where in chosen[name] if where.point != rehearsal.deed.armed]
        commits = range(2, points["state.commit.after"] + 1, 1 if long else 8)
        chosen[name] += [Kill("state.commit.after", nth) for nth in commits]
        seen |= points.keys()
    return chosen


def faults_of(rehearsals: dict[str, Rehearsal], *, long: bool) -> dict[str, list[Fault]]:
    """Every step once, at the deed that comes first, the four errors in turn; commits at one passing in eight. In the
    long tier every error at the first and last passing of every step of every deed."""
    seen: set[str] = set()
    turn = itertools.cycle(CODES)
    chosen: dict[str, list[Fault]] = {}
    for name, rehearsal in rehearsals.items():
        steps = {
            point: n for point, n in rehearsal.points.items() if point.startswith(STEPS) and point.endswith(".before")
        }
        if long:
            chosen[name] = [Fault(p, code, nth) for p, n in steps.items() for nth in sorted({1, n}) for code in CODES]
        else:
            chosen[name] = [Fault(point, next(turn)) for point in steps if point not in seen]
        commits = range(2, steps.get("state.commit.before", 0) + 1, 1 if long else 8)
        chosen[name] += [Fault("state.commit.before", next(turn), nth) for nth in commits]
        seen |= steps.keys()
    return chosen
