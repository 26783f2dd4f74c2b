"""Memory: the confirmed summary, and for each line where it comes from and what can be done about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from dashboard import confirmed, keeping, tracing
from dashboard.confirmed import Shown
from dashboard.desk import AnyLook, Form, Look
from memory.model import RolloutId
from memory.state.browse import session, titles
from recall import scope
from recall.delivery import overruled

router = APIRouter()
PROJECT = r"^([0-9a-f]{12}|unknown)?$"
Project = Annotated[str, Query(pattern=PROJECT)]
Key = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
Citation = Annotated[str, Path(pattern=tracing.SOURCE_ID)]


@router.get("/memory")
def memory(look: AnyLook, project: Project = "") -> Response:
    settings, store = look.settings, look.store
    published = scope.read_published(str(settings.home))
    known = store.rollouts.projects()
    projects = confirmed.told_apart(known)
    viewer = confirmed.viewer_among(known, project) if project else None
    root = confirmed.root_of(store, project) if project else None
    given = confirmed.given(settings, viewer, root) if viewer is not None else []
    head = confirmed.head(store)
    return look.page(
        "memory.html",
        sections=confirmed.sections(confirmed.lines(published, viewer, settings.inject.scope)),
        problem=published.problem,
        standing=confirmed.standing(settings, store, published),
        own_values=lambda key, values: look.shown(look.t(key, **{name: look.own(one) for name, one in values.items()})),
        version=published.version,
        published=head.published if head is not None and head.number == published.version else None,
        projects=projects,
        names={one.id: one.name for one in projects},
        project=project,
        root=root,
        given=given,
        problems=dict.fromkeys(text for one in given for text in one.problems),
        mode=settings.memory.mode if settings.memory.enabled else "off",
    )


# -- one line -----------------------------------------------------------------------------------------


@router.get("/memory/lines/{key}")
def line(look: AnyLook, key: Key) -> Response:
    one, version = _line(look, key)
    trace = tracing.tracer(look).claim(one.claim)
    projects = confirmed.projects(look.store)
    behind = [RolloutId.parse(part.source) for part in trace.supports if ":" in part.source]
    return look.page(
        "line.html",
        titles={str(name): title for name, title in titles(look.store, behind).items()},
        one=one,
        version=version,
        trace=trace,
        behind=keeping.notes_behind(look, one),
        overruled=overruled(look.settings.home, version).get(one.claim.line, []),
        projects=projects,
        names={item.id: item.name for item in projects},
    )


@router.get("/memory/lines/{key}/forget")
def ask_forget_line(look: AnyLook, key: Key) -> Response:
    one, _ = _line(look, key)
    found = look.long_memory(recover=False).find(one.claim.text)
    sessions = [row for name in one.sessions if (row := session(look.store, name)) is not None]
    return look.page("forget_line.html", one=one, found=found, sessions=sessions)


@router.post("/memory/lines/{key}/forget")
def forget_line(look: AnyLook, key: Key, form: Form) -> Response:
    one, _ = _line(look, key)
    report = look.long_memory().forget(text=one.claim.text)
    return look.redirect("/memory", "memory.forgotten", lines=len(report.lines), notes=len(report.notes))


@router.post("/memory/lines/{key}/pin")
def pin_line(look: AnyLook, key: Key, form: Form) -> Response:
    one, _ = _line(look, key)
    place = form.get("place", "note")
    if place == "unpin":
        keeping.pin(look, one, pinned=False)
        return look.redirect(f"/memory/lines/{key}", "memory.unpinned")
    if place == "note":
        names = keeping.pin(look, one, pinned=True)
        return look.redirect(f"/memory/lines/{key}", "memory.pinned", note=", ".join(names))
    target = keeping.place_of(look, *_short_place(place))
    saved = keeping.save_entry(look, target, one.claim.text, name="", new=True)
    return look.redirect(f"/memory/lines/{key}", "memory.in_short", id=saved.id, path=str(saved.path))


@router.post("/memory/lines/{key}/scope")
def scope_line(look: AnyLook, key: Key, form: Form) -> Response:
    one, _ = _line(look, key)
    project = form.get("project")
    if project:
        names = keeping.narrow(look, one, project)
        return look.redirect(f"/memory/lines/{key}", "memory.narrowed", note=", ".join(names))
    names = keeping.widen(look, one)
    return look.redirect(f"/memory/lines/{key}", "memory.widened", note=", ".join(names))


def _short_place(place: str) -> tuple[str, str]:
    """`user`, or `project:<id>`."""
    name, _, project = place.partition(":")
    return name, project


def _line(look: Look, key: str) -> tuple[Shown, int]:
    published = scope.read_published(str(look.settings.home))
    return confirmed.line_of(published, key), published.version


# -- one source ---------------------------------------------------------------------------------------


@router.get("/sources/{citation}")
def source(look: AnyLook, citation: Citation) -> Response:
    found = tracing.source_of(look, citation)
    name = found.header.source.source_id
    published = scope.read_published(str(look.settings.home))
    resting = [one for one in confirmed.lines(published) if {name, name[:8]}.intersection(one.claim.citations)]
    return look.page(
        "source.html",
        citation=found.header.citation,
        source_id=name,
        header=found.header,
        parts=found.parts,
        resting=resting,
        seen=session(look.store, name),
    )
