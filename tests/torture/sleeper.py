"""A worker that is stopped (SIGSTOP) and wakes later."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from consolidate.outcomes import Published
from flows.pipeline import RunReport
from memory.testing import FrozenClock
from tests.torture.harness import confirmed
from tests.torture.world import LEASE_SECONDS, World, complaints


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
def nobody_sleeps_on() -> Iterator[None]:
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


def stop_first() -> Callable[[], None]:
    calls = iter([stop])
    return lambda: next(calls, lambda: None)()


def overtaken_changes_nothing(world: World) -> None:
    """Stopped inside a model call, it wakes when another has done its work."""
    sleeper = Sleeper(world, lambda it: setattr(it, "during", stop_first()))
    other = later(world)
    assert isinstance(other.run().consolidated, Published)
    inputs, summary = other.fingerprint(), confirmed(other)
    assert "fenced" in sleeper.wake()
    assert (other.fingerprint(), confirmed(other)) == (inputs, summary)
    assert other.run().outcome == "nothing"
    with other.opened() as runtime:
        assert complaints(runtime, ignoring=("permissions",)) == []
