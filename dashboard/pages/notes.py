"""Notes and short memory: what a person keeps by hand, with validation as one types and again when it is sent."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from dashboard import confirmed, keeping
from dashboard.desk import AnyLook, Form, Look
from dashboard.errors import status_of
from dashboard.keeping import Place
from dashboard.pages.memory import Project
from dashboard.shown import hidden_signs
from memory.errors import InputsChangedError, SlowwaveError, UnknownReference
from recall import short

router = APIRouter()
NoteName = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
EntryId = Annotated[str, Query(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
"""Not a part of the path: `..` is a good id."""
Scope = Annotated[Literal["user", "project"], Path()]


@router.get("/notes")
def notes(look: AnyLook, project: Project = "") -> Response:
    reading, topics = look.workspace.notes(), look.workspace.topics.read()
    projects = confirmed.projects(look.store)
    place, problem = None, ""
    if project:
        try:
            place = keeping.project_place(look, project)
        except UnknownReference as error:
            problem = str(error)
    user = keeping.user_place(look)
    return look.page(
        "notes.html",
        notes=reading.notes,
        diagnostics=reading.diagnostics,
        entries=topics.entries,
        entry_problems=topics.problems,
        names={**(topics.projects or {}), **{one.id: one.name for one in projects}},
        projects=projects,
        project=project,
        places=[(one, one.read()) for one in (user, place) if one is not None],
        problem=problem,
        max_entries=short.MAX_ENTRIES,
        mode=look.settings.memory.mode if look.settings.memory.enabled else "off",
    )


# -- notes --------------------------------------------------------------------------------------------


@router.get("/new-note")
def new_note(look: AnyLook) -> Response:
    return _note_form(look, {"new": "yes"})


@router.post("/new-note")
def add_note(look: AnyLook, form: Form) -> Response:
    return _save_note(look, dict(form.fields) | {"new": "yes"})


@router.get("/notes/{name}")
def note(look: AnyLook, name: NoteName) -> Response:
    found = keeping.note_of(look, name)
    text, project = look.redactor.redact(found.body.strip()), "" if found.is_global else found.project or ""
    fields = {"name": name, "text": text, "project": project, "pinned": "yes" if found.pinned else ""}
    return _note_form(look, fields | {"was": keeping.mark_of(found.text)})


@router.post("/notes/{name}")
def change_note(look: AnyLook, name: NoteName, form: Form) -> Response:
    fields = dict(form.fields) | {"name": name, "new": ""}
    try:
        keeping.still(keeping.note_of(look, name).text, form.get("was"))
    except InputsChangedError as error:
        return _note_form(look, fields, error)
    return _save_note(look, fields)


@router.get("/notes/{name}/forget")
def ask_forget_note(look: AnyLook, name: NoteName) -> Response:
    return look.page("forget_note.html", note=keeping.note_of(look, name))


@router.post("/notes/{name}/forget")
def forget_note(look: AnyLook, name: NoteName, form: Form) -> Response:
    keeping.note_of(look, name)
    report = look.long_memory().forget(notes=[name])
    return look.redirect("/notes", "notes.forgotten", name=name, lines=len(report.lines))


def _save_note(look: Look, fields: dict[str, str]) -> Response:
    text, name = fields.get("text", ""), fields.get("name", "").strip()
    try:
        project = keeping.project_of_note(look, name, fields.get("project", ""))
        saved = keeping.write_note(
            look, text, name=name, project=project, pinned=bool(fields.get("pinned")), new=bool(fields.get("new"))
        )
    except SlowwaveError as error:
        return _note_form(look, fields, error)
    if saved.redacted:
        return look.redirect("/notes", "notes.saved_without", name=saved.id, rules=", ".join(saved.redacted))
    return look.redirect("/notes", "notes.saved", name=saved.id)


def _note_form(look: Look, fields: dict[str, str], error: SlowwaveError | None = None) -> Response:
    """What was typed comes back with what is wrong about it."""
    given = {"name": "", "text": "", "project": "", "pinned": "", "new": "", "was": ""} | fields
    return look.page(
        "note.html",
        status=200 if error is None else status_of(error),
        fields=given,
        hidden=hidden_signs(given["text"]),
        error=str(error) if error is not None else "",
        projects=confirmed.projects(look.store),
    )


# -- short files --------------------------------------------------------------------------------------


@router.get("/short/{scope}/new")
def new_entry(look: AnyLook, scope: Scope, project: Project = "") -> Response:
    return _entry_form(look, keeping.place_of(look, scope, project), {"new": "yes"})


@router.post("/short/{scope}/new")
def add_entry(look: AnyLook, scope: Scope, form: Form, project: Project = "") -> Response:
    place = keeping.place_of(look, scope, project)
    return _save_entry(look, place, dict(form.fields) | {"new": "yes"})


@router.get("/short/{scope}/file")
def whole_file(look: AnyLook, scope: Scope, project: Project = "") -> Response:
    place = keeping.place_of(look, scope, project)
    text = keeping.raw_text(place)
    return _file_form(look, place, text, keeping.check_raw(text), was=keeping.mark_of(text))


@router.post("/short/{scope}/file")
def save_file(look: AnyLook, scope: Scope, form: Form, project: Project = "") -> Response:
    place = keeping.place_of(look, scope, project)
    text = form.get("text")
    if text and not text.endswith("\n"):
        text += "\n"  # a browser's text field need not end with one
    try:
        keeping.still(keeping.raw_text(place), form.get("was"))
        rules = keeping.save_raw(look, place, text)
    except SlowwaveError as error:
        return _file_form(look, place, text, str(error), was=form.get("was"), status=status_of(error))
    if rules:
        return look.redirect(_list(place), "notes.file_saved_without", path=str(place.path), rules=", ".join(rules))
    return look.redirect(_list(place), "notes.file_saved", path=str(place.path))


@router.get("/short/{scope}/entry")
def edit_entry(look: AnyLook, scope: Scope, entry: EntryId, project: Project = "") -> Response:
    place = keeping.place_of(look, scope, project)
    found = next((one for one in place.read().entries if one.id == entry), None)
    if found is None:
        raise UnknownReference("There is no entry of this id.", hint="The list has all.")
    text = look.redactor.redact(found.text)
    return _entry_form(look, place, {"id": entry, "text": text, "was": keeping.mark_of(found.text)})


@router.post("/short/{scope}/entry")
def change_entry(look: AnyLook, scope: Scope, form: Form, project: Project = "") -> Response:
    place = keeping.place_of(look, scope, project)
    return _save_entry(look, place, dict(form.fields) | {"new": ""})


@router.post("/short/{scope}/delete")
def delete_entry(look: AnyLook, scope: Scope, form: Form, project: Project = "") -> Response:
    place = keeping.place_of(look, scope, project)
    name = form.get("id")
    text = next((entry.text for entry in place.read().entries if entry.id == name), "")
    keeping.delete_entry(place, name)
    return look.redirect(_list(place), "notes.entry_deleted", id=name, text=text)


def _save_entry(look: Look, place: Place, fields: dict[str, str]) -> Response:
    name = fields.get("id", "").strip()
    try:
        before = next((one.text for one in place.read().entries if one.id == name), "")
        keeping.still(before, fields.get("was", ""))
        saved = keeping.save_entry(look, place, fields.get("text", ""), name=name, new=bool(fields.get("new")))
    except SlowwaveError as error:
        return _entry_form(look, place, fields, error)
    if saved.redacted:
        return look.redirect(_list(place), "notes.entry_saved_without", id=saved.id, rules=", ".join(saved.redacted))
    return look.redirect(_list(place), "notes.entry_saved", id=saved.id)


def _entry_form(look: Look, place: Place, fields: dict[str, str], error: SlowwaveError | None = None) -> Response:
    given = {"id": "", "text": "", "new": "", "was": ""} | fields
    return look.page(
        "entry.html",
        status=200 if error is None else status_of(error),
        place=place,
        fields=given,
        hidden=hidden_signs(given["text"]),
        error=str(error) if error is not None else "",
        max_chars=short.MAX_TEXT_POINTS,
        back=_list(place),
    )


def _file_form(look: Look, place: Place, text: str, error: str, *, was: str, status: int = 200) -> Response:
    return look.page(
        "short_file.html",
        status=status,
        place=place,
        text=look.redactor.redact(text),
        error=error,
        hidden=hidden_signs(text),
        was=was,
        back=_list(place),
    )


def _list(place: Place) -> str:
    return f"/notes?project={place.project}" if place.project else "/notes"
