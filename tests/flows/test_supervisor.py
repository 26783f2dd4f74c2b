"""The supervisor with small processes in the places of Prefect, worker and dashboard: real signals, real deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from flows.place import Place, State
from memory import processes
from tests.flows.home import ROOT

SUPERVISOR = """
import sys
from pathlib import Path
from flows import lifeline, supervision, supervisor
from flows.children import Child
import os

CHILD = '''
import json, os, signal, subprocess, sys, time
from flows import lifeline
lifeline.tie_to_parent(sys.argv[1])
name, how = sys.argv[2:]
if how == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if how == "parent":
    follow = "import sys, time; from flows import lifeline; lifeline.follow(sys.argv[1]); time.sleep(300)"
    subprocess.Popen([sys.executable, "-c", follow, lifeline.name_of(os.getpid())])
if how == "broken":
    print(chr(30) + json.dumps({"kind": "problem", "says": "No such cron line. Mend it."}), flush=True)
    sys.exit(3)
if name == "worker":
    print(chr(30) + json.dumps({"kind": "waits"}), flush=True)
print(chr(30) + json.dumps({"kind": "ready", "says": "well"}), flush=True)
print(name + " speaks", flush=True)
time.sleep(300)
'''

def plan(self):
    me = lifeline.name_of(os.getpid())
    kinds = dict(one.split("=") for one in sys.argv[2:])
    def child(name):
        return Child(name, "soon", lambda: ["-c", CHILD, me, name, kinds.get(name, "plain")])
    return [child(name) for name in ("prefect", "worker", "dashboard")]

supervisor.Supervisor._plan = plan
supervisor.STOP_SECONDS = 1.0
supervisor.PATIENCE_SECONDS = 1.0
supervision.FIRST_DELAY = 0.05
supervisor.main(["--home", sys.argv[1]])
"""


class Up:
    """A running supervisor."""

    def __init__(self, home: Path, *kinds: str) -> None:
        self.place = Place(home)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SUPERVISOR, str(home), *kinds],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        self.seen: set[int] = set()

    def until(self, wanted: Callable[[State], bool], seconds: float = 60) -> State:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            state = self.place.running()
            if state is not None:
                self.seen |= {one.pid for one in state.processes if one.pid}
                if wanted(state):
                    return state
            time.sleep(0.02)
        raise AssertionError(self.place.last())

    def ready(self) -> State:
        return self.until(lambda state: state.ready and all(one.state == "ready" for one in state.processes))

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.read()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
        for pid in (*self.seen, self.process.pid):
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    made: list[Up] = []

    def start(*kinds: str) -> Up:
        made.append(Up(tmp_path / "home", *kinds))
        return made[-1]

    yield start
    for one in made:
        one.end()


def alive_in_groups(groups: set[int]) -> list[int]:
    """Processes of the groups, by the system's own list."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_bytes().rpartition(b")")[2].split()
            if int(fields[2]) in groups and fields[0] != b"Z":
                found.append(int(path.parent.name))
    return found


def gone(groups: set[int], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while alive_in_groups(groups):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.fault("O37")
def test_all_start_say_ready_and_end_in_order_with_their_own_children(up: Callable[..., Up]) -> None:
    one = up("worker=parent")
    state = one.ready()
    groups = {child.pid for child in state.processes}
    assert len(groups) == 3
    assert len(alive_in_groups(groups)) == 4
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(60) == 0
    assert alive_in_groups(groups) == []
    assert one.place.last() is None
    said = one.says()
    assert "ready after" in said
    assert said.splitlines()[-1] == "stopped"
    assert "worker    worker speaks" in one.place.log.read_text()


@pytest.mark.fault("O37")
def test_kill_9_of_the_supervisor_leaves_no_process_and_the_next_start_heals(up: Callable[..., Up]) -> None:
    one = up("worker=parent")
    groups = {child.pid for child in one.ready().processes}
    one.process.kill()
    one.process.wait()
    assert one.place.last() is not None, "the file of a dead service lies there"
    assert one.place.running() is None
    assert gone(groups)
    again = up().ready()
    assert again.pid != one.process.pid


@pytest.mark.fault("O37")
def test_the_next_start_ends_what_a_killed_supervisor_left_running(up: Callable[..., Up]) -> None:
    one = up("dashboard=stubborn")
    before = one.ready()
    stubborn = before.process("dashboard")
    assert stubborn is not None
    one.process.kill()
    one.process.wait()
    two = up()
    state = two.ready()
    assert not stubborn.lives
    assert "ending what a service left that was killed" in two.place.log.read_text()
    assert state.process("dashboard") != stubborn


@pytest.mark.parametrize("name", ["prefect", "worker", "dashboard"])
def test_a_killed_process_is_started_again_and_the_others_stay(up: Callable[..., Up], name: str) -> None:
    one = up("worker=parent")
    before = one.ready()
    old = before.process(name)
    assert old is not None
    os.kill(old.pid, signal.SIGKILL)
    after = one.until(
        lambda state: (now := state.process(name)) is not None and now.state == "ready" and now.restarts == 1
    )
    assert {c.pid for c in before.processes} & {c.pid for c in after.processes} == (
        {c.pid for c in before.processes} - {old.pid}
    )
    assert f"{name} was ended by SIGKILL; it starts again" in one.place.log.read_text()
    assert after.problems == ()


def test_what_cannot_start_is_given_up_visibly_and_takes_the_service_along_where_it_needs_it(
    up: Callable[..., Up],
) -> None:
    one = up("worker=broken")
    assert one.process.wait(60) == 1
    said = one.says()
    assert "worker ended with code 3 (No such cron line. Mend it), 6 times in a row, and is given up." in said
    assert said.splitlines()[-1] == "stopped"


def test_without_a_dashboard_the_rest_goes_on_and_says_so(up: Callable[..., Up]) -> None:
    one = up("dashboard=broken")
    state = one.until(lambda state: any(child.state == "given up" for child in state.processes))
    assert state.problems == (
        "dashboard ended with code 3 (No such cron line. Mend it), 6 times in a row, and is given up.",
    )
    assert [child.state for child in state.processes] == ["ready", "ready", "given up"]


def test_a_second_start_says_where_the_first_runs(up: Callable[..., Up]) -> None:
    first = up()
    state = first.ready()
    second = up()
    assert second.process.wait(60) == 2
    assert f"The service runs already, process {state.pid}" in second.says()
    assert first.process.poll() is None
    assert processes.alive(state.pid, state.born)


def test_a_process_that_does_not_end_is_killed_and_a_second_signal_does_not_wait(up: Callable[..., Up]) -> None:
    one = up("worker=stubborn")
    groups = {child.pid for child in one.ready().processes}
    began = time.monotonic()
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(60) == 0
    assert time.monotonic() - began > 0.9
    assert "worker was killed after 1 s" in one.says()
    assert alive_in_groups(groups) == []
