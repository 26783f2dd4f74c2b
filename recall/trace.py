"""From a line of the summary to the moment it came from: claim → source → its bullets → the events of the session."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memory import support
from memory.documents import anchors, claims, parse_rollout_summary, sections, without_marks
from memory.errors import RolloutError, UnknownReference, WorkspaceError
from memory.model import Claim, Event, RolloutId, Tier
from memory.redact import Redactor
from memory.state import JobRow, OutputRow, RolloutRow, Store
from memory.workspace import Workspace
from rollouts.adapters import ADAPTERS

MAX_BULLETS = 3
MAX_EVENT_CHARS = 600


@dataclass(frozen=True, slots=True)
class Moment:
    """One event behind a bullet, redacted and clipped. `spoken` says that a person said it."""

    number: int
    time: datetime | None
    tier: Tier
    text: str

    @property
    def spoken(self) -> bool:
        return self.tier is Tier.HUMAN


@dataclass(frozen=True, slots=True)
class Support:
    """What one cited source contributes: the bullets nearest to the claim and the events they point to."""

    citation: str
    source: str
    path: str
    bullets: tuple[str, ...] = ()
    moments: tuple[Moment, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClaimTrace:
    """A line of the confirmed summary with everything that stands behind it."""

    claim: Claim
    version: int | None
    supports: tuple[Support, ...]


@dataclass(frozen=True, slots=True)
class RolloutTrace:
    """What is known about one rollout: why it is (not) taken, what was made of it, which lines rest on it."""

    row: RolloutRow
    job: JobRow | None
    output: OutputRow | None
    lines: tuple[Claim, ...] = field(default=())
    body: str = ""


Trace = ClaimTrace | RolloutTrace


def read_events(row: RolloutRow) -> tuple[Event, ...]:
    """All events of a rollout. Raises RolloutError, WorkspaceError or OSError when its file cannot be read."""
    return ADAPTERS[row.id.host].read(row.path).events


class Tracer:
    """Answers "why" from the state, the workspace and the rollouts themselves. `redactor` guards every output; `read`
    gives the events of a rollout, for who keeps some that were read a moment ago."""

    def __init__(
        self,
        store: Store,
        workspace: Workspace,
        redactor: Redactor,
        *,
        read: Callable[[RolloutRow], Sequence[Event]] = read_events,
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._redactor = redactor
        self._read = read
        self._events: dict[RolloutId, dict[int, Event]] = {}
        self._sources: list[str] | None = None

    def why(self, reference: str) -> list[Trace]:
        """A rollout id (or its beginning), a citation, a line number of the summary, or words of a line.

        Raises UnknownReference when nothing answers to it.
        """
        text = reference.strip()
        summary = self._workspace.summary() or ""
        found = claims(summary)
        if re.fullmatch(r"\d{1,4}", text):
            return [self.claim(claim) for claim in _at_line(found, int(text))]
        citation = text.strip("[]")
        if re.fullmatch(r"[0-9a-f]{8}|[0-9a-f]{16}", citation):
            by_citation = [row for row in self._rows() if row.id.source_id.startswith(citation)]
            if by_citation:
                return [self.rollout(row) for row in by_citation]
        if citation.startswith("note:"):
            lines = [self.claim(claim) for claim in found if citation in claim.citations]
            if lines:
                return list(lines)
        rows = self.find(text)
        if rows:
            return [self.rollout(row) for row in rows]
        words = support.normalise(text)
        hits = [claim for claim in found if words in support.normalise(claim.text)]
        if words and hits:
            return [self.claim(claim) for claim in hits]
        raise UnknownReference(
            f"Nothing answers to {text[:80]!r}: no rollout, citation, line number or words of the summary.",
            hint="`slowwave sources` lists citations, `slowwave show` the lines.",
        )

    def find(self, text: str) -> list[RolloutRow]:
        """Rollouts whose id, session id or path is, or whose session id begins with, the text (at least 4 letters)."""
        exact = [row for row in self._rows() if text in {str(row.id), row.id.session, str(row.path)}]
        if exact or len(text) < 4:
            return exact
        return [row for row in self._rows() if row.id.session.startswith(text) or str(row.id).startswith(text)]

    def rollout(self, row: RolloutRow) -> RolloutTrace:
        lines = tuple(claim for claim in claims(self._workspace.summary() or "") if _cites(claim, row.id))
        text = self._workspace.rollout_summary(row.id.source_id) or ""
        return RolloutTrace(
            row,
            self._store.jobs.get("extract", str(row.id)),
            self._store.outputs.get(row.id),
            lines,
            self._redactor.redact(text),
        )

    def claim(self, claim: Claim) -> ClaimTrace:
        latest = self._store.versions.latest()
        supports = tuple(self._support(claim, citation) for citation in claim.citations)
        return ClaimTrace(claim, latest.number if latest else None, supports)

    def _rows(self) -> list[RolloutRow]:
        return self._store.rollouts.all()

    def _support(self, claim: Claim, citation: str) -> Support:
        if citation.startswith("note:"):
            note = next((n for n in self._workspace.notes().notes if n.citation == citation), None)
            if note is None:
                return Support(citation, citation, "", problem="the note is gone")
            return Support(citation, citation, note.path, (self._redactor.redact(note.body.strip()),))
        source_id = self._source_id(citation)
        text = self._workspace.rollout_summary(source_id) if source_id else None
        if text is None:
            return Support(citation, citation, "", problem="its rollout summary is gone")
        path = self._workspace.rollout_summary_path(source_id)
        try:
            header, body = parse_rollout_summary(text)
        except ValueError as error:
            return Support(citation, citation, path, problem=f"its rollout summary is damaged: {error}")
        bullets = nearest(claim.text, body)
        numbers = tuple(dict.fromkeys(number for bullet in bullets for number in anchors(bullet)))
        moments, problem = self._moments(header.source, numbers)
        shown = tuple(self._redactor.redact(bullet) for bullet in bullets)
        return Support(citation, str(header.source), path, shown, moments, problem)

    def _source_id(self, citation: str) -> str:
        """The source a citation begins; empty where there is none."""
        if self._sources is None:
            self._sources = sorted(self._workspace.source_ids())
        at = bisect.bisect_left(self._sources, citation)
        return next((name for name in self._sources[at : at + 1] if name.startswith(citation)), "")

    def _moments(self, rollout: RolloutId, numbers: tuple[int, ...]) -> tuple[tuple[Moment, ...], str]:
        if rollout not in self._events:
            row = self._store.rollouts.get(rollout)
            if row is None:
                return (), "the rollout is no longer known"
            try:
                events_read = self._read(row)
            except (RolloutError, WorkspaceError, OSError):
                return (), f"the session file {row.path} can no longer be read"
            self._events[rollout] = {event.number: event for event in events_read}
        events = self._events[rollout]
        found = [events[number] for number in numbers if number in events]
        moments = tuple(Moment(e.number, e.time, e.tier, self._shown(e.text)) for e in found)
        missing = [f"e{number}" for number in numbers if number not in events]
        return moments, f"not in the session file any more: {', '.join(missing)}" if missing else ""

    def _shown(self, text: str) -> str:
        clean = self._redactor.redact(text)
        return clean if len(clean) <= MAX_EVENT_CHARS else clean[:MAX_EVENT_CHARS] + " […]"


def nearest(claim: str, body: str) -> tuple[str, ...]:
    """The bullets of a rollout summary that a claim rests on, best first."""
    bullets = [bullet for found in sections(body).values() for bullet in found]
    scored = sorted(
        ((support.coverage(claim, [without_marks(bullet)]), -place, bullet) for place, bullet in enumerate(bullets)),
        reverse=True,
    )
    if not scored or scored[0][0] == 0:
        return ()
    best = scored[0][0]
    return tuple(bullet for score, _, bullet in scored[:MAX_BULLETS] if score >= best * 0.6)


def _at_line(found: list[Claim], line: int) -> list[Claim]:
    hits = [claim for claim in found if claim.line == line]
    if not found:
        raise UnknownReference("The summary has no lines yet.", hint="Start with: slowwave run")
    if not hits:
        raise UnknownReference(
            f"Line {line} of the summary is not a claim.", hint="`slowwave show --numbers` shows the lines."
        )
    return hits


def _cites(claim: Claim, rollout: RolloutId) -> bool:
    return rollout.citation in claim.citations or rollout.source_id in claim.citations


def cited_sources(summary: str) -> dict[str, int]:
    """Citation -> number of lines that carry it."""
    counts: dict[str, int] = {}
    for claim in claims(summary):
        for citation in claim.citations:
            counts[citation] = counts.get(citation, 0) + 1
    return counts


__all__ = [
    "ClaimTrace",
    "Moment",
    "RolloutTrace",
    "Support",
    "Trace",
    "Tracer",
    "cited_sources",
    "nearest",
    "read_events",
]
