"""One rollout as read for an extraction: its own events, and what is known of it from before."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from memory.documents import PrintedEvent, anchors, parse_rollout_summary
from memory.errors import UnreadableRollout
from memory.model import Boundary, Event, Host, RolloutId, Tier, Transcript
from memory.redact import Redactor
from memory.runtime import Runtime
from memory.state import RolloutRow, Store
from rollouts import lineage
from rollouts.adapters import ADAPTERS, Adapter
from rollouts.eligibility import COMPRESSED


@dataclass(frozen=True, slots=True)
class Former:
    """The record that stands for the part up to `boundary`. `body` is empty where nothing was worth keeping.

    `events` are the events its anchors name, as the rollout has them now, redacted: what is taken over from the
    record must still be provable.
    """

    boundary: Boundary
    body: str = ""
    slug: str = ""
    events: Mapping[int, PrintedEvent] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """`copied` counts the events that an elder rollout owns."""

    transcript: Transcript
    former: Former | None
    copied: int = 0


COPIED = "copied"
"""Key of `OutputRow.coverage`: events of the rollout that an elder owned when it was extracted."""


class Kin:
    """The rollouts known at the start of a batch, by what makes them relatives: asked for once, not per rollout."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()

    def elders(self, row: RolloutRow) -> list[RolloutRow]:
        """Those that may own events of a rollout, see `rollouts.lineage.elders`."""
        with self._lock:
            near = {other.id: other for other in self._near(row)}
        return lineage.elders(row, near.values(), extracted=[name for name in near if self._took_all(name)])

    def _took_all(self, name: RolloutId) -> bool:
        """Whether a rollout was extracted as the owner of all it holds.

        One that left a part to its elder when it was extracted must not count as having taken that part: then nobody
        would.
        """
        made = self._store.outputs.get(name)
        return made is not None and not made.coverage.get(COPIED)

    def _near(self, row: RolloutRow) -> Iterator[RolloutRow]:
        yield row
        if row.started is not None:
            yield from self._by_start[row.id.host, row.started]
        if row.fingerprint:
            yield from self._by_words[row.id.host, row.fingerprint]
        seen, origin = {row.id}, row.forked_from
        while origin is not None and origin not in seen and origin in self._by_id:
            seen.add(origin)
            yield self._by_id[origin]
            origin = self._by_id[origin].forked_from

    @cached_property
    def _by_id(self) -> dict[RolloutId, RolloutRow]:
        return {row.id: row for row in self._store.rollouts.all()}

    @cached_property
    def _by_start(self) -> Mapping[tuple[Host, datetime], list[RolloutRow]]:
        found: defaultdict[tuple[Host, datetime], list[RolloutRow]] = defaultdict(list)
        for row in self._by_id.values():
            if row.started is not None:
                found[row.id.host, row.started].append(row)
        return found

    @cached_property
    def _by_words(self) -> Mapping[tuple[Host, str], list[RolloutRow]]:
        found: defaultdict[tuple[Host, str], list[RolloutRow]] = defaultdict(list)
        for row in self._by_id.values():
            found[row.id.host, row.fingerprint].append(row)
        return found


def read(runtime: Runtime, row: RolloutRow, kin: Kin) -> Reading:
    """Streams the rollout up to where discovery saw its end, so that claim, evidence and boundary agree.

    What a fork or a resumed copy repeats of an elder counts once, where the elder has it; what was said before a
    clear is gone. Raises UnreadableRollout, and WorkspaceError where the former record cannot be read.
    """
    adapter = ADAPTERS[row.id.host]
    transcript = adapter.read(row.path, limit=None if row.path.suffix in COMPRESSED else row.size)
    cleared = runtime.store.meta.cleared(str(row.id))
    transcript = lineage.after(transcript, cleared.watermark, end=cleared.end_in(row.inode, row.fingerprint))
    others = (_elder(elder) for elder in kin.elders(row))
    transcript = lineage.owned(transcript, others=[other for other in others if other is not None])
    copied = sum(event.derived_from == lineage.COPIED for event in transcript.events)
    return Reading(transcript, _former(runtime, row, adapter, transcript), copied)


def _elder(row: RolloutRow) -> lineage.EventKeys | None:
    """Its keys; None where the file went or broke: then nothing of it can be told apart, and the copy counts."""
    try:
        return lineage.keys_of(ADAPTERS[row.id.host].read(row.path))
    except (UnreadableRollout, OSError):
        return None


def _former(runtime: Runtime, row: RolloutRow, adapter: Adapter, transcript: Transcript) -> Former | None:
    """What was extracted before, if the rollout still begins with exactly that [Z084]; else it is read anew."""
    made = runtime.store.outputs.get(row.id)
    if made is None or made.generation != runtime.store.generation or made.boundary.offset == 0:
        return None
    if made.boundary.offset > transcript.boundary.offset:
        return None
    if adapter.read(row.path, limit=made.boundary.offset).boundary != made.boundary:
        return None
    if not made.kept:
        return Former(made.boundary)
    text = runtime.workspace.rollout_summaries().get(row.id.source_id)
    if text is None:
        return None
    try:
        header, body = parse_rollout_summary(text)
    except ValueError:
        return None
    return Former(made.boundary, body, header.slug, _events(transcript, body, runtime.redactor))


def _events(transcript: Transcript, body: str, redactor: Redactor) -> dict[int, PrintedEvent]:
    wanted = set(anchors(body))
    found = [event for event in transcript.events if event.number in wanted and event.tier is not Tier.DERIVED]
    texts = redactor.redact_many([event.text for event in found])
    return {event.number: _printed(event, text) for event, text in zip(found, texts, strict=True)}


def _printed(event: Event, text: str) -> PrintedEvent:
    return PrintedEvent(event.number, event.tier, event.kind, text, event.time, event.tool, event.ok)
