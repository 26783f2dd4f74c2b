"""From a line to the very moment: sources, sessions, and the events of a session a page at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

from extract import Preview, preview
from memory.documents import anchors, parse_rollout_summary, sections, without_marks
from memory.errors import RolloutError, TimeoutModelError, UnknownReference, UnreadableRollout
from memory.model import Event, Reason, SummaryHeader
from memory.runtime import Runtime, open_runtime
from memory.state import RolloutRow
from memory.state.browse import SessionRow, session
from recall.trace import Tracer, read_events

if TYPE_CHECKING:
    from dashboard.desk import Look

SOURCE_ID = r"^([0-9a-f]{8}|[0-9a-f]{16})$"
"""What names a session or a source in an address: nothing of a session's own making."""
EVENTS = 40
MAX_EVENT_CHARS = 4_000
MAX_DERIVED_CHARS = 300
PREVIEW_SECONDS = 20
KEPT = 4
MAX_KEPT_BYTES = 4_000_000
"""Bytes of a session file that is kept; read, it takes several times as much."""


@dataclass(frozen=True, slots=True)
class Source:
    """A rollout summary: its header, and its bullets by heading with the events each points to."""

    header: SummaryHeader
    parts: list[tuple[str, list[tuple[str, tuple[int, ...]]]]]


@dataclass(frozen=True, slots=True)
class Moment:
    """One event as it is shown. `cut` says how many characters are not."""

    number: int
    time: datetime | None
    tier: str
    tool: str
    failed: bool
    why: str
    text: str
    cut: int
    cited: bool


@dataclass(frozen=True, slots=True)
class Moments:
    """A page of events. `before` and `after` are numbers to begin the neighbouring pages with, 0 for none."""

    events: list[Moment]
    total: int
    before: int
    after: int
    missing: list[int]


class Transcripts:
    """The sessions read last, so that leafing through a long one reads it once. Kept in memory alone, and only as long
    as the file is the same; what was forgotten is refused before it is looked for here."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, int, int], tuple[Event, ...]] = OrderedDict()
        self._lock = Lock()

    def read(self, row: RolloutRow) -> tuple[Event, ...]:
        """As `recall.trace.read_events`."""
        status = row.path.stat()
        key = (str(row.path), status.st_size, status.st_mtime_ns, status.st_ino)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        events = read_events(row)
        if status.st_size <= MAX_KEPT_BYTES:
            with self._lock:
                self._kept[key] = events
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return events

    def clear(self) -> None:
        """After a forget or a clear."""
        with self._lock:
            self._kept.clear()


def tracer(look: Look) -> Tracer:
    return Tracer(look.store, look.workspace, look.redactor, read=look.desk.transcripts.read)


def session_of(look: Look, source_id: str) -> SessionRow:
    """Raises UnknownReference."""
    found = session(look.store, source_id)
    if found is None:
        raise UnknownReference("No session is known by this id.", hint="The list of sessions has all.")
    return found


def source_of(look: Look, citation: str) -> Source:
    """Raises UnknownReference where there is no such source, or its file is damaged."""
    name = next((one for one in sorted(look.workspace.source_ids()) if one.startswith(citation)), "")
    text = look.workspace.rollout_summary(name) if name else None
    if text is None:
        raise UnknownReference(
            "This source is gone.", hint="Its session was forgotten, or memory was cleared since this line was written."
        )
    try:
        header, body = parse_rollout_summary(text)
    except ValueError as error:
        raise UnknownReference(f"This source is damaged: {error}.", hint="Run `slowwave doctor`.") from None
    parts = [
        (heading, [(without_marks(bullet), anchors(bullet)) for bullet in bullets])
        for heading, bullets in sections(body).items()
    ]
    return Source(header, parts)


def moments(look: Look, found: SessionRow, cited: frozenset[int], first: int) -> Moments:
    """The events from number `first` on; 0 begins a little before the first cited one.

    Raises UnknownReference for a forgotten session, UnreadableRollout for a file that can no longer be read.
    """
    _not_forgotten(found)
    row = found.row
    try:
        events = look.desk.transcripts.read(row)
    except (RolloutError, OSError):
        raise UnreadableRollout(
            f"The session file {row.path} can no longer be read.", hint="The host may have moved or deleted it."
        ) from None
    numbers = [event.number for event in events]
    start = first or max(min(cited, default=1) - 3, 1)
    at = next((place for place, number in enumerate(numbers) if number >= start), 0)
    shown = events[at : at + EVENTS]
    return Moments(
        events=[_moment(look, event, cited=event.number in cited) for event in shown],
        total=len(events),
        before=numbers[max(at - EVENTS, 0)] if at > 0 else 0,
        after=numbers[at + EVENTS] if at + EVENTS < len(events) else 0,
        missing=sorted(cited.difference(numbers)),
    )


def what_is_sent(look: Look, found: SessionRow) -> Preview:
    """The very messages an extraction would send now. Raises UnknownReference for a forgotten session,
    UnreadableRollout, SettingsError, TimeoutModelError when the provider does not tell its window."""
    _not_forgotten(found)
    with open_runtime(look.settings, clock=look.desk.clock) as runtime:
        return asyncio.run(_preview(runtime, found.row))


async def _preview(runtime: Runtime, row: RolloutRow) -> Preview:
    try:
        return await asyncio.wait_for(preview(runtime, row), PREVIEW_SECONDS)
    except TimeoutError:
        raise TimeoutModelError(
            f"The model's provider did not answer within {PREVIEW_SECONDS} seconds.", hint="Set model.window."
        ) from None
    finally:
        await runtime.close()


def _not_forgotten(found: SessionRow) -> None:
    if found.row.reason is Reason.FORGOTTEN:
        raise UnknownReference(
            "This session was forgotten, so nothing of it is shown.", hint="Its file was not touched."
        )


def _moment(look: Look, event: Event, *, cited: bool) -> Moment:
    # Redacted before it is cut: half a secret is not recognised.
    text = look.redactor.redact(event.text)
    limit = MAX_DERIVED_CHARS if event.derived_from else MAX_EVENT_CHARS
    cut = 0 if cited else max(len(text) - limit, 0)
    return Moment(
        event.number,
        event.time,
        event.tier.value,
        event.tool or "",
        event.ok is False,
        event.derived_from or "",
        text[: len(text) - cut],
        cut,
        cited,
    )
