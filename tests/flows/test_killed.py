"""Runs whose process was killed do not stay open for ever."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import asdict

import pytest

from flows import killed, pipeline
from memory import live, processes
from memory.clock import SystemClock, iso
from tests.flows.home import Home


def begun(home: Home, run_id: str, pid: int, *, file: bool, mark: str = "") -> None:
    """A run as its process leaves it when it is killed."""
    owner, now = f"{socket.gethostname()}:{pid}:{run_id}", SystemClock().now()
    with home.store() as store:
        store.runs.start(run_id, "hook", detail={"owner": owner, "prefect_run": None})
    if file:
        run = live.LiveRun(run_id, "hook", owner, now, now, process=mark)
        values = asdict(run) | {"started": iso(now), "updated": iso(now), "deadline": None}
        folder = home.data / live.FOLDER
        folder.mkdir(exist_ok=True)
        (folder / f"{run_id}.json").write_text(json.dumps(values))


@pytest.mark.fault("O37", "X23")
def test_a_killed_run_is_closed_and_one_that_goes_on_is_not(home: Home) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as alive:
        with subprocess.Popen([sys.executable, "-c", ""]) as dead:
            pass
        mark = processes.born(alive.pid)
        begun(home, "killed", dead.pid, file=True)
        begun(home, "killed-before-its-file", dead.pid, file=False)
        begun(home, "number-given-away", alive.pid, file=True, mark="another-birth")
        begun(home, "going-on", alive.pid, file=True, mark=mark)
        begun(home, "going-on-without-a-file", alive.pid, file=False)
        with home.store() as store:
            rows = killed.close_rows(store, home.settings(), now=SystemClock().now())
            assert sorted(row.run_id for row in rows) == ["killed", "killed-before-its-file", "number-given-away"]
            row = store.runs.get("killed")
            assert row is not None
            assert (row.outcome, row.detail["error"]) == ("failed", "killed: Its process ended without a word.")
            assert sorted(one.run_id for one in store.runs.unfinished()) == ["going-on", "going-on-without-a-file"]
            assert not store.runs.close("killed", "ok", {}), "an end is never changed"
        assert [run.run_id for run in live.running(home.data)] == ["going-on"]
        alive.communicate(b"\n")


@pytest.mark.fault("X23")
async def test_the_next_run_closes_what_a_killed_one_left_open(home: Home) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    begun(home, "killed", dead.pid, file=True)
    with home.runtime() as runtime:
        report = await pipeline.run(runtime)
    assert "run killed (hook): its process ended without a word" in report.recovered
