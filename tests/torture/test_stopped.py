"""A worker that was stopped (SIGSTOP) and wakes after its claim went to somebody else changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from consolidate import publish
from consolidate.outcomes import Failed, Published
from consolidate.service import LongMemory
from memory import failpoints
from memory.workspace import locks
from tests.torture import deeds
from tests.torture.harness import UNFINISHED, confirmed
from tests.torture.sleeper import Sleeper, later, nobody_sleeps_on, overtaken_changes_nothing, stop, stop_first
from tests.torture.world import LEASE_SECONDS, World, complaints

BEFORE_THE_LAST_ROW = (
    "publish.before_intent",
    "publish.after_intent",
    "workspace.version.place.rename.before",
    "publish.after_version",
    "publish.before_install",
    "workspace.summary.rename.before",
    "workspace.summary.rename.after",
    "publish.after_install",
)

pytestmark = pytest.mark.torture
AFTER_IT = ("publish.recorded", "publish.after_success", "publish.after_baseline")

__all__ = ["nobody_sleeps_on"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "world")
    deeds.moved_on(made)
    return made


@pytest.mark.req("Z110")
@pytest.mark.fault("M43", "M55")
def test_stopped_inside_a_model_call_it_stores_nothing_when_another_took_over(world: World) -> None:
    overtaken_changes_nothing(world)


@pytest.mark.fault("M55")
def test_stopped_inside_a_model_call_it_stores_nothing_when_memory_was_cleared(world: World) -> None:
    sleeper = Sleeper(world, lambda it: setattr(it, "during", stop_first()))
    other = later(world)
    with other.memory() as memory:
        assert memory.clear().clean
    sleeper.wake()
    assert confirmed(other) is None
    for text in (deeds.CANARY, "part-a1", "part-c1"):
        assert other.traces(text) == []


@pytest.mark.req("Z103", "Z105", "Z118")
@pytest.mark.fault("M43", "M82")
@pytest.mark.parametrize("point", BEFORE_THE_LAST_ROW)
def test_stopped_inside_a_publish_it_takes_everything_back_when_another_took_over(
    world: World, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(publish, "LOCK_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.05)
    before = confirmed(world)
    # Once: taking back passes the same points again.
    sleeper = Sleeper(world, lambda _: failpoints.arm(point, stop_first()))
    other = later(world)
    outcome = other.run().consolidated
    assert isinstance(outcome, Failed)
    # Nobody publishes beside a publish, nor changes a file beside a change.
    assert outcome.error == ("storage" if point.startswith("workspace.") else "state_busy")
    assert sleeper.wake()[-1] == "fenced"
    assert confirmed(other) == before
    with other.opened() as runtime:
        LongMemory(runtime).recover()
        assert complaints(runtime, ignoring=UNFINISHED) == []
    last = later(other)
    assert isinstance(last.run().consolidated, Published)
    assert {deeds.part("a1", 2), deeds.part("c1", 1)} <= last.lines()


@pytest.mark.parametrize("point", AFTER_IT)
def test_stopped_after_the_last_row_it_had_published_and_nobody_does_it_again(world: World, point: str) -> None:
    sleeper = Sleeper(world, lambda _: failpoints.arm(point, stop))
    other = later(world)
    assert other.run().outcome == "nothing"
    assert sleeper.wake()[-1] == "published"
    assert other.run().outcome == "nothing"
    with other.opened() as runtime:
        assert complaints(runtime, ignoring=("permissions",)) == []


@pytest.mark.fault("M72")
def test_while_nobody_else_has_come_a_late_worker_may_still_finish(world: World) -> None:
    """A laptop that slept: the claim ran out, but its token is still the last one."""
    calls: list[None] = []

    def sleep() -> None:
        if not calls:
            world.frozen.advance(LEASE_SECONDS)
        calls.append(None)

    world.during = sleep
    assert isinstance(world.run().consolidated, Published)
