"""The service: how soon it is ready, how soon a wake-up runs, what it takes while nothing happens.

Prefect alone (`prefect server start` with a home of its own) starts in turns with ours, so that a busy machine slows
both. CPU is what the processes were charged, which a busy machine raises a little: the bound holds on a quiet one.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from bench.timing import Pair, Row
from flows.place import Place, State
from flows.remote import Api
from flows.wakeups import SHORTEST_GAP
from memory import live
from recall.snapshot import Files

ROUNDS = 3
IDLE_SECONDS = 60.0
SETTLE_SECONDS = 12.0
CONFIG = """\
[memory]
mode = "long"
[rollouts]
hosts = ["generic"]
generic_roots = ["{sessions}"]
[service]
port = 0
wake_minutes = 0
"""


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    home = {"HOME": str(folder), "SLOWWAVE_HOME": str(folder / "data"), "DO_NOT_TRACK": "1", "PYTHONSAFEPATH": "1"}
    return {**kept, **home, **more}


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def until(wanted: Callable[[], bool], seconds: float = 180) -> float:
    """Seconds until it was true."""
    began = time.monotonic()
    while not wanted():
        if time.monotonic() - began > seconds:
            raise AssertionError("it took too long")
        time.sleep(0.02)
    return time.monotonic() - began


@contextmanager
def prefect_alone(folder: Path) -> Iterator[tuple[float, int]]:
    """Seconds to health, and the process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    variables = environment(folder, PREFECT_HOME=str(folder / "prefect"), PREFECT_SERVER_ANALYTICS_ENABLED="false")
    with (folder / "prefect.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True)
        try:
            yield until(lambda: healthy(f"http://127.0.0.1:{port}/api/health")), process.pid
        finally:
            end(process)


@contextmanager
def service(folder: Path) -> Iterator[tuple[float, State]]:
    """Seconds until all of it answers, and what it says of itself."""
    place = Place(folder / "data")
    command = [sys.executable, "-P", "-m", "cli.main", "up"]
    with (folder / "service.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=log, stderr=log, start_new_session=True
        )
        try:
            seconds = until(lambda: (state := place.running()) is not None and state.ready)
            state = place.running()
            assert state is not None
            yield seconds, state
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def cpu(pid: int) -> float:
    """Seconds it was charged so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Megabytes, shared pages by share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def idle(pids: dict[str, int]) -> tuple[float, str]:
    """Percent of one core over the time, and who took how much."""
    time.sleep(SETTLE_SECONDS)
    before, began = {name: cpu(pid) for name, pid in pids.items()}, time.monotonic()
    time.sleep(IDLE_SECONDS)
    length = time.monotonic() - began
    shares = {name: (cpu(pid) - before[name]) / length * 100 for name, pid in pids.items()}
    return sum(shares.values()), ", ".join(f"{name} {share:.2f}" for name, share in shares.items())


def woken(folder: Path, number: int, state: State) -> tuple[float, float]:
    """Seconds from the hook's file to the state RUNNING, by Prefect's record, and to a run that says where it is."""
    home = folder / "data"
    began = time.time()
    Files(str(home)).wake("codex", f"session-{number}", {"host": "codex", "session": f"session-{number}"})
    seconds = until(lambda: bool(live.running(home)), 60)
    (going,) = live.running(home)
    until(lambda: not live.running(home), 60)
    with Api(state.prefect, Place(home).auth()) as api:
        states = api.call("GET", f"/flow_run_states/?flow_run_id={going.prefect_run}")
    (moment,) = [datetime.fromisoformat(one["timestamp"]) for one in states if one["type"] == "RUNNING"]
    return moment.timestamp() - began, seconds


def imports() -> float:
    """Seconds a process takes to import what a run needs: no run can begin sooner."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import flows.slow_wave"], check=True)
    return time.monotonic() - began


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="slowwave-service-") as name:
        folder = Path(name)
        (folder / "data").mkdir(mode=0o700)
        (folder / "sessions").mkdir()
        (folder / "data" / "config.toml").write_text(CONFIG.format(sessions=folder / "sessions"), encoding="utf-8")
        return measure(folder)


def measure(folder: Path) -> list[Row]:
    ours: list[float] = []
    alone: list[float] = []
    # The first round makes the databases of both.
    for _ in range(ROUNDS - 1):
        with prefect_alone(folder) as (seconds, _pid):
            alone.append(seconds)
        with service(folder) as (seconds, _state):
            ours.append(seconds)
    with prefect_alone(folder) as (seconds, pid):
        alone.append(seconds)
        prefect_idle, _ = idle({"prefect": pid})
        prefect_memory = memory(pid)
    with service(folder) as (seconds, state):
        ours.append(seconds)
        pids = {"supervisor": state.pid} | {one.name: one.pid for one in state.processes}
        share, who = idle(pids)
        held = {name: memory(pid) for name, pid in pids.items()}
        waits, floors = [], []
        for number in range(4):
            # Two runs for hooks are ten seconds apart, whatever the setting.
            time.sleep(SHORTEST_GAP)
            floors.append(imports())
            waits.append(woken(folder, number, state))
    megabytes = ", ".join(f"{name} {size:.0f}" for name, size in held.items())
    soonest = [running for running, _ in waits]
    told = ", ".join(f"{running:.1f}" for running in soonest)
    told += "; says where it is after " + ", ".join(f"{said:.1f}" for _, said in waits)
    floor = "imports alone " + ", ".join(f"{floor:.1f}" for floor in floors)
    return [
        Pair(tuple(ours), tuple(alone)).row("ready ÷ prefect server start alone", 1.3),
        Row("idle CPU of the whole tree", share, 2.0, "%", who, f"prefect alone {prefect_idle:.2f}"),
        Row(
            "memory of the whole tree", sum(held.values()), None, "MB", megabytes, f"prefect alone {prefect_memory:.0f}"
        ),
        Row("wake-up → RUNNING", statistics.median(soonest), 5.0, "s", told, floor),
    ]
