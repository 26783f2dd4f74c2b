"""Memory: the confirmed summary, and for each line where it comes from and what can be done about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from dashboard import confirmed
from dashboard.desk import AnyLook
from recall import scope

router = APIRouter()
PROJECT = r"^([0-9a-f]{12}|unknown)?$"


@router.get("/memory")
def memory(look: AnyLook, project: Annotated[str, Query(pattern=PROJECT)] = "") -> Response:
    settings, store = look.settings, look.store
    published = scope.read_published(str(settings.home))
    projects = store.rollouts.projects()
    viewer = confirmed.viewer_of(store, project) if project else None
    root = confirmed.root_of(store, project) if project else None
    given = confirmed.given(settings, viewer, root) if viewer is not None else []
    latest = store.versions.latest()
    return look.page(
        "memory.html",
        sections=confirmed.sections(confirmed.lines(published, viewer, settings.inject.scope)),
        problem=published.problem,
        version=published.version,
        published=latest.published if latest is not None and latest.number == published.version else None,
        projects=projects,
        names={one.id: one.name for one in projects},
        project=project,
        root=root,
        given=given,
        problems=dict.fromkeys(text for one in given for text in one.problems),
        mode=settings.memory.mode if settings.memory.enabled else "off",
    )
