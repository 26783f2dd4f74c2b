"""Who owns an event that several rollouts hold, and which rollouts belong together.

A fork, a resumed session and a replayed parent repeat another rollout's events. Each is counted once: where its elder
has it. In the copy it stays an event with its number, but is no evidence (`derived_from = "copied_prefix"`).

A copy is told by what cannot be chance:

- the host's own id of the event together with its text, wherever it stands (Pi and Claude keep ids when they copy;
  an id alone is not enough, Pi's have 32 bits);
- a run of at least `MIN_RUN` events from the first one on with the same texts and times;
- where the copy names the other as its origin, a run from the first event on with the same texts: Codex writes a
  replayed history with new times.

Derived events are left out of the runs, for hosts write their own prompts anew. The keys kept of a rollout take 24
bytes an event.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING

from memory.errors import UnreadableRollout
from memory.model import Event, Reason, RolloutId, Tier, Transcript
from rollouts.adapters import ADAPTERS

if TYPE_CHECKING:
    from memory.state import RolloutRow

COPIED = "copied_prefix"
CLEARED = "before_watermark"
MIN_RUN = 2
"""Two sessions started by one script can share their first words and second, not the answer too."""
MAX_ELDERS = 16
"""Other rollouts one rollout is compared with, nearest relatives first."""
_SAID = frozenset({"abandoned_branch", "withdrawn", "rolled_back", "inherited", COPIED, CLEARED})
"""What was said and is no evidence for another reason: it still belongs to the conversation that copies repeat."""
_UNTAKEN = frozenset({Reason.TOO_OLD, Reason.MISSING, Reason.UNREADABLE, Reason.DUPLICATE, Reason.EXHAUSTED})


@dataclass(frozen=True, slots=True)
class EventKeys:
    """What is kept of a rollout to know its events again. `said` and `timed` are in order, `ids` are sorted."""

    id: RolloutId
    ids: array[int]
    said: array[int]
    timed: array[int]

    def has(self, key: int) -> bool:
        """Whether an event with this id and text is in the rollout."""
        at = bisect_left(self.ids, key)
        return at < len(self.ids) and self.ids[at] == key


def keys_of(transcript: Transcript) -> EventKeys:
    """The keys of a rollout's events."""
    ids, said, timed = array("Q"), array("Q"), array("Q")
    for event in transcript.events:
        if event.host_id:
            ids.append(_id_key(event))
        if _comparable(event):
            said.append(_said_key(event))
            timed.append(_timed_key(event))
    return EventKeys(transcript.header.id, array("Q", sorted(ids)), said, timed)


def owned(transcript: Transcript, *, others: Iterable[Transcript | EventKeys]) -> Transcript:
    """The rollout without what its elders own: copied events become derived, numbers and texts stay.

    `others` are elders, as `elders` names them; the rollout itself among them is passed over. The same object comes
    back where nothing was copied.
    """
    copied: set[int] = set()
    named: list[tuple[int, int]] | None = None
    mine = [index for index, event in enumerate(transcript.events) if _comparable(event)]
    origins = {transcript.header.forked_from, transcript.header.parent}
    for other in others:
        keys = keys_of(other) if isinstance(other, Transcript) else other
        if keys.id == transcript.header.id:
            continue
        if keys.ids:
            if named is None:
                named = [(index, _id_key(event)) for index, event in enumerate(transcript.events) if event.host_id]
            copied.update(index for index, key in named if keys.has(key))
        run = _run(transcript.events, mine, keys.timed, _timed_key)
        if run < MIN_RUN or transcript.events[mine[0]].time is None:
            run = 0
        if keys.id in origins:
            run = max(run, _run(transcript.events, mine, keys.said, _said_key))
        copied.update(mine[:run])
    return _demoted(transcript, copied, COPIED)


def after(transcript: Transcript, watermark: datetime | None, *, end: int = 0) -> Transcript:
    """The rollout without what was said at or before the clear: those events become derived [Z022 Z115].

    An event without a time has that of the one before it; one at the start without any counts as cleared. So does
    every event of the first `end` bytes, which stood there at the clear: a clock that was set back in the middle of a
    session gives times that prove nothing.
    """
    if watermark is None:
        return transcript
    cleared: set[int] = set()
    last: datetime | None = None
    for index, event in enumerate(transcript.events):
        last = event.time or last
        if last is None or last <= watermark or event.offset < end:
            cleared.add(index)
    return _demoted(transcript, cleared, CLEARED)


def elders(row: RolloutRow, rows: Iterable[RolloutRow], *, extracted: Iterable[RolloutId] = ()) -> list[RolloutRow]:
    """Rollouts that may own events of `row`, at most `MAX_ELDERS`: its origins first, then likely twins by age.

    `extracted` are rollouts with an output. Candidates are the chain of forks, and rollouts of the same host that
    began at the same moment, or in the same folder with the same first words. Of two the elder is the origin, else
    the one extracted already, else the one that began first, else the one with the smaller id.

    A candidate that will not be extracted (too old, gone, damaged, given up) and was not, owns nothing: its events
    count in the copy, once and not never. One that was forgotten or cleared still owns its events, else they would
    come back through the copy.
    """
    done = frozenset(extracted)
    by_id = {other.id: other for other in rows}
    chain = _chain(row, by_id)
    near = {other.id for other in chain}
    rank = _seniority(row, done)
    twins = [
        other
        for other in by_id.values()
        if other.id not in near and _may_be_twin(row, other) and _seniority(other, done) < rank
    ]
    twins.sort(key=lambda other: (other.started != row.started, _seniority(other, done)))
    found = [other for other in (*chain, *twins) if other.reason not in _UNTAKEN or other.id in done]
    return found[:MAX_ELDERS]


def families(rows: Iterable[RolloutRow]) -> dict[RolloutId, tuple[RolloutRow, ...]]:
    """Root session -> the subagents that worked for it, at any depth, eldest first [X15].

    A subagent whose parent is not among the rows is a root's child under the parent's id all the same.
    """
    by_id = {row.id: row for row in rows}
    found: dict[RolloutId, list[RolloutRow]] = {}
    for row in by_id.values():
        root, seen = row, {row.id}
        top = row.id
        while root.parent is not None and root.parent not in seen:
            top = root.parent
            seen.add(top)
            if top not in by_id:
                break
            root = by_id[top]
        if top != row.id:
            found.setdefault(top, []).append(row)
    return {top: tuple(sorted(children, key=_age)) for top, children in found.items()}


def read_own(
    row: RolloutRow,
    rows: Iterable[RolloutRow],
    *,
    extracted: Iterable[RolloutId] = (),
    watermark: datetime | None = None,
    limit: int | None = None,
) -> Transcript:
    """Reads a rollout as it may be extracted: without what its elders own, without what was cleared.

    The one function here that opens files: this rollout's and its elders', one after the other, keeping only their
    keys. An elder that cannot be read owns nothing and is named in the report's notes. Raises UnreadableRollout.
    """
    transcript = ADAPTERS[row.id.host].read(row.path, limit=limit)
    known: list[EventKeys] = []
    for elder in elders(row, rows, extracted=extracted):
        try:
            known.append(keys_of(ADAPTERS[elder.id.host].read(elder.path)))
        except UnreadableRollout:
            transcript.report.notes.append(f"{elder.id} could not be read; what it may share was not left out")
    return after(owned(transcript, others=known), watermark)


# -- relatives -----------------------------------------------------------------------------------------


def _chain(row: RolloutRow, by_id: Mapping[RolloutId, RolloutRow]) -> list[RolloutRow]:
    """The rollouts this one was forked from, nearest first; a ring ends it."""
    found: list[RolloutRow] = []
    seen = {row.id}
    origin = row.forked_from
    while origin is not None and origin not in seen and origin in by_id:
        seen.add(origin)
        found.append(by_id[origin])
        origin = by_id[origin].forked_from
    return found


def _may_be_twin(row: RolloutRow, other: RolloutRow) -> bool:
    if other.id == row.id or other.id.host is not row.id.host or other.forked_from == row.id:
        return False
    if row.started is not None and row.started == other.started:
        return True
    return bool(row.fingerprint) and row.fingerprint == other.fingerprint and row.cwd == other.cwd


def _seniority(row: RolloutRow, extracted: Set[RolloutId]) -> tuple[bool, datetime, RolloutId]:
    return row.id not in extracted, *_age(row)


def _age(row: RolloutRow) -> tuple[datetime, RolloutId]:
    return row.started or datetime.max.replace(tzinfo=UTC), row.id


# -- keys ----------------------------------------------------------------------------------------------


def _comparable(event: Event) -> bool:
    """Events that the conversation consists of; an abandoned branch is part of it, a system prompt is not."""
    return event.tier is not Tier.DERIVED or event.derived_from in _SAID


def _id_key(event: Event) -> int:
    return _hash(event.host_id or "", event.kind.value, event.call_id or "", event.text)


def _said_key(event: Event) -> int:
    return _hash(event.kind.value, event.tool or "", event.text)


def _timed_key(event: Event) -> int:
    time = "" if event.time is None else event.time.isoformat()
    return _hash(event.kind.value, event.tool or "", event.text, time)


def _hash(*parts: str) -> int:
    digest = blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest(), "big")


def _run(events: Sequence[Event], mine: Sequence[int], theirs: Sequence[int], key: Callable[[Event], int]) -> int:
    """How many events from the first on are the same in both."""
    length = 0
    for index, other in zip(mine, theirs, strict=False):
        if key(events[index]) != other:
            break
        length += 1
    return length


def _demoted(transcript: Transcript, indexes: Set[int], reason: str) -> Transcript:
    """With the events at these places made derived; what was derived before keeps its reason."""
    if not indexes:
        return transcript
    events = tuple(
        replace(event, tier=Tier.DERIVED, derived_from=reason)
        if index in indexes and event.tier is not Tier.DERIVED
        else event
        for index, event in enumerate(transcript.events)
    )
    return replace(transcript, events=events)
