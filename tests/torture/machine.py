"""A store and a simple model of it side by side: whatever people, crashes and clocks do, it is as it must be."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from consolidate.service import LongMemory
from memory.model import RolloutId
from tests.torture.deeds import part
from tests.torture.harness import UNFINISHED
from tests.torture.world import LEASE_SECONDS, World, complaints, killed_at

LIMIT = timedelta(days=2)
POINTS = (
    "extract.claimed", "extract.before_file", "extract.after_file", "extract.stored", "publish.before_intent",
    "publish.after_intent", "publish.after_version", "publish.before_install", "publish.after_install",
    "publish.recorded", "publish.after_success", "publish.after_baseline", "clear.before_state", "clear.after_state",
    "clear.after_file", "clear.after_delete", "clear.after_scrub", "forget.before_tombstone", "forget.after_tombstone",
    "forget.after_rows", "forget.after_files", "forget.after_versions", "forget.after_publish", "forget.after_scrub",
    "restore.opened", "restore.before_files", "restore.after_files", "restore.after_rows", "restore.after_success",
    "state.commit.before", "state.commit.after", "workspace.summary.rename.before", "workspace.summary.rename.after",
    "workspace.rollout_summary.rename.after", "workspace.version.place.rename.after",
    "workspace.generation.retire.rename.after", "workspace.baseline.reference.rename.after",
)  # fmt: skip

Lines = tuple[str, ...]


@dataclass(frozen=True)
class Snapshot:
    """What a version was made from: lines of each session and of each note."""

    sessions: dict[str, Lines]
    notes: dict[str, str]


@dataclass
class Model:
    """`said` is everything on disk with its time. `taken` is what is recorded of each session, `pending` are sessions
    that were extended since, `aside` sources that a restore put aside, `floor` the moment up to which a session was
    cleared: its own last one where that was ahead of the clock; `first` is how many of its lines were cleared."""

    said: dict[str, list[tuple[str, datetime]]] = field(default_factory=dict)
    taken: dict[str, Lines] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    aside: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    watermark: datetime | None = None
    floor: dict[str, datetime] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    versions: dict[int, Snapshot] = field(default_factory=dict)
    published: Snapshot = field(default_factory=lambda: Snapshot({}, {}))

    def dead(self, line: str) -> bool:
        """Whether a line or its source was forgotten."""
        return any(text in line for text in self.forgotten)

    def recorded(self, name: str) -> Lines:
        """What an extraction makes of a session now."""
        floor, first = self.floor.get(name, self.watermark), self.first.get(name, 0)
        lines = (line for line, at in self.said[name][first:] if floor is None or at > floor)
        return tuple(line for line in lines if not self.dead(line))

    def after_run(self) -> Snapshot:
        """What a run that finishes its work makes confirmed."""
        for name in self.pending:
            if self.recorded(name):
                self.taken[name] = self.recorded(name)
            self.aside.discard(name)
        self.pending.clear()
        return self.current()

    def current(self) -> Snapshot:
        kept = {n: tuple(ln for ln in t if not self.dead(ln)) for n, t in self.taken.items() if n not in self.aside}
        notes = {n: t for n, t in self.notes.items() if n not in self.aside and not self.dead(t)}
        return Snapshot({n: lines for n, lines in kept.items() if lines}, notes)

    def lines(self, snapshot: Snapshot) -> set[str]:
        found = {line for lines in snapshot.sessions.values() for line in lines} | set(snapshot.notes.values())
        return {line for line in found if not self.dead(line)}


class Machine:
    """The rules, and `check`: the confirmed summary is what the model says, state and disk agree, nothing forgotten or
    cleared stands anywhere."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.model = Model()
        self.count = 0
        self.deeds: list[str] = []
        with self.world.opened():
            pass

    # -- rules

    def new_session(self) -> None:
        self.count += 1
        self._say(f"s{self.count}")

    def grow(self, chance: random.Random) -> None:
        if self.model.said:
            self._say(chance.choice(sorted(self.model.said)))

    def _say(self, name: str) -> None:
        self.world.frozen.advance(1)
        lines = self.model.said.setdefault(name, [])
        line = part(name, len(lines) + 1)
        lines.append((line, self.world.clock.now()))
        self.world.say(name, line)
        if f"part-{name}-" not in self.model.forgotten:
            self.model.pending.add(name)
        self.deeds.append(f"say {line}")

    def note(self) -> None:
        self.count += 1
        name, text = f"n{self.count}", f"Always tag the release of `note-{self.count}-x` first."
        self.world.frozen.advance(1)
        with self.world.opened() as runtime:
            runtime.workspace.write_note(name, text)
        self.model.notes[name] = text
        self.deeds.append(f"note {name}")

    def run(self) -> None:
        self.world.frozen.advance(1)
        before = self._versions()
        report = self.world.run()
        self.deeds.append(f"run: {report.outcome}")
        assert report.outcome in {"ok", "nothing"}, (report, self.deeds)
        self.model.published = self.model.after_run()
        self._learn(before)

    def clear(self) -> None:
        self.world.frozen.advance(1)
        with self.world.memory() as memory:
            assert memory.clear().clean
        self._cleared()
        self.deeds.append("clear")

    def forget_session(self, chance: random.Random) -> None:
        if self.model.said:
            self._forget(f"part-{chance.choice(sorted(self.model.said))}-")

    def forget_text(self, chance: random.Random) -> None:
        lines = sorted(self.model.lines(self.model.current()) & self.world.lines())
        if lines:
            self._forget(chance.choice(lines).split("`")[1])

    def _forget(self, text: str) -> None:
        before = self._versions()
        with self.world.memory() as memory:
            self._do_forget(memory, text)
        self._forgot(text)
        self._learn(before)
        self.deeds.append(f"forget {text}")

    def restore(self, chance: random.Random) -> None:
        self.world.frozen.advance(1)
        with self.world.memory() as memory:
            kept = memory.runtime.workspace.versions()
        if kept:
            number = chance.choice(kept)
            before = self._versions()
            done = self._extracted()
            with self.world.memory() as memory:
                memory.restore(number)
            self._restored(number, done)
            self._learn(before)
            self.deeds.append(f"restore {number}")

    def jump(self, chance: random.Random) -> None:
        seconds = chance.uniform(-0.4, 1.0) * LIMIT.total_seconds()
        self.world.frozen.set(self.world.clock.now() + timedelta(seconds=seconds))
        self.deeds.append(f"jump {seconds:.0f}")

    def crash(self, chance: random.Random) -> None:
        """A deed killed at a random point; whether it took effect is asked of the store, what that means is not."""
        self.world.frozen.advance(1)
        what = chance.choice(("run", "run", "clear", "forget", "restore"))
        point, nth = chance.choice(POINTS), chance.choice((1, 1, 2, 3, 5))
        target, number = "", 0
        with self.world.memory() as memory:
            kept = memory.runtime.workspace.versions()
            generation, before = memory.runtime.store.generation, len(memory.runtime.store.versions.all())
        if what == "forget" and self.model.said:
            target = f"part-{chance.choice(sorted(self.model.said))}-"
        if what == "restore" and kept:
            number = chance.choice(kept)
        done, former = self._extracted(), self._versions()
        killed = killed_at(point, nth, partial(self._deed, what, target, number))
        self.deeds.append(f"{what} {target or number or ''} at {point}@{nth}: {'killed' if killed else 'done'}")
        self.world.frozen.advance(LEASE_SECONDS)
        with self.world.memory() as memory:
            memory.runtime.store.jobs.reap()
            store = memory.runtime.store
            stones, rows = store.tombstones.all(), store.versions.all()
            if store.generation != generation:
                self._cleared(store.clear_watermark)
            if target and ("rollout", f"generic:{target[5:-1]}") in stones:
                self._forgot(target)
            if number and len(rows) > before and rows[-1].model == "restored":
                self._restored(number, done)
        if what == "run" and self._versions() != former:
            self._published()
        self._learn(former)

    def _published(self) -> None:
        """A run published before it died: what it had extracted is confirmed."""
        extracted = self._extracted()
        for name in list(self.model.pending):
            if extracted.get(name) == len(self.model.said[name]):
                self.model.taken[name] = self.model.recorded(name) or self.model.taken.get(name, ())
                self.model.pending.discard(name)
                self.model.aside.discard(name)
        self.model.published = self.model.current()

    def _deed(self, what: str, target: str, number: int) -> None:
        if what == "run":
            self.world.run()
            return
        with self.world.memory() as memory:
            if what == "clear":
                memory.clear()
            elif target:
                self._do_forget(memory, target)
            elif number:
                memory.restore(number)

    # -- what the deeds mean

    def _do_forget(self, memory: LongMemory, text: str) -> None:
        if not text.endswith("-"):
            memory.forget(text=text)
            return
        rollout = RolloutId.parse(f"generic:{text[5:-1]}")
        if memory.runtime.store.rollouts.get(rollout) is not None:
            memory.forget(rollouts=[rollout])

    def _forgot(self, text: str) -> None:
        with self.world.opened() as runtime:
            stones = runtime.store.tombstones.all()
        if text.endswith("-") and ("rollout", f"generic:{text[5:-1]}") not in stones:
            return  # it was never seen
        self.model.forgotten.add(text)
        self.model.pending = {name for name in self.model.pending if f"part-{name}-" not in self.model.forgotten}

    def _cleared(self, watermark: datetime | None = None) -> None:
        now = watermark or self.world.clock.now()
        before = self.model.watermark
        self.model.watermark = max(now, before) if before else now
        for name, lines in self.model.said.items():
            self.model.floor[name] = max(self.model.watermark, lines[-1][1])
            self.model.first[name] = len(lines)
        for container in (self.model.taken, self.model.notes, self.model.versions):
            container.clear()
        self.model.pending.clear()
        self.model.aside.clear()
        self.model.published = Snapshot({}, {})

    def _restored(self, number: int, done: dict[str, int]) -> None:
        snapshot = self.model.versions[number]
        for name in self.model.said:
            if name in snapshot.sessions:
                self.model.taken[name] = snapshot.sessions[name]
                self.model.aside.discard(name)
            elif name in self.model.taken or done.get(name):
                self.model.aside.add(name)
            if done.get(name) == len(self.model.said[name]):
                self.model.pending.discard(name)
        self.model.aside |= self.model.notes.keys() - snapshot.notes.keys()
        self.model.notes |= snapshot.notes
        self.model.aside -= snapshot.notes.keys()
        self.model.published = self.model.current()

    def _extracted(self) -> dict[str, int]:
        """How many events of each session are recorded."""
        with self.world.opened() as runtime:
            return {row.rollout.session: row.boundary.events for row in runtime.store.outputs.all()}

    def _versions(self) -> list[int]:
        with self.world.opened() as runtime:
            return [row.number for row in runtime.store.versions.all()]

    def _learn(self, before: list[int]) -> None:
        for number in self._versions():
            if number not in before or number not in self.model.versions:
                self.model.versions[number] = self.model.published

    # -- what must hold

    def check(self) -> None:
        wanted, there = self.model.lines(self.model.published), self.world.lines()
        assert there == wanted, (sorted(there - wanted), sorted(wanted - there), self.deeds)
        with self.world.memory() as memory:
            assert complaints(memory.runtime, ignoring=(*UNFINISHED, "clock")) == [], self.deeds
        for text in self.model.forgotten:
            assert self.world.traces(text) == [], (text, self.deeds)
        for name, floor in self.model.floor.items():
            for number, (line, at) in enumerate(self.model.said[name]):
                if at <= floor or number < self.model.first[name]:
                    assert self.world.traces(line.split("`")[1] + "`") == [], (name, line, self.deeds)
