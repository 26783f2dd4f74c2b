"""Sessions: every rollout seen, why it is or is not remembered, what was said in it, and what can be done about it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from dashboard import confirmed, tracing
from dashboard.desk import HOSTS, AnyLook, Form
from dashboard.pages.memory import Project
from memory.errors import SlowwaveError
from memory.model import Reason
from memory.state.browse import Wanted, fate_counts, sessions
from recall import scope

router = APIRouter()
PER_PAGE = 50
MAX_PAGE = 1_000_000
NOTHING_TO_READ = frozenset(
    {Reason.UP_TO_DATE, Reason.FORGOTTEN, Reason.MISSING, Reason.UNREADABLE, Reason.DUPLICATE, Reason.OWN}
)
"""Why a run that takes a session by hand would do nothing about it."""
SourceId = Annotated[str, Path(pattern=tracing.SOURCE_ID)]
Page = Annotated[int, Query(ge=1, le=MAX_PAGE)]


@router.get("/sessions")
def session_list(
    look: AnyLook,
    host: Annotated[Literal["", "codex", "claude", "pi", "generic"], Query()] = "",
    project: Project = "",
    state: Annotated[Literal["", "remembered", "nothing", "waiting", "failed", "skipped"], Query()] = "",
    reason: Annotated[Reason | Literal[""], Query()] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    page: Page = 1,
) -> Response:
    wanted = Wanted(host, project, state, reason, text.strip())
    found, total = sessions(look.store, wanted, limit=PER_PAGE, offset=(page - 1) * PER_PAGE)
    projects = confirmed.projects(look.store)
    return look.page(
        "sessions.html",
        found=found,
        total=total,
        first=(page - 1) * PER_PAGE + 1,
        last=(page - 1) * PER_PAGE + len(found),
        page=page,
        wanted=wanted,
        query={"host": host, "project": project, "state": state, "reason": reason, "text": text},
        projects=projects,
        names={one.id: one.name for one in projects},
        hosts=HOSTS,
        fates=fate_counts(look.store),
        reasons={one: count for one, count in look.store.rollouts.counts().items() if one is not None},
        narrowed=wanted != Wanted(),
        day_of=lambda moment: f"{moment.astimezone():%Y-%m-%d}" if moment is not None else "–",
        clock_of=lambda moment: f"{moment.astimezone():%H:%M}" if moment is not None else "–",
    )


@router.get("/sessions/{source_id}")
def session_page(look: AnyLook, source_id: SourceId) -> Response:
    found = tracing.session_of(look, source_id)
    trace = tracing.tracer(look).rollout(found.row)
    published = scope.read_published(str(look.settings.home))
    name = found.row.id.source_id
    resting = [one for one in confirmed.lines(published) if {name, name[:8]}.intersection(one.claim.citations)]
    return look.page(
        "session.html",
        found=found,
        row=found.row,
        names={one.id: one.name for one in confirmed.projects(look.store)},
        can_extract=found.row.reason not in NOTHING_TO_READ,
        source_id=name,
        job=trace.job,
        output=trace.output,
        has_source=bool(trace.body),
        resting=resting,
        version=published.version,
        used=look.store.usage.last_used().get(found.row.id.citation),
    )


@router.get("/sessions/{source_id}/events")
def events(
    look: AnyLook,
    source_id: SourceId,
    e: Annotated[str, Query(pattern=r"^[0-9]{1,9}(,[0-9]{1,9}){0,99}$|^$")] = "",
    first: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    found = tracing.session_of(look, source_id)
    cited = frozenset(int(number) for number in e.split(",") if number)
    return look.page(
        "events.html",
        name=found.name,
        source_id=found.row.id.source_id,
        moments=tracing.moments(look, found, cited, first),
        cited=e,
    )


@router.get("/sessions/{source_id}/evidence")
def evidence(look: AnyLook, source_id: SourceId) -> Response:
    found = tracing.session_of(look, source_id)
    sent = tracing.what_is_sent(look, found)
    return look.page("evidence.html", name=found.name, source_id=found.row.id.source_id, sent=sent)


@router.post("/sessions/{source_id}/extract")
def extract(look: AnyLook, source_id: SourceId, form: Form) -> Response:
    found = tracing.session_of(look, source_id)
    try:
        asked = look.desk.runs.start(stage="extract", rollouts=[str(found.row.id)])
    except SlowwaveError as error:
        return look.redirect(f"/sessions/{source_id}", "runs.refused", says=str(error))
    return look.redirect("/runs", "runs.coalesced" if asked.coalesced else "runs.asked", says=asked.says)


@router.get("/sessions/{source_id}/forget")
def ask_forget(look: AnyLook, source_id: SourceId) -> Response:
    found = tracing.session_of(look, source_id)
    published = scope.read_published(str(look.settings.home))
    name = found.row.id.source_id
    mine = {name, name[:8]}
    resting = [one for one in confirmed.lines(published) if mine.intersection(one.claim.citations)]
    alone = [one for one in resting if mine.issuperset(one.claim.citations)]
    return look.page("forget_session.html", found=found, row=found.row, source_id=name, resting=resting, alone=alone)


@router.post("/sessions/{source_id}/forget")
def forget(look: AnyLook, source_id: SourceId, form: Form) -> Response:
    found = tracing.session_of(look, source_id)
    report = look.long_memory().forget(rollouts=[found.row.id])
    return look.redirect(f"/sessions/{source_id}", "sessions.forgotten", lines=len(report.lines), kept=report.kept)
