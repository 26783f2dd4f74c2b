"""Notes: what a person or an agent asked to remember, one Markdown file each [Z056-Z059]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memory.model import LeftOut


@dataclass(frozen=True, slots=True)
class Note:
    """One note. `text` is the whole file as it stands on disk (what is staged, hashed and cited).

    `body` is the text without its front matter; `mtime` and `created` are aware UTC; `sha256` is over the bytes.
    `project` is the project key the note was written in, None when it names none.
    """

    name: str
    citation: str
    path: str
    text: str
    project: str | None
    is_global: bool
    pinned: bool
    mtime: datetime
    body: str = ""
    created: datetime | None = None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class NotesReading:
    """All notes that could be taken, and one line for everything that was not.

    `diagnostics` are for people; `left_out` says the same as data, fit for `Manifest.left_out`.
    """

    notes: list[Note]
    diagnostics: list[str]
    left_out: tuple[LeftOut, ...] = ()
