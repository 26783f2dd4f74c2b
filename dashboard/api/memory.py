"""The confirmed summary for programs."""

from __future__ import annotations

from fastapi import APIRouter

from dashboard import confirmed
from dashboard.api.models import Answer
from dashboard.desk import AnyLook
from dashboard.shown import plain
from recall import scope

router = APIRouter(tags=["memory"])


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
