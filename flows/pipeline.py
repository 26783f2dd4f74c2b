"""One run: recover, discover, extract, consolidate, record. Plain Python; Prefect wraps it, it never needs Prefect."""

from __future__ import annotations

import asyncio
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import consolidate.run
import extract
from consolidate.outcomes import ConsolidateOutcome, Deferred, Failed, Published, Stopped, Unchanged
from consolidate.service import LongMemory
from flows import hook_work, indexing, killed
from flows.hook_work import NO_WORK, HookWork
from memory import live, models
from memory.clock import iso
from memory.errors import SlowwaveError
from memory.progress import Step
from memory.runtime import Runtime, owner_is_gone
from memory.state import Ledger, RolloutRow, Spend
from memory.wording import counted
from rollouts.discover import DiscoverReport, choose, discover
from rollouts.eligibility import NO_PICKS, Picks


@dataclass(frozen=True, slots=True)
class Options:
    """What of a run is wanted."""

    extract: bool = True
    consolidate: bool = True
    picks: Picks = NO_PICKS

    @property
    def whole(self) -> bool:
        """Whether nothing is left out: both stages, every session."""
        return self.extract and self.consolidate and self.picks == NO_PICKS


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run did. `outcome` is the word the run's row keeps: `ok`, `nothing`, `deferred`, `failed`, `cancelled`."""

    run_id: str
    outcome: str
    recovered: tuple[str, ...] = ()
    discovered: DiscoverReport | None = None
    extracted: extract.ExtractReport | None = None
    consolidated: ConsolidateOutcome | None = None
    spend: Spend | None = None
    notices: tuple[str, ...] = ()
    hooks: HookWork = NO_WORK


NOTHING = Options()


async def run(runtime: Runtime, options: Options = NOTHING) -> RunReport:
    """The whole pipeline once. What goes wrong inside a stage is in the report; only an unusable state raises."""
    with recorded(runtime):
        # 1. What an interrupted run left open is finished or undone before anything else.
        recovered = recover(runtime)
        hooks = hook_work.collect(runtime, whole=options.whole)
        discovered = extracted = consolidated = None
        if options.extract:
            # 2. Which sessions are there?
            discovered = await asyncio.to_thread(look_around, runtime)
            # 3. Stage 1: one summary for each idle session.
            extracted = await extract.run(runtime, picks=options.picks)
        # 4. Stage 2: one summary of all; a stopped run stops here.
        if options.consolidate and not runtime.cancel.is_set():
            consolidated = await consolidate.run.run(runtime)
        # 5. The run's row says how it went.
        return finish(runtime, recovered, discovered, extracted, consolidated, hooks)


@contextmanager
def recorded(runtime: Runtime) -> Iterator[None]:
    """The run's row: begun here, ended by `finish`, or here when the block is cancelled or raises. While it runs, its
    live file says where it is, and a cancel file stops it."""
    stages = {"extract": runtime.extract_model.name, "consolidate": runtime.consolidate_model.name}
    limits = _limits(runtime)
    with live.reporting(runtime, spent=lambda: _spent(runtime), limits=limits, prefect_run=runtime.prefect_run):
        runtime.store.runs.start(runtime.run_id, runtime.trigger, models=stages, detail=_whose(runtime))
        with _ended(runtime):
            yield


def _whose(runtime: Runtime) -> dict[str, Any]:
    """Which process a run is, for whoever finds its row without an end, and where Prefect shows it."""
    return {"owner": runtime.owner, "prefect_run": runtime.prefect_run}


def _limits(runtime: Runtime) -> dict[str, live.Limits]:
    """Where a stage has no ceiling of its own, the run's."""
    settings = runtime.settings
    of_agent = settings.consolidate
    return {
        "extract": live.Limits(settings.budget.run_requests),
        "consolidate": live.Limits(of_agent.max_requests, of_agent.batch_minutes * 60),
    }


def _spent(runtime: Runtime) -> live.Spent:
    if not isinstance(runtime.meter, Ledger):
        return live.Spent()
    total = runtime.meter.run_total()
    money = None if total.unpriced and not total.money else total.money
    return live.Spent(total.requests, total.input_tokens, total.output_tokens, money)


@contextmanager
def _ended(runtime: Runtime) -> Iterator[None]:
    try:
        yield
    except asyncio.CancelledError:
        _end(runtime, "cancelled", {})
        raise
    except Exception as error:
        _end(runtime, "failed", {"error": described(error)})
        raise


def _end(runtime: Runtime, outcome: str, more: dict[str, Any]) -> None:
    """Writes the row's end; an unusable state is what ended the run, or will be met by the next one."""
    with suppress(SlowwaveError):
        runtime.store.runs.finish(
            runtime.run_id, outcome, {"run": runtime.run_id, "outcome": outcome, **_whose(runtime), **more}
        )


def described(error: Exception) -> str:
    """`code: message` of an error of ours, class and place of any other: whose text may carry content."""
    if isinstance(error, SlowwaveError):
        return f"{error.code}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"internal: {type(error).__name__}{where}. This is a mistake of slowwave's."


def recover(runtime: Runtime) -> tuple[str, ...]:
    """Finishes or undoes interrupted publishes; ends claims and runs whose process is gone."""
    lines = LongMemory(runtime).recover()
    runtime.workspace.write_instructions(extract=extract.instructions(), consolidate=consolidate.run.instructions())
    ended = runtime.store.jobs.reap(owner_is_gone)
    lines += [f"{job.kind} {job.key}: its process ended without a word" for job in ended]
    for row in killed.close_rows(runtime.store, runtime.settings, now=runtime.clock.now()):
        lines.append(f"run {row.run_id} ({row.trigger}): its process ended without a word")
    for line in lines:
        runtime.progress(Step("recover", line))
    return tuple(lines)


def look_around(runtime: Runtime) -> DiscoverReport:
    """Discovery with its steps."""
    found = discover(runtime.settings, runtime.clock, runtime.store, progress=runtime.progress)
    runtime.progress(
        Step("discover", f"{counted(found.files, 'file')}, {found.new} new, {found.changed} changed", 1, 1)
    )
    return found


def finish(
    runtime: Runtime,
    recovered: tuple[str, ...],
    discovered: DiscoverReport | None,
    extracted: extract.ExtractReport | None,
    consolidated: ConsolidateOutcome | None,
    hooks: HookWork,
) -> RunReport:
    """Writes the run's row and returns the report."""
    outcome = word_for(extracted, consolidated, cancelled=runtime.cancel.is_set())
    notices = [models.notice(runtime.settings)]
    if isinstance(runtime.meter, Ledger):
        notices += [
            f"No price is set for {name}: only token ceilings hold it (budget.prices)."
            for name in sorted(runtime.meter.unpriced)
        ]
    report = RunReport(
        runtime.run_id,
        outcome,
        recovered,
        discovered,
        extracted,
        consolidated,
        runtime.meter.run_total() if isinstance(runtime.meter, Ledger) else None,
        tuple(filter(None, notices)),
        hooks,
    )
    runtime.store.runs.finish(runtime.run_id, outcome, detail(report) | _whose(runtime))
    if isinstance(consolidated, Published):
        indexing.refresh(runtime)
    return report


async def run_until_stopped(runtime: Runtime, options: Options) -> RunReport:
    """As `run`, with SIGINT and SIGTERM as the stop button: the first one stops in order, a second one at once."""
    with stop_signals(runtime):
        try:
            return await run(runtime, options)
        finally:
            await runtime.close()


@contextmanager
def stop_signals(runtime: Runtime) -> Iterator[None]:
    """Turns the two signals into the run's stop flag while the block runs; only in the main thread.

    The first signal of a kind sets the flag and gives that signal back to who had it before, so a second one does
    what it would have done without us.
    """
    loop = asyncio.get_running_loop()
    former: dict[signal.Signals, Any] = {}

    def give_back(number: signal.Signals) -> None:
        handler = former.pop(number, None)
        if handler is not None:
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def stop(number: signal.Signals) -> None:
        runtime.cancel.set()
        give_back(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        # Windows has no such handlers, other threads may set none: then the caller's own way of stopping stays.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop, number)
            former[number] = handler if handler is not None else signal.SIG_DFL
    try:
        yield
    finally:
        for number in list(former):
            give_back(number)


def word_for(
    extracted: extract.ExtractReport | None, consolidated: ConsolidateOutcome | None, *, cancelled: bool
) -> str:
    """One word for a run; a failure anywhere outweighs what went well."""
    if cancelled or isinstance(consolidated, Stopped) or (extracted is not None and extracted.cancelled):
        return "cancelled"
    if (extracted is not None and extracted.failed) or isinstance(consolidated, Failed):
        return "failed"
    if isinstance(consolidated, Deferred) and consolidated.reason != "off":
        return "deferred"
    if extracted is not None and extracted.deferred:
        return "deferred"
    worked = (extracted is not None and extracted.done) or isinstance(consolidated, Published)
    return "ok" if worked else "nothing"


def detail(report: RunReport) -> dict[str, Any]:
    """The report as plain values: ids, counts and times, no content. For the run's row and `--json`."""
    found, spend = report.discovered, report.spend
    return {
        "run": report.run_id,
        "outcome": report.outcome,
        "recovered": list(report.recovered),
        "hooks": {"uses": report.hooks.uses, "wakes": report.hooks.wakes},
        "discover": None
        if found is None
        else {
            "files": found.files,
            "new": found.new,
            "changed": found.changed,
            "unchanged": found.unchanged,
            "missing": found.missing,
            "unreadable": found.unreadable_count,
            "left_out": found.left_out,
            "skipped": dict(found.skipped),
        },
        "extract": None if report.extracted is None else report.extracted.detail(),
        "consolidate": None if report.consolidated is None else outcome_detail(report.consolidated),
        "spend": None
        if spend is None
        else {
            "requests": spend.requests,
            "input_tokens": spend.input_tokens,
            "output_tokens": spend.output_tokens,
            "money": None if spend.unpriced and not spend.money else spend.money,
            "unpriced": spend.unpriced,
        },
        "notices": list(report.notices),
    }


def outcome_detail(outcome: ConsolidateOutcome) -> dict[str, Any]:
    """A consolidation's outcome: its code and its numbers; rules and lines of violations, no text of the summary."""
    plain: dict[str, Any] = {"code": outcome.code}
    match outcome:
        case Published():
            counts: dict[str, int] = {}
            for change in outcome.changes:
                counts[change.kind] = counts.get(change.kind, 0) + 1
            plain |= {
                "version": outcome.version,
                "sources": outcome.sources,
                "bytes": outcome.bytes,
                "requests": outcome.requests,
                "repairs": outcome.repairs,
                "changes": counts,
                "cap": outcome.cap,
                "left_out": [{"citation": item.citation, "reason": item.reason} for item in outcome.left_out],
            }
        case Deferred():
            plain |= {"reason": outcome.reason, "detail": outcome.detail, "until": iso(outcome.until)}
        case Failed():
            plain |= {
                "error": outcome.error,
                "message": outcome.message,
                "requests": outcome.requests,
                "retry_at": iso(outcome.retry_at),
                "violations": [{"rule": v.rule, "line": v.line} for v in outcome.violations],
            }
        case Unchanged():
            plain["sources"] = outcome.sources
        case _:
            pass
    if isinstance(outcome, Published | Failed) and outcome.transcript:
        plain["transcript"] = list(outcome.transcript)
    return plain


# -- dry run ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would read and may cost at most. `money` is None where a price is unknown."""

    rollouts: tuple[RolloutRow, ...]
    waiting: int
    skipped: dict[str, int]
    sources: int
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "rollouts": [
                {"id": str(row.id), "path": str(row.path), "bytes": row.size, "project": row.project_name}
                for row in self.rollouts
            ],
            "waiting": self.waiting,
            "skipped": self.skipped,
            "sources": self.sources,
            "model": self.model,
            "upper_bound": {
                "requests": self.requests,
                "input_tokens": self.input_tokens,
                "output_tokens": self.output_tokens,
                "money": self.money,
            },
        }


async def plan(runtime: Runtime, options: Options) -> Plan:
    """Lists what would be read [X41] and bounds the cost: every repair and every request of stage 2 used, with full
    windows, or the run's ceilings where they are lower. Calls no model; asks the provider for its window at most."""
    settings = runtime.settings
    look_around(runtime)
    selection = choose(settings, runtime.clock, runtime.store, picks=options.picks)
    wanted = settings.memory.enabled and settings.memory.mode != "off"
    chosen = selection.chosen if wanted and options.extract else ()
    sources = sum(row.kept for row in runtime.store.outputs.all()) + len(runtime.workspace.notes().notes)
    turns = settings.consolidate.max_requests if wanted and options.consolidate and (chosen or sources) else 0
    bound = await _bound(runtime, len(chosen), turns)
    return Plan(
        rollouts=tuple(chosen),
        waiting=selection.waiting,
        skipped={reason.value: count for reason, count in selection.counts().items() if reason.value != "eligible"},
        sources=sources,
        model=models.describe(settings),
        requests=bound.requests,
        input_tokens=bound.input_tokens,
        output_tokens=bound.output_tokens,
        money=bound.money,
    )


@dataclass(frozen=True, slots=True)
class _Bound:
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None


async def _bound(runtime: Runtime, sessions: int, turns: int) -> _Bound:
    """What `sessions` extractions and `turns` requests of the agent cost at most."""
    extracting, budget = runtime.settings.extract, runtime.settings.budget
    window = await runtime.extract_model.window() or extracting.fallback_window
    turn_window = await runtime.consolidate_model.window() or extracting.fallback_window
    # The first request keeps to its share; a repair carries the last answer and its reasons on top.
    asked = int(window * extracting.window_share) + extracting.repairs * window
    answered = (extracting.repairs + 1) * extracting.max_output_tokens
    requests = sessions * (extracting.repairs + 1) + turns
    tokens_in = sessions * asked + turns * turn_window
    tokens_out = sessions * answered + turns * runtime.settings.consolidate.max_output_tokens
    if budget.run_tokens is not None:
        tokens_in, tokens_out = min(tokens_in, budget.run_tokens), min(tokens_out, budget.run_tokens)
    if budget.run_requests is not None:
        requests = min(requests, budget.run_requests)
    return _Bound(requests, tokens_in, tokens_out, _money(runtime, tokens_in, tokens_out))


def _money(runtime: Runtime, tokens_in: int, tokens_out: int) -> float | None:
    """The dearest of the models in play for all tokens: an upper bound. None where one has no price."""
    budget = runtime.settings.budget
    names = {runtime.extract_model.name, runtime.consolidate_model.name} - models.FREE
    prices = [price for name in names if (price := budget.prices.get(name)) is not None]
    if len(prices) < len(names):
        return None
    most = max(((tokens_in * p.input + tokens_out * p.output) / 1_000_000 for p in prices), default=0.0)
    return most if budget.run_money is None else min(most, budget.run_money)
