"""Entries of scope `agent`: they live as long as the session and leave no file behind [P013 P014].

A host that can keep them in its own record of the session (as custom entries) takes them from `as_plain` and gives them
back when the session goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory.workspace.topic_text import TIERS, entry_id, key
from recall.index.build import rows_of
from recall.index.file import IndexFile
from recall.index.rank import search
from recall.index.unit import Scope, Unit
from recall.search import Found

MAX_ENTRIES = 100
AGENT = "agent"
KIND = "session"


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One entry of this session."""

    id: str
    tier: str
    topic: str
    title: str
    content: str
    by: str = AGENT
    at: str = ""


class SessionEntries:
    """What one session keeps to itself."""

    def __init__(self, kept: Iterable[Mapping[str, Any]] = ()) -> None:
        """`kept` is what the host has: anything else than an entry is passed over."""
        self._entries: dict[str, SessionEntry] = {}
        for values in kept:
            entry = _of(values)
            if entry is not None and len(self._entries) < MAX_ENTRIES:
                self._entries[entry.id] = entry

    def __len__(self) -> int:
        return len(self._entries)

    def all(self) -> list[SessionEntry]:
        return list(self._entries.values())

    def get(self, name: str) -> SessionEntry | None:
        return self._entries.get(name.partition("#")[0])

    def put(self, tier: str, topic: str, title: str, content: str, *, by: str, at: str) -> tuple[SessionEntry, bool]:
        """The entry, and whether one of this topic and title was there."""
        name = entry_name(topic, title)
        updated = name in self._entries
        self._entries[name] = SessionEntry(name, tier, topic, title, content, by, at)
        return self._entries[name], updated

    def full(self, topic: str, title: str) -> bool:
        """Whether there is no room for this one."""
        return len(self._entries) >= MAX_ENTRIES and entry_name(topic, title) not in self._entries

    def remove(self, name: str) -> SessionEntry | None:
        return self._entries.pop(name.partition("#")[0], None)

    def search(self, text: str, *, limit: int, answers_only: bool) -> tuple[list[SessionEntry], Found]:
        """Entries that answer, best first."""
        if not self._entries:
            return [], Found((), frozenset())
        index = IndexFile.in_memory(rows_of([_unit(entry) for entry in self._entries.values()], {}))
        try:
            hits = search(index, text, limit=limit, answers_only=answers_only)
            return [self._entries[hit.unit.ref] for hit in hits], Found(tuple(hits), frozenset())
        finally:
            index.close()

    def as_plain(self) -> list[dict[str, str]]:
        """For the host to keep."""
        return [
            {"tier": e.tier, "topic": e.topic, "title": e.title, "content": e.content, "by": e.by, "at": e.at}
            for e in self._entries.values()
        ]


def entry_name(topic: str, title: str) -> str:
    """`agent:` and the entry's hash."""
    return entry_id(AGENT, topic, title).replace("mem:", "agent:")


def _unit(entry: SessionEntry) -> Unit:
    about = f"{entry.topic} {entry.title}"
    return Unit(entry.id, entry.id, entry.content, kind=KIND, names=(entry.title,), about=about, scope=Scope((), True))


def _of(values: Mapping[str, Any]) -> SessionEntry | None:
    if not isinstance(values, Mapping):
        return None
    text = {name: value for name, value in values.items() if isinstance(value, str)}
    topic, title, content = (text.get(name, "") for name in ("topic", "title", "content"))
    if not (key(topic) and key(title) and content) or text.get("tier") not in TIERS:
        return None
    by = "user" if text.get("by") == "user" else AGENT
    return SessionEntry(entry_name(topic, title), text["tier"], topic, title, content, by, text.get("at", ""))
