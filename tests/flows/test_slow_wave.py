"""The flow's own words and decisions, without a server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, State
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed

from consolidate.gate import Change
from consolidate.outcomes import ConsolidateOutcome, Deferred, Empty, Failed, Published, Stopped, Unchanged
from extract.outcomes import Cancelled, ExtractOutcome, ExtractReport, Kept, NothingKept
from extract.outcomes import Failed as ExtractFailed
from flows import deployments, pipeline, slow_wave
from memory.errors import SettingsError, StateBusyError, UsageError
from memory.model import Host, LeftOut, Outcome, Reason, RolloutId, Violation
from memory.runtime import Runtime
from memory.settings import ScheduleSettings
from memory.state import Spend
from tests.flows.home import CANARY, Home

A, B = RolloutId.parse("generic:a"), RolloutId.parse("generic:b")


def report(
    extracted: ExtractReport | None = None, consolidated: ConsolidateOutcome | None = None, spend: Spend | None = None
) -> pipeline.RunReport:
    return pipeline.RunReport("run-1", "ok", extracted=extracted, consolidated=consolidated, spend=spend)


def spent(*, money: float, unpriced: int = 0) -> Spend:
    return Spend("run-1", 5, 100, 20, 0, money, unpriced, 0, 0, 0)


# -- the outcome table ------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_session_each_reason_the_summary_and_the_cost() -> None:
    extracted = ExtractReport(
        (Kept(A, Outcome.SUCCESS, 3, 700), ExtractFailed(B, "timeout", "m did not finish.", 1, None)),
        waiting=2,
        reasons={Reason.ELIGIBLE: 4, Reason.TOO_OLD: 7},
    )
    spend = spent(money=0.25)
    table = slow_wave.rows(report(extracted, Unchanged(3), spend))
    assert [tuple(row.values()) for row in table] == [
        ("extract", "generic:a", "kept", "kept, success, 3 lines, 700 bytes"),
        ("extract", "generic:b", "failed", "failed (timeout), attempt 1: m did not finish."),
        ("check", "sessions", "waiting", "2 for the next runs"),
        ("check", "sessions", "too_old", "7"),
        ("consolidate", "summary", "unchanged", "sources 3"),
        ("cost", "model calls", "5", "100 tokens in, 20 out, money 0.2500"),
    ]


def test_money_nobody_can_tell_is_not_told_as_nothing() -> None:
    (row,) = slow_wave.rows(report(spend=spent(money=0.0, unpriced=5)))
    assert row["detail"].endswith("money unknown")


def test_a_table_of_ten_thousand_sessions_is_cut_and_says_so() -> None:
    outcomes = tuple(NothingKept(RolloutId.parse(f"generic:s{number}")) for number in range(10_000))
    table = slow_wave.rows(report(ExtractReport(outcomes), Empty()))
    assert len(table) <= slow_wave.MAX_ROWS
    shown = sum(row["outcome"] == "nothing_kept" for row in table)
    assert f"{10_000 - shown} more" in [row["what"] for row in table]


def test_a_run_that_had_nothing_to_do_still_has_a_table() -> None:
    assert slow_wave.rows(report()) == [
        {"stage": "check", "what": "sessions", "outcome": "nothing to do", "detail": ""}
    ]


def test_a_run_that_was_not_wanted_says_why() -> None:
    table = slow_wave.rows(report(ExtractReport(off="Memory is switched off.")))
    assert table == [{"stage": "check", "what": "sessions", "outcome": "off", "detail": "Memory is switched off."}]


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (
            Published(
                2, 3, 100, 5, (Change("added", CANARY, ""), Change("merged", CANARY, "")),
                (LeftOut("note:x", "p", "secret"),), "max_sources", 1,
            ),
            "version 2, sources 3, bytes 100, requests 5, repairs 1, cap max_sources, 1 added, 1 merged, 1 left out",
        ),
        (
            Failed("gate_rejected", "It broke rules.", (Violation("shrink", CANARY, 7), Violation("size", CANARY)), 4),
            "error gate_rejected, message It broke rules., requests 4, broke shrink, size",
        ),
        (Deferred("cooldown", "Too recent."), "reason cooldown, detail Too recent."),
        (Unchanged(3), "sources 3"),
        (Empty(), ""),
        (Stopped(), ""),
    ],
)  # fmt: skip
def test_a_consolidation_is_told_in_numbers_and_rules(outcome: ConsolidateOutcome, line: str) -> None:
    assert slow_wave.consolidated_line(outcome) == line


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        *((code, "FAILED") for code in ("failed", "exhausted", "stopped")),
        ("cancelled", "CANCELLED"),
        *(
            (code, "COMPLETED")
            for code in ("ok", "nothing", "deferred", "kept", "nothing_kept", "skipped", "published")
        ),
    ],
)
def test_an_outcome_is_the_prefect_state_that_means_the_same(code: str, kind: str) -> None:
    state = slow_wave.state_of(code, "m")
    assert (state.type.value, state.message) == (kind, "m")


# -- what Prefect gets to see of an error -----------------------------------------------------------------


def a_run() -> Any:
    return slow_wave._Run(SimpleNamespace())  # type: ignore[arg-type]


async def raising(error: Exception) -> State[None]:
    raise error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError(CANARY), "internal: ValueError at test_slow_wave.py:"),
        (StateBusyError("The state is locked."), "state_busy: The state is locked."),
    ],
)
async def test_a_task_ends_failed_with_a_description_and_the_flow_gets_the_error_itself(
    error: Exception, message: str
) -> None:
    run = a_run()
    state = await run.guarded("check", raising(error))
    assert state.is_failed()
    assert state.data is None
    assert state.message.startswith(message)
    assert CANARY not in state.message
    with pytest.raises(type(error)):
        await run.carry_out("check", done())
    await run.carry_out("check", done())


async def done() -> State[None]:
    return Completed()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the flow logs as warnings."""
    said: list[str] = []
    logger = SimpleNamespace(warning=lambda text, *values: said.append(text % values))
    monkeypatch.setattr(slow_wave, "get_run_logger", lambda: logger)
    return said


async def test_where_prefect_cannot_carry_a_task_out_the_session_is_done_without_it(
    warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_wave, "ended", lambda task, *arguments: raising(OSError(CANARY)))

    async def work() -> ExtractOutcome:
        return NothingKept(A)

    assert await slow_wave._in_task(a_run(), "generic:a", work) == NothingKept(A)
    assert warnings == ["Prefect could not carry out the task generic:a (OSError)."]


async def test_a_session_stopped_in_its_task_is_cancelled_unless_it_had_come_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> ExtractOutcome:
        raise AssertionError("not again")

    monkeypatch.setattr(slow_wave, "ended", lambda task, *arguments: asyncio.sleep(3600))

    async def stopped(run: Any) -> ExtractOutcome:
        running: asyncio.Task[ExtractOutcome] = asyncio.create_task(slow_wave._in_task(run, "generic:a", work))
        await asyncio.sleep(0)
        running.cancel()
        return await running

    with pytest.raises(asyncio.CancelledError):
        await stopped(a_run())
    over = a_run()
    over.outcomes["generic:a"] = Kept(A, Outcome.SUCCESS, 3, 700)
    assert await stopped(over) == Kept(A, Outcome.SUCCESS, 3, 700)


@pytest.mark.parametrize(
    ("called", "name"),
    [
        (lambda: slow_wave.extract_session.fn("generic:a"), "generic:a"),
        (slow_wave.check.fn, "check"),
        (slow_wave.consolidate_all.fn, "consolidate"),
    ],
)
async def test_no_task_lets_an_exception_through(called: Callable[[], Awaitable[State[None]]], name: str) -> None:
    """A runtime that has nothing is a mistake of ours in each of them."""
    run = a_run()
    token = slow_wave._current.set(run)
    try:
        state = await called()
    finally:
        slow_wave._current.reset(token)
    assert state.is_failed()
    assert list(run.errors) == [name]


async def test_a_finished_task_keeps_its_outcome_for_the_flow() -> None:
    async def work() -> ExtractOutcome:
        return Cancelled(A)

    run = a_run()
    run.works["generic:a"] = work
    token = slow_wave._current.set(run)
    try:
        state = await slow_wave.extract_session.fn("generic:a")
    finally:
        slow_wave._current.reset(token)
    assert state.is_cancelled()
    assert run.outcomes == {"generic:a": Cancelled(A)}


# -- the whole flow, with its tasks called plainly ------------------------------------------------------------


@dataclass
class Seen:
    """What would have reached Prefect."""

    logged: list[str] = field(default_factory=list)
    tables: list[list[dict[str, str]]] = field(default_factory=list)


@pytest.fixture
def seen(home: Home, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The flow of a home, with Prefect's engine, logs and artifacts out of the way."""
    found = Seen()

    def log(text: str, *values: object) -> None:
        found.logged.append(text % values)

    async def keep(*, table: list[dict[str, str]], key: str, description: str) -> None:
        found.tables.append(table)

    monkeypatch.setenv("SLOWWAVE_HOME", str(home.data))
    monkeypatch.setattr(slow_wave, "get_run_logger", lambda: SimpleNamespace(info=log, warning=log, error=log))
    monkeypatch.setattr(slow_wave, "ended", lambda task, *arguments: task.fn(*arguments))
    monkeypatch.setattr(slow_wave, "acreate_table_artifact", keep)
    return found


async def flow(**parameters: Any) -> tuple[str, str]:
    """Type and message of the state a run ends in."""
    state = await slow_wave.slow_wave.fn(**parameters)
    return state.type.value, state.message or ""


async def test_a_run_that_went_well_is_completed_and_leaves_one_table(home: Home, seen: Seen) -> None:
    home.write("apples", "pears")
    kind, message = await flow()
    with home.store() as store:
        row = store.runs.last()[0]
    assert (kind, message) == ("COMPLETED", f"ok (run {row.run_id})")
    assert (row.trigger, row.outcome) == ("manual", "ok")
    (table,) = seen.tables
    assert [line["what"] for line in table if line["stage"] == "extract"] == ["generic:apples", "generic:pears"]
    assert "vitest" not in json.dumps(seen.logged)


async def test_who_woke_it_what_is_picked_and_which_stage_reach_the_run(home: Home, seen: Seen) -> None:
    home.write("apples", "pears", "plums")
    await flow(trigger="schedule", extract_only=True, limit=1)
    await flow(trigger="hook", extract_only=True, rollouts=["plums"], host=Host.GENERIC)
    await flow(extract_only=True, host=Host.PI)
    with home.store() as store:
        runs = store.runs.last(3)
        taken = [str(output.rollout) for output in store.outputs.all()]
    assert [run.trigger for run in runs] == ["manual", "hook", "schedule"]
    assert [run.outcome for run in runs] == ["nothing", "ok", "ok"]
    assert sorted(taken) == ["generic:apples", "generic:plums"]
    assert all(run.detail["consolidate"] is None for run in runs)


async def test_a_stopped_run_is_cancelled(home: Home, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_and_stop(runtime: Runtime) -> Any:
        found = look_around(runtime)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    look_around = pipeline.look_around
    monkeypatch.setattr(pipeline, "look_around", look_and_stop)
    home.write("apples")
    former = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        kind, message = await flow()
    finally:
        signal.signal(signal.SIGTERM, former)
    assert (kind, message.split()[0]) == ("CANCELLED", "cancelled")
    assert [line["outcome"] for line in seen.tables[0] if line["stage"] == "extract"] == ["cancelled"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"extract_only": True, "consolidate_only": True}, "usage: extract_only and consolidate_only exclude"),
        ({"since": "yesterday"}, "usage: --since yesterday: not a length or a date"),
        ({"rollouts": ["plums"]}, "unknown_reference: --rollout plums"),
    ],
)
async def test_what_cannot_be_done_is_failed_with_the_sentence_of_the_command_line(
    home: Home, seen: Seen, parameters: dict[str, Any], message: str
) -> None:
    home.write("apples")
    kind, said = await flow(**parameters)
    assert kind == "FAILED"
    assert said.startswith(message)
    assert seen.logged[-1] == said


async def test_settings_that_are_wrong_fail_the_run_by_their_name(home: Home, seen: Seen) -> None:
    home.configure(model={"nmae": CANARY})
    kind, said = await flow()
    assert (kind, "model.nmae" in said, CANARY in said) == ("FAILED", True, False)


async def test_a_mistake_of_ours_is_failed_without_its_text(
    home: Home, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runtime: Runtime) -> None:
        raise KeyError(CANARY)

    monkeypatch.setattr(pipeline, "look_around", broken)
    kind, said = await flow()
    with home.store() as store:
        row = store.runs.last()[0]
    assert (kind, row.outcome) == ("FAILED", "failed")
    assert said.startswith("internal: KeyError at test_slow_wave.py:")
    assert CANARY not in said + json.dumps(seen.logged) + json.dumps(row.detail)


async def test_a_table_that_cannot_be_stored_does_not_spoil_the_run(
    home: Home, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(**_: object) -> None:
        raise ConnectionError(CANARY)

    monkeypatch.setattr(slow_wave, "acreate_table_artifact", away)
    home.write("apples")
    assert (await flow())[0] == "COMPLETED"
    assert seen.logged[-1] == "The outcome table could not be stored (ConnectionError)."


# -- tasks, flow and deployments as they are declared -------------------------------------------------------


@pytest.mark.parametrize("step", [slow_wave.check, slow_wave.extract_session, slow_wave.consolidate_all])
def test_prefect_repeats_no_task_and_keeps_no_result(step: Any) -> None:
    assert (step.retries, step.persist_result, step.timeout_seconds) == (0, False, None)
    assert type(step.cache_policy).__name__ == "_None"


def test_prefect_repeats_no_run_and_keeps_no_result_and_no_print() -> None:
    flow = slow_wave.slow_wave
    assert (flow.name, flow.retries, flow.persist_result, flow.log_prints) == ("slow-wave", 0, False, False)


def test_both_deployments_are_module_paths_that_refuse_a_second_run() -> None:
    on_demand, scheduled = deployments.deployments(ScheduleSettings())
    assert [one.full_name for one in (on_demand, scheduled)] == ["slow-wave/on-demand", "slow-wave/scheduled"]
    for one, trigger in ((on_demand, "manual"), (scheduled, "schedule")):
        assert one.entrypoint == "flows.slow_wave.slow_wave"
        assert one.concurrency_limit == 1
        assert one.concurrency_options is not None
        assert one.concurrency_options.collision_strategy is ConcurrencyLimitStrategy.CANCEL_NEW
        assert one.parameters == {"trigger": trigger}
        assert one.work_pool_name is None
    assert not on_demand.schedules


def test_another_store_has_deployments_of_its_own() -> None:
    names = [one.name for one in deployments.deployments(ScheduleSettings(), "work")]
    assert names == ["on-demand-work", "scheduled-work"]


def test_the_schedule_is_that_of_the_settings_and_does_not_move_with_a_restart() -> None:
    def scheduled(**settings: Any) -> Any:
        (schedule,) = deployments.deployments(ScheduleSettings(**settings))[1].schedules or []
        return schedule.schedule

    usual = scheduled()
    assert isinstance(usual, IntervalSchedule)
    assert usual.interval == timedelta(minutes=30)
    assert usual.anchor_date == deployments.ANCHOR
    cron = scheduled(cron="0 8 * * 1", every_minutes=5)
    assert isinstance(cron, CronSchedule)
    assert cron.cron == "0 8 * * 1"


def test_a_schedule_that_is_switched_off_leaves_a_paused_deployment() -> None:
    assert [one.paused for one in deployments.deployments(ScheduleSettings())] == [False, False]
    assert [one.paused for one in deployments.deployments(ScheduleSettings(enabled=False))] == [False, True]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"cron": "now and then"}, "schedule.cron"),
        ({"cron": "0 25 * * *"}, "schedule.cron"),
        ({"every_minutes": 0.01}, "schedule.every_minutes"),
        ({"every_minutes": 1e15}, "schedule.every_minutes"),
    ],
)
def test_what_is_no_schedule_is_refused_by_the_name_of_its_setting(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        deployments.deployments(ScheduleSettings(**settings))


def test_a_folder_with_packages_named_like_ours_is_no_place_to_serve_from(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    deployments.check_place_for_imports(tmp_path)
    (tmp_path / "memory" / "__init__.py").touch()
    with pytest.raises(UsageError, match=r"named memory.*PYTHONSAFEPATH=1"):
        deployments.check_place_for_imports(tmp_path)


def test_our_own_checkout_is_a_place_to_serve_from() -> None:
    deployments.check_place_for_imports(Path(deployments.__file__).parents[1])


def test_without_the_address_of_a_server_nothing_is_served() -> None:
    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(UsageError, match="PREFECT_API_URL"):
        deployments.check_server()


def test_a_server_that_does_not_answer_is_one_clear_sentence(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLOWWAVE_HOME", str(home.data))
    with (
        temporary_settings({PREFECT_API_URL: "http://key:word@127.0.0.1:9/api"}),
        pytest.raises(SystemExit) as ended,
    ):
        deployments.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith("slowwave: The Prefect server at 127.0.0.1:9 does not answer (ConnectError).")
    assert said.count("\n") == 1


def test_the_flow_s_parameters_are_words_and_ids_a_form_can_offer() -> None:
    properties = json.loads(slow_wave.slow_wave.parameters.model_dump_json())["properties"]
    assert list(properties) == ["trigger", "extract_only", "consolidate_only", "since", "limit", "host", "rollouts"]
    assert properties["trigger"]["enum"] == ["manual", "schedule", "hook"]
    assert properties["limit"]["anyOf"][0] == {"minimum": 0, "type": "integer"}
