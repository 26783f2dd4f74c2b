"""One run: recover, discover, extract, consolidate, record. Plain Python; Prefect wraps it, it never needs Prefect."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import consolidate.run
import extract
from consolidate import publish
from consolidate.outcomes import ConsolidateOutcome, Deferred, Failed, Published, Stopped
from memory import models
from memory.clock import iso
from memory.progress import Step
from memory.runtime import Runtime
from memory.settings import Settings
from memory.state import Ledger, RolloutRow, Spend
from rollouts.discover import DiscoverReport, choose, discover
from rollouts.eligibility import NO_PICKS, Picks


@dataclass(frozen=True, slots=True)
class Options:
    """What of a run is wanted."""

    extract: bool = True
    consolidate: bool = True
    picks: Picks = NO_PICKS


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


NOTHING = Options()


async def run(runtime: Runtime, options: Options = NOTHING) -> RunReport:
    """The whole pipeline once. What goes wrong inside a stage is in the report; only an unusable state raises."""
    runtime.store.runs.start(runtime.run_id, runtime.trigger)
    # 1. What an interrupted run left open is finished or undone before anything else.
    recovered = recover(runtime)
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
    return finish(runtime, recovered, discovered, extracted, consolidated)


def recover(runtime: Runtime) -> tuple[str, ...]:
    """Finishes or undoes interrupted publishes and ends claims whose process is gone."""
    lines = publish.recover(runtime.settings, runtime.store, runtime.workspace, owner=runtime.owner)
    lines += [f"{job.kind} {job.key}: its process ended without a word" for job in runtime.store.jobs.reap()]
    for line in lines:
        runtime.progress(Step("recover", line))
    return tuple(lines)


def look_around(runtime: Runtime) -> DiscoverReport:
    """Discovery with its steps."""
    found = discover(runtime.settings, runtime.clock, runtime.store, progress=runtime.progress)
    runtime.progress(Step("discover", f"{found.files} files, {found.new} new, {found.changed} changed", 1, 1))
    return found


def finish(
    runtime: Runtime,
    recovered: tuple[str, ...],
    discovered: DiscoverReport | None,
    extracted: extract.ExtractReport | None,
    consolidated: ConsolidateOutcome | None,
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
    )
    runtime.store.runs.finish(runtime.run_id, outcome, detail(report))
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
    """Turns the two signals into the run's stop flag while the block runs; only in the main thread."""
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if runtime.cancel.is_set():
            loop.remove_signal_handler(number)
        runtime.cancel.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop, number)
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


def word_for(
    extracted: extract.ExtractReport | None, consolidated: ConsolidateOutcome | None, *, cancelled: bool
) -> str:
    """One word for a run; a failure anywhere outweighs what went well."""
    if cancelled or isinstance(consolidated, Stopped):
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
        case _:
            pass
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
    notes: tuple[str, ...] = field(default=())

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
    """Lists what would be read [X41] and bounds the cost: every repair used, every request of stage 2 used."""
    settings = runtime.settings
    look_around(runtime)
    selection = choose(settings, runtime.clock, runtime.store, picks=options.picks)
    chosen = selection.chosen if options.extract else ()
    extracting, consolidating = settings.extract, settings.consolidate
    window = await runtime.extract_model.window() or extracting.fallback_window
    asks = extracting.repairs + 1
    ask_input = int(window * extracting.window_share)
    sources = sum(row.kept for row in runtime.store.outputs.all()) + len(runtime.workspace.notes().notes)
    turns = consolidating.max_requests if options.consolidate and (chosen or sources) else 0
    turn_window = await runtime.consolidate_model.window() or extracting.fallback_window
    requests = asks * len(chosen) + turns
    tokens_in = asks * len(chosen) * ask_input + turns * int(turn_window * extracting.window_share)
    tokens_out = asks * len(chosen) * extracting.max_output_tokens + turns * consolidating.max_output_tokens
    return Plan(
        rollouts=tuple(chosen),
        waiting=selection.waiting,
        skipped={reason.value: count for reason, count in selection.counts().items() if reason.value != "eligible"},
        sources=sources,
        model=models.describe(settings),
        requests=requests,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        money=_money(settings, runtime, tokens_in, tokens_out),
    )


def _money(settings: Settings, runtime: Runtime, tokens_in: int, tokens_out: int) -> float | None:
    """The dearest of the models in play for all tokens: an upper bound."""
    names = {runtime.extract_model.name, runtime.consolidate_model.name} - models.FREE
    prices = [settings.budget.prices.get(name) for name in names]
    if not names:
        return 0.0
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    return max((tokens_in * price.input + tokens_out * price.output) / 1_000_000 for price in known)
