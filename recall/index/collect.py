"""The units of a store, read from its files: claims of the summary, bullets of rollout summaries, notes, entries of
topics, short entries and, when asked for, what was said in the sessions themselves.

Everything is redacted here, whatever the files hold, so that no secret is ever found [M57 Z059]; texts a person had
forgotten are left out wherever they stand [M50]. Who may see a unit is decided by `recall.scope`, as for the block that
a session gets [C023].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from memory import forgotten, support
from memory.clock import iso
from memory.documents import parse_rollout_summary, sections, without_marks
from memory.model import SummaryHeader
from memory.project import Project, project_of
from memory.workspace import Note, Workspace
from memory.workspace.topic_text import USER
from recall import scope, short
from recall.index import fresh
from recall.index.unit import Scope, Unit

LINE, BULLET, NOTE, SHORT, EVIDENCE, ENTRY = "line", "bullet", "note", "short", "evidence", "entry"
"""Kinds of units, most consolidated first."""
SAME_CLAIM = 0.6
"""How alike a bullet and a superseded line are, to be about the same."""
_BACKTICK = re.compile(r"`([^`\n]{2,60})`")
_COMPOUND = re.compile(r"\S*(?:[_./:-]\w|[a-z][A-Z]|\w\d|\d\w)\S*")
_MADE_UP = re.compile(r"entry(?:-\d+)?")
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=[-*+] |\d+[.)] |#{1,6} )")


class Redaction(Protocol):
    """The part of `memory.redact.Redactor` that is needed."""

    def redact_many(self, texts: list[str]) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Superseded:
    """A line of a former summary that gave way. `text` and `into` are without marks."""

    text: str
    into: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the state knows beside the files: how often sources were used (by citation), what was superseded, how to
    recognise a forgotten text."""

    used: Mapping[str, int] = field(default_factory=dict)
    superseded: tuple[Superseded, ...] = ()
    holds: forgotten.Holds = forgotten.nothing


@dataclass(slots=True)
class Collected:
    """`units` in the order of the index; `projects` id -> name; `watched` are files outside of the workspace, as
    they were when they were read; `problems` one sentence for each file that could not be used."""

    units: list[Unit] = field(default_factory=list)
    projects: dict[str, str] = field(default_factory=dict)
    watched: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


Said = Callable[[SummaryHeader], Iterable[Unit]]
"""What was said in the session of a rollout summary, as units without scope."""


def collect(
    home: Path, workspace: Workspace | None, facts: Facts, redactor: Redaction, said: Said | None = None
) -> Collected:
    """Reads everything once; without a workspace the short files alone. Raises WorkspaceError when the workspace cannot
    be read at all."""
    found = Collected()
    bullets: list[Unit] = []
    evidence: list[Unit] = []
    folders: dict[str, str] = {}
    times: dict[str, str] = {}
    for source_id, text in (workspace.rollout_summaries() if workspace else {}).items():
        try:
            header, body = parse_rollout_summary(text)
        except ValueError:
            found.problems.append(f"{Workspace.rollout_summary_path(source_id)} is damaged")
            continue
        found.projects[header.project] = header.project_name or header.project
        if header.cwd:
            folders.setdefault(header.cwd, header.project)
        used = facts.used.get(header.citation, 0)
        times[header.citation] = times[source_id] = when(header.ended or header.started)
        bullets += [unit._replace(used=used) for unit in _bullets(source_id, header, body)]
        if said is not None:
            shown = _sight(header.project)
            evidence += [unit._replace(scope=shown, used=used) for unit in said(header)]
    kept = workspace.notes().notes if workspace else []
    times |= {note.citation: when(note.created or note.mtime) for note in kept}
    claims = list(_claims(home, facts, times, found))
    notes = [unit for note in kept for unit in _note(note, facts)]
    entries = [*_topics(workspace, found), *_short(home, folders, found)]
    marked = _marked(bullets, facts.superseded, claims)
    units = [u for u in (*claims, *notes, *entries, *marked, *evidence) if u.text and not facts.holds(u.text)]
    found.units = _redacted(units, redactor)
    return found


def _redacted(units: list[Unit], redactor: Redaction) -> list[Unit]:
    """Every text of every unit without secrets, for the price of one pass."""
    texts = [text for unit in units for text in (unit.text, unit.about, unit.successor, *unit.names)]
    clean = iter(redactor.redact_many(texts))
    return [
        unit._replace(
            text=next(clean), about=next(clean), successor=next(clean), names=tuple(next(clean) for _ in unit.names)
        )
        for unit in units
    ]


def _sight(project: str, *, everywhere: bool = False) -> Scope:
    return Scope((project,) if project else (), everywhere)


# -- the summary --------------------------------------------------------------------------------------------------


def _claims(home: Path, facts: Facts, times: Mapping[str, str], found: Collected) -> Iterator[Unit]:
    """Lines of the confirmed summary; each one stands alone, since its neighbours may be about other projects."""
    published = scope.read_published(str(home))
    if published.problem:
        found.problems.append(published.problem)
    for line in scope.lines_of(published.text):
        projects = sorted({published.sources[c].project for c in line.citations if c in published.sources})
        text = without_marks(line.text)
        ref = f"line:{forgotten.text_key(text).partition(':')[2][:8]}"
        yield Unit(
            ref,
            ref,
            text,
            kind=LINE,
            names=_names(text),
            scope=Scope(tuple(projects), scope.is_visible(line, published.sources, scope.NOBODY)),
            citations=line.citations,
            source=f"summary, line {line.number}",
            section=line.section.removeprefix("## "),
            time=max((times.get(citation, "") for citation in line.citations), default=""),
            used=sum(facts.used.get(citation, 0) for citation in line.citations),
        )


def _names(text: str) -> tuple[str, ...]:
    """Identifiers a line puts in backticks and that nobody says by chance: `gen-itgc`, `src/app.py`, `retry_after`."""
    return tuple(dict.fromkeys(name for name in _BACKTICK.findall(text) if _COMPOUND.fullmatch(name)))


# -- rollout summaries and notes ------------------------------------------------------------------------------------


def _bullets(source_id: str, header: SummaryHeader, body: str) -> Iterator[Unit]:
    day = when(header.ended or header.started)
    heading_words = (header.slug.replace("-", " "), header.project_name, header.branch or "", day[:10])
    about = " ".join(part for part in heading_words if part)
    number = 0
    for heading, bullets in sections(body).items():
        for bullet in bullets:
            number += 1
            text = without_marks(bullet)
            yield Unit(
                f"{header.citation}#{number}",
                source_id,
                text,
                kind=BULLET,
                names=_names(text),
                about=about,
                scope=_sight(header.project),
                citations=(header.citation,),
                source=str(header.source),
                section=heading.removeprefix("## "),
                time=day,
            )


def _note(note: Note, facts: Facts) -> Iterator[Unit]:
    names = () if _MADE_UP.fullmatch(note.name) else (note.name.replace("-", " ").replace("_", " "),)
    about = note.name.replace("-", " ")
    if note.title:
        names, about = (note.title,), f"{note.topic} {note.title}"
    for number, piece in enumerate(_pieces(note.content), start=1):
        yield Unit(
            f"{note.citation}#{number}",
            note.citation,
            piece,
            kind=NOTE,
            names=(*(names if number == 1 else ()), *_names(piece)),
            about=about,
            scope=_sight(note.project or "", everywhere=note.is_global),
            citations=(note.citation,),
            source=note.path,
            section="pinned" if note.pinned else "",
            time=when(note.created or note.mtime),
            used=facts.used.get(note.citation, 0),
        )


def _pieces(text: str) -> list[str]:
    """Paragraphs and list items, each on one line."""
    return [piece for part in _PARAGRAPH.split(text) if (piece := " ".join(part.split()).lstrip("-*+# "))]


def _topics(workspace: Workspace | None, found: Collected) -> Iterator[Unit]:
    """What the memory tools remember; the folder an entry lies in decides who sees it [P017]."""
    if workspace is None:
        return
    reading = workspace.topics.read()
    found.problems += reading.problems
    for project, name in (reading.projects or {}).items():
        found.projects.setdefault(project, name)
    for entry in reading.entries:
        shown = Scope((), True) if entry.scope == USER else _sight(entry.scope)
        for number, piece in enumerate(_pieces(entry.body) or [entry.title], start=1):
            yield Unit(
                f"{entry.id}#{number}",
                entry.id,
                piece,
                kind=ENTRY,
                names=(*((entry.title,) if number == 1 else ()), *_names(piece)),
                about=f"{entry.topic} {entry.title}",
                scope=shown,
                source=entry.path,
                section=entry.tier,
                time=when(entry.record.updated),
            )


def _short(home: Path, folders: Mapping[str, str], found: Collected) -> Iterator[Unit]:
    """The user's short file, and those of the checkouts that sessions worked in, as far as they are there."""
    places: dict[str, Scope] = {short.user_path(str(home)): Scope((), True)}
    for folder in folders:
        project: Project = project_of(folder)
        if project.root is not None:
            places.setdefault(short.project_path(str(project.root)), _sight(project.id))
            own = short.own_path(str(project.root))
            found.watched[own] = fresh.status(own)
            found.projects.setdefault(project.id, project.name)
    seen: set[tuple[int, int]] = set()
    for path, shown in places.items():
        found.watched[path] = fresh.status(path)
        file = short.read(path)
        if file.diagnostic is not None:
            found.problems.append(str(file.diagnostic))
        if file.identity is None or file.identity in seen:
            continue
        seen.add(file.identity)
        owner = "project" if shown.projects else "user"
        for entry in file.entries:
            ref = f"short:{'/'.join((owner, *shown.projects))}/{entry.id}"
            names = () if _MADE_UP.fullmatch(entry.id) else (entry.id.replace("-", " "),)
            text = " ".join(entry.text.split())
            yield Unit(ref, ref, text, kind=SHORT, names=(*names, *_names(text)), scope=shown, source=path)


# -- what no longer holds -------------------------------------------------------------------------------------------


def _marked(bullets: list[Unit], gone: Iterable[Superseded], claims: list[Unit]) -> list[Unit]:
    """Bullets that say what a superseded line said are marked, with what holds instead; what the summary still says is
    not [M39 M40 O29]."""
    former = [(item, support.terms(item.text)) for item in gone]
    if not former:
        return bullets
    current = [support.terms(claim.text) for claim in claims]
    marked = []
    for unit in bullets:
        terms = support.terms(unit.text)
        best, item = max(((_alike(terms, old), item) for item, old in former), key=lambda pair: pair[0])
        if best >= SAME_CLAIM and best > max((_alike(terms, now) for now in current), default=0.0):
            unit = unit._replace(superseded=True, successor=item.into)
        marked.append(unit)
    return marked


def _alike(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right) if left or right else 0.0


def when(moment: datetime | None) -> str:
    """A unit's `time`."""
    return iso(moment) or ""
