"""The flow as users run it: against a real Prefect server, through the served deployments."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from memory.state import JobRow
from tests.flows import service as services
from tests.flows.home import CANARY, ROOT, Home
from tests.flows.service import Service
from tests.memory.llm.loopback import KEY, Provider, Say, Seen, completion
from tests.plugins.pace import within

pytestmark = pytest.mark.server

SAMPLES = ROOT / "examples" / "sessions"
SAMPLE_FILES = sum(path.suffix == ".jsonl" for path in SAMPLES.rglob("*"))


RUN = ("-m", "prefect", "deployment", "run", "slow-wave/on-demand", "--watch")
CANCEL = ("-m", "prefect", "flow-run", "cancel", "RUN_ID")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = Home(tmp_path_factory.mktemp("service"))
    home.configure()
    with services.running(home, SLOWWAVE_SCHEDULE_ENABLED="false", SLOWWAVE_SCHEDULE_CRON="0 8 * * 1") as made:
        yield made


@pytest.mark.req("Z083")
async def test_a_served_flow_runs_refuses_and_stops_as_promised_and_prefect_sees_no_text(service: Service) -> None:
    """One test, for one server: the workers of a parallel session would start one each."""
    the_schedule_is_registered_and_off_where_it_is_switched_off(service)
    await a_run_by_hand_is_seen_from_its_sessions_to_its_table(service)
    await a_second_run_is_refused_and_a_cancelled_one_gives_its_attempts_back(service)
    assert not (service.prefect_home / "storage").exists()
    assert service.holding("generic:apples"), "ids are there, so text would be found"
    for word in (CANARY, KEY, "pnpm", "vitest"):
        assert not service.holding(word)


def the_schedule_is_registered_and_off_where_it_is_switched_off(service: Service) -> None:
    scheduled = service.deployment("scheduled")
    assert scheduled["paused"] is True
    assert scheduled["schedules"][0]["schedule"]["cron"] == "0 8 * * 1"
    assert scheduled["parameters"] == {"trigger": "schedule"}
    assert scheduled["entrypoint"] == "flows.slow_wave.slow_wave"


async def a_run_by_hand_is_seen_from_its_sessions_to_its_table(service: Service) -> None:
    home = service.home
    home.configure(
        rollouts={"hosts": ["codex", "claude", "pi", "generic"]}
        | {f"{host}_roots": [str(SAMPLES / host)] for host in ("codex", "claude", "pi")}
    )
    home.write("apples")
    typed = await asyncio.to_thread(service.python, *RUN)
    assert typed.returncode == 0, typed.stderr

    (run,) = service.call("POST", "/flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}})
    assert re.fullmatch(r"manual-\d{8}-\d{6}", run["name"])
    assert run["parameters"] == {"trigger": "manual"}
    assert run["run_count"] == 1
    with home.store() as store:
        row, version = store.runs.last()[0], store.versions.latest()
    assert run["state"]["message"] == f"ok (run {row.run_id})"
    assert (row.trigger, row.outcome) == ("manual", "ok")
    assert version is not None

    (artifact,) = service.artifacts(run["id"])
    assert (artifact["key"], artifact["type"]) == ("slow-wave-outcome", "table")
    table = json.loads(artifact["data"])
    sessions = sorted(line["what"] for line in table if line["stage"] == "extract")
    assert len(sessions) == SAMPLE_FILES + 1
    assert "generic:apples" in sessions
    assert [line["outcome"] for line in table if line["stage"] == "consolidate"] == ["published"]

    ended = await service.task_runs(run["id"], count=len(sessions) + 2)
    assert names(ended=ended) == sorted(["check", "consolidate", *(f"extract {name}" for name in sessions)])
    assert {(one["state_type"], one["run_count"]) for one in ended} == {("COMPLETED", 1)}

    assert "vitest" in (home.data / "generations" / version.generation / "memories_v2/memory_summary.md").read_text()
    assert CANARY not in typed.stdout + typed.stderr


async def a_second_run_is_refused_and_a_cancelled_one_gives_its_attempts_back(service: Service) -> None:
    home = service.home
    bad, slow = home.write("bad", "slow")

    def answer(seen: Seen) -> Say:
        """One session gets an answer that is none, the other waits for its own for an hour."""
        about_slow = "generic:slow" in json.dumps(seen.body)
        return Say(completion(f"{CANARY} is no JSON"), wait=3600 if about_slow else 0)

    provider = Provider()
    await provider.start()
    provider.script = [answer]
    try:
        home.configure(
            model={"base_url": provider.url, "name": "slow", "api_key": KEY},
            extract={"repairs": 0, "concurrency": 2},
        )
        run = service.trigger(rollouts=[str(bad), str(slow)], extract_only=True)
        async with asyncio.timeout(120):
            while not any("generic:slow" in json.dumps(call.body) for call in provider.calls):
                await asyncio.sleep(0.1)
        (failed,) = [one for one in await service.task_runs(run, count=2) if "check" not in one["name"]]

        second = await service.until(service.trigger(), "CANCELLED", seconds=60)
        assert "concurrency limit" in second["state"]["message"]

        typed = await asyncio.to_thread(service.python, *CANCEL[:-1], run)
        assert typed.returncode == 0, typed.stderr
        over = await service.until(run, "CANCELLED", "COMPLETED", "FAILED", "CRASHED", seconds=60)
    finally:
        await provider.stop()

    with home.store() as store:
        row = store.runs.last()[0]
        jobs = {name: store.jobs.get("extract", str(name)) for name in (bad, slow)}
    assert (over["state_type"], over["state"]["message"]) == ("CANCELLED", f"cancelled (run {row.run_id})")
    assert row.outcome == "cancelled"
    assert service.seconds_between(run, "CANCELLING", "CANCELLED") < within(10)
    assert told(jobs[bad]) == ("failed", 1)
    assert told(jobs[slow]) == ("released", 0)

    assert (failed["name"], failed["state_type"], failed["run_count"]) == ("extract generic:bad", "FAILED", 1)
    ended = {one["name"]: one for one in await service.task_runs(run, count=3)}
    assert ended["extract generic:slow"]["state_type"] == "CANCELLED"
    (artifact,) = service.artifacts(run)
    outcomes = {line["what"]: line["outcome"] for line in json.loads(artifact["data"]) if line["stage"] == "extract"}
    assert outcomes == {"generic:bad": "failed", "generic:slow": "cancelled"}


def names(*, ended: list[dict[str, object]]) -> list[str]:
    """Names of task runs, without the three letters Prefect adds to those we do not name ourselves."""
    return sorted(re.sub(r"^(check|consolidate)-\w{3}$", r"\1", str(one["name"])) for one in ended)


def told(job: JobRow | None) -> tuple[str, int]:
    assert job is not None
    return job.status, job.attempts


def test_every_command_of_the_document_is_one_these_tests_run() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "flows.md").read_text(encoding="utf-8"), re.DOTALL)
    run = [services.server(4200), services.SERVE, RUN, CANCEL]
    assert [line for block in blocks for line in block.splitlines()] == [f"python {' '.join(one)}" for one in run]
