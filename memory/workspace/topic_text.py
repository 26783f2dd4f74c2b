"""The form of topic files [P014 P044]. Pure.

    # testing                                a topic file is Markdown, for people and programs alike

    ## New test framework                    one entry: its title, then its text up to the next `## `

    New tests use Vitest; old Jest cases migrate gradually.

Beside `testing.md` lies `testing.json` with what is no text: for each entry, by id, its tier, who asked for it and
when. The Markdown file is the truth: what stands in it is an entry, whatever the other one says. Each record of the
JSON file names the hash of the text it belongs to, and a write puts the new record beside the old one before it changes
the text; so at every moment, whichever text stands, its record does too, and a process killed in between has changed
nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.clock import iso, parse_iso
from memory.workspace.layout import sha256_text

VERSION = 2
USER = "user"
"""The folder of what holds in every project; any other is named by a project's id."""
TIERS = ("profile", "log", "note")
"""Read priority, first to last [P010 P020]."""
SCOPE_FOLDER = re.compile(r"user|[0-9a-f]{12}")
ENTRY_ID = re.compile(r"mem:[0-9a-f]{12}")
_TITLE = re.compile(r"## +(\S.*?)\s*")
_TOPIC = re.compile(r"# +(\S.*?)\s*")
_HEADING_LIKE = re.compile(r"\\*#{1,2}(?:\s|$)")
_ESCAPED = re.compile(r"\\+#{1,2}(?:\s|$)")
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_HASHED = re.compile(r".*-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Record:
    """What the JSON file says of an entry with the text of this hash. `by` is `user`, `agent`, or empty where nobody
    knows: the entry was written into the file by hand."""

    sha256: str
    tier: str = "log"
    by: str = ""
    created: datetime | None = None
    updated: datetime | None = None


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """One entry. `scope` is `user` or a project's id; `path` the file, relative to the workspace."""

    id: str
    scope: str
    topic: str
    title: str
    body: str
    path: str
    record: Record = Record("")

    @property
    def tier(self) -> str:
        return self.record.tier


@dataclass(frozen=True, slots=True)
class TopicText:
    """A topic file taken apart: heading, what stands before the first entry, titles and texts in order."""

    topic: str
    preamble: str = ""
    entries: tuple[tuple[str, str], ...] = ()

    def with_entry(self, title: str, body: str) -> TopicText:
        """The same with another text under this title, or with the entry at the end."""
        wanted = key(title)
        if any(key(name) == wanted for name, _ in self.entries):
            kept = tuple((title, body) if key(name) == wanted else (name, text) for name, text in self.entries)
            return TopicText(self.topic, self.preamble, kept)
        return TopicText(self.topic, self.preamble, (*self.entries, (title, body)))

    def without(self, titles: Iterable[str]) -> TopicText:
        """The same without these entries."""
        gone = {key(title) for title in titles}
        return TopicText(self.topic, self.preamble, tuple(one for one in self.entries if key(one[0]) not in gone))


def key(name: str) -> str:
    """What makes two topics or titles the same: compatibility form, case and white space aside."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def entry_id(scope: str, topic: str, title: str) -> str:
    """The identity of an entry: the same for the same scope, topic and title [P025]."""
    digest = hashlib.sha256("\0".join((scope, key(topic), key(title))).encode("utf-8", "surrogatepass"))
    return f"mem:{digest.hexdigest()[:12]}"


def file_stem(topic: str) -> str:
    """A topic's file name without its ending: itself where it is plain, else with a hash; never a path."""
    plain = key(topic)
    if _PLAIN.fullmatch(plain) and not _HASHED.fullmatch(plain):
        return plain
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:30].strip("-") or "topic"
    return f"{slug}-{hashlib.sha256(plain.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


# -- Markdown ---------------------------------------------------------------------------------------------------------


def parse(text: str, stem: str) -> TopicText:
    """Never raises: whatever a person has written is kept. Two entries of one title are one, joined."""
    topic = ""
    preamble: list[str] = []
    entries: dict[str, tuple[str, list[str]]] = {}
    current = preamble
    for line in text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"):
        title = _TITLE.fullmatch(line)
        heading = _TOPIC.fullmatch(line)
        if title is not None:
            current = entries.setdefault(key(title[1]), (title[1], []))[1]
            if current:
                current.append("")
        elif heading is not None and not topic and not entries:
            topic = heading[1]
        else:
            current.append(line[1:] if _ESCAPED.match(line) else line)
    found = tuple((title, _trimmed(lines)) for title, lines in entries.values())
    return TopicText(topic or stem, _trimmed(preamble), found)


def _trimmed(lines: Sequence[str]) -> str:
    return "\n".join(lines).strip("\n")


def print_topic(topic: TopicText) -> str:
    """The inverse of `parse`: lines that would read as a heading are escaped, as Markdown does it."""
    parts = [f"# {topic.topic}"]
    parts += [_escaped(topic.preamble)] if topic.preamble else []
    for title, body in topic.entries:
        parts += [f"## {title}", _escaped(body)]
    return "\n\n".join(parts) + "\n"


def _escaped(body: str) -> str:
    return "\n".join(f"\\{line}" if _HEADING_LIKE.match(line) else line for line in body.split("\n"))


# -- JSON -------------------------------------------------------------------------------------------------------------

Records = Mapping[str, Sequence[Record]]
"""Entry id -> records, the one in force last."""


def parse_records(data: bytes) -> tuple[dict[str, tuple[Record, ...]], str]:
    """The records and the project's name. What cannot be used is none: the Markdown file is the truth."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return {}, ""
    if not isinstance(values, dict) or values.get("version") != VERSION:
        return {}, ""
    found: dict[str, tuple[Record, ...]] = {}
    entries = values.get("entries")
    for name, records in (entries if isinstance(entries, dict) else {}).items():
        if ENTRY_ID.fullmatch(name) and isinstance(records, list):
            found[name] = tuple(_record(one) for one in records[:8] if isinstance(one, dict))
    project = values.get("project")
    return found, project if isinstance(project, str) else ""


def _record(values: Mapping[str, Any]) -> Record:
    text = {name: value for name, value in values.items() if isinstance(value, str)}
    tier, by = text.get("tier", ""), text.get("by", "")
    return Record(
        text.get("sha256", ""),
        tier if tier in TIERS else "log",
        by if by in {"user", "agent"} else "",
        parse_iso(text.get("created")),
        parse_iso(text.get("updated")),
    )


def print_records(records: Records, project: str) -> bytes:
    """The JSON file. Ids, hashes and words of ours: no text of an entry stands in it."""
    entries = {
        name: [
            {
                "sha256": one.sha256,
                "tier": one.tier,
                "by": one.by,
                "created": iso(one.created),
                "updated": iso(one.updated),
            }
            for one in rows
        ]
        for name, rows in sorted(records.items())
    }
    values = {"version": VERSION, "project": project, "entries": entries}
    return (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode()


def record_of(records: Records, name: str, body: str) -> Record:
    """The record of an entry with this text; of a text changed by hand, the entry's last one with its own tier."""
    rows = records.get(name, ())
    sha = sha256_text(body)
    exact = next((one for one in reversed(rows) if one.sha256 == sha), None)
    if exact is not None:
        return exact
    if rows:
        last = rows[-1]
        return Record(sha, last.tier, "", last.created, last.updated)
    return Record(sha)
