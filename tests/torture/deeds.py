"""Everything that changes memory durably, each as: how the store stood before, the deed, and what must be true after.

A deed is done once without a kill to learn what it ends in, then killed at every point it passes.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from consolidate.outcomes import Published
from flows.pipeline import Options
from memory import failpoints
from memory.errors import SlowwaveError, UnknownReference
from memory.model import RolloutId
from memory.state import Store
from tests.torture.world import LEASE_SECONDS, World, killed_at

SHARED = "Never force-push to `main` please."
STOLEN_AT = "publish.before_install"
CANARY = "zebra-umbrella"
SECRET_WISH = f"Always ship `{CANARY}` builds before the others."


def part(name: str, number: int) -> str:
    """A wish that only one session has."""
    return f"From now on always build `part-{name}-{number}` with make."


@dataclass(frozen=True)
class Deed:
    """`prepare` makes the store from nothing; `act` is what is killed; `again` is what the person does after a restart
    besides a run; `gone` are texts that must stand nowhere under the home in the end; `armed` is a point the deed
    itself has a use for, so that it cannot be killed there."""

    prepare: Callable[[World], None]
    act: Callable[[World], object]
    again: Callable[[World], object] = lambda world: None
    gone: tuple[str, ...] = ()
    armed: str = ""


# -- before --------------------------------------------------------------------------------------------


def empty(world: World) -> None:
    """Sessions on disk, no home yet."""
    world.say("a1", part("a1", 1), SHARED)
    world.say("b1", part("b1", 1), SHARED)


def published(world: World) -> None:
    """One version of two sessions and a note."""
    empty(world)
    world.say("b1", SECRET_WISH)
    with world.opened() as runtime:
        runtime.workspace.write_note("release", "Always tag a release with `v-note-1` first.")
    _done(world)


def moved_on(world: World) -> None:
    """After the version: one session grew, another is new, a third holds nothing, a note was added."""
    published(world)
    world.frozen.advance(60)
    world.say("a1", part("a1", 2))
    world.say("c1", part("c1", 1), SHARED)
    world.say("d1", "worth nothing at all")
    with world.opened() as runtime:
        runtime.workspace.write_note("review", "Always ask for a review of `v-note-2` by two people.")


def put_aside(world: World) -> None:
    """As `moved_on`, and doctor once set a damaged database, a damaged version and a record aside."""
    moved_on(world)
    aside = world.home / "quarantine" / "20261119T090000"
    generation = next((world.home / "generations").iterdir())
    shutil.copytree(generation / "versions", aside / "generations" / generation.name / "versions")
    records = generation / "memories_v2" / "rollout_summaries"
    shutil.copytree(records, aside / "generations" / generation.name / "memories_v2" / "rollout_summaries")
    if (world.home / "state.db").exists():  # else it lies on a server, where nothing is set aside
        shutil.copyfile(world.home / "state.db", aside / "state.db")


def three_versions(world: World) -> None:
    """Three versions, of which two are kept, and an input that was extracted but not consolidated yet."""
    published(world)
    for number in (2, 3):
        world.frozen.advance(60)
        world.say("a1", part("a1", number))
        _done(world)
    world.frozen.advance(60)
    world.say("a1", part("a1", 4))
    world.run(Options(consolidate=False))


def worthless(world: World) -> None:
    """A session that was recorded is another one now, with nothing in it."""
    published(world)
    world.frozen.advance(60)
    world.rewrite("a1", "worth nothing at all")


def withheld(world: World) -> None:
    """Extracted, never consolidated."""
    empty(world)
    with world.opened() as runtime:
        runtime.workspace.write_note("release", "Always tag a release with `v-note-1` first.")
        runtime.workspace.write_note("later", "Always tag a release with `v-note-3` last.")


def cut(
    first: Callable[[World], None], deed: Callable[[World], object], point: str, nth: int = 1
) -> Callable[..., None]:
    """A store in which a deed was killed before: what is killed next is the recovery."""

    def prepare(world: World) -> None:
        first(world)
        assert killed_at(point, nth, lambda: deed(world)), point
        world.frozen.advance(LEASE_SECONDS)

    return prepare


def _done(world: World) -> None:
    outcome = world.run().consolidated
    assert isinstance(outcome, Published), outcome


# -- deeds ---------------------------------------------------------------------------------------------


def run(world: World) -> object:
    return world.run()


def clear(world: World) -> object:
    with world.memory() as memory:
        return memory.clear()


def forget_session(world: World) -> object:
    return _forget(world, rollouts=[RolloutId.parse("generic:b1")])


def forget_text(world: World) -> object:
    return _forget(world, text=CANARY)


def forget_note(world: World) -> object:
    return _forget(world, notes=["release"])


def _forget(world: World, **what: object) -> object:
    with world.memory() as memory:
        try:
            return memory.forget(**what)  # type: ignore[arg-type]
        except UnknownReference:  # it is gone already: recovery finished it
            return None


def restore(world: World) -> object:
    """Back to the version before the last; not again where it was done."""
    with world.memory() as memory:
        numbers = [row.number for row in memory.history()]
        return memory.restore(2) if max(numbers) == 3 else None


def write_note(world: World) -> object:
    with world.opened() as runtime:
        text = "Always tag a release with `v-note-9` first."
        return runtime.workspace.write_note("release", text, replace=True)


def remove_note(world: World) -> object:
    with world.opened() as runtime:
        return runtime.workspace.remove_note("release")


def probe(world: World) -> None:
    with world.opened() as runtime:
        runtime.workspace.probe()


def overtaken(world: World) -> object:
    """A publish whose claim goes to another process between the last look at it and the rename."""
    with stolen(world, STOLEN_AT):
        return world.run()


@contextmanager
def stolen(world: World, point: str) -> Iterator[None]:
    """While the block runs, whoever passes the point has lost its claim on the consolidation."""

    def steal() -> None:
        with Store.open(world.settings(), world.clock) as store:
            store.jobs.claim(
                "consolidate", "default", boundary="stolen", owner="thief", lease_seconds=1, max_failures=3,
                again=True, holder_gone=True,
            )  # fmt: skip

    failpoints.arm(point, steal)
    try:
        yield
    finally:
        failpoints.disarm(point)


DEEDS: dict[str, Deed] = {
    "the first run": Deed(empty, run),
    "a run over grown, new and worthless sessions": Deed(moved_on, run),
    "a run over a session that became worthless": Deed(worthless, run),
    "clear": Deed(put_aside, clear, clear, (CANARY, "part-a1", "v-note")),
    "forget a session": Deed(put_aside, forget_session, forget_session, (CANARY, "part-b1")),
    "forget a text": Deed(three_versions, forget_text, forget_text, (CANARY,)),
    "forget a note": Deed(moved_on, forget_note, forget_note, ("v-note-1",)),
    "forget what was never consolidated": Deed(withheld, forget_note, forget_note, ("v-note-1",)),
    "restore": Deed(three_versions, restore, restore),
    "write a note": Deed(published, write_note, write_note),
    "remove a note": Deed(published, remove_note, remove_note),
    "probe": Deed(published, probe),
    "an overtaken publish": Deed(moved_on, overtaken, armed=STOLEN_AT),
    "an overtaken first publish": Deed(empty, overtaken, armed=STOLEN_AT),
    "recovery of an extraction": Deed(cut(moved_on, run, "extract.after_file"), run),
    "recovery of a publish to finish": Deed(cut(moved_on, run, "publish.after_install"), run),
    "recovery of a publish to undo": Deed(cut(moved_on, run, "publish.after_version"), run),
    "recovery of half a write": Deed(cut(moved_on, run, "workspace.summary.rename.before"), run),
    "recovery of a clear": Deed(cut(put_aside, clear, "clear.after_state"), run, gone=(CANARY, "part-a1-1", "v-note")),
    "recovery of a half deleted generation": Deed(
        cut(moved_on, clear, "workspace.generation.delete.empty.before"), run, gone=(CANARY, "part-a1-1", "v-note")
    ),
    "recovery of a forget": Deed(cut(put_aside, forget_session, "forget.after_files"), run, gone=(CANARY, "part-b1")),
    "recovery of a forgotten text": Deed(
        cut(three_versions, forget_text, "forget.after_tombstone"), run, gone=(CANARY,)
    ),
    "recovery of a restore": Deed(cut(three_versions, restore, "restore.after_files"), run),
}


def finish(world: World, deed: Deed) -> None:
    """What happens after a restart: leases run out, the person asks again, a run finishes the work, and one more shows
    that nothing is left to do."""
    world.frozen.advance(LEASE_SECONDS)
    deed.again(world)
    world.run()


def survived(code: int) -> bool:
    return code == -signal.SIGKILL


__all__ = ["CANARY", "DEEDS", "Deed", "SlowwaveError", "finish"]
