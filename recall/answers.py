"""What the memory tools answer: small typed results, plain enough for JSON, bounded, and saying when they were cut.

Every `id` can be given to `MemoryTools.get` and `recall`. Dates are ISO 8601 UTC or empty. `cut` is never silent: it
says that there is more than is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

TierName = Literal["profile", "log", "note"]
ScopeName = Literal["user", "project", "agent"]
Asker = Literal["user", "agent"]


def path_of(topic: str, title: str) -> str:
    """How an entry is named to people and models; a note need not have a topic."""
    return f"{topic}/{title}" if topic else title


@dataclass(frozen=True, slots=True)
class Piece:
    """A line or entry as it is shown. `kind` is that of `recall.index.collect` (line, bullet, note, short, entry,
    evidence) or `session`, an entry of this session; `scope` is `user` (every project), `project` or `agent` (this
    session). `tier`, `topic`, `title` and `asked_by` are empty for what the tools did not remember. A `superseded` line
    no longer holds; `successor` does.
    """

    id: str
    kind: str
    text: str
    cut: bool = False
    scope: str = ""
    tier: str = ""
    topic: str = ""
    title: str = ""
    asked_by: str = ""
    citations: tuple[str, ...] = ()
    source: str = ""
    section: str = ""
    date: str = ""
    superseded: bool = False
    successor: str = ""


@dataclass(frozen=True, slots=True)
class Excerpt(Piece):
    """One line or entry found."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What became of a `memory_remember`. `updated`: an entry of that scope, topic and title was there and was
    replaced.

    `similar` are entries that may be the same thing under another title: the caller decides. `redacted` names the
    rules of what was taken out as a secret. `kept_by_host`: an entry of scope `agent` lives in this session alone, so
    that the host has to keep it; nothing was written to disk.
    """

    id: str
    scope: str
    tier: str
    topic: str
    title: str
    updated: bool = False
    similar: tuple[Excerpt, ...] = ()
    redacted: tuple[str, ...] = ()
    asked_by: str = "agent"
    pinned: bool = False
    kept_by_host: bool = False
    says: str = ""


@dataclass(frozen=True, slots=True)
class Text(Piece):
    """The whole of one id, from an offset on, at most `MAX_TEXT` code points; `next_offset` where it goes on."""

    next_offset: int | None = None
    total: int = 0


@dataclass(frozen=True, slots=True)
class Recalled:
    """Answers of a `memory_recall`: `hits` for a question, `text` for an id. None is an answer too. `more`: what was
    found beyond the limit, as far as it was looked for."""

    hits: tuple[Excerpt, ...] = ()
    text: Text | None = None
    more: bool = False
    says: str = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a `memory_forget` took away."""

    id: str
    scope: str = ""
    topic: str = ""
    title: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries in the order profile, log, note. `left_out` counts those beyond the limit; `next_offset` goes on."""

    entries: tuple[Excerpt, ...] = ()
    total: int = 0
    left_out: int = 0
    next_offset: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """A session or note as a candidate: its id for `timeline` and `get`, what it is about, its best lines."""

    id: str
    kind: str
    about: str
    source: str = ""
    date: str = ""
    lines: int = 0
    best: tuple[Excerpt, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidates:
    """Sessions and notes that answer, best first."""

    sessions: tuple[Session, ...] = ()
    more: bool = False
    says: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """What stands around an id: lines of the same session in their order (`at` is the asked one's place), and the
    sessions before and after it in time, oldest first. `cut`: the session has more lines than are shown."""

    id: str
    session: Session
    lines: tuple[Excerpt, ...] = ()
    at: int = 0
    earlier: tuple[Session, ...] = ()
    later: tuple[Session, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Texts:
    """Whole texts of several ids. `missing` are ids that answer to nothing one may see; `left_out` those for which
    there was no room: ask for them alone."""

    texts: tuple[Text, ...] = ()
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """State of memory, numbers only. `visible` counts what this project may see by kind; `entries` those the tools
    remembered, by tier."""

    state: str
    mode: str
    project: str
    version: int | None = None
    published: str = ""
    sessions: int = 0
    visible: dict[str, int] | None = None
    entries: dict[str, int] | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Because:
    """One source behind a line: its bullets, and what was said, as `e12 human 2026-11-28: text`."""

    citation: str
    source: str
    bullets: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a line of the summary stands there. `elsewhere` counts sources of other projects, which are not shown."""

    line: int
    section: str
    text: str
    version: int | None
    because: tuple[Because, ...] = ()
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Why:
    """Answers of a `memory_why`."""

    reasons: tuple[Reason, ...] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class Titles:
    """The title index: Markdown, bounded; `left_out` titles had no room and are counted in the text too."""

    text: str = ""
    shown: int = 0
    left_out: int = 0


def as_plain(answer: object) -> Any:
    """The same as dicts, lists and scalars, for JSON."""
    if is_dataclass(answer) and not isinstance(answer, type):
        return {field.name: as_plain(getattr(answer, field.name)) for field in fields(answer)}
    if isinstance(answer, dict):
        return {str(key): as_plain(value) for key, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [as_plain(value) for value in answer]
    return answer
