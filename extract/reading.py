"""One rollout as read for an extraction: its own events, and what is known of it from before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memory.documents import PrintedEvent, anchors, parse_rollout_summary
from memory.errors import UnreadableRollout
from memory.model import Boundary, Event, Tier, Transcript
from memory.redact import Redactor
from memory.runtime import Runtime
from memory.state import RolloutRow
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
    transcript: Transcript
    former: Former | None


def read(runtime: Runtime, row: RolloutRow) -> Reading:
    """Streams the rollout up to where discovery saw its end, so that claim, evidence and boundary agree.

    Raises UnreadableRollout, and WorkspaceError where the former record cannot be read.
    """
    adapter = ADAPTERS[row.id.host]
    transcript = adapter.read(row.path, limit=None if row.path.suffix in COMPRESSED else row.size)
    transcript = _own(runtime, row, lineage.after(transcript, runtime.store.clear_watermark))
    return Reading(transcript, _former(runtime, row, adapter, transcript))


def _own(runtime: Runtime, row: RolloutRow, transcript: Transcript) -> Transcript:
    """Without what a fork or a resumed copy repeats of an elder rollout: counted once, where the elder has it."""
    store = runtime.store
    extracted = [made.rollout for made in store.outputs.all()]
    others = (_elder(elder) for elder in lineage.elders(row, store.rollouts.all(), extracted=extracted))
    return lineage.owned(transcript, others=(other for other in others if other is not None))


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
