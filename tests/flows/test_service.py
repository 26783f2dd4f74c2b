"""The service as a user starts it: `slowwave up`, with a real Prefect server, real runs, real deaths."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from flows.place import Place, State
from flows.remote import Api, Remote
from memory import live
from memory.state import RunRow
from recall.snapshot import Files
from tests.flows.home import CANARY, ROOT, Home
from tests.memory.llm.loopback import KEY, Provider, Say, completion
from tests.plugins.pace import within

pytestmark = [pytest.mark.server, pytest.mark.deep]

TICK = {"enabled": True, "every_minutes": 1}
QUIET = {"enabled": False}


class Service:
    """A home and the commands of a user in it."""

    def __init__(self, home: Home, **variables: str) -> None:
        self.home, self.place = home, Place(home.data)
        self.environment = home.environment(PYTHONSAFEPATH="1", **variables)
        self.remote = Remote(home.settings)

    def configure(self, *, schedule: dict[str, Any] | None = None, **more: Any) -> None:
        service = {"port": 0, "wake_minutes": 0}
        self.home.configure(service=service, schedule=schedule or QUIET, **more)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "cli.main", *arguments],
            cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def type(self, *arguments: str, seconds: float = 180) -> tuple[int, str, str]:
        """A command to its end: exit code, what it prints, what it says beside."""
        with self.start(*arguments) as process:
            out, err = process.communicate(timeout=seconds)
        return process.returncode, out, err

    async def typed(self, *arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(self.type, *arguments)

    def api(self) -> Api:
        return self.remote.api()

    def state(self) -> State:
        found = self.place.running()
        assert found is not None
        return found

    def wake(self, session: str) -> None:
        """As the hook of a host does at the end of a turn."""
        Files(str(self.home.data)).wake("codex", session, {"host": "codex", "session": session})

    def rows(self) -> list[RunRow]:
        with self.home.store() as store:
            return store.runs.last(50)

    def attempts(self, name: str) -> tuple[str, int]:
        with self.home.store() as store:
            job = store.jobs.get("extract", f"generic:{name}")
        assert job is not None
        return job.status, job.attempts

    def end(self) -> None:
        last = self.place.last()
        if self.place.running() is not None:
            self.type("down")
        for one in last.processes if last is not None else ():
            if one.lives:
                with suppress(OSError):
                    os.killpg(one.pid, signal.SIGKILL)


async def until(wanted: Callable[[], Any], seconds: float) -> Any:
    """What `wanted` returns once it is true."""
    began = time.monotonic()
    while True:
        found = await asyncio.to_thread(wanted)
        if found:
            return found
        assert time.monotonic() - began < seconds, "it took too long"
        await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(Home(tmp_path_factory.mktemp("service")), OPENAI_API_KEY=KEY)
    made.configure(schedule=TICK)
    made.home.write("apples", "pears")
    try:
        code, out, err = made.type("up", "--detach")
        assert code == 0, err
        assert re.search(r"^ready after [\d.]+ s: open http://127\.0\.0\.1:\d+$", out, re.MULTILINE), out
        yield made
    finally:
        made.end()


@asynccontextmanager
async def slow_model(service: Service) -> AsyncIterator[Provider]:
    """One that answers in an hour."""
    provider = Provider()
    await provider.start()
    provider.script = [lambda seen: Say(completion("{}"), wait=3600)]
    model = {"base_url": provider.url, "name": "slow", "api_key": KEY}
    service.configure(model=model, extract={"repairs": 0})
    try:
        yield provider
    finally:
        await provider.stop()
        service.configure()


async def going(service: Service, provider: Provider, *, calls: int = 1) -> live.LiveRun:
    """The run that waits for the model."""
    await until(lambda: len(provider.calls) >= calls, 120)
    found: list[live.LiveRun] = await until(lambda: live.running(service.home.data), 60)
    (run,) = found
    return run


# -- what is up ---------------------------------------------------------------------------------------


@pytest.mark.fault("O30")
async def test_prefect_answers_only_who_knows_the_word_and_no_argument_list_has_it(service: Service) -> None:
    state = service.state()
    assert state.own
    assert state.ready
    url = state.prefect
    word = service.place.auth().partition(":")[2]
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{url}/health")).status_code == 200
        for headers in ({}, {"Authorization": "Basic c2xvd3dhdmU6d3Jvbmc="}):
            refused = await client.post(f"{url}/flow_runs/filter", json={}, headers=headers)
            assert refused.status_code == 401
        foreign = await client.get(f"{url}/health", headers={"Origin": "http://elsewhere.example"})
        assert "access-control-allow-origin" not in foreign.headers
    for one in state.processes:
        assert word not in Path(f"/proc/{one.pid}/cmdline").read_text()
    assert stat.S_IMODE(service.place.auth_file.stat().st_mode) == 0o600
    assert (await asyncio.to_thread(httpx.get, f"{state.dashboard}/memory", trust_env=False)).status_code == 200


async def test_what_is_idle_sleeps(service: Service) -> None:
    pids = {one.name: one.pid for one in service.state().processes}
    threads = [path.read_text().strip() for path in Path(f"/proc/{pids['prefect']}/task").glob("*/comm")]
    assert "tokio-rt-worker" not in threads, "Prefect's store of background tasks looks for work again"

    def wakes() -> int:
        status = Path(f"/proc/{pids['dashboard']}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    before = wakes()
    await asyncio.sleep(3)
    assert wakes() - before < 15, "a server that looks ten times a second whether it should end"


@pytest.mark.req("Z002")
async def test_a_second_up_says_where_the_first_runs(service: Service) -> None:
    code, out, _ = await service.typed("up")
    assert code == 0
    assert f"process {service.state().pid}" in out
    assert service.state().dashboard in out


@pytest.mark.req("Z061")
@pytest.mark.fault("X14", "X21")
async def test_a_run_by_hand_is_done_there_and_prints_what_it_prints_here(service: Service) -> None:
    code, out, err = await service.typed("run")
    assert code == 0, err
    for wanted in ("sessions   2 files, 2 new", "extract    generic:apples: kept", "summary    version 1 published"):
        assert wanted in out
    assert "extract: 2 sessions" in err
    row = next(row for row in service.rows() if row.trigger == "manual")
    assert row.outcome == "ok"
    with service.api() as api:
        seen = api.flow_run(row.detail["prefect_run"])
    assert re.fullmatch(r"manual-\d{8}-\d{6}", seen.name)
    assert seen.parameters["trigger"] == "manual"
    link = service.remote.link(row.run_id)
    assert link is not None
    assert link.endswith(f"/runs/flow-run/{seen.id}")


async def test_a_prefect_server_of_the_users_own_is_used_and_left_running(service: Service, tmp_path: Path) -> None:
    url = service.state().prefect
    user, _, word = service.place.auth().partition(":")
    other = Service(
        Home(tmp_path), PREFECT_API_URL=url, PREFECT_API_AUTH_STRING=f"{user}:{word}", SLOWWAVE_STORE="other",
        PREFECT_HOME=str(tmp_path / "prefect"),
    )  # fmt: skip
    other.configure()
    other.place = Place(other.home.data / "stores" / "other")
    other.home.write("cherries")
    try:
        code, out, err = await other.typed("up", "--detach")
        assert code == 0, err
        state = other.state()
        assert [one.name for one in state.processes] == ["worker", "dashboard"]
        assert not state.own
        code, out, err = await other.typed("run")
        assert code == 0, err
        assert "generic:cherries: kept" in out
        with service.api() as api:
            assert api.deployment("on-demand-other") != api.deployment("on-demand")
        code, out, _ = await other.typed("down")
        assert (code, "stopped" in out) == (0, True)
        assert not any(one.lives for one in state.processes)
    finally:
        other.end()
    assert service.state().prefect == url


@pytest.mark.req("Z061")
@pytest.mark.fault("X14")
async def test_the_schedule_wakes_a_run_and_a_change_of_it_holds_without_a_restart(service: Service) -> None:
    assert service.remote.service().schedule == "every 1 minutes"
    row = await until(lambda: next((row for row in service.rows() if row.trigger == "schedule"), None), 240)
    await until(lambda: not live.running(service.home.data), 60)
    assert service.rows()[0].outcome in {"ok", "nothing", "deferred"}
    assert row.detail is not None
    coming = service.remote.service().next_run
    assert coming is not None
    service.configure()
    await until(lambda: service.remote.service().schedule == "off", 60)
    assert service.remote.service().next_run is None


# -- wake-ups, coalescing, cancelling -----------------------------------------------------------------


@pytest.mark.req("Z061")
async def test_a_wake_up_of_a_hook_becomes_a_run_within_seconds(service: Service) -> None:
    service.home.write("figs")
    before, began = len(service.rows()), time.monotonic()
    service.wake("one")
    service.wake("two")
    run = await until(lambda: next(iter(live.running(service.home.data)), None), 60)
    assert run.trigger == "hook"
    assert time.monotonic() - began < within(10)
    await until(lambda: not live.running(service.home.data), 60)
    rows = service.rows()
    assert len(rows) == before + 1
    assert rows[0].trigger == "hook"
    assert list(service.place.spool.glob("wake-*")) == []


@pytest.mark.req("Z083")
async def test_what_comes_while_one_runs_is_taken_along_and_one_command_stops_it(service: Service) -> None:
    service.home.write("plums")
    async with slow_model(service) as provider:
        first = asyncio.create_task(service.typed("run"))
        run = await going(service, provider)
        assert (run.trigger, run.stage, run.total) == ("manual", "extract", 1)
        second = asyncio.create_task(service.typed("run", "--json"))
        asked = await asyncio.to_thread(lambda: service.remote.start(stage="all", rollouts=["generic:plums"]))
        assert (asked.run, asked.coalesced) == (run.run_id, True)
        service.wake("three")
        await asyncio.sleep(2)
        assert [one.run_id for one in live.running(service.home.data)] == [run.run_id]
        began = time.monotonic()
        # What the button of the dashboard calls is what the command calls.
        code, out, _ = await service.typed("cancel")
        assert (code, run.run_id in out) == (0, True)
        await until(lambda: not live.running(service.home.data), 60)
        assert time.monotonic() - began < within(5)
        code, out, err = await first
        assert code == 130
        assert "generic:plums: stopped before it finished; the attempt was given back" in out
        code, out, err = await second
        assert (code, json.loads(out)["run"]) == (130, run.run_id)
        assert "takes this along" in err
        assert service.attempts("plums") == ("released", 0)


@pytest.mark.req("Z083")
@pytest.mark.parametrize("way", ["prefect", "terminal"])
async def test_a_run_is_stopped_from_prefects_page_and_from_the_terminal_within_seconds(
    service: Service, way: str
) -> None:
    # The wake-up of the last test is answered first.
    await until(lambda: not list(service.place.spool.glob("wake-*")) and not live.running(service.home.data), 120)
    service.home.write(way)
    async with slow_model(service) as provider:
        typed = service.start("run", "--extract-only", "--rollout", f"generic:{way}") if way == "terminal" else None
        if typed is None:
            asked = await asyncio.to_thread(lambda: service.remote.start(stage="extract", rollouts=[f"generic:{way}"]))
            assert (asked.run, asked.coalesced) == (None, False)
        run = await going(service, provider)
        began = time.monotonic()
        if typed is not None:
            typed.send_signal(signal.SIGINT)
        else:
            with service.api() as api:
                body = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": False}
                await asyncio.to_thread(api.call, "POST", f"/flow_runs/{run.prefect_run}/set_state", body)
        await until(lambda: not live.running(service.home.data), 60)
        assert time.monotonic() - began < within(5)
        if typed is not None:
            out, err = await asyncio.to_thread(typed.communicate, timeout=60)
            assert (typed.returncode, "stopping" in err) == (130, True), (out, err)
    (row,) = [row for row in service.rows() if row.run_id == run.run_id]
    assert row.outcome == "cancelled"
    assert service.attempts(way) == ("released", 0)
    with service.api() as api:
        ended = await until(lambda: (found := api.flow_run(str(run.prefect_run))).ended and found, 60)
    assert ended.state == "CANCELLED"


# -- deaths -------------------------------------------------------------------------------------------


@pytest.mark.fault("O37", "X11")
async def test_each_process_comes_back_after_kill_9_and_a_run_ends_with_its_worker(service: Service) -> None:
    service.home.write("grapes")
    async with slow_model(service) as provider:
        await asyncio.to_thread(lambda: service.remote.start(stage="extract", rollouts=["generic:grapes"]))
        run = await going(service, provider)
        before = service.state()
        worker = before.process("worker")
        assert worker is not None
        os.kill(worker.pid, signal.SIGKILL)
        await until(lambda: not live.running(service.home.data), 60)
    for one in before.processes:
        if one.name != "worker":
            os.kill(one.pid, signal.SIGKILL)
    after = await until(
        lambda: (
            (now := service.place.running()) is not None
            and all(one.state == "ready" and one.restarts >= 1 for one in now.processes)
            and now
        ),
        60,
    )
    assert after.pid == before.pid
    assert {one.pid for one in after.processes}.isdisjoint({one.pid for one in before.processes})
    (row,) = [row for row in service.rows() if row.run_id == run.run_id]
    assert row.outcome == "cancelled"
    assert service.attempts("grapes") == ("released", 0)
    with service.api() as api:
        await until(lambda: api.flow_run(str(run.prefect_run)).ended, 240)


@pytest.mark.fault("O37", "X23")
async def test_kill_9_of_everything_in_a_run_leaves_no_process_and_the_next_up_closes_the_run(service: Service) -> None:
    service.home.write("lemons")
    async with slow_model(service) as provider:
        await asyncio.to_thread(lambda: service.remote.start(stage="extract", rollouts=["generic:lemons"]))
        run = await going(service, provider)
        state = service.state()
        for pid in (run.pid, state.pid):
            os.kill(pid, signal.SIGKILL)
        await until(lambda: not any(one.lives for one in state.processes), 60)
        await until(lambda: not ours(service), 60)
        code, _, err = await service.typed("status")
        assert code == 0, err
    code, _, err = await service.typed("up", "-d")
    assert code == 0, err
    assert service.state().pid != state.pid
    (row,) = [row for row in service.rows() if row.run_id == run.run_id]
    assert row.outcome == "failed"
    assert row.detail["error"] == "killed: Its process ended without a word."
    with service.api() as api:
        ended = await until(lambda: (found := api.flow_run(str(run.prefect_run))).ended and found, 240)
    assert ended.state == "CRASHED"
    assert run.run_id in service.place.log.read_text()


@pytest.mark.req("C055", "C068")
async def test_nothing_of_a_session_and_no_key_stands_in_logs_or_in_prefect(service: Service) -> None:
    word = service.place.auth().partition(":")[2]
    for path in [*service.place.logs.iterdir(), *service.place.prefect.rglob("*")]:
        if path.is_file():
            data = path.read_bytes()
            assert all(text.encode() not in data for text in (CANARY, KEY, word)), path
    for path in service.place.logs.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code, out, _ = await service.typed("logs", "-n", "5")
    assert (code, len(out.splitlines())) == (0, 5)


@pytest.mark.fault("O37")
async def test_down_ends_everything_and_says_so(service: Service) -> None:
    state = service.state()
    code, out, _ = await service.typed("down")
    assert (code, out) == (0, "The service is stopped.\n")
    assert not any(one.lives for one in state.processes)
    assert not ours(service)
    assert (await service.typed("down"))[1] == "The service is not running.\n"
    code, _, err = await service.typed("cancel", "20261130T080000-00000000")
    assert (code, "is going on" in err) == (2, True)


def ours(service: Service) -> list[str]:
    """Processes that have this home in their environment, but the test's own."""
    mark = f"SLOWWAVE_HOME={service.home.data}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in path.read_bytes():
                found.append((path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
