"""What a person keeps by hand: notes and short files, written by the functions the commands use."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dashboard import confirmed
from dashboard.confirmed import Shown
from dashboard.desk import Look
from memory import support
from memory.errors import InputsChangedError, UnknownReference, UsageError, WorkspaceError
from memory.project import UNKNOWN, Project
from memory.workspace import Note
from memory.workspace.layout import check_note_name
from memory.workspace.notes import check_new
from recall import remember as keep
from recall import short
from recall.remember import Saved
from recall.short import Entry, ShortFile

Scope = Literal["user", "project"]
MAX_TEXT = 100_000


def mark_of(text: str) -> str:
    """What a form remembers of the text it was made from."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def still(text: str, mark: str) -> None:
    """Raises InputsChangedError when a text is no longer the one a form was made from; an empty mark asks nothing."""
    if mark and mark != mark_of(text):
        raise InputsChangedError(
            "It was changed by something else since this page was loaded.",
            hint="Copy what you typed, load the page again and repeat it.",
        )


# -- notes --------------------------------------------------------------------------------------------


def note_of(look: Look, name: str) -> Note:
    """Raises UnknownReference."""
    for note in look.workspace.notes().notes:
        if note.name == name:
            return note
    raise UnknownReference("There is no note of this name.", hint="It may have been forgotten; the list has all.")


def project_named(look: Look, project: str) -> Project | None:
    """The project of a form's field: None for every project. Raises UnknownReference."""
    if not project:
        return None
    viewer = confirmed.viewer_of(look.store, project)
    return Project(viewer.id, viewer.name)


def project_of_note(look: Look, name: str, project: str) -> Project | None:
    """As `project_named`; a note keeps a project it names already, even one no session belongs to."""
    if project and name:
        kept = next((note.project for note in look.workspace.notes().notes if note.name == name), None)
        if kept == project:
            return Project(project, project)
    return project_named(look, project)


def write_note(look: Look, text: str, *, name: str, project: Project | None, pinned: bool, new: bool) -> Saved:
    """Adds a note or replaces one. Raises UsageError, WorkspaceError."""
    if new and name and any(note.name == name for note in look.workspace.notes().notes):
        raise UsageError(f"There is a note {name} already.", hint="Choose another name.")
    _, saved = keep.remember_note(
        look.workspace,
        text,
        name=name,
        project=project,
        pinned=pinned,
        now=look.desk.clock.now(),
        redactor=look.redactor,
    )
    return saved


def check_note(look: Look, text: str, name: str) -> str:
    """What would be wrong with a note; empty where nothing is."""
    try:
        if name:
            check_note_name(name)
        check_new(name or "note", text)
    except (UsageError, WorkspaceError) as error:
        return str(error)
    return ""


def struck(look: Look, text: str) -> tuple[str, ...]:
    """The rules by which parts of a text would be taken out before it is written."""
    return tuple(dict.fromkeys(finding.rule for finding in look.redactor.findings(text)))


# -- a line of the summary ----------------------------------------------------------------------------


def notes_behind(look: Look, one: Shown) -> list[Note]:
    """The notes that say what a line says: those it cites, and those with its words that wait for the next
    consolidation."""
    words = support.normalise(one.claim.text)
    return [
        note
        for note in look.workspace.notes().notes
        if note.name in one.notes or support.normalise(note.body.strip()) == words
    ]


def pin(look: Look, one: Shown, *, pinned: bool) -> list[str]:
    """Pins a line through its notes, or through a new one with its words; a pin never shows it to more projects.

    Returns the names of the notes. Raises UsageError where there is nothing to unpin.
    """
    behind = notes_behind(look, one)
    if behind:
        return [_rewritten(look, note, project=_project_of(note), pinned=pinned) for note in behind]
    if not pinned:
        raise UsageError("This line is not pinned.", hint="Nothing was changed.")
    return [write_note(look, one.claim.text, name="", project=_home_of(one), pinned=True, new=True).id]


def widen(look: Look, one: Shown) -> list[str]:
    """Makes a line hold for every project, through its notes or a new one. Returns the names of the notes."""
    behind = notes_behind(look, one)
    if behind:
        return [_rewritten(look, note, project=None, pinned=note.pinned) for note in behind]
    return [write_note(look, one.claim.text, name="", project=None, pinned=False, new=True).id]


def narrow(look: Look, one: Shown, project: str) -> list[str]:
    """Gives the notes of a line to one project. Sessions belong where they took place: what rests on those of several
    projects cannot be narrowed. Raises UsageError, UnknownReference."""
    behind = notes_behind(look, one)
    chosen = project_named(look, project)
    if chosen is None:
        raise UsageError("No project was chosen.", hint="Choose the project this line belongs to.")
    if not behind:
        raise UsageError(
            "This line rests on sessions alone, and sessions belong to the project they took place in.",
            hint="Forget the sessions of the other projects instead.",
        )
    return [_rewritten(look, note, project=chosen, pinned=note.pinned) for note in behind]


def _home_of(one: Shown) -> Project | None:
    """Where a note with the words of a line belongs, so that nobody sees them who does not see the line."""
    if one.everywhere:
        return None
    known = [project for project in one.projects if re.fullmatch(r"[0-9a-f]{12}", project)]
    home = next(iter((*known, *one.projects)), UNKNOWN.id)
    return Project(home, home)


def _project_of(note: Note) -> Project | None:
    return None if note.is_global or note.project is None else Project(note.project, note.project)


def _rewritten(look: Look, note: Note, *, project: Project | None, pinned: bool) -> str:
    return write_note(look, note.body, name=note.name, project=project, pinned=pinned, new=False).id


# -- short files --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """One of the short files: whose it is, where it lies. `project` is an id, empty for the user's file."""

    scope: Scope
    project: str
    path: Path

    @property
    def private(self) -> bool:
        return self.scope == "user"

    def read(self) -> ShortFile:
        return short.read(str(self.path))


def user_place(look: Look) -> Place:
    return Place("user", "", Path(short.user_path(str(look.settings.home))))


def project_place(look: Look, project: str) -> Place:
    """Raises UnknownReference where the project is not known, or its folder is not on this machine any more."""
    confirmed.viewer_of(look.store, project)
    root = confirmed.root_of(look.store, project)
    if root is None:
        raise UnknownReference(
            "The folder of this project is not on this machine any more, so it has no short file here.",
            hint="Keep it as a note of the project instead.",
        )
    return Place("project", project, Path(short.project_path(str(root))))


def place_of(look: Look, scope: str, project: str) -> Place:
    if scope == "user":
        return user_place(look)
    if scope != "project" or not project:
        raise UnknownReference("There is no such short file.", hint="Choose the user's or a project's.")
    return project_place(look, project)


def save_entry(look: Look, place: Place, text: str, *, name: str, new: bool) -> Saved:
    """Adds an entry or replaces the one of this id. Raises UsageError, StorageError, StateBusyError."""
    if new and name and any(entry.id == name for entry in place.read().entries):
        raise UsageError(f"There is an entry {name} already.", hint="Choose another id.")
    return keep.remember(place.path, text, name=name, redactor=look.redactor, private=place.private)


def delete_entry(place: Place, name: str) -> None:
    """Raises UnknownReference when it is gone already."""
    if not any(entry.id == name for entry in place.read().entries):
        raise UnknownReference("There is no entry of this id.", hint="The list has all.")
    keep.update(place.path, lambda entries: [entry for entry in entries if entry.id != name], private=place.private)


def check_entry(place: Place, text: str, name: str, *, new: bool) -> str:
    """What would be wrong with an entry; empty where nothing is."""
    clean = short.tidy(text)
    if not clean:
        return "There is nothing to remember."
    if name and not short.is_id(name):
        return "An id is 1 to 64 of the letters A-Z a-z, digits, `.`, `_` and `-`."
    found = place.read()
    if found.diagnostic is not None:
        return f"{found.diagnostic}."
    if new and any(entry.id == name for entry in found.entries):
        return f"There is an entry {name} already."
    others = [entry for entry in found.entries if entry.id != name]
    try:
        short.print_entries([*others, Entry(name or "new-entry", clean)])
    except short.Fault as fault:
        return f"{fault.reason[:1].upper()}{fault.reason[1:]}."
    return ""


def raw_text(place: Place) -> str:
    """The whole file for the editor of a broken one; bytes that are no text are shown as such."""
    try:
        data = place.path.read_bytes()[: short.MAX_BYTES + 1]
    except FileNotFoundError:
        data = short.print_entries(())
    except OSError as error:
        raise UsageError(f"{place.path} cannot be read ({error.strerror}).", hint="Check its permissions.") from None
    return data.decode("utf-8", "replace")


def check_raw(text: str) -> str:
    """What is wrong with a whole file; empty where nothing is."""
    try:
        short.parse_bytes(text.encode("utf-8", "surrogatepass"))
    except short.Fault as fault:
        return f"Line {fault.line}: {fault.reason}." if fault.line else f"{fault.reason[:1].upper()}{fault.reason[1:]}."
    return ""


def save_raw(look: Look, place: Place, text: str) -> tuple[str, ...]:
    """Puts a valid text in the place of a whole file; returns the rules that struck. Raises UsageError."""
    complaint = check_raw(text)
    if complaint:
        raise UsageError(complaint, hint="Nothing was changed.")
    clean = look.redactor.redact(text)
    rules = struck(look, text)
    real = place.path.resolve()
    real.parent.mkdir(mode=0o700 if place.private else 0o777, parents=True, exist_ok=True)
    keep.replace(real, clean.encode("utf-8"), private=place.private)
    return rules
