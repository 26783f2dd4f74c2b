"""Many real processes at work on one store, by the machine's own clock."""

from __future__ import annotations

import os
import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from consolidate.outcomes import Unchanged
from consolidate.service import LongMemory
from memory.clock import SystemClock
from memory.errors import SlowwaveError, StateBusyError, UnknownReference, UsageError
from tests.torture.harness import asked
from tests.torture.world import World, complaints

EXPECTED = frozenset({"fenced", "inputs_changed", "unknown_reference", "usage", "storage"})
"""Codes a command may end with when somebody else cleared, restored or published meanwhile: each says so."""


@dataclass
class Crowd:
    """`workers` run the pipeline `rounds` times each; the others do their deed now and then. All write what went wrong
    into one file."""

    folder: Path
    seed: int
    workers: int = 8
    rounds: int = 3
    sessions: int = 12
    seconds: float = 0.02
    others: Sequence[Callable[[World, random.Random], None]] = ()
    wrong: list[str] = field(default_factory=list)

    def world(self) -> World:
        return World(self.folder, SystemClock(), seconds=self.seconds)

    def begin(self) -> World:
        world = self.world()
        long_ago = SystemClock().now() - timedelta(days=1)
        for number in range(self.sessions):
            name = f"s{number}"
            world.say(name, *said(name, 1, 2), at=long_ago - timedelta(hours=number))
        with world.opened():
            pass
        return world

    def run(self) -> World:
        """Everything at once; returns when all are done."""
        world = self.begin()
        jobs: list[Callable[[], None]] = [lambda n=n: self._worker(n) for n in range(self.workers)]  # type: ignore[misc]
        jobs += [lambda do=do, n=n: self._other(do, n) for n, do in enumerate(self.others)]  # type: ignore[misc]
        children = [spawn(job, self.folder / "wrong") for job in jobs]
        for child in children:
            _, status = os.waitpid(child, 0)
            if os.waitstatus_to_exitcode(status):
                self.wrong.append(f"process {child} ended with {os.waitstatus_to_exitcode(status)}")
        if (self.folder / "wrong").exists():
            self.wrong += (self.folder / "wrong").read_text(encoding="utf-8").splitlines()
        return world

    def _worker(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")
        for _ in range(self.rounds):
            time.sleep(chance.random() * 0.05)
            try:
                report = self.world().run()
            except SlowwaveError as error:
                self._note(f"run: {error.code}: {error}", unless=EXPECTED, code=error.code)
                continue
            outcomes = [*(report.extracted.outcomes if report.extracted else ()), report.consolidated]
            for outcome in outcomes:
                code = getattr(outcome, "error", "")
                self._note(f"outcome: {outcome!r}", unless=EXPECTED | {""}, code=code)

    def _other(self, do: Callable[[World, random.Random], None], number: int) -> None:
        chance = random.Random(f"{self.seed}/other/{number}")
        self._wait_for_work()
        for _ in range(self.rounds):
            time.sleep(0.1 + chance.random() * 0.3)
            try:
                do(self.world(), chance)
            except (UnknownReference, UsageError):
                continue
            except SlowwaveError as error:
                self._note(f"{do.__name__}: {error.code}: {error}", unless=EXPECTED, code=error.code)

    def _wait_for_work(self) -> None:
        """Until the first session was extracted: on a busy machine a clear would else come before anybody's work, and
        there would be nothing it could lose."""
        end = time.monotonic() + 60
        while not self.world().answers() and time.monotonic() < end:
            time.sleep(0.01)

    def _note(self, text: str, *, unless: frozenset[str], code: str) -> None:
        if code not in unless:
            with (self.folder / "wrong").open("a", encoding="utf-8") as file:
                file.write(text[:500].replace("\n", " ") + "\n")


def said(name: str, *numbers: int) -> list[str]:
    return [f"From now on always build `part-{name}-{number}` with make." for number in numbers]


def clear(world: World, chance: random.Random) -> None:
    with world.memory() as memory:
        memory.clear()


def restore(world: World, chance: random.Random) -> None:
    with world.memory() as memory:
        kept = memory.runtime.workspace.versions()
        if kept:
            memory.restore(chance.choice(kept))


def spawn(job: Callable[[], None], wrong: Path) -> int:
    """A forked process; what it raises is written down."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 70
        try:
            job()
            code = 0
        except Exception:  # noqa: BLE001 - the parent reads what it was
            with wrong.open("a", encoding="utf-8") as file:
                file.write(traceback.format_exc().replace("\n", " | ") + "\n")
        finally:
            os._exit(code)
    return child


def overlaps(world: World) -> list[str]:
    """Consolidations that worked at the same time: (begin, end) pairs of different processes that cross."""
    begun = [(float(at), pid, "begin") for pid, at, *_ in world.answers("begin")]
    ended = [(float(at), pid, "end") for pid, at, *_ in world.answers("end")]
    at_work: Counter[str] = Counter()
    found = []
    for moment, pid, what in sorted(begun + ended):
        if what == "begin":
            at_work = Counter(
                {other: 1 for other, count in at_work.items() if count and alive_then(other, ended, moment)}
            )
            if at_work - Counter([pid]):
                found.append(f"{pid} began at {moment} while {sorted(at_work)} worked")
            at_work[pid] = 1
        else:
            at_work[pid] = 0
    return found


def alive_then(pid: str, ended: list[tuple[float, str, str]], moment: float) -> bool:
    """Whether a consolidation that began before went on after: one that was given up has no end in the log."""
    return any(other == pid and at > moment for at, other, _ in ended)


def loses_and_revives_nothing(crowd: Crowd) -> None:
    """Workers among whom somebody clears: nothing from before the last clear is left, what is said later is kept."""
    world = crowd.run()
    assert crowd.wrong == []
    assert overlaps(world) == []
    # Every session was whole before the first clear: at most one extraction each, and nothing of them may be left.
    assert max(asked(world).values()) == 1
    with world.memory() as memory:
        watermark = memory.runtime.store.clear_watermark
        assert watermark is not None
        assert memory.clear().clean
    now = SystemClock().now()
    for number in range(3):
        world.say(f"s{number}", *said(f"s{number}", 3), at=now)
    world.run()
    assert world.lines() == {line for n in range(3) for line in said(f"s{n}", 3)}
    assert isinstance(world.run().consolidated, Unchanged)
    with world.opened() as runtime:
        LongMemory(runtime).recover()
        assert complaints(runtime, ignoring=("permissions",)) == []


def since(moment: datetime) -> float:
    return (SystemClock().now() - moment).total_seconds()


__all__ = [
    "Crowd",
    "StateBusyError",
    "clear",
    "loses_and_revives_nothing",
    "overlaps",
    "restore",
    "said",
    "since",
    "spawn",
]
