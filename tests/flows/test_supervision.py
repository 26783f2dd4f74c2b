"""What the supervisor decides: restarts, ports, log, wake-ups, what a run covers. Pure, or nearly."""

from __future__ import annotations

import itertools
import os
import plistlib
import signal
import socket
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows import lifeline, unfinished
from flows.logs import Log
from flows.place import Place, Process, State
from flows.remote import FlowRun, covers, name_in
from flows.supervision import LONGEST_DELAY, MOST_DEATHS, STEADY_SECONDS, Restarts, answers, free_port
from flows.units import unit
from flows.wakeups import MOST_SECONDS, SHORTEST_GAP, decide
from memory import processes
from memory.errors import UsageError
from tests.flows.home import ROOT

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)


# -- restarts -----------------------------------------------------------------------------------------


def test_a_process_that_dies_at_once_is_started_again_later_and_later_and_then_given_up() -> None:
    restarts = Restarts()
    delays = [restarts.delay(0.1) for _ in range(MOST_DEATHS)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, None]


@given(st.lists(st.floats(0, 10_000), max_size=40))
def test_a_process_that_was_steady_is_never_given_up_for_its_next_death(lives: list[float]) -> None:
    restarts = Restarts()
    for lived in lives:
        delay = restarts.delay(lived)
        if lived >= STEADY_SECONDS:
            assert delay == 0.5
        assert delay is None or 0 < delay <= LONGEST_DELAY


# -- ports --------------------------------------------------------------------------------------------


def test_a_port_in_use_gives_way_to_a_free_one_and_zero_takes_any() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        used = taken.getsockname()[1]
        assert free_port("127.0.0.1", used) not in {used, 0}
        assert not answers("127.0.0.1", used, "/", seconds=0.1)
    assert free_port("127.0.0.1", used) == used
    with pytest.raises(OSError, match="assign"):
        free_port("192.0.2.1", 0)


# -- wake-ups -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wakes", "running", "last", "gap", "expected"),
    [
        ([], False, None, 300, (False, None, "none")),
        ([99.0], False, None, 300, (True, None, "due")),
        ([99.0], True, None, 300, (False, 3.0, "running")),
        ([99.0], False, 40.0, 300, (False, 240.0, "gap")),
        ([99.0], False, 95.0, 0, (False, 5.0, "gap")),
        ([99.9], False, None, 300, (False, 0.1, "quiet")),
        ([96.0, 99.99], False, None, 300, (True, None, "due")),
        ([120.0], False, None, 300, (False, 0.2, "quiet")),
        ([99.0], False, 1_000.0, 300, (True, None, "due")),
    ],
    ids=["none", "due", "one-runs", "too-soon", "at-least-ten-seconds", "not-quiet-yet", "waited-long-enough",
         "a-clock-that-was-ahead", "a-clock-set-back"],
)  # fmt: skip
@pytest.mark.req("Z061")
@pytest.mark.fault("X8", "O3")
def test_wake_ups_become_a_run_when_they_are_quiet_and_none_runs_and_the_last_is_long_ago(
    wakes: list[float], running: bool, last: float | None, gap: float, expected: tuple[bool, float | None, str]
) -> None:
    found = decide(wakes, 100.0, running=running, last=last, gap=gap)
    assert (found.go, found.again if found.again is None else round(found.again, 3), found.why) == expected


@given(st.lists(st.floats(0, 60), min_size=1, max_size=60), st.floats(0, 600))
@pytest.mark.fault("X8")
def test_however_many_wake_ups_come_runs_keep_their_distance_and_no_wake_up_is_forgotten(
    moments: list[float], gap: float
) -> None:
    """A simulated minute of wake-ups: each run takes those that lie there."""
    left, runs, now, last = sorted(moments), [], 0.0, None
    lying: list[float] = []
    while left or lying:
        while left and left[0] <= now:
            lying.append(left.pop(0))
        found = decide(lying, now, running=False, last=last, gap=gap)
        if found.go:
            waited = now - lying[0]
            soonest = 0.0 if last is None else max(gap, SHORTEST_GAP)
            assert waited <= MOST_SECONDS + soonest + 0.2
            runs.append(now)
            last, lying = now, []
        now += max(0.05, min(found.again or 60.0, (left[0] - now) if left else 60.0))
        assert now < 2_000
    assert all(later - earlier >= max(gap, SHORTEST_GAP) for earlier, later in itertools.pairwise(runs))


# -- coalescing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "wanted", "expected"),
    [
        ({"trigger": "manual"}, {"trigger": "manual"}, True),
        ({"trigger": "hook", "extract_only": False, "rollouts": None}, {"rollouts": ["codex:a"]}, True),
        ({"rollouts": ["codex:a"]}, {"rollouts": ["codex:a"]}, True),
        ({"rollouts": ["codex:a"]}, {"rollouts": ["codex:b"]}, False),
        ({"rollouts": ["codex:a"]}, {}, False),
        ({"extract_only": True}, {}, False),
        ({"limit": 3}, {"limit": 4}, False),
    ],
)
def test_a_wish_is_taken_along_by_a_run_that_leaves_nothing_of_it_out(
    running: dict[str, object], wanted: dict[str, object], expected: bool
) -> None:
    assert covers(running, wanted) is expected


def test_only_another_store_adds_its_name_to_a_deployment() -> None:
    assert (name_in("default", "on-demand"), name_in("work", "on-demand")) == ("on-demand", "on-demand-work")


def run(name: str, *, state: str = "RUNNING", message: str = "", since: float = 600, due: float = 600) -> FlowRun:
    """`since` and `due` in seconds ago."""
    moments = [NOW - timedelta(seconds=ago) for ago in (since, due)]
    return FlowRun(name, name, state, message, moments[0], moments[1], {})


def test_a_run_tells_its_own_id_and_whether_it_was_refused() -> None:
    assert run("a", state="COMPLETED", message="ok (run 20261130T080000-1f2e3d4c)").run_id == "20261130T080000-1f2e3d4c"
    assert run("a", state="FAILED", message="settings: bad").run_id is None
    assert run("a", state="CANCELLED", message="Deployment concurrency limit reached.").refused
    assert not run("a", state="CANCELLED", message="cancelled (run x)").refused


# -- unfinished runs ----------------------------------------------------------------------------------


@pytest.mark.fault("O37")
def test_a_run_that_prefect_believes_in_is_lost_when_no_process_says_it_does_it() -> None:
    runs = [run("lost"), run("young", since=10), run("alive"), run("mine")]
    found = unfinished.lost(runs, alive={"alive"}, mine={"mine"}, now=NOW)
    assert [one.id for one in found] == ["lost"]


@pytest.mark.fault("X14")
def test_of_overdue_runs_of_the_schedule_only_the_last_is_left() -> None:
    runs = [run("b", due=3_600), run("a", due=7_200), run("c", due=1_800), run("soon", due=-60), run("now", due=5)]
    assert [one.id for one in unfinished.superfluous(runs, now=NOW)] == ["a", "b"]


# -- the log ------------------------------------------------------------------------------------------


@pytest.mark.req("C055", "C068")
def test_the_log_is_bounded_private_plain_and_without_what_must_be_hidden(tmp_path: Path) -> None:
    log = Log(tmp_path / "service.log", hide=["pass-word"], max_bytes=2_000, keep=2, now=lambda: "T")
    for number in range(400):
        log.write("worker", f"line {number} \x1b[31mred\x00 pass-word".encode())
    log.write("worker", b"x" * 10_000)
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["service.log", "service.log.1", "service.log.2"]
    assert all(path.stat().st_size <= 4_100 and stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    text = b"".join(path.read_bytes() for path in files)
    assert b"pass-word" not in text
    assert b"\x1b" not in text
    assert b"T worker    line 399 ?[31mred? ***" in text
    assert b"[cut]" in text


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path / "missing" / "service.log")
    log.write("worker", b"line")
    log.close()


# -- the place ----------------------------------------------------------------------------------------


def test_a_state_file_without_a_held_lock_or_of_another_process_is_no_running_service(tmp_path: Path) -> None:
    place = Place(tmp_path / "home")
    place.make()
    assert place.running() is None
    me = Process("worker", "ready", os.getpid(), processes.born(os.getpid()))
    place.say(State(os.getpid(), processes.born(os.getpid()), "2026-11-30T08:00:00Z", processes=(me,)))
    last = place.last()
    assert last is not None
    assert last.process("worker") == me
    assert me.lives
    assert not Process("worker", "ready", os.getpid(), "another-birth").lives
    assert place.running() is None, "nobody holds the lock"
    place.state_file.write_text('{"pid": 1}')
    assert place.last() is None


@pytest.mark.fault("O30")
def test_the_word_that_opens_prefect_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.make()
    word = place.make_auth()
    assert word == place.make_auth() == place.auth()
    assert len(word) > 40
    assert stat.S_IMODE(place.auth_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700


# -- units --------------------------------------------------------------------------------------------


def test_units_start_the_service_of_the_home_whatever_its_path() -> None:
    home = {"SLOWWAVE_HOME": '/home/me/a b/"50%"&'}
    assert 'Environment="SLOWWAVE_HOME=/home/me/a b/\\"50%%\\"&"' in unit("systemd", "/venv/bin/python", home)
    plist = plistlib.loads(unit("launchd", "/venv/bin/python", home).encode())
    assert plist["EnvironmentVariables"] == home
    assert plist["ProgramArguments"] == ["/venv/bin/python", "-P", "-m", "cli.main", "up"]
    assert plist["KeepAlive"] == {"SuccessfulExit": False}
    with pytest.raises(UsageError, match="systemd, launchd"):
        unit("upstart", "python", {})


def test_the_units_of_the_checkout_are_those_the_command_prints() -> None:
    for kind, name, program in (
        ("systemd", "slowwave.service", "%h/.local/share/slowwave-venv/bin/python"),
        ("launchd", "slowwave.plist", "/usr/local/slowwave/bin/python"),
    ):
        plain = unit(kind, "PYTHON", {}).replace("PYTHON", program)
        assert (ROOT / "deploy" / name).read_text(encoding="utf-8") == plain


# -- the lifeline -------------------------------------------------------------------------------------


@pytest.mark.fault("O37")
def test_a_process_ends_in_order_with_its_parent_even_after_kill_9() -> None:
    inner = (
        "import signal, sys, time; from flows import lifeline; "
        "signal.signal(signal.SIGTERM, lambda *_: (print('in order', flush=True), sys.exit(0))); "
        "lifeline.tie_to_parent(sys.argv[1]); print('tied', flush=True); time.sleep(60)"
    )
    outer = (
        "import os, subprocess, sys, time; from flows import lifeline; "
        f"subprocess.Popen([sys.executable, '-c', {inner!r}, lifeline.name_of(os.getpid())]); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", outer], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"tied\n"
        parent.kill()
        # The pipe has no other end once the inner process is gone, too.
        assert parent.stdout.read() == b"in order\n"


@pytest.mark.fault("O37")
def test_a_process_that_will_not_end_is_killed_after_its_grace() -> None:
    code = (
        "import signal, sys, time; from flows import lifeline; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "lifeline.follow(sys.argv[1], grace_seconds=0.3); print('on', flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        command = [sys.executable, "-c", code, lifeline.name_of(other.pid)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"on\n"
            other.communicate(b"\n")
            assert follower.wait(60) == -signal.SIGKILL


def test_a_process_whose_parent_is_another_one_by_now_does_not_even_begin() -> None:
    code = "import sys; from flows import lifeline; lifeline.tie_to_parent(sys.argv[1]); print('on')"
    name = f"{os.getpid()}:another-birth"
    done = subprocess.run([sys.executable, "-c", code, name], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
