"""Coverage, last run, next eligible time, spend: what `slowwave status` tells."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from memory.clock import Clock, iso
from memory.model import Reason
from memory.settings import Settings
from memory.state import CeilingUse, Health, JobRow, Ledger, RunRow, Spend, Store
from memory.wording import counted
from memory.workspace import Workspace
from recall import scope
from recall.doctor import summary


@dataclass(frozen=True, slots=True)
class Coverage:
    """Every rollout seen, once: counts by what became of it. `skipped` is by reason, `failed` by error code."""

    seen: int = 0
    extracted: int = 0
    nothing_worth_keeping: int = 0
    eligible: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    exhausted: int = 0
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """`next_eligible` is when the first rollout that only has to idle or wait becomes eligible.

    `paused` are the names of ceilings that allow no call now, `ceilings` every ceiling that is set with its use.
    `deferred` says what the last run put off and why; `unpriced` names the models whose calls cost nobody knows what.
    `state` is that of `health`, or `broken` where the summary on disk is not fit to be read [M7]; `broken` says why.
    """

    health: Health
    state: str
    broken: tuple[str, ...]
    coverage: Coverage
    last_run: RunRow | None
    next_eligible: datetime | None
    today: Spend
    total: Spend
    by_stage: list[Spend]
    paused: tuple[str, ...]
    ceilings: list[CeilingUse]
    deferred: tuple[str, ...]
    unpriced: tuple[str, ...]
    mode: str
    provider: str
    generation: str
    home: str
    server: str = ""
    """The database server the state lives on, with the schema there; empty: a file in the home."""
    entries: dict[str, int] = field(default_factory=dict)
    """What the memory tools keep in topics, by tier."""


PAUSES = ("budget", "quota")
"""Reasons for which work is put off without spending an attempt."""
_SETTLED = {Reason.UP_TO_DATE, Reason.ELIGIBLE, Reason.BACKOFF, Reason.EXHAUSTED, Reason.CLAIMED}


def read_status(
    settings: Settings, store: Store, clock: Clock, *, provider: str, workspace: Workspace | None = None
) -> Status:
    """Reads the state, and the summary where a workspace is given; opens no rollout and calls no model."""
    ledger = Ledger(store, settings.budget, clock, "status")
    rows = store.rollouts.all()
    outputs = {row.rollout: row for row in store.outputs.all()}
    jobs = {job.key: job for job in store.jobs.all("extract")}
    failed: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    waiting: list[datetime] = []
    for row in rows:
        output = outputs.get(row.id)
        if output is not None:
            counts["extracted" if output.kept else "nothing"] += 1
        job = jobs.get(str(row.id))
        if row.reason is Reason.ELIGIBLE:
            counts["eligible"] += 1
        elif row.reason is Reason.EXHAUSTED:
            counts["exhausted"] += 1
        elif row.reason is not None and row.reason not in _SETTLED:
            skipped[row.reason.value] += 1
        if job is not None and job.status == "failed" and row.reason is not Reason.UP_TO_DATE:
            failed[job.error_code or "unknown"] += 1
        moment = _ready_at(settings, row.reason, row.last_event, job)
        if moment is not None:
            waiting.append(moment)
    last = store.runs.last(1)
    health, broken = store.health(), _broken(store, workspace)
    ceilings = ledger.ceilings()
    return Status(
        health=health,
        state="broken" if broken else health.state,
        broken=broken,
        coverage=Coverage(
            seen=len(rows),
            extracted=counts["extracted"],
            nothing_worth_keeping=counts["nothing"],
            eligible=counts["eligible"],
            failed=dict(sorted(failed.items())),
            exhausted=counts["exhausted"],
            skipped=dict(sorted(skipped.items())),
        ),
        last_run=last[0] if last else None,
        next_eligible=min(waiting, default=None),
        today=ledger.total(days=1),
        total=ledger.total(),
        by_stage=ledger.spend("stage"),
        paused=tuple(dict.fromkeys(one.name for one in ceilings if one.shut)),
        ceilings=ceilings,
        deferred=_deferred(last[0]) if last else (),
        unpriced=tuple(ledger.unpriced_models()),
        mode=settings.memory.mode if settings.memory.enabled else "off",
        provider=provider,
        generation=store.generation,
        home=str(settings.home),
        server=f"{store.place} (schema {store.schema})" if store.schema else "",
        entries=_entries(workspace),
    )


def _entries(workspace: Workspace | None) -> dict[str, int]:
    return dict(Counter(entry.tier for entry in workspace.topics.read().entries)) if workspace is not None else {}


def _broken(store: Store, workspace: Workspace | None) -> tuple[str, ...]:
    """Why sessions get no long memory: the summary is not the version's, or hooks cannot tell that it is."""
    if workspace is None:
        return ()
    found = [f"{one.says}; {one.means}" for one in summary(store, workspace) if one.level == "error"]
    if not found and store.versions.latest() is not None:
        problem = scope.read_published(str(store.settings.home)).problem
        found = [f"{problem}; agents get no long memory"] if problem else []
    return tuple(found)


def _deferred(run: RunRow) -> tuple[str, ...]:
    """What ceilings and quotas put off, once for each sentence, with the number of sessions."""
    extracted, consolidated = run.detail.get("extract") or {}, run.detail.get("consolidate") or {}
    reasons: Counter[str] = Counter(
        f"{one['reason']}: {one['message']}"
        for one in extracted.get("outcomes", ())
        if one.get("code") == "deferred" and one.get("reason") in PAUSES
    )
    lines = [f"{counted(count, 'session')} ({text})" for text, count in reasons.items()]
    if consolidated.get("code") == "deferred" and consolidated.get("reason") in PAUSES:
        until = f", not before {consolidated['until']}" if consolidated.get("until") else ""
        lines.append(f"the consolidation ({consolidated['reason']}: {consolidated['detail']}){until}")
    return tuple(lines)


def _ready_at(
    settings: Settings, reason: Reason | None, last_event: datetime | None, job: JobRow | None
) -> datetime | None:
    if reason is Reason.NOT_IDLE and last_event is not None:
        return last_event + timedelta(hours=settings.extract.idle_hours)
    if reason is Reason.BACKOFF and job is not None:
        return job.retry_at
    return None


def as_json(status: Status) -> dict[str, Any]:
    """The same as plain values for `--json`."""
    health, coverage, last = status.health, status.coverage, status.last_run
    return {
        "memory": {
            "state": status.state,
            "age_seconds": None if health.age is None else round(health.age.total_seconds()),
            "running": health.running,
            "error": health.error_code,
            "problems": [*status.broken, *health.problems],
        },
        "coverage": {
            "seen": coverage.seen,
            "extracted": coverage.extracted,
            "nothing_worth_keeping": coverage.nothing_worth_keeping,
            "eligible": coverage.eligible,
            "failed": coverage.failed,
            "exhausted": coverage.exhausted,
            "skipped": coverage.skipped,
        },
        "last_run": None
        if last is None
        else {
            "id": last.run_id,
            "trigger": last.trigger,
            "started": iso(last.started),
            "finished": iso(last.finished),
            "outcome": last.outcome,
        },
        "next_eligible": iso(status.next_eligible),
        "spend": {"today": spend_json(status.today), "total": spend_json(status.total)},
        "paused_by": list(status.paused),
        "ceilings": [
            {
                "name": one.name,
                "project": one.project or None,
                "of": one.of,
                "limit": one.limit,
                "used": one.used,
                "shut": one.shut,
                "frees": iso(one.frees),
            }
            for one in status.ceilings
        ],
        "deferred": list(status.deferred),
        "unpriced_models": list(status.unpriced),
        "mode": status.mode,
        "provider": status.provider,
        "generation": status.generation,
        "home": status.home,
        "server": status.server or None,
        "entries": status.entries,
    }


def spend_json(spend: Spend) -> dict[str, Any]:
    """One sum. `money` is None when no call had a price and at least one had none."""
    return {
        "requests": spend.requests,
        "input_tokens": spend.input_tokens,
        "output_tokens": spend.output_tokens,
        "money": None if spend.unpriced and not spend.money else round(spend.money, 6),
        "unpriced_calls": spend.unpriced,
        "failed_calls": spend.failed,
    }
