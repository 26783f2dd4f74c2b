"""Notes and short files for programs, and the checks the pages make as one types."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from dashboard import keeping
from dashboard.api import CHANGING
from dashboard.api.models import Answer, Check
from dashboard.desk import AnyLook
from dashboard.shown import plain
from memory.errors import UnknownReference
from recall import short

router = APIRouter()
Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
EntryId = Annotated[str, Path(pattern=r"^mem:[0-9a-f]{12}$")]
Project = Annotated[str, Query(pattern=r"^([0-9a-f]{12}|unknown)?$")]
Scope = Annotated[Literal["user", "project"], Path()]
Text = Annotated[str, Field(max_length=keeping.MAX_TEXT)]


class Asked(BaseModel):
    """A form's fields; what a page sends besides them is passed over."""

    model_config = ConfigDict(extra="ignore")


class NoteText(Asked):
    """A note. `project` is the id of the project it holds for, empty for every project."""

    text: Text
    project: str = Field("", max_length=200)
    pinned: bool = False


class NoteToCheck(Asked):
    text: Text
    name: str = Field("", max_length=200)


class EntryText(Asked):
    text: Text


class EntryToCheck(Asked):
    text: Text
    id: str = Field("", max_length=200)
    new: str = Field("", max_length=10)
    scope: Literal["user", "project"] = "user"
    project: str = Field("", max_length=200)


class FileToCheck(Asked):
    text: Text


class Note(Answer):
    name: str
    text: str
    project: str | None
    everywhere: bool
    pinned: bool
    created: datetime | None


class Notes(Answer):
    """All notes that can be read; `diagnostics` say what could not."""

    notes: list[Note]
    diagnostics: list[str]


class Saved(Answer):
    """`redacted` are the rules by which parts were taken out before it was written."""

    id: str
    replaced: bool
    redacted: list[str]


class Forgotten(Answer):
    """What a forget took: lines of the summary, those that went on with other sources, the version it made."""

    lines: int
    kept: int
    version: int | None


class TopicEntry(Answer):
    """What a memory tool keeps. `scope` is `user` or a project's id; `by` is who wrote it, empty where nobody knows."""

    id: str
    scope: str
    tier: str
    topic: str
    title: str
    text: str
    by: str


class Entries(Answer):
    """All entries of topics; `problems` say which files could not be read."""

    entries: list[TopicEntry]
    problems: list[str]


class Entry(Answer):
    id: str
    text: str


class ShortFile(Answer):
    """One short file. `diagnostic` says why it is skipped as a whole, empty where it is not."""

    scope: str
    path: str
    entries: list[Entry]
    diagnostic: str


# -- notes --------------------------------------------------------------------------------------------


@router.get("/notes", tags=["notes"])
def read_notes(look: AnyLook) -> Notes:
    """Every note of long memory."""
    reading = look.workspace.notes()
    return Notes(
        notes=[
            Note(
                name=note.name,
                text=plain(note.body.strip(), look.redactor),
                project=note.project,
                everywhere=note.is_global,
                pinned=note.pinned,
                created=note.created,
            )
            for note in reading.notes
        ],
        diagnostics=[plain(text, look.redactor) for text in reading.diagnostics],
    )


@router.post("/checks/note", tags=["checks"], dependencies=CHANGING)
def check_note(look: AnyLook, note: NoteToCheck) -> Check:
    """Whether a note could be saved; saves nothing."""
    return _check(look, note.text, keeping.check_note(look, note.text, note.name.strip()))


@router.put("/notes/{name}", tags=["notes"], dependencies=CHANGING)
def write_note(look: AnyLook, name: Name, note: NoteText) -> Saved:
    """Adds a note, or replaces the one of this name. The next consolidation takes it in."""
    project = keeping.project_of_note(look, name, note.project)
    saved = keeping.write_note(look, note.text, name=name, project=project, pinned=note.pinned, new=False)
    return Saved(id=saved.id, replaced=saved.replaced, redacted=list(saved.redacted))


@router.delete("/notes/{name}", tags=["notes"], dependencies=CHANGING)
def forget_note(look: AnyLook, name: Name) -> Forgotten:
    """Forgets a note for good, with the lines that only it supports."""
    keeping.note_of(look, name)
    report = look.long_memory().forget(notes=[name])
    return Forgotten(lines=len(report.lines), kept=report.kept, version=report.version)


# -- entries of topics --------------------------------------------------------------------------------


@router.get("/entries", tags=["entries"])
def read_entries(look: AnyLook) -> Entries:
    """What the memory tools keep, of every project."""
    reading, clean = look.workspace.topics.read(), look.redactor
    return Entries(
        entries=[
            TopicEntry(
                id=one.id,
                scope=one.scope,
                tier=one.tier,
                topic=plain(one.topic, clean),
                title=plain(one.title, clean),
                text=plain(one.body, clean),
                by=one.record.by,
            )
            for one in reading.entries
        ],
        problems=[plain(text, clean) for text in reading.problems],
    )


@router.delete("/entries/{entry}", tags=["entries"], dependencies=CHANGING)
def forget_entry(look: AnyLook, entry: EntryId) -> Forgotten:
    """Forgets an entry for good."""
    report = look.long_memory().forget(entries=[entry])
    return Forgotten(lines=len(report.lines), kept=report.kept, version=report.version)


# -- short files --------------------------------------------------------------------------------------


@router.get("/short/{scope}", tags=["short"])
def read_short(look: AnyLook, scope: Scope, project: Project = "") -> ShortFile:
    """The user's short file, or the one of a project."""
    place = keeping.place_of(look, scope, project)
    found = place.read()
    return ShortFile(
        scope=scope,
        path=plain(str(place.path), look.redactor),
        entries=[Entry(id=entry.id, text=plain(entry.text, look.redactor)) for entry in found.entries],
        diagnostic=str(found.diagnostic) if found.diagnostic is not None else "",
    )


@router.post("/checks/entry", tags=["checks"], dependencies=CHANGING)
def check_entry(look: AnyLook, entry: EntryToCheck) -> Check:
    """Whether an entry could be saved; saves nothing."""
    place = keeping.place_of(look, entry.scope, entry.project)
    return _check(look, entry.text, keeping.check_entry(place, entry.text, entry.id.strip(), new=bool(entry.new)))


@router.post("/checks/file", tags=["checks"], dependencies=CHANGING)
def check_file(look: AnyLook, file: FileToCheck) -> Check:
    """Whether a text could be a whole short file; saves nothing."""
    text = file.text if not file.text or file.text.endswith("\n") else file.text + "\n"
    return _check(look, text, keeping.check_raw(text))


@router.put("/short/{scope}/{entry}", tags=["short"], dependencies=CHANGING)
def write_entry(look: AnyLook, scope: Scope, entry: Name, text: EntryText, project: Project = "") -> Saved:
    """Adds an entry, or replaces the one of this id. Sessions get it from their next turn on."""
    place = keeping.place_of(look, scope, project)
    saved = keeping.save_entry(look, place, text.text, name=entry, new=False)
    return Saved(id=saved.id, replaced=saved.replaced, redacted=list(saved.redacted))


@router.delete("/short/{scope}/{entry}", tags=["short"], dependencies=CHANGING)
def delete_entry(look: AnyLook, scope: Scope, entry: Name, project: Project = "") -> Saved:
    """Deletes an entry."""
    if not short.is_id(entry):
        raise UnknownReference("There is no entry of this id.", hint="Read the file for its entries.")
    keeping.delete_entry(keeping.place_of(look, scope, project), entry)
    return Saved(id=entry, replaced=True, redacted=[])


def _check(look: AnyLook, text: str, complaint: str) -> Check:
    if complaint:
        return Check(ok=False, says=plain(look.own(complaint), look.redactor))
    rules = keeping.struck(look, text)
    if rules:
        return Check(ok=True, says=look.t("notes.would_strike", rules=", ".join(rules)), warns=True)
    return Check(ok=True, says=look.t("notes.fine"))
