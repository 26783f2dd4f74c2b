"""Stage 1 as one story: which sessions, how large a window, each of them, what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from extract.one import extract_one
from extract.outcomes import Cancelled, Deferred, ExtractOutcome, ExtractReport, Stopped, sentence
from extract.reading import Kin
from memory import errors, models
from memory.model import RolloutId
from memory.progress import Step
from memory.runtime import Runtime
from memory.state import RolloutRow
from memory.wording import counted
from rollouts.discover import choose
from rollouts.eligibility import NO_PICKS, Picks, Selection, classify

OWN_SESSION = "slowwave started the session this process belongs to (SLOWWAVE_OWN_SESSION): nothing runs in it."
Work = Callable[[], Awaitable[ExtractOutcome]]
Each = Callable[[RolloutId, Work], Awaitable[ExtractOutcome]]
"""Carries out one rollout's work and returns its outcome; a scheduler puts its own task around it."""


async def plainly(rollout: RolloutId, work: Work) -> ExtractOutcome:
    """The work as it is."""
    del rollout
    return await work()


async def run(
    runtime: Runtime, *, picks: Picks = NO_PICKS, selection: Selection | None = None, each: Each = plainly
) -> ExtractReport:
    """Extracts one batch of what discovery found and says how each rollout ended.

    `selection` is taken as it is where a caller has one (a dry run's, say). Raises StateError when the state cannot
    be used, and asyncio.CancelledError when the task itself is cancelled; then every claim was given back.
    """
    # 1. Is it wanted at all?
    off = _not_wanted(runtime)
    if off:
        return ExtractReport(off=off)
    # 2. Which sessions: idle, young enough, not done, at most a batch [Z063-Z070].
    if selection is None:
        selection = choose(runtime.settings, runtime.clock, runtime.store, picks=picks)
    if not selection.chosen:
        return _report(runtime, selection, ())
    # 3. How much fits: the model's own window, or a cautious guess [Z075 Z076].
    try:
        window = await runtime.or_stop(runtime.extract_model.window()) or runtime.settings.extract.fallback_window
    except errors.Cancelled:
        return _report(runtime, selection, [Cancelled(row.id) for row in selection.chosen])
    # 4. Each of them, a few at a time; one that fails never holds up the others [M76].
    rows, outcomes = selection.chosen, await _extract_all(runtime, selection.chosen, window, each)
    # 5. Where a project has used up its day, sessions of other projects take the free places.
    while more := _others(runtime, picks, rows, outcomes):
        rows, selection = rows + more.chosen, replace(selection, waiting=more.waiting)
        outcomes += await _extract_all(runtime, more.chosen, window, each)
    # 6. What `status` and `why` will say about them.
    _store_reasons(runtime, rows)
    return _report(runtime, selection, outcomes)


def _others(
    runtime: Runtime, picks: Picks, rows: Sequence[RolloutRow], outcomes: Sequence[ExtractOutcome]
) -> Selection | None:
    """The next choice without the projects whose ceiling was met; None where there is nothing to add."""
    paused = {outcome.project for outcome in outcomes if isinstance(outcome, Deferred)}
    free = sum(isinstance(outcome, Deferred) for outcome in outcomes)
    begun = len(outcomes) - free
    if not paused or "" in paused or picks.rollouts or runtime.cancel.is_set():
        return None
    size = picks.limit if picks.limit is not None else runtime.settings.extract.batch
    if begun >= size:
        return None
    wanted = replace(picks, limit=size - begun)
    more = choose(runtime.settings, runtime.clock, runtime.store, picks=wanted, paused=paused)
    known = {row.id for row in rows}
    chosen = tuple(row for row in more.chosen if row.id not in known)
    return replace(more, chosen=chosen) if chosen else None


def _not_wanted(runtime: Runtime) -> str:
    memory = runtime.settings.memory
    if runtime.settings.own_session:
        return OWN_SESSION
    if not memory.enabled or memory.mode == "off":
        return "Memory is switched off (memory.enabled, memory.mode)."
    if runtime.trigger != "manual" and memory.mode != "long":
        return "memory.mode is not long: nothing runs by itself; `slowwave run` works."
    return ""


def _report(runtime: Runtime, selection: Selection, outcomes: Sequence[ExtractOutcome]) -> ExtractReport:
    return ExtractReport(
        outcomes=tuple(outcomes),
        waiting=selection.waiting,
        reasons=selection.counts(),
        unknown=selection.unknown,
        next_check=selection.next_check,
        notice=models.choose(runtime.settings.model, "extract").notice,
    )


@dataclass(slots=True)
class _Batch:
    """What one rollout's end means for those not begun yet: quota and broken settings hold for all of them."""

    halt: Deferred | Stopped | None = None
    paused: dict[str, Deferred] = field(default_factory=dict)
    """By project, where only that project's ceiling was met."""
    done: int = 0

    def saw(self, outcome: ExtractOutcome) -> None:
        self.done += 1
        if isinstance(outcome, Deferred) and outcome.project:
            self.paused.setdefault(outcome.project, outcome)
        elif self.halt is None and isinstance(outcome, (Deferred, Stopped)):
            self.halt = outcome

    def instead(self, row: RolloutRow) -> ExtractOutcome | None:
        match self.halt or self.paused.get(row.project):
            case Deferred() as halt:
                return replace(halt, rollout=row.id)
            case Stopped(error=error, message=message):
                return Stopped(row.id, error, message)
            case None:
                return None


async def _extract_all(runtime: Runtime, rows: Sequence[RolloutRow], window: int, each: Each) -> list[ExtractOutcome]:
    """At most `extract.concurrency` at once; a stop ends all of them within seconds [Z083]."""
    batch, kin, slots = _Batch(), Kin(runtime.store), asyncio.Semaphore(runtime.settings.extract.concurrency)
    runtime.progress(Step("extract", counted(len(rows), "session"), 0, len(rows)))

    async def one(row: RolloutRow) -> ExtractOutcome:
        try:
            async with slots:
                outcome = Cancelled(row.id) if runtime.cancel.is_set() else batch.instead(row)
                if outcome is None:
                    outcome = await each(row.id, partial(extract_one, runtime, row, window, kin))
        except asyncio.CancelledError:
            outcome = Cancelled(row.id)
        batch.saw(outcome)
        runtime.progress(Step("extract", f"{row.id}: {sentence(outcome)}", batch.done, len(rows)))
        return outcome

    tasks = [asyncio.create_task(one(row)) for row in rows]
    stop = asyncio.create_task(runtime.cancel.wait())
    try:
        pending: set[asyncio.Task[ExtractOutcome]] = set(tasks)
        while pending and not stop.done():
            await asyncio.wait({*pending, stop}, return_when=asyncio.FIRST_COMPLETED)
            pending = {task for task in pending if not task.done()}
            if any(task.done() and task.exception() is not None for task in tasks):
                break
    finally:
        for task in (*tasks, stop):
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(stop, return_exceptions=True)
    for result in ended:
        if isinstance(result, BaseException):
            raise result
    return [result for result in ended if not isinstance(result, BaseException)]


def _store_reasons(runtime: Runtime, rows: Sequence[RolloutRow]) -> None:
    """The rollouts' new state, so that nobody has to wait for the next run to read it."""
    store, settings = runtime.store, runtime.settings
    tombstones = store.tombstones.all()
    store.rollouts.set_reasons(
        {
            row.id: classify(
                row,
                now=runtime.clock.now(),
                extract=settings.extract,
                rollouts=settings.rollouts,
                watermark=store.clear_watermark,
                job=store.jobs.get("extract", str(row.id)),
                output=store.outputs.get(row.id),
                tombstones=tombstones,
            )
            for row in rows
        }
    )
