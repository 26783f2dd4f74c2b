"""Several processes on one store of a server: crowds, a worker that is stopped, a server that goes away in a run."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from consolidate.outcomes import Published
from tests.plugins.postgres import Server, running
from tests.torture import deeds
from tests.torture.crowd import Crowd, clear, loses_and_revives_nothing, restore, spawn
from tests.torture.sleeper import nobody_sleeps_on, overtaken_changes_nothing
from tests.torture.world import LEASE_SECONDS, STATE, World, complaints

pytestmark = pytest.mark.deep

__all__ = ["nobody_sleeps_on"]


def world_on(server: Server, folder: Path, database: str) -> World:
    """A world whose state lies in a new database."""
    server.guarded(database)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STATE).write_text(server.url(database), encoding="utf-8")
    return World(folder)


@pytest.mark.req("Z018", "Z022", "Z024", "Z110", "Z116", "Z118")
@pytest.mark.fault("M43", "M55", "X19", "X21")
@pytest.mark.parametrize(("workers", "rounds"), [(2, 2), (8, 1)])
def test_processes_at_work_while_one_clears_and_one_restores_lose_and_revive_nothing(
    postgres_server: Server, tmp_path: Path, workers: int, rounds: int
) -> None:
    world_on(postgres_server, tmp_path, f"crowd{workers}")
    others = (clear, restore)
    loses_and_revives_nothing(Crowd(tmp_path, seed=workers, workers=workers, rounds=rounds, sessions=8, others=others))


@pytest.mark.req("Z110")
@pytest.mark.fault("M43", "M55")
def test_a_stopped_worker_that_wakes_after_its_lease_changes_nothing(postgres_server: Server, tmp_path: Path) -> None:
    world = world_on(postgres_server, tmp_path / "world", "stopped")
    deeds.moved_on(world)
    overtaken_changes_nothing(world)


@pytest.mark.fault("M72", "M74")
@pytest.mark.parametrize("back", ["at once", "later"])
def test_a_server_that_goes_away_in_a_run_costs_nothing_that_was_done(tmp_path: Path, back: str) -> None:
    """Back at once, the run does not notice; back later, it ends with a sentence and the next one finishes."""
    with running() as server:
        world = world_on(server, tmp_path / "world", "away")
        deeds.empty(world)
        gone, called = tmp_path / "gone", tmp_path / "called"

        def wait() -> None:
            called.touch()
            end = time.monotonic() + 60
            while not gone.exists() and time.monotonic() < end:
                time.sleep(0.01)

        def run() -> None:
            world.during = wait
            busy_seconds = 30 if back == "at once" else 0.5
            state = {"url": (world.folder / STATE).read_text(), "busy_seconds": busy_seconds}
            report = world.run(state=state)
            assert isinstance(report.consolidated, Published)

        child = spawn(run, tmp_path / "wrong")
        try:
            while not called.exists():
                time.sleep(0.01)
            server.stop("fast")
            gone.touch()
            if back == "at once":
                server.start()
            _, status = os.waitpid(child, 0)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        wrong = (tmp_path / "wrong").read_text() if (tmp_path / "wrong").exists() else ""
        if back == "at once":
            assert (os.waitstatus_to_exitcode(status), wrong) == (0, "")
        else:
            assert "StateLostError: The server of the state database postgresql://test@127.0.0.1" in wrong
            assert wrong.rstrip(" |\n").endswith("Nothing is lost: the next run goes on.")
            server.start()
        last = World(world.folder)
        last.frozen.advance(LEASE_SECONDS)
        report = last.run()
        assert report.outcome == ("nothing" if back == "at once" else "ok")
        assert last.lines() == {deeds.part("a1", 1), deeds.part("b1", 1), deeds.SHARED}
        with last.opened() as runtime:
            assert complaints(runtime, ignoring=("permissions",)) == []
            assert {job.attempts for job in runtime.store.jobs.all("extract")} == {0}
