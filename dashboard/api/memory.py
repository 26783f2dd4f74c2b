"""The confirmed summary for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from dashboard import confirmed, keeping, tracing
from dashboard.api import CHANGING
from dashboard.api.models import Answer
from dashboard.desk import AnyLook
from dashboard.shown import plain
from recall import scope

router = APIRouter(tags=["memory"])
Key = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Id = Annotated[str, Path(pattern=r"^([0-9a-f]{12}|unknown)$")]


class Line(Answer):
    """One line. `key` names it as long as its words stay the same; `projects` are the ids of those that see it."""

    key: str
    line: int
    section: str
    text: str
    citations: list[str]
    projects: list[str]
    everywhere: bool


class Summary(Answer):
    """The confirmed summary. `version` is 0 where nothing was published; `problem` says why there is none."""

    version: int
    lines: list[Line]
    problem: str


@router.get("/memory")
def read_memory(look: AnyLook) -> Summary:
    """The lines of the confirmed summary, never of one under revision."""
    published = scope.read_published(str(look.settings.home))
    return Summary(
        version=published.version,
        problem=published.problem,
        lines=[
            Line(
                key=one.key,
                line=one.claim.line,
                section=one.claim.section.removeprefix("## "),
                text=plain(one.claim.text, look.redactor),
                citations=list(one.claim.citations),
                projects=list(one.projects),
                everywhere=one.everywhere,
            )
            for one in confirmed.lines(published)
        ],
    )


class ProjectCount(Answer):
    """A project and how many sessions were seen in it."""

    id: str
    name: str
    sessions: int


@router.get("/projects")
def read_projects(look: AnyLook) -> list[ProjectCount]:
    """Every project a session belongs to, most sessions first."""
    return [
        ProjectCount(id=one.id, name=plain(one.name, look.redactor), sessions=one.rollouts)
        for one in look.store.rollouts.projects()
    ]


class Moment(Answer):
    """An event of a session behind a line."""

    number: int
    time: datetime | None
    tier: str
    text: str


class Because(Answer):
    """What one cited source gives a line: the points of its summary and the events these rest on."""

    citation: str
    source: str
    points: list[str]
    events: list[Moment]
    problem: str


class Why(Answer):
    """A line with everything that stands behind it."""

    key: str
    line: int
    text: str
    sources: list[Because]


class PinWish(BaseModel):
    """`pinned` false takes the pin away."""

    model_config = ConfigDict(extra="forbid")

    pinned: bool = True


class ScopeWish(BaseModel):
    """`project` is the id of the only project a line holds for, empty for every project."""

    model_config = ConfigDict(extra="forbid")

    project: str = Field("", pattern=r"^([0-9a-f]{12}|unknown)?$")


class NotesMade(Answer):
    """The notes that carry the wish; the next consolidation takes them in."""

    notes: list[str]


class Given(Answer):
    """What a session of a host would be given. `tokens` is an estimate; `left_out` lines had no room."""

    host: str
    text: str
    tokens: int
    lines: int
    left_out: int
    overruled: int
    problems: list[str]


@router.get("/memory/lines/{key}")
def read_line(look: AnyLook, key: Key) -> Why:
    """Why a line is in the summary."""
    one = confirmed.line_of(scope.read_published(str(look.settings.home)), key)
    trace = tracing.tracer(look).claim(one.claim)

    def clean(text: str) -> str:
        return plain(text, look.redactor)

    return Why(
        key=key,
        line=one.claim.line,
        text=clean(one.claim.text),
        sources=[
            Because(
                citation=part.citation,
                source=clean(part.source),
                points=[clean(bullet) for bullet in part.bullets],
                events=[
                    Moment(number=one.number, time=one.time, tier=one.tier.value, text=clean(one.text))
                    for one in part.moments
                ],
                problem=clean(part.problem),
            )
            for part in trace.supports
        ],
    )


@router.post("/memory/lines/{key}/pin", dependencies=CHANGING)
def pin_line(look: AnyLook, key: Key, wish: PinWish) -> NotesMade:
    """Pins a line, or takes the pin away."""
    one = confirmed.line_of(scope.read_published(str(look.settings.home)), key)
    return NotesMade(notes=keeping.pin(look, one, pinned=wish.pinned))


@router.post("/memory/lines/{key}/scope", dependencies=CHANGING)
def scope_line(look: AnyLook, key: Key, wish: ScopeWish) -> NotesMade:
    """Makes a line hold for every project, or for one alone."""
    one = confirmed.line_of(scope.read_published(str(look.settings.home)), key)
    made = keeping.narrow(look, one, wish.project) if wish.project else keeping.widen(look, one)
    return NotesMade(notes=made)


@router.get("/projects/{project}/given")
def read_given(look: AnyLook, project: Id) -> list[Given]:
    """What sessions of a project are given now, for each host."""
    viewer = confirmed.viewer_of(look.store, project)
    return [
        Given(
            host=one.host,
            text=plain(one.text, look.redactor),
            tokens=one.tokens,
            lines=one.lines,
            left_out=one.left_out,
            overruled=one.overruled,
            problems=[plain(text, look.redactor) for text in one.problems],
        )
        for one in confirmed.given(look.settings, viewer, confirmed.root_of(look.store, project))
    ]
