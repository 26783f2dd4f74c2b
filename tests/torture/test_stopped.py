"""A worker that was stopped (SIGSTOP) and wakes after its claim went to somebody else changes nothing."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from consolidate import publish
from consolidate.outcomes import Failed, Published
from consolidate.service import LongMemory
from flows.pipeline import RunReport
from memory import failpoints
from memory.testing import FrozenClock
from memory.workspace import locks
from tests.torture import deeds
from tests.torture.harness import UNFINISHED, confirmed
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


def stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


class Sleeper:
    """A run in a child process that stops itself; `wake` lets it go on and returns the words of its outcomes."""

    def __init__(self, world: World, prepare: Callable[[World], None]) -> None:
        self._said = world.folder / "said"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._child = os.fork()
        if self._child == 0:
            code = 70
            try:
                prepare(world)
                self._said.write_text(" ".join(words(world.run())), encoding="utf-8")
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(self._child, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it never came to where it stops"
        _asleep.append(self._child)

    def wake(self) -> list[str]:
        os.kill(self._child, signal.SIGCONT)
        _, status = os.waitpid(self._child, os.WUNTRACED)
        assert not os.WIFSTOPPED(status), "it stopped again"
        _asleep.remove(self._child)
        assert os.waitstatus_to_exitcode(status) == 0
        return self._said.read_text(encoding="utf-8").split()


_asleep: list[int] = []


@pytest.fixture(autouse=True)
def _nobody_sleeps_on() -> Iterator[None]:
    """A test that fails leaves no stopped process behind."""
    yield
    while _asleep:
        child = _asleep.pop()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def words(report: RunReport) -> list[str]:
    outcomes = [*(report.extracted.outcomes if report.extracted else ()), report.consolidated]
    return [str(getattr(o, "error", getattr(o, "reason", getattr(o, "code", "none")))) for o in outcomes]


def later(world: World) -> World:
    """Another process, an hour on."""
    return World(world.folder, FrozenClock(world.clock.now() + timedelta(seconds=LEASE_SECONDS)))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "world")
    deeds.moved_on(made)
    return made


@pytest.mark.req("Z110")
@pytest.mark.fault("M43", "M55")
def test_stopped_inside_a_model_call_it_stores_nothing_when_another_took_over(world: World) -> None:
    def stop_once(sleeper: World) -> None:
        calls = iter([stop])
        sleeper.during = lambda: next(calls, lambda: None)()

    sleeper = Sleeper(world, stop_once)
    other = later(world)
    assert isinstance(other.run().consolidated, Published)
    inputs, summary = other.fingerprint(), confirmed(other)
    assert "fenced" in sleeper.wake()
    assert (other.fingerprint(), confirmed(other)) == (inputs, summary)
    assert other.run().outcome == "nothing"
    with other.opened() as runtime:
        assert complaints(runtime, ignoring=("permissions",)) == []


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


def stop_first() -> Callable[[], None]:
    calls = iter([stop])
    return lambda: next(calls, lambda: None)()


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
