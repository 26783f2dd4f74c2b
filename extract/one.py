"""Stage 1 for one rollout, from the claim to the stored summary."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from extract import reading, storing
from extract.asking import Answer, Task, ask
from extract.lease import kept_alive
from extract.outcomes import Cancelled, Deferred, Exhausted, ExtractOutcome, Failed, Skipped, Stopped
from extract.reading import Kin, Reading
from memory import errors, failpoints
from memory.errors import (
    BudgetExceeded,
    FencedError,
    PermanentModelError,
    QuotaModelError,
    SlowwaveError,
    StateError,
    WorkspaceError,
)
from memory.model import Outcome, RolloutKind, SummaryHeader
from memory.runtime import Runtime
from memory.state import Lease, Refused, RolloutRow
from rollouts.eligibility import OWN, boundary_of
from rollouts.evidence import is_external

failpoints.declare("extract.claimed", "extract.asked")


class InternalError(SlowwaveError):
    """A mistake of ours; the message names exception and place, never content."""

    code = "internal"


async def extract_one(runtime: Runtime, row: RolloutRow, window: int, kin: Kin) -> ExtractOutcome:
    """Claims, reads, asks, checks and stores. Raises StateError when the state itself cannot be used.

    `window` is the model's context window in tokens, `kin` what the batch knows of relatives. Every other trouble is
    an outcome [M74].
    """
    settings = runtime.settings.extract
    lease = runtime.store.jobs.claim(
        "extract",
        str(row.id),
        boundary=boundary_of(row),
        owner=runtime.owner,
        lease_seconds=settings.lease_minutes * 60,
        max_failures=settings.max_failures,
    )
    if isinstance(lease, Refused):
        return Skipped(row.id, lease.reason, lease.until)
    failpoints.hit("extract.claimed")
    try:
        async with kept_alive(runtime, lease, settings.lease_minutes * 60):
            return await _work(runtime, row, lease, window, kin)
    except (asyncio.CancelledError, errors.Cancelled):
        _release(runtime, lease)
        return Cancelled(row.id)
    except FencedError:
        return Skipped(row.id, "fenced")
    except SlowwaveError as error:
        return _ended(runtime, row, lease, error)
    except Exception as error:  # noqa: BLE001 - one bad rollout must not end the batch, and must not be retried for ever
        return _ended(runtime, row, lease, InternalError(_place(error), hint="This is a mistake of slowwave's."))


async def _work(runtime: Runtime, row: RolloutRow, lease: Lease, window: int, kin: Kin) -> ExtractOutcome:
    found = await asyncio.to_thread(reading.read, runtime, row, kin)
    runtime.check_cancelled()
    if found.transcript.header.kind is RolloutKind.OWN:
        # Discovery sees head and tail only; what the whole file shows is recorded for the next time.
        runtime.store.tombstones.add(OWN, str(row.id))
        _release(runtime, lease)
        return Skipped(row.id, "own")
    task = Task(runtime, row, found, header_of(row, found))
    if runtime.settings.rollouts.skip_external and _external(found):
        # What was kept of it before goes too.
        outcome = storing.keep_nothing(replace(task, found=replace(found, former=None)), lease, Answer(asked=False))
        return replace(outcome, external=True)
    answer = await ask(task, window)
    runtime.check_cancelled()
    failpoints.hit("extract.asked")
    return storing.keep(task, lease, answer) if answer.body else storing.keep_nothing(task, lease, answer)


def _external(found: Reading) -> bool:
    """Whether anything in the session came from outside the user's machine."""
    return any(event.tool and is_external(event.tool) for event in found.transcript.events)


def header_of(row: RolloutRow, found: Reading) -> SummaryHeader:
    """All of the header but what the answer tells."""
    transcript = found.transcript
    return SummaryHeader(
        source=row.id,
        project=row.project,
        project_name=row.project_name,
        cwd=row.cwd,
        branch=row.branch,
        started=transcript.header.started or row.started,
        ended=transcript.last_event or row.last_event,
        boundary=transcript.boundary,
        outcome=Outcome.UNCERTAIN,
        slug="",
    )


def _ended(runtime: Runtime, row: RolloutRow, lease: Lease, error: SlowwaveError) -> ExtractOutcome:
    """The next state of a claim by the class of its error [X13]."""
    if isinstance(error, StateError):
        raise error
    if isinstance(error, QuotaModelError):
        _release(runtime, lease)
        return Deferred(row.id, error.code, str(error), error.retry_after)
    if isinstance(error, BudgetExceeded) and not error.alone:
        _release(runtime, lease)
        wait = None if error.frees is None else (error.frees - runtime.clock.now()).total_seconds()
        return Deferred(row.id, error.code, str(error), wait, error.project)
    if isinstance(error, (PermanentModelError, WorkspaceError)):
        # Neither is the rollout's fault: it must not be exhausted by a wrong key or a full disk.
        _release(runtime, lease)
        return Stopped(row.id, error.code, str(error))
    settings = runtime.settings.extract
    retry_at = runtime.clock.now() + timedelta(minutes=settings.backoff_minutes)
    try:
        runtime.store.jobs.fail(lease, error, retry_at)
    except FencedError:
        return Skipped(row.id, "fenced")
    if lease.attempt >= settings.max_failures:
        return Exhausted(row.id, error.code, str(error), lease.attempt)
    return Failed(row.id, error.code, str(error), lease.attempt, retry_at)


def _release(runtime: Runtime, lease: Lease) -> None:
    """Gives the attempt back; a claim that is no longer ours needs nothing."""
    try:
        runtime.store.jobs.release(lease)
    except FencedError:
        return


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown"
    return f"{type(error).__name__} at {where}."
