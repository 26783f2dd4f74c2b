"""Statements in order of time: the same thing once, the later word in place of the earlier."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from memory.offline.subjects import replaces, same, subject

T = TypeVar("T")

MAX_COMPARED = 48
"""Earlier statements one new statement is compared with: keeps the whole linear."""
EVERYWHERE = "*"


@dataclass(frozen=True, slots=True)
class Mark:
    """What proves an entry (an anchor or a citation), and the project it was said in (`*`: for all projects).

    `confirms`: it only agrees with what another mark states.
    """

    name: str
    scope: str = ""
    confirms: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement with all its proofs. `former` is what it replaced, with the proofs of that.

    `section` and `weight` are the caller's: where it belongs, how much it matters.
    """

    text: str
    section: str
    weight: int
    marks: tuple[Mark, ...]
    former: tuple[Entry, ...] = ()
    fixed: bool = False

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset(mark.scope for mark in self.marks)


@dataclass(slots=True)
class Book:
    """Entries, added oldest first. `prefer` picks the wording of two entries that say the same."""

    prefer: Callable[[Entry, Entry], Entry]
    entries: dict[int, Entry] = field(default_factory=dict)
    _index: dict[str, list[int]] = field(default_factory=dict)
    _next: int = 0

    def add(self, entry: Entry) -> None:
        """Joins the entry to one that says the same, or puts it in place of those it contradicts."""
        former: list[Entry] = list(entry.former)
        joined: int | None = None
        for place in self._neighbours(entry.text):
            old = self.entries[place]
            if joined is None and entry.section == old.section and same(entry.text, old.text):
                joined = place
            elif not old.fixed and _share_scope(entry, old) and replaces(entry.text, old.text):
                former += self._take_back(place, entry)
        if joined is not None and joined in self.entries:
            old = self.entries.pop(joined)
            entry = _joined(old, entry, self.prefer)
        self.entries[self._next] = replace(entry, former=_once([*entry.former, *former]))
        for key in _keys(entry.text):
            self._index.setdefault(key, []).append(self._next)
        self._next += 1

    def all(self) -> list[Entry]:
        """What stands, oldest first."""
        return [self.entries[place] for place in sorted(self.entries)]

    def _neighbours(self, text: str) -> list[int]:
        counts: dict[int, int] = {}
        for key in _keys(text):
            for place in self._index.get(key, ())[-MAX_COMPARED:]:
                if place in self.entries:
                    counts[place] = counts.get(place, 0) + 1
        nearest = sorted(counts, key=lambda place: (-counts[place], -place))[:MAX_COMPARED]
        return sorted(nearest, reverse=True)

    def _take_back(self, place: int, entry: Entry) -> list[Entry]:
        """Removes the contradicted entry, or only what it claims for the projects of the new one [X25]."""
        old = self.entries.pop(place)
        if EVERYWHERE in entry.scopes or "" in entry.scopes:
            return [old]
        elsewhere = tuple(mark for mark in old.marks if mark.scope not in entry.scopes)
        if not elsewhere:
            return [old]
        self.entries[place] = replace(old, marks=elsewhere)
        return [replace(old, marks=tuple(mark for mark in old.marks if mark not in elsewhere))]


def _share_scope(new: Entry, old: Entry) -> bool:
    """A rule of one project never ends one of another; one for all projects ends every one."""
    return bool(new.scopes & old.scopes) or EVERYWHERE in new.scopes


def _joined(old: Entry, new: Entry, prefer: Callable[[Entry, Entry], Entry]) -> Entry:
    best = prefer(old, new)
    return replace(
        best,
        weight=max(old.weight, new.weight),
        marks=_once([*old.marks, *new.marks]),
        former=_once([*old.former, *new.former]),
        fixed=old.fixed or new.fixed,
    )


def _once(items: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(items))


def _keys(text: str) -> list[str]:
    return sorted(subject(text).keys)
