"""One run: recover, discover, extract, consolidate, record. Plain Python; Prefect wraps it, it never needs Prefect."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import consolidate.run
import extract
from consolidate import publish
from consolidate.outcomes import ConsolidateOutcome, Deferred, Failed, Published, Stopped
from memory.progress import Step
from memory.runtime import Runtime
from memory.state import Ledger, Spend
from rollouts.discover import DiscoverReport, discover
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
    recovered: tuple[str, ...]
    discovered: DiscoverReport | None
    extracted: extract.ExtractReport | None
    consolidated: ConsolidateOutcome | None
    spend: Spend | None


async def run(runtime: Runtime, options: Options = Options()) -> RunReport:
    """The whole pipeline once. What goes wrong inside a stage is in the report; only an unusable state raises."""
    runtime.store.runs.start(runtime.run_id, runtime.trigger)
    # 1. What an interrupted run left open is finished or undone before anything else.
    recovered = tuple(publish.recover(runtime.settings, runtime.store, runtime.workspace, owner=runtime.owner))
    for line in recovered:
        runtime.progress(Step("recover", line))
    discovered = extracted = consolidated = None
    if options.extract:
        # 2. Which sessions are there?
        discovered = discover(runtime.settings, runtime.clock, runtime.store, progress=runtime.progress)
        # 3. Stage 1: one summary for each idle session.
        extracted = await extract.run(runtime, picks=options.picks)
    # 4. Stage 2: one summary of all; a stopped run stops here.
    if options.consolidate and not runtime.cancel.is_set():
        consolidated = await consolidate.run.run(runtime)
    # 5. The run's row says how it went.
    outcome = word_for(extracted, consolidated, cancelled=runtime.cancel.is_set())
    report = RunReport(
        runtime.run_id,
        outcome,
        recovered,
        discovered,
        extracted,
        consolidated,
        runtime.meter.run_total() if isinstance(runtime.meter, Ledger) else None,
    )
    runtime.store.runs.finish(runtime.run_id, outcome, detail(report))
    return report


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
