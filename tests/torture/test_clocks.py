"""Clocks that go back, jump, change to winter time or disagree between two hosts: see docs/robustness.md, "Time"."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from consolidate.outcomes import Deferred, Failed, Published
from memory.documents import parse_rollout_summary
from memory.model import Reason
from memory.state import Lease, Refused
from memory.testing import FrozenClock
from tests.torture.deeds import part
from tests.torture.world import World

BACK = timedelta(days=2)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world")


@pytest.fixture
def berlin() -> Iterator[ZoneInfo]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield ZoneInfo("Europe/Berlin")
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def set_back(world: World) -> None:
    world.frozen.set(world.clock.now() - BACK)


@pytest.mark.fault("M73")
def test_a_back_off_lasts_its_own_length_when_the_clock_is_set_back(world: World) -> None:
    world.say("a1", part("a1", 1))
    assert isinstance(world.run(consolidate={"max_requests": 1}).consolidated, Failed)
    set_back(world)
    assert isinstance(world.run().consolidated, Deferred)
    world.frozen.advance(3_601)
    assert isinstance(world.run().consolidated, Published)


@pytest.mark.req("Z022", "Z115")
@pytest.mark.fault("M55")
def test_what_was_said_before_a_clear_stays_away_though_its_clock_was_ahead(world: World) -> None:
    world.say("a1", part("a1", 1))
    world.run()
    set_back(world)
    with world.memory() as memory:
        assert memory.clear().clean
    world.frozen.advance(1)
    world.run()
    assert len(world.answers()) == 1, "no model was asked about it again"
    assert world.traces("part-a1-1") == []
    world.frozen.advance(BACK.total_seconds() + 1)
    world.say("a1", part("a1", 2))
    world.run()
    assert world.lines() == {part("a1", 2)}


@pytest.mark.req("Z022")
def test_what_was_said_before_a_clear_stays_away_though_the_clock_was_set_back_within_the_session(world: World) -> None:
    world.say("a1", part("a1", 1))
    set_back(world)
    world.say("a1", part("a1", 2))
    with world.memory() as memory:
        assert memory.clear().clean
    world.frozen.advance(2 * BACK.total_seconds())
    world.say("a1", part("a1", 3))
    world.run()
    assert world.lines() == {part("a1", 3)}


def test_a_session_that_is_another_one_since_the_clear_is_judged_by_its_times(world: World) -> None:
    world.say("a1", *(part("a1", number) for number in range(1, 5)))
    with world.memory() as memory:
        assert memory.clear().clean
    world.frozen.advance(60)
    world.rewrite("a1", part("a1", 9))
    world.run()
    assert world.lines() == {part("a1", 9)}


def test_a_new_session_is_taken_after_a_clear_that_was_ahead_of_its_clock_once_time_has_caught_up(world: World) -> None:
    world.say("a1", part("a1", 1))
    with world.memory() as memory:
        memory.clear()
    set_back(world)
    world.say("b1", part("b1", 1))
    world.run()
    with world.opened() as runtime:
        (row,) = [row for row in runtime.store.rollouts.all() if row.id.session == "b1"]
    assert row.reason is Reason.BEFORE_WATERMARK, "said before the clear, by this clock; `doctor` names the clock"
    world.frozen.advance(BACK.total_seconds() + 1)
    world.say("b1", part("b1", 2))
    world.run()
    assert world.lines() == {part("b1", 2)}


@pytest.mark.req("Z117")
def test_what_comes_after_a_restore_is_taken_though_the_clock_was_set_back(world: World) -> None:
    world.say("a1", part("a1", 1))
    world.run()
    world.frozen.advance(60)
    world.say("b1", part("b1", 1))
    world.run()
    with world.memory() as memory:
        assert memory.restore(1).set_aside
    set_back(world)
    world.run()
    assert world.lines() == {part("a1", 1)}, "the restore is not undone"
    world.say("b1", part("b1", 2))
    world.run()
    assert world.lines() == {part("a1", 1), part("b1", 1), part("b1", 2)}


def test_a_version_from_the_future_is_no_cool_down(world: World) -> None:
    world.say("a1", part("a1", 1))
    world.run()
    set_back(world)
    world.say("b1", part("b1", 1))
    with world.opened(consolidate={"cooldown_minutes": 60}) as runtime:
        import asyncio

        from flows import pipeline

        runtime.trigger = "schedule"
        assert isinstance(asyncio.run(pipeline.run(runtime)).consolidated, Published)


def test_idle_time_is_counted_in_elapsed_hours_over_the_night_the_clocks_change(world: World, berlin: ZoneInfo) -> None:
    """On 2026-10-25 Berlin has 02:30 twice; both are told apart, and six hours are six hours."""
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert first.astimezone(berlin).hour == second.astimezone(berlin).hour == 2
    world.say("a1", part("a1", 1), at=first)
    world.say("a1", part("a1", 2), at=second)
    world.frozen.set(second + timedelta(hours=5, minutes=59))
    assert world.run(extract={"idle_hours": 6}).outcome == "nothing"
    world.frozen.set(second + timedelta(hours=6, minutes=1))
    assert isinstance(world.run(extract={"idle_hours": 6}).consolidated, Published)
    assert world.lines() == {part("a1", 1), part("a1", 2)}
    with world.opened() as runtime:
        (text,) = runtime.workspace.rollout_summaries().values()
    header, _ = parse_rollout_summary(text)
    assert header.started is not None
    assert header.ended is not None
    assert header.ended - header.started == timedelta(hours=1)


# -- two hosts -----------------------------------------------------------------------------------------------


def claim(world: World, owner: str) -> Lease | Refused:
    with world.opened() as runtime:
        return runtime.store.jobs.claim(
            "extract", "generic:a1", boundary="1", owner=owner, lease_seconds=600, max_failures=3
        )


def beside(world: World, seconds: float) -> World:
    """Another host's process on the same store; its clock is off by so much."""
    return World(world.folder, FrozenClock(world.clock.now() + timedelta(seconds=seconds)))


@pytest.mark.fault("M43")
@pytest.mark.parametrize("skew", [-7_200, -300, 300])
def test_hosts_whose_clocks_differ_by_less_than_a_lease_or_lag_never_hold_one_job_together(
    world: World, skew: float
) -> None:
    assert isinstance(claim(world, "here"), Lease)
    answer = claim(beside(world, skew), "there")
    assert isinstance(answer, Refused)
    assert answer.reason == "running"


@pytest.mark.fault("M43")
def test_a_dead_holder_whose_clock_was_ahead_is_waited_for_no_longer_than_one_lease(world: World) -> None:
    assert isinstance(claim(world, "ahead"), Lease)
    other = beside(world, -7_200)
    assert isinstance(claim(other, "behind"), Refused)
    other.frozen.advance(601)
    assert isinstance(claim(other, "behind"), Lease)


@pytest.mark.fault("M43", "M55")
def test_a_host_that_is_ahead_by_more_than_a_lease_takes_over_and_the_other_stores_nothing(world: World) -> None:
    lease = claim(world, "behind")
    assert isinstance(lease, Lease)
    assert isinstance(claim(beside(world, 601), "ahead"), Lease)
    with world.opened() as runtime, pytest.raises(Exception, match="no longer ours"):
        runtime.store.jobs.succeed(lease)


def test_two_hosts_an_hour_apart_make_one_memory(world: World) -> None:
    other = beside(world, 3_600)
    world.say("a1", part("a1", 1))
    other.say("b1", part("b1", 1))
    for host in (world, other, world, other):
        assert host.run().outcome in {"ok", "nothing"}
        host.frozen.advance(60)
    assert world.lines() == {part("a1", 1), part("b1", 1)}
    assert len(world.answers()) == 2, "each was asked about once"
