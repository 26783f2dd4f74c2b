"""What a person asks of a run, as words on a command line or in a form, made into picks."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from memory.clock import SystemClock, parse_iso
from memory.errors import UnknownReference, UsageError
from memory.model import Host, RolloutId
from memory.redact import Redactor
from memory.settings import Settings
from memory.state import Store
from memory.workspace import Workspace
from recall.trace import Tracer
from rollouts.discover import discover
from rollouts.eligibility import Picks


def picks_of(
    settings: Settings, now: datetime, *, since: str, limit: int | None, host: str, rollouts: list[str]
) -> Picks:
    """Raises UsageError or UnknownReference naming the option."""
    if host and host not in {known.value for known in Host}:
        raise UsageError(f"--host {host}: no such host.", hint="Known: codex, claude, pi, generic.")
    return Picks(
        since=parse_since(since, now) if since else None,
        limit=limit,
        hosts=frozenset({Host(host)}) if host else frozenset(),
        rollouts=frozenset(_resolve(settings, rollouts)) if rollouts else frozenset(),
    )


def parse_since(text: str, now: datetime) -> datetime:
    """`60d`, `12h`, `90m` back from now, or a date or time in ISO form (UTC where it names no offset)."""
    match = re.fullmatch(r"([0-9]{1,6})([dhm])", text.strip())
    if match:
        unit = {"d": "days", "h": "hours", "m": "minutes"}[match[2]]
        try:
            return now - timedelta(**{unit: int(match[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    moment = parse_iso(text.strip())
    if moment is None:
        raise UsageError(f"--since {text}: not a length or a date.", hint="Use 60d, 12h or 2026-11-01.")
    return moment


def _resolve(settings: Settings, names: list[str]) -> list[RolloutId]:
    clock = SystemClock()
    found: list[RolloutId] = []
    with Store.open(settings, clock) as store:
        discover(settings, clock, store)
        tracer = Tracer(store, Workspace.open(settings.home, store.generation), Redactor(settings.redact))
        for name in names:
            rows = tracer.find(name)
            if not rows:
                raise UnknownReference(
                    f"--rollout {name}: no session has this id.", hint="Give the id or at least 4 letters of it."
                )
            if len(rows) > 1:
                ids = ", ".join(str(row.id) for row in rows[:4])
                raise UnknownReference(f"--rollout {name}: {len(rows)} sessions begin so ({ids} …).", hint="Type more.")
            found.append(rows[0].id)
    return found
