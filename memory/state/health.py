"""How memory stands, in words that cannot be mistaken for each other [X23 M4 X11]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from memory.state.base import Tx
from memory.state.intents import IntentRow
from memory.state.jobs import JobRow
from memory.state.outputs import OutputRow
from memory.state.versions import VersionRow
from memory.wording import counted

if TYPE_CHECKING:
    from memory.state.store import Store

HealthState = Literal["never_ran", "empty", "failed", "ok"]


@dataclass(frozen=True, slots=True)
class Health:
    """Facts about consolidation.

    `state`: `never_ran` (no consolidation ever ended), `empty` (it ended, there was nothing to take), `failed`
    (the last one failed, or claims success without its inputs), `ok` (a summary is published).
    `age` is that of the published summary, None where there is none. `unpublished` are the kept outputs, as
    rollout ids, that the published version neither took nor left out with a reason. `problems` are sentences.
    """

    state: HealthState
    age: timedelta | None
    running: bool
    error_code: str | None
    kept: int
    nothing_kept: int
    unpublished: tuple[str, ...]
    open_intents: int
    problems: tuple[str, ...]


def read_health(store: Store) -> Health:
    """One consistent reading of jobs, outputs, versions and intents."""
    with store.read() as tx:
        job = store.jobs.get("consolidate", store.settings.store, tx)
        outputs = store.outputs.all(tx)
        version = store.versions.latest(tx)
        intents = store.intents.pending(tx)
        unfinished = [intent for intent in intents if not _at_work(store, intent, tx)]
    now = store.clock.now()
    kept = [row for row in outputs if row.kept]
    missing = unpublished(kept, version)
    running = job is not None and job.running(now)
    inputs = len(version.manifest.get("inputs", ())) if version is not None else 0
    ended = job is not None and job.done_boundary is not None
    failed = job is not None and not running and job.status in {"failed", "running"}
    hollow = ended and not failed and not running and inputs == 0 and bool(missing)
    problems = []
    if hollow:
        waiting = counted(len(missing), "output waits", "outputs wait")
        problems.append(f"The last consolidation ended well with 0 inputs although {waiting}.")
    if missing:
        problems.append(f"{counted(len(missing), 'output')} not in the published set.")
    if unfinished and not running:
        problems.append(
            f"{counted(len(unfinished), 'step was', 'steps were')} begun and not finished; the next run mends this."
        )
    if failed:
        problems.append(f"The last consolidation failed ({_code(job)}).")
    return Health(
        state=_state(ended=ended, failed=failed or hollow, version=version),
        age=None if version is None else max(now - version.published, timedelta(0)),
        running=running,
        error_code=_code(job) if failed else None,
        kept=len(kept),
        nothing_kept=len(outputs) - len(kept),
        unpublished=tuple(missing),
        open_intents=len(intents),
        problems=tuple(problems),
    )


def _at_work(store: Store, intent: IntentRow, tx: Tx) -> bool:
    """An extraction that is storing its result right now."""
    job = store.jobs.get("extract", intent.job_key, tx) if intent.kind == "extract" else None
    return job is not None and job.running(store.clock.now())


def _state(*, ended: bool, failed: bool, version: VersionRow | None) -> HealthState:
    if failed:
        return "failed"
    if version is not None:
        return "ok"
    return "empty" if ended else "never_ran"


def _code(job: JobRow | None) -> str:
    return (job.error_code if job is not None else None) or "lease_expired"


def unpublished(kept: list[OutputRow], version: VersionRow | None) -> list[str]:
    """Rollout ids whose present output the version neither took (same hash) nor left out."""
    manifest: dict[str, Any] = {} if version is None else version.manifest
    taken = {item["citation"]: item["sha256"] for item in manifest.get("inputs", ())}
    left_out = {item["citation"] for item in manifest.get("left_out", ())}
    return [
        str(row.rollout)
        for row in kept
        if not _among(row.rollout.citation, row.rollout.source_id, left_out)
        and row.sha256 not in {taken.get(row.rollout.citation), taken.get(row.rollout.source_id)}
    ]


def _among(citation: str, source_id: str, names: set[str]) -> bool:
    return citation in names or source_id in names
