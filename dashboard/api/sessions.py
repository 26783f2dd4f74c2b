"""Sessions for programs: what was seen, what became of it, and what can be done about it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from dashboard import tracing
from dashboard.api import CHANGING
from dashboard.api.models import Answer
from dashboard.api.notes import Forgotten
from dashboard.desk import AnyLook, Look
from dashboard.shown import plain
from memory.model import Reason
from memory.state.browse import SessionRow, Wanted, sessions

router = APIRouter(tags=["sessions"])
SourceId = Annotated[str, Path(pattern=tracing.SOURCE_ID)]


class Session(Answer):
    """A session. `source` names it in addresses; `state` is what became of it, `reason` why it is (not) taken now."""

    source: str
    id: str
    host: str
    title: str | None
    project: str
    project_name: str
    started: datetime | None
    last_event: datetime | None
    state: Literal["remembered", "nothing", "waiting", "failed", "skipped"]
    reason: str | None
    detail: str
    outcome: str | None
    extracted: datetime | None
    error: str | None


class Sessions(Answer):
    """A page of the list and how many there are in all."""

    total: int
    sessions: list[Session]


class Line(Answer):
    line: int
    text: str


class SessionDetail(Answer):
    """A session, its summary where one is kept, and the lines of the confirmed summary that rest on it."""

    session: Session
    summary: str
    lines: list[Line]


class Event(Answer):
    """One event; `cut` characters of its text are left out, `derived` says why it is no evidence."""

    number: int
    time: datetime | None
    tier: str
    tool: str
    failed: bool
    derived: str
    text: str
    cut: int


class Events(Answer):
    """A page of events. `next` is the number to ask from for the next one, 0 at the end."""

    total: int
    events: list[Event]
    next: int


class Wish(Answer):
    """`run` is the id of the run where it is known; `coalesced` that a running one takes the wish along."""

    run: str | None
    coalesced: bool
    says: str


@router.get("/sessions")
def read_sessions(
    look: AnyLook,
    host: Annotated[Literal["codex", "claude", "pi", "generic"] | None, Query()] = None,
    project: Annotated[str, Query(pattern=r"^([0-9a-f]{12}|unknown)?$")] = "",
    state: Annotated[Literal["remembered", "nothing", "waiting", "failed", "skipped"] | None, Query()] = None,
    reason: Annotated[Reason | None, Query()] = None,
    text: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Sessions:
    """Every session seen, newest activity first."""
    wanted = Wanted(host or "", project, state or "", reason.value if reason else "", text.strip())
    found, total = sessions(look.store, wanted, limit=limit, offset=offset)
    return Sessions(total=total, sessions=[_session(look, one) for one in found])


@router.get("/sessions/{source}")
def read_session(look: AnyLook, source: SourceId) -> SessionDetail:
    """One session, by its source id or citation."""
    found = tracing.session_of(look, source)
    trace = tracing.tracer(look).rollout(found.row)
    return SessionDetail(
        session=_session(look, found),
        summary=plain(trace.body, look.redactor),
        lines=[Line(line=claim.line, text=plain(claim.text, look.redactor)) for claim in trace.lines],
    )


@router.get("/sessions/{source}/events")
def read_events(look: AnyLook, source: SourceId, first: Annotated[int, Query(ge=1, le=10**9)] = 1) -> Events:
    """What was said in a session, from an event on, redacted."""
    page = tracing.moments(look, tracing.session_of(look, source), frozenset(), first)
    return Events(
        total=page.total,
        next=page.after,
        events=[
            Event(
                number=one.number,
                time=one.time,
                tier=one.tier,
                tool=plain(one.tool, look.redactor),
                failed=one.failed,
                derived=one.why,
                text=plain(one.text, look.redactor),
                cut=one.cut,
            )
            for one in page.events
        ],
    )


@router.post("/sessions/{source}/extract", status_code=202, dependencies=CHANGING)
def extract(look: AnyLook, source: SourceId) -> Wish:
    """Wants this session to be read now."""
    found = tracing.session_of(look, source)
    asked = look.desk.runs.start(stage="extract", rollouts=[str(found.row.id)])
    return Wish(run=asked.run, coalesced=asked.coalesced, says=asked.says)


@router.delete("/sessions/{source}", dependencies=CHANGING)
def forget(look: AnyLook, source: SourceId) -> Forgotten:
    """Forgets a session for good. Its file stays as it is."""
    found = tracing.session_of(look, source)
    report = look.long_memory().forget(rollouts=[found.row.id])
    return Forgotten(lines=len(report.lines), kept=report.kept, version=report.version)


def _session(look: Look, one: SessionRow) -> Session:
    row, clean = one.row, look.redactor
    return Session(
        source=row.id.source_id,
        id=plain(str(row.id), clean),
        host=row.id.host.value,
        title=plain(row.title, clean) if row.title is not None else None,
        project=row.project,
        project_name=plain(row.project_name, clean),
        started=row.started,
        last_event=row.last_event,
        state=one.fate,
        reason=row.reason.value if row.reason is not None else None,
        detail=plain(row.detail, clean),
        outcome=one.outcome.value if one.outcome is not None else None,
        extracted=one.written,
        error=one.error,
    )
