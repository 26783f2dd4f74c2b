"""Stage 2's inputs as the consolidation's messages show them: the table of inputs, and each file as it was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from memory import support
from memory.clock import iso
from memory.documents import anchors, parse_rollout_summary, sections, without_marks
from memory.model import ANCHOR, CITATION, SummaryHeader
from memory.offline.book import EVERYWHERE

MAX_NOTE_LINES = 60
"""Statements taken from one note that is not pinned; more than this fills the summary alone."""
_PATH = re.compile(r"rollout_summaries/([0-9a-f]{16})\.md|extensions/ad_hoc/notes/([A-Za-z0-9._-]{1,64})\.md")
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table of inputs."""

    citation: str
    path: str
    project: str = ""
    date: str = ""
    pinned: bool = False
    everywhere: bool = False

    @property
    def is_note(self) -> bool:
        return self.citation.startswith("note:")


@dataclass(frozen=True, slots=True)
class Line:
    """One bullet of a source, without its marks. `spoken`: a person's words stand behind it."""

    text: str
    spoken: bool


@dataclass(frozen=True, slots=True)
class Source:
    """One input. `scope` is its project's key, `*` for all; `name` how the project is shown; `order` sorts by time;
    `proof` is the text a claim may be proven from, `terms` its words, `spoken_terms` those a person said."""

    row: Row
    order: str
    scope: str
    name: str
    title: str
    outcome: str
    day: str
    lines: Mapping[str, tuple[Line, ...]]
    proof: str
    terms: frozenset[str]
    spoken_terms: frozenset[str]
    folder: str = ""

    @property
    def citation(self) -> str:
        return self.row.citation


def rows(texts: Iterable[str]) -> list[Row]:
    """Every input the messages name, in their order: a table row, or any line with its path."""
    found: dict[str, Row] = {}
    for text in texts:
        for line in text.split("\n"):
            match = _PATH.search(line)
            if match is None or match[0] in found:
                continue
            marked = CITATION.search(line)
            citation = marked[1] if marked else match[1][:8] if match[1] else f"note:{match[2]}"
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            project, date, mark = cells[2:5] if len(cells) >= 5 else ("", "", "")
            found[match[0]] = Row(citation, match[0], project, date, "pinned" in mark, "all projects" in mark)
    return list(found.values())


def source(row: Row, text: str) -> Source | None:
    """A file as an input; None where it cannot be read as one."""
    return _note(row, text) if row.is_note else _record(row, text)


def _record(row: Row, text: str) -> Source | None:
    try:
        header, body = parse_rollout_summary(text)
    except ValueError:
        return None
    human = frozenset(header.human)
    lines = {
        name: tuple(Line(without_marks(bullet), bool(human.intersection(anchors(bullet)))) for bullet in bullets)
        for name, bullets in sections(body).items()
    }
    first = body.split("\n", 1)[0]
    title = first[2:].strip() if first.startswith("# ") else ""
    moment = header.ended or header.started
    proof = _proof(header, body)
    return Source(
        row=row,
        order=moment.isoformat() if moment else "",
        scope=header.project or "unknown",
        name=header.project_name,
        title=title,
        outcome=header.outcome.value,
        day=f"{moment:%Y-%m-%d}" if moment else "",
        lines=lines,
        proof=proof,
        terms=support.terms(proof),
        spoken_terms=_terms(line.text for found in lines.values() for line in found if line.spoken),
        folder=header.cwd or "",
    )


def by_project(sources: Iterable[Source]) -> list[Source]:
    """The sources with one scope for one code base: a host that records no remote gives a folder another identity."""
    found = list(sources)
    leader: dict[str, str] = {}

    def top(key: str) -> str:
        while leader.setdefault(key, key) != key:
            key = leader[key]
        return key

    for item in found:
        if item.scope != EVERYWHERE and item.folder:
            first, second = sorted((top(item.scope), top(f"folder:{item.name}:{item.folder}")))
            leader[second] = first
    return [item if item.scope == EVERYWHERE else replace(item, scope=top(item.scope)) for item in found]


def _terms(texts: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*(support.terms(text) for text in texts))


def _proof(header: SummaryHeader, body: str) -> str:
    facts = (header.project_name, header.cwd, header.branch, iso(header.started), iso(header.ended), header.slug)
    return "\n".join([*(fact for fact in facts if fact), header.outcome.value, ANCHOR.sub("", body)])


def _note(row: Row, text: str) -> Source | None:
    front = _FRONT.match(text)
    body = text[front.end() :] if front else text
    found = _note_lines(body)
    fields = dict(re.findall(r"^(\w+)\s*:\s*(.*?)\s*$", front[1], re.MULTILINE)) if front else {}
    spoken = fields.get("by", "user") == "user"
    lines = tuple(Line(line, spoken=spoken) for line in (found if row.pinned else found[:MAX_NOTE_LINES]))
    if not lines:
        return None
    project = fields.get("project", "")
    everywhere = row.everywhere or not project or fields.get("scope") == "global"
    order = fields.get("created") or row.date
    name = "" if everywhere else row.project or project
    words = support.terms(body)
    return Source(
        row=row,
        order=order,
        scope=EVERYWHERE if everywhere else project,
        name=name,
        title=lines[0].text,
        outcome="",
        day=order[:10],
        lines={"": lines},
        proof="\n".join(part for part in (name, project, body) if part),
        terms=words,
        spoken_terms=words if spoken else frozenset(),
    )


def _note_lines(body: str) -> list[str]:
    """A note's statements: one for each list item or paragraph, a heading joined to what follows it."""
    found: list[str] = []
    current, heading = "", ""
    for raw in [*body.split("\n"), ""]:
        line = raw.strip()
        item = re.match(r"^(?:[-*•]|\d{1,2}[.)])\s+(?:\[[ xX]\]\s+)?", line)
        if current and (not line or item or line.startswith("#")):
            found.append(current)
            current = ""
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        elif line and not re.match(r"^(?:```|~~~|-{3,}$|={3,}$)", line):
            text = line[item.end() :] if item else line
            current = f"{current} {text}".strip() if current else (f"{heading}: {text}" if heading else text)
            heading = ""
    return [*found, *([heading] if heading else [])]
