"""Which rollouts are taken now, and why every other one is not. Pure: time, limits and state are arguments.

One reason each. The first that holds wins, in this order; a reason the user gave stands before one we found, what
stands in the file before what the clock says, and finished work before waiting:

 1. `forgotten`          the user had it forgotten
 2. `own`                a session of ours: kind, or recorded id [Z068 X5]
 3. `missing`, `unreadable`, `duplicate`   as discovery found the file
 4. `host_off`           the host is not in `rollouts.hosts`
 5. `subagent`, `auxiliary`, `diagnostic`, `archived`   what sort of session it is [Z067-Z070]
 6. `exec_off`           nobody sat at the keyboard and `rollouts.exec_sessions` is off
 7. `before_watermark`   nothing in it is newer than the last clear [Z022 Z115]
 8. `no_user_text`       the person said nothing
 9. `up_to_date`         all of it was extracted
10. `claimed`, `exhausted`, `backoff`      as the job says, at this boundary only
11. `not_idle`           it is live, or its last event is younger than `extract.idle_hours` [Z064]
12. `too_old`            its last event is older than `extract.max_age_days` [Z063]
13. `eligible`

Activity is the time of the last real event; the file's mtime stands in only where no event has a time, for copying,
syncing and compressing change it. An event a little ahead of our clock counts as now; one more than a day ahead is
not believed and the mtime, at most now, stands in, so that a wrong clock cannot keep a session waiting for years.

Picking a rollout by hand passes over `archived`, `exec_off`, `host_off`, `not_idle` and `too_old`, never over the
rest. What failed too often is re-armed in the state, not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from memory.clock import minutes
from memory.model import Host, Reason, RolloutId, RolloutKind
from memory.settings import ExtractSettings, RolloutSettings
from memory.wording import counted

if TYPE_CHECKING:
    from memory.state import JobRow, OutputRow, RolloutRow

SKEW = timedelta(days=1)
"""How far ahead of our clock a session's own time is still believed."""
COMPRESSED = (".zst", ".gz")
OWN = "own"
"""Tombstone kind of sessions we started ourselves; the key is the rollout id as text."""
FORGOTTEN = "rollout"
"""Tombstone kind of sessions the user had forgotten; the key is the rollout id as text."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_KIND_REASONS = {
    RolloutKind.SUBAGENT: Reason.SUBAGENT,
    RolloutKind.AUXILIARY: Reason.AUXILIARY,
    RolloutKind.DIAGNOSTIC: Reason.DIAGNOSTIC,
    RolloutKind.ARCHIVED: Reason.ARCHIVED,
}
_KIND_DETAILS = {
    Reason.AUXILIARY: "a helper's session of the host, not a task of the user",
    Reason.DIAGNOSTIC: "diagnostic material, not a task of the user",
    Reason.ARCHIVED: "the user archived it",
}
_FOUND_BY_DISCOVERY = frozenset({Reason.MISSING, Reason.UNREADABLE, Reason.DUPLICATE})
_REFUSALS = {"running": Reason.CLAIMED, "exhausted": Reason.EXHAUSTED, "backoff": Reason.BACKOFF}


class Verdict(NamedTuple):
    """`until` is when waiting may end: idle time over, back-off over, lease over; None where time changes nothing."""

    reason: Reason
    detail: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Picks:
    """What the user asked for by hand. `since` takes the place of `extract.max_age_days`, `limit` of `extract.batch`.

    `hosts` and `rollouts` narrow the choice; empty means all. Rollouts named here are taken though not idle or old.
    """

    since: datetime | None = None
    limit: int | None = None
    hosts: frozenset[Host] = frozenset()
    rollouts: frozenset[RolloutId] = frozenset()


NO_PICKS = Picks()


@dataclass(frozen=True, slots=True)
class Selection:
    """The answer of `select`.

    `chosen` is what to extract now, newest activity first. `verdicts` covers every row looked at. `waiting` counts
    eligible rollouts beyond the batch, `unscanned` rows beyond `extract.scan_limit` (the oldest), `unknown` names
    picks no row answers to, `next_check` is the earliest moment at which time alone makes a rollout eligible.
    """

    chosen: tuple[RolloutRow, ...] = ()
    verdicts: dict[RolloutId, Verdict] = field(default_factory=dict)
    waiting: int = 0
    unscanned: int = 0
    unknown: tuple[RolloutId, ...] = ()
    next_check: datetime | None = None

    def counts(self) -> dict[Reason, int]:
        """Rows looked at, by reason."""
        found: dict[Reason, int] = {}
        for verdict in self.verdicts.values():
            found[verdict.reason] = found.get(verdict.reason, 0) + 1
        return found


def boundary_of(row: RolloutRow) -> str:
    """The boundary key of extract jobs: `<size in bytes>:<first 8 of the fingerprint>`; moves when the file grows."""
    return f"{row.size}:{row.fingerprint[:8]}"


def activity(row: RolloutRow, *, now: datetime) -> datetime | None:
    """When something last happened in a rollout, never later than `now`; None where nothing tells [M36]."""
    if row.last_event is not None and row.last_event <= now + SKEW:
        return min(row.last_event, now)
    written = _mtime(row)
    if written is None:
        return None if row.last_event is None else now
    return min(written, now)


def classify(
    row: RolloutRow,
    *,
    now: datetime,
    extract: ExtractSettings,
    rollouts: RolloutSettings,
    watermark: datetime | None = None,
    job: JobRow | None = None,
    output: OutputRow | None = None,
    tombstones: Set[tuple[str, str]] = frozenset(),
    live: Set[RolloutId] = frozenset(),
    picks: Picks = NO_PICKS,
) -> tuple[Reason, str]:
    """The one reason of a rollout and a short detail without content. `job` is that of kind `extract`.

    `live` are sessions known to be running, whatever their files say.
    """
    verdict = judge(
        row, now=now, extract=extract, rollouts=rollouts, watermark=watermark, job=job, output=output,
        tombstones=tombstones, live=live, picks=picks,
    )  # fmt: skip
    return verdict.reason, verdict.detail


def judge(
    row: RolloutRow,
    *,
    now: datetime,
    extract: ExtractSettings,
    rollouts: RolloutSettings,
    watermark: datetime | None = None,
    job: JobRow | None = None,
    output: OutputRow | None = None,
    tombstones: Set[tuple[str, str]] = frozenset(),
    live: Set[RolloutId] = frozenset(),
    picks: Picks = NO_PICKS,
) -> Verdict:
    """As `classify`, with the moment at which waiting ends."""
    picked = row.id in picks.rollouts
    return (
        _by_identity(row, tombstones)
        or _by_kind(row, rollouts, picked=picked)
        or _by_content(row, watermark, now)
        or _by_work(row, job, output, extract, now)
        or (None if picked else _by_time(row, extract, live, picks, now))
        or Verdict(Reason.ELIGIBLE, "picked by hand" if picked else "")
    )


def select(
    rows: Iterable[RolloutRow],
    *,
    now: datetime,
    extract: ExtractSettings,
    rollouts: RolloutSettings,
    watermark: datetime | None = None,
    jobs: Mapping[str, JobRow] | None = None,
    outputs: Mapping[RolloutId, OutputRow] | None = None,
    tombstones: Set[tuple[str, str]] = frozenset(),
    live: Set[RolloutId] = frozenset(),
    picks: Picks = NO_PICKS,
    paused: Set[str] = frozenset(),
) -> Selection:
    """The newest eligible rollouts, at most a batch of them [Z065], out of at most `extract.scan_limit` rows [Z066].

    `jobs` by rollout id as text, `outputs` by rollout id. Rollouts picked by hand are looked at whatever the bound
    and all taken, unless `limit` says otherwise; other rows are then not looked at. Rows of the projects in `paused`
    stay eligible and wait: they must not hold the places of others [O1].
    """
    looked_at, unscanned = _bounded(rows, extract.scan_limit, picks, now)
    verdicts = {
        row.id: judge(
            row, now=now, extract=extract, rollouts=rollouts, watermark=watermark,
            job=(jobs or {}).get(str(row.id)), output=(outputs or {}).get(row.id),
            tombstones=tombstones, live=live, picks=picks,
        )
        for row in looked_at
    }  # fmt: skip
    eligible = [row for row in looked_at if verdicts[row.id].reason is Reason.ELIGIBLE]
    size = picks.limit if picks.limit is not None else max(extract.batch, len(picks.rollouts))
    moments = [verdict.until for verdict in verdicts.values() if verdict.until is not None and verdict.until > now]
    free = [row for row in eligible if row.project not in paused]
    return Selection(
        chosen=tuple(free[:size]),
        verdicts=verdicts,
        waiting=len(eligible) - len(free[:size]),
        unscanned=unscanned,
        unknown=tuple(sorted(picks.rollouts - verdicts.keys())),
        next_check=min(moments, default=None),
    )


def _bounded(rows: Iterable[RolloutRow], limit: int, picks: Picks, now: datetime) -> tuple[list[RolloutRow], int]:
    """Rows in scope, newest activity first and by id where equal, and how many the bound left out."""
    wanted = [
        row
        for row in rows
        if (not picks.hosts or row.id.host in picks.hosts) and (not picks.rollouts or row.id in picks.rollouts)
    ]
    oldest = datetime.min.replace(tzinfo=UTC)
    wanted.sort(key=lambda row: row.id)
    wanted.sort(key=lambda row: activity(row, now=now) or oldest, reverse=True)
    if picks.rollouts:
        return wanted, 0
    return wanted[:limit], max(0, len(wanted) - limit)


def _by_identity(row: RolloutRow, tombstones: Set[tuple[str, str]]) -> Verdict | None:
    name = str(row.id)
    if (FORGOTTEN, name) in tombstones:
        return Verdict(Reason.FORGOTTEN, "forgotten at the user's wish")
    if row.kind is RolloutKind.OWN:
        return Verdict(Reason.OWN, row.detail if row.reason is Reason.OWN else "a session of slowwave itself")
    if (OWN, name) in tombstones:
        return Verdict(Reason.OWN, "recorded as started by slowwave")
    if row.reason in _FOUND_BY_DISCOVERY and row.reason is not None:
        return Verdict(row.reason, row.detail)
    return None


def _by_kind(row: RolloutRow, settings: RolloutSettings, *, picked: bool) -> Verdict | None:
    host = row.id.host.value
    if not picked and host not in settings.hosts:
        return Verdict(Reason.HOST_OFF, f"{host} is not in rollouts.hosts")
    if row.kind is RolloutKind.SUBAGENT:
        whose = f"of {row.parent}" if row.parent else "of another session"
        return Verdict(Reason.SUBAGENT, f"a subagent {whose}, which carries its findings")
    reason = _KIND_REASONS.get(row.kind)
    if reason is not None and not (picked and reason is Reason.ARCHIVED):
        return Verdict(reason, _KIND_DETAILS[reason])
    if not picked and row.kind is RolloutKind.EXEC and not settings.exec_sessions:
        return Verdict(Reason.EXEC_OFF, "started without a person, and rollouts.exec_sessions is off")
    return None


def _by_content(row: RolloutRow, watermark: datetime | None, now: datetime) -> Verdict | None:
    if watermark is not None and not _newer(row, watermark, now):
        return Verdict(Reason.BEFORE_WATERMARK, f"nothing newer than the clear of {minutes(watermark)}")
    if row.user_chars == 0 and row.report.get("whole", True):
        return Verdict(Reason.NO_USER_TEXT, "no words of a person in it")
    return None


def _newer(row: RolloutRow, watermark: datetime, now: datetime) -> bool:
    """Whether something may be newer than the watermark: both the event times and the file's own must say so."""
    written = _mtime(row)
    if written is not None and written <= watermark:
        return False
    last = row.last_event if row.last_event is not None else activity(row, now=now)
    return last is not None and last > watermark


def _by_work(
    row: RolloutRow, job: JobRow | None, output: OutputRow | None, extract: ExtractSettings, now: datetime
) -> Verdict | None:
    refused = None
    if job is not None:
        refused = job.refusal(boundary_of(row), now=now, max_failures=extract.max_failures)
    if (refused is not None and refused.reason == "up_to_date") or (output is not None and _covers(output, row)):
        return Verdict(Reason.UP_TO_DATE, "extracted to its end")
    if job is None or refused is None or refused.reason not in _REFUSALS:
        return None
    reason = _REFUSALS[refused.reason]
    code = f" ({job.error_code})" if job.error_code else ""
    until = minutes(refused.until)
    detail = {
        Reason.CLAIMED: f"being extracted by {job.owner}",
        Reason.EXHAUSTED: f"failed {counted(job.attempts, 'time')}{code}; waits until the session goes on",
        Reason.BACKOFF: f"failed {job.attempts} of {extract.max_failures} times{code}; again from {until}",
    }[reason]
    return Verdict(reason, detail, refused.until)


def _covers(output: OutputRow, row: RolloutRow) -> bool:
    """The output reaches the end of the file; a compressed copy is known by its times, for its size says nothing."""
    if row.path.suffix in COMPRESSED:
        return row.last_event is not None and output.ended is not None and row.last_event <= output.ended
    return 0 < row.size == output.boundary.offset


def _by_time(
    row: RolloutRow, extract: ExtractSettings, live: Set[RolloutId], picks: Picks, now: datetime
) -> Verdict | None:
    if row.id in live:
        return Verdict(Reason.NOT_IDLE, "the session is running")
    last = activity(row, now=now)
    if last is None:
        return Verdict(Reason.TOO_OLD, "neither its events nor its file have a time")
    ready = last + timedelta(hours=extract.idle_hours)
    if now < ready:
        ahead = " (the session's clock is ahead of ours)" if row.last_event and row.last_event > now else ""
        return Verdict(Reason.NOT_IDLE, f"last event {minutes(last)}; idle at {minutes(ready)}{ahead}", ready)
    if picks.since is not None:
        return (
            Verdict(Reason.TOO_OLD, f"last event {minutes(last)}, before {minutes(picks.since)}")
            if last < picks.since
            else None
        )
    if last < now - timedelta(days=extract.max_age_days):
        return Verdict(Reason.TOO_OLD, f"last event {minutes(last)}, more than {extract.max_age_days:g} days ago")
    return None


def _mtime(row: RolloutRow) -> datetime | None:
    """None for times no file was ever written at (0, negative, beyond what a datetime holds)."""
    if row.mtime_ns <= 0:
        return None
    try:
        return _EPOCH + timedelta(microseconds=row.mtime_ns // 1000)
    except OverflowError:
        return None
