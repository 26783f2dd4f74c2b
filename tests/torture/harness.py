"""Rehearsing a deed and killing it."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from consolidate.service import LongMemory
from memory import failpoints
from memory.testing import FrozenClock
from tests.torture.deeds import Deed, finish
from tests.torture.world import World, complaints, killed_at

UNFINISHED = ("state", "permissions", "left-overs", "leases")
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


def world_at(folder: Path, start: Path, now: datetime) -> World:
    if folder.exists():
        shutil.rmtree(folder)
    shutil.copytree(start, folder, symlinks=True)
    return World(folder, FrozenClock(now))


def rehearse(folder: Path, deed: Deed) -> Rehearsal:
    """Does a deed and what follows it, twice over from the same start if need be."""
    first = World(folder / "start")
    first.folder.mkdir(parents=True)
    deed.prepare(first)
    now = first.clock.now()
    before = confirmed(first)
    world = world_at(folder / "clean", first.folder, now)
    with failpoints.recorded() as seen:
        deed.act(world)
    after = confirmed(world)
    with world.opened() as runtime:
        LongMemory(runtime).recover()
        assert complaints(runtime, ignoring=UNFINISHED) == []
    finish(world, deed)
    settled(world, deed)
    return Rehearsal(
        deed,
        first.folder,
        now,
        Counter(seen),
        frozenset({before, after, confirmed(world)}),
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
        assert complaints(runtime, ignoring=("permissions",)) == []
        for job in runtime.store.jobs.all("extract"):
            assert job.status in {"done", "released"}, job
    for text in deed.gone:
        assert world.traces(text) == [], text


def kill(folder: Path, rehearsal: Rehearsal, where: Kill) -> None:
    """One kill, one restart, everything checked."""
    world = world_at(folder, rehearsal.start, rehearsal.now)
    inputs = world.fingerprint()
    assert killed_at(where.point, where.nth, lambda: rehearsal.deed.act(world)), where
    # What readers see at once.
    assert confirmed(world) in rehearsal.allowed, where
    sessions = {path: sha for path, sha in inputs.items() if path.startswith("sessions")}
    assert sessions.items() <= world.fingerprint().items(), where
    # What the next start makes of it.
    with world.opened() as runtime:
        LongMemory(runtime).recover()
        assert complaints(runtime, ignoring=UNFINISHED) == [], where
        assert confirmed(world) in rehearsal.allowed, where
        stored = {str(row.rollout): row.boundary.events for row in runtime.store.outputs.all()}
        running = [job for job in runtime.store.jobs.all("extract") if job.status == "running"]
        assert all(job.attempts == 1 for job in running), where
    before = asked(world)
    # The next run finishes the work; what was stored is not asked for again, what was not is asked for once more.
    finish(world, rehearsal.deed)
    settled(world, rehearsal.deed)
    assert world.summary() == rehearsal.end, where
    for (session, events), count in (asked(world) - before).items():
        assert count == 1, where
        assert stored.get(session, -1) != int(events) or rehearsal.deed.gone, (where, session)
    for boundary in rehearsal.asked:
        assert asked(world)[boundary] >= rehearsal.asked[boundary], (where, boundary)
