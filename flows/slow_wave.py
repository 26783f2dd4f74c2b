"""The pipeline as a Prefect flow: check → extract (one task per session, bounded) → consolidate.

The stages keep their own retries, deadlines and journal, so Prefect's retries are off. Nothing of a session passes
through Prefect: parameters are ids and words, results are not persisted, messages are codes and counts, and no
exception reaches it, because its database keeps all of them in clear. Where Prefect fails in the middle of a run, the
run goes on: what it did is in the state, not in Prefect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from prefect import Task, flow, get_run_logger, task
from prefect.artifacts import acreate_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed
from pydantic import Field

import consolidate.run
import extract
from consolidate.outcomes import ConsolidateOutcome
from extract.outcomes import ExtractOutcome, sentence
from flows import hook_work, lifeline, pipeline
from flows.choices import picks_of
from memory.errors import UsageError
from memory.model import Host, RolloutId
from memory.progress import Step
from memory.runtime import Runtime, open_runtime
from memory.settings import load
from memory.wording import counted
from rollouts.discover import DiscoverReport

ARTIFACT_KEY = "slow-wave-outcome"
MAX_ROWS = 500
"""Rows of the outcome table; a batch may hold 10,000 sessions, and the table is one value in Prefect's database."""

Trigger = Literal["manual", "schedule", "hook"]
Work = Callable[[], Awaitable[ExtractOutcome]]
FAILURES = frozenset({"failed", "exhausted", "stopped"})
"""Codes of outcomes, and the word of a run, that are failures to Prefect, too."""


@dataclass(slots=True)
class _Run:
    """What the tasks of one flow run share in memory; Prefect sees only ids."""

    runtime: Runtime
    works: dict[str, Work] = field(default_factory=dict)
    outcomes: dict[str, ExtractOutcome] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    found: DiscoverReport | None = None
    consolidated: ConsolidateOutcome | None = None

    async def guarded(self, name: str, work: Awaitable[State[None]]) -> State[None]:
        """Keeps an exception for the flow and gives Prefect its description: it would store text and traceback."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - `carry_out` raises it again outside the task
            self.errors[name] = error
            return Failed(message=pipeline.described(error))

    async def carry_out(self, name: str, ending: Awaitable[State[None]]) -> None:
        """Waits for a task and raises what its work met. What Prefect itself fails at is logged and no more: the
        caller sees that the work is not done and does it without a task."""
        try:
            await ending
        except Exception as error:  # noqa: BLE001 - the work's own errors never come this way
            get_run_logger().warning("Prefect could not carry out the task %s (%s).", name, type(error).__name__)
        met = self.errors.pop(name, None)
        if met is not None:
            raise met


_current: ContextVar[_Run] = ContextVar("slowwave_flow_run")


# -- tasks --------------------------------------------------------------------------------------------


@task(name="check", retries=0, persist_result=False, cache_policy=NO_CACHE)
async def check() -> State[None]:
    """Which sessions are there? One walk over the hosts' folders."""
    run = _current.get()

    async def work() -> State[None]:
        found = run.found = await asyncio.to_thread(pipeline.look_around, run.runtime)
        return Completed(message=f"{counted(found.files, 'file')}, {found.new} new, {found.changed} changed")

    return await run.guarded("check", work())


@task(name="extract", task_run_name="extract {rollout}", retries=0, persist_result=False, cache_policy=NO_CACHE)
async def extract_session(rollout: str) -> State[None]:
    """Stage 1 for one session."""
    run = _current.get()

    async def work() -> State[None]:
        outcome = run.outcomes[rollout] = await run.works[rollout]()
        return state_of(outcome.code, sentence(outcome))

    return await run.guarded(rollout, work())


@task(name="consolidate", retries=0, persist_result=False, cache_policy=NO_CACHE)
async def consolidate_all() -> State[None]:
    """Stage 2."""
    run = _current.get()

    async def work() -> State[None]:
        outcome = run.consolidated = await consolidate.run.run(run.runtime)
        return state_of(outcome.code, f"{outcome.code}: {consolidated_line(outcome)}".rstrip(": "))

    return await run.guarded("consolidate", work())


def state_of(code: str, message: str) -> State[None]:
    """The Prefect state for the code of an outcome or the word of a run."""
    if code in FAILURES:
        return Failed(message=message)
    return Cancelled(message=message) if code == "cancelled" else Completed(message=message)


def ended(called: Task[..., Coroutine[Any, Any, State[None]]], *arguments: str) -> Awaitable[State[None]]:
    """The state a task ended in, whichever; never its exception.

    The cast is for Prefect's types, which take an async task called with `return_state` for a plain one.
    """
    return cast("Awaitable[State[None]]", called(*arguments, return_state=True))


# -- the flow -----------------------------------------------------------------------------------------


def run_name() -> str:
    """`manual-20261130-081400`: who woke it and when, readable in a list of runs."""
    started = flow_run.scheduled_start_time
    trigger = (flow_run.parameters or {}).get("trigger", "manual")
    return f"{trigger}-{started:%Y%m%d-%H%M%S}" if started else str(trigger)


@flow(name="slow-wave", flow_run_name=run_name, retries=0, persist_result=False, log_prints=False)
async def slow_wave(
    trigger: Trigger = "manual",
    extract_only: bool = False,
    consolidate_only: bool = False,
    since: str = "",
    limit: Annotated[int, Field(ge=0)] | None = None,
    host: Host | None = None,
    rollouts: list[str] | None = None,
) -> State[None]:
    """Check for idle sessions, extract each, consolidate all, publish what the gate accepts.

    Args:
        trigger: Who woke it. Only `manual` runs outside the long memory mode and without cool-down.
        extract_only: Stop after stage 1.
        consolidate_only: Skip stage 1.
        since: Take sessions as old as this: 60d, 12h or 2026-11-01.
        limit: Take at most this many sessions.
        host: Only sessions of this host.
        rollouts: Only these sessions: ids or their beginnings.
    """
    logger = get_run_logger()
    try:
        if extract_only and consolidate_only:
            raise UsageError("extract_only and consolidate_only exclude each other.")
        settings = load()

        def draw(step: Step) -> None:
            logger.info("%s: %s", step.stage, step.what)

        if settings.service_worker:
            # A run the service started ends with its worker: nobody would look after it any more.
            lifeline.follow(settings.service_worker)
        with open_runtime(settings, trigger=trigger, progress=draw) as runtime, pipeline.stop_signals(runtime):
            now = runtime.clock.now()
            wanted = host.value if host else ""
            picks = picks_of(settings, now, since=since, limit=limit, host=wanted, rollouts=rollouts or [])
            options = pipeline.Options(extract=not consolidate_only, consolidate=not extract_only, picks=picks)
            report = await _carry_out(runtime, options)
            await _show(report)
    except Exception as error:  # noqa: BLE001 - Prefect would store its text and its traceback in clear
        said = pipeline.described(error)
        logger.error("%s", said)
        return Failed(message=said)
    return state_of(report.outcome, f"{report.outcome} (run {report.run_id})")


async def _carry_out(runtime: Runtime, options: pipeline.Options) -> pipeline.RunReport:
    run = _Run(runtime)
    token = _current.set(run)
    try:
        runtime.prefect_run = str(flow_run.id) if flow_run.id else None
        with pipeline.recorded(runtime):
            return await _stages(run, options)
    finally:
        _current.reset(token)
        await runtime.close()


async def _stages(run: _Run, options: pipeline.Options) -> pipeline.RunReport:
    """`pipeline.run` with a task around each step."""
    runtime = run.runtime
    recovered = pipeline.recover(runtime)
    hooks = hook_work.collect(runtime, whole=options.whole)
    extracted = None
    if options.extract:
        await run.carry_out("check", ended(check))
        run.found = run.found or await asyncio.to_thread(pipeline.look_around, runtime)

        async def each(rollout: RolloutId, work: Work) -> ExtractOutcome:
            return await _in_task(run, str(rollout), work)

        extracted = await extract.run(runtime, picks=options.picks, each=each)
    if options.consolidate and not runtime.cancel.is_set():
        await run.carry_out("consolidate", ended(consolidate_all))
        run.consolidated = run.consolidated or await consolidate.run.run(runtime)
    return pipeline.finish(runtime, recovered, run.found, extracted, run.consolidated, hooks)


async def _in_task(run: _Run, rollout: str, work: Work) -> ExtractOutcome:
    """One session's work inside a Prefect task; without one where Prefect cannot carry the task out."""
    run.works[rollout] = work
    try:
        await run.carry_out(rollout, ended(extract_session, rollout))
    except asyncio.CancelledError:
        # Stopped after the work had come to its end: the end counts.
        if rollout not in run.outcomes:
            raise
    outcome = run.outcomes.get(rollout)
    return await work() if outcome is None else outcome


async def _show(report: pipeline.RunReport) -> None:
    """The outcome table. The run is over and recorded: a Prefect server that went away must not make it a failure."""
    try:
        description = f"slow-wave run {report.run_id}: {report.outcome}"
        await acreate_table_artifact(table=rows(report), key=ARTIFACT_KEY, description=description)
    except Exception as error:  # noqa: BLE001 - whatever the client raises
        get_run_logger().warning("The outcome table could not be stored (%s).", type(error).__name__)


# -- words --------------------------------------------------------------------------------------------


def rows(report: pipeline.RunReport) -> list[dict[str, str]]:
    """The outcome table: what, how it ended, in words without content; at most `MAX_ROWS` rows."""
    table: list[dict[str, str]] = []
    extracted, spend = report.extracted, report.spend
    if extracted is not None and extracted.off:
        table.append(_row("check", "sessions", "off", extracted.off))
    if extracted is not None:
        shown = extracted.outcomes[: MAX_ROWS - len(extracted.reasons) - 8]
        table += [_row("extract", str(outcome.rollout), outcome.code, sentence(outcome)) for outcome in shown]
        if len(shown) < len(extracted.outcomes):
            table.append(_row("extract", f"{len(extracted.outcomes) - len(shown)} more", "", "see slowwave status"))
        if extracted.waiting:
            table.append(_row("check", "sessions", "waiting", f"{extracted.waiting} for the next runs"))
        table += [
            _row("check", "sessions", reason.value, str(count))
            for reason, count in sorted(extracted.reasons.items())
            if reason.value != "eligible"
        ]
    if report.consolidated is not None:
        done = report.consolidated
        table.append(_row("consolidate", "summary", done.code, consolidated_line(done)))
    if spend is not None:
        money = "unknown" if spend.unpriced and not spend.money else f"{spend.money:.4f}"
        cost = f"{counted(spend.input_tokens, 'token')} in, {spend.output_tokens:,} out, money {money}"
        table.append(_row("cost", "model calls", str(spend.requests), cost))
    return table or [_row("check", "sessions", "nothing to do", "")]


def _row(stage: str, what: str, outcome: str, detail: str) -> dict[str, str]:
    return {"stage": stage, "what": what, "outcome": outcome, "detail": detail}


def consolidated_line(outcome: ConsolidateOutcome) -> str:
    """One line about a consolidation: numbers, codes, rules; no text of the summary."""
    plain = pipeline.outcome_detail(outcome)
    plain.pop("code")
    plain.pop("transcript", None)  # it stands in the run
    rules = sorted({violation["rule"] for violation in plain.pop("violations", ())})
    left_out = len(plain.pop("left_out", ()))
    changes = plain.pop("changes", {})
    parts = [f"{name} {value}" for name, value in plain.items() if value not in (None, "", 0)]
    parts += [f"{count} {kind}" for kind, count in sorted(changes.items())]
    parts += [f"{left_out} left out"] if left_out else []
    parts += [f"broke {', '.join(rules)}"] if rules else []
    return ", ".join(parts)
