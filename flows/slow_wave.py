"""The pipeline as a Prefect flow: check → extract (one task per session, bounded) → consolidate.

The stages keep their own retries, deadlines and journal, so Prefect's retries are off. Nothing of a session passes
through Prefect: parameters are ids and words, results are not persisted, messages are codes and counts, because its
database keeps all of them in clear.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import acreate_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

import consolidate.run
import extract
from consolidate.outcomes import ConsolidateOutcome
from consolidate.outcomes import Failed as ConsolidateFailed
from extract.outcomes import Cancelled as ExtractCancelled
from extract.outcomes import ExtractOutcome, sentence
from flows import pipeline
from flows.choices import picks_of
from memory.model import RolloutId
from memory.progress import Step
from memory.runtime import Runtime, open_runtime
from memory.settings import load
from rollouts.discover import DiscoverReport

ARTIFACT_KEY = "slow-wave-outcome"

Work = Callable[[], Awaitable[ExtractOutcome]]


@dataclass(slots=True)
class _Run:
    """What the tasks of one flow run share in memory; Prefect sees only ids."""

    runtime: Runtime
    works: dict[str, Work] = field(default_factory=dict)
    outcomes: dict[str, ExtractOutcome] = field(default_factory=dict)
    found: DiscoverReport | None = None
    consolidated: ConsolidateOutcome | None = None


_current: ContextVar[_Run] = ContextVar("slowwave_flow_run")


@task(name="check", retries=0, persist_result=False, cache_policy=NO_CACHE)
async def check() -> Any:
    """Which sessions are there? One walk over the hosts' folders."""
    run = _current.get()
    run.found = pipeline.look_around(run.runtime)
    return Completed(message=f"{run.found.files} files, {run.found.new} new, {run.found.changed} changed")


@task(name="extract", task_run_name="extract {rollout}", retries=0, persist_result=False, cache_policy=NO_CACHE)
async def extract_session(rollout: str) -> Any:
    """Stage 1 for one session."""
    run = _current.get()
    outcome = await run.works[rollout]()
    run.outcomes[rollout] = outcome
    failed = outcome.code in {"failed", "exhausted", "stopped"}
    return (Failed if failed else Completed)(message=f"{outcome.code}: {sentence(outcome)}")


@task(name="consolidate", retries=0, persist_result=False, cache_policy=NO_CACHE)
async def consolidate_all() -> Any:
    """Stage 2."""
    run = _current.get()
    outcome = await consolidate.run.run(run.runtime)
    run.consolidated = outcome
    message = f"{outcome.code}: {getattr(outcome, 'reason', '') or getattr(outcome, 'error', '')}".rstrip(": ")
    return (Failed if isinstance(outcome, ConsolidateFailed) else Completed)(message=message)


def _name() -> str:
    """`manual-20261130-081400`: who woke it and when, readable in a list of runs."""
    started = flow_run.scheduled_start_time
    trigger = (flow_run.parameters or {}).get("trigger", "manual")
    return f"{trigger}-{started:%Y%m%d-%H%M%S}" if started else str(trigger)


@flow(
    name="slow-wave",
    flow_run_name=_name,
    retries=0,
    persist_result=False,
    validate_parameters=True,
    log_prints=False,
)
async def slow_wave(
    trigger: str = "manual",
    extract_only: bool = False,
    consolidate_only: bool = False,
    since: str = "",
    limit: int | None = None,
    host: str = "",
    rollouts: list[str] | None = None,
) -> Any:
    """Check for idle sessions, extract each, consolidate all, publish what the gate accepts."""
    logger = get_run_logger()
    settings = load()

    def draw(step: Step) -> None:
        logger.info("%s: %s", step.stage, step.what)

    with open_runtime(settings, trigger=trigger, progress=draw) as runtime, pipeline.stop_signals(runtime):
        picks = picks_of(settings, runtime.clock.now(), since=since, limit=limit, host=host, rollouts=rollouts or [])
        options = pipeline.Options(extract=not consolidate_only, consolidate=not extract_only, picks=picks)
        run = _Run(runtime)
        token = _current.set(run)
        try:
            report = await _stages(run, options)
        finally:
            _current.reset(token)
            await runtime.close()
    await acreate_table_artifact(table=rows(report), key=ARTIFACT_KEY, description=f"slow-wave run {report.run_id}")
    message = f"{report.outcome} (run {report.run_id})"
    state: Callable[..., State[None]] = {"failed": Failed, "cancelled": Cancelled}.get(report.outcome, Completed)
    return state(message=message)


async def _stages(run: _Run, options: pipeline.Options) -> pipeline.RunReport:
    """`pipeline.run` with a task around each step."""
    runtime = run.runtime
    runtime.store.runs.start(runtime.run_id, runtime.trigger)
    recovered = pipeline.recover(runtime)
    extracted = None
    if options.extract:
        await check(return_state=True)

        async def each(rollout: RolloutId, work: Work) -> ExtractOutcome:
            run.works[str(rollout)] = work
            await extract_session(str(rollout), return_state=True)
            outcome = run.outcomes.get(str(rollout))
            # A task that Prefect cancelled before it came to its outcome has given its claim back.
            return outcome if outcome is not None else ExtractCancelled(rollout)

        extracted = await extract.run(runtime, picks=options.picks, each=each)
    if options.consolidate and not runtime.cancel.is_set():
        await consolidate_all(return_state=True)
    return pipeline.finish(runtime, recovered, run.found, extracted, run.consolidated)


def rows(report: pipeline.RunReport) -> list[dict[str, Any]]:
    """The outcome table: what, how it ended, in words without content."""
    table: list[dict[str, Any]] = []
    if report.extracted is not None:
        table += [
            {"stage": "extract", "what": str(outcome.rollout), "outcome": outcome.code, "detail": sentence(outcome)}
            for outcome in report.extracted.outcomes
        ]
        table += [
            {"stage": "check", "what": reason.value, "outcome": "skipped", "detail": str(count)}
            for reason, count in report.extracted.reasons.items()
        ]
    if report.consolidated is not None:
        plain = pipeline.outcome_detail(report.consolidated)
        table.append({"stage": "consolidate", "what": "summary", "outcome": plain.pop("code"), "detail": str(plain)})
    if report.spend is not None:
        spend = report.spend
        cost = f"{spend.input_tokens} tokens in, {spend.output_tokens} out, money {spend.money:.4f}"
        table.append({"stage": "cost", "what": "model calls", "outcome": str(spend.requests), "detail": cost})
    return table or [{"stage": "check", "what": "sessions", "outcome": "nothing to do", "detail": ""}]
