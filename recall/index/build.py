"""Units to an index file: built under another name and renamed, so that readers see the old or the new one, whole.

Two grains are kept, units and their groups (sessions, notes). A posting is a unit's number and its impact: the term's
share of the score, saturation, length and field weights in it, so that a question only adds numbers up. The measures
are ours and not those of SQLite's FTS5, whose weights cannot be set and which takes a word that stands in half of the
sessions for worthless: on LoCoMo its ranking finds 1.3 points less at rank 5.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from recall.index import words
from recall.index.file import FORMAT, Rows, write
from recall.index.question import rarity
from recall.index.unit import Scope, Unit

K1 = 1.2
UNIT_LENGTH, GROUP_LENGTH = 0.5, 0.7
"""How much length counts against a unit and a group."""
FIELD_WEIGHTS = {"names": 1.5, "text": 1.0, "aside": 0.5}
TALK = 20
"""Terms kept of each unit for the feedback of `rank`."""
MAX_TEXT = 200_000
"""Code points of a field that are indexed."""


_Posted: TypeAlias = "tuple[array[int], array[float]]"


class Built(NamedTuple):
    """What was made: numbers of units, groups and terms, and bytes of the file."""

    units: int
    groups: int
    terms: int
    size: int


class _Field:
    """Term counts of one field over all rows of one grain."""

    def __init__(self) -> None:
        self.counts: list[Mapping[str, int]] = []
        self.lengths: list[int] = []

    def add(self, terms: Sequence[str]) -> None:
        self.counts.append(Counter(terms) if terms else {})
        self.lengths.append(len(terms))

    def floors(self, share: float) -> list[float]:
        """Of each row, the count at which half of a term's impact is reached; 0 for a row where the field is empty."""
        filled = [length for length in self.lengths if length]
        mean = sum(filled) / len(filled) if filled else 1.0
        return [K1 * (1 - share + share * length / mean) if length else 0.0 for length in self.lengths]


def build(path: Path, rows: Rows) -> Built:
    """Writes an index in place of whatever is at `path`. Raises OSError or sqlite3.Error, and then leaves what was."""
    temporary = path.with_name(f".tmp-{os.getpid()}-{secrets.token_hex(8)}")
    try:
        write(temporary, rows)
        size = temporary.stat().st_size
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return Built(len(rows.units), len(rows.groups), len(rows.terms), size)


def rows_of(units: Iterable[Unit], meta: Mapping[str, str]) -> Rows:
    """The rows of an index of `units`, in this order; `meta` is kept with it."""
    groups = _grouped(units)
    listed = [unit for group in groups for unit in group]
    fields = {name: _Field() for name in FIELD_WEIGHTS}
    whole = {name: _Field() for name in FIELD_WEIGHTS}
    for group in groups:
        together: dict[str, list[str]] = {name: [] for name in FIELD_WEIGHTS}
        for unit in group:
            for name, text in _texts(unit):
                fields[name].add(terms := _field_terms(text))
                together[name] += terms
        for about in {unit.about: None for unit in group}:
            together["text"] += _field_terms(about)
        for name, terms in together.items():
            whole[name].add(terms)
    posted = _posted(fields, UNIT_LENGTH)
    order = _order(posted, len(listed))
    starts = list(itertools.accumulate((len(group) for group in groups), initial=0))
    scopes = {scope: at for at, scope in enumerate(dict.fromkeys(unit.scope for unit in listed))}
    times = {time: at for at, time in enumerate(sorted({unit.time for unit in listed}))}
    return Rows(
        meta={"format": str(FORMAT), **meta},
        units=listed,
        columns={
            "scope": array("I", (scopes[unit.scope] for unit in listed)),
            "time": array("I", (times[unit.time] for unit in listed)),
            "used": array("I", (min(unit.used, 2**31) for unit in listed)),
            "superseded": array("I", (unit.superseded for unit in listed)),
        },
        scopes=list(scopes),
        groups=[(group[0].group, start, len(group)) for group, start in zip(groups, starts, strict=False)],
        talk=[_talk(counts, order) for counts in fields["text"].counts],
        names=_names(listed),
        terms=_terms(posted, _posted(whole, GROUP_LENGTH)),
    )


def _grouped(units: Iterable[Unit]) -> list[list[Unit]]:
    """Units of a group one after the other, groups in the order they came. A group never spans two scopes: what one
    may not see lends no words to what he may."""
    found: dict[tuple[str, Scope], list[Unit]] = {}
    for unit in units:
        found.setdefault((unit.group, unit.scope), []).append(unit)
    return list(found.values())


def _field_terms(text: str) -> list[str]:
    return words.term_texts(text[:MAX_TEXT]) if text else []


def _order(posted: Mapping[str, _Posted], rows: int) -> dict[str, int]:
    """Term -> its place among all, those that say most of the unit they stand in first; not words nobody asks for."""
    worth = {t: rarity(len(at), rows) for t, (at, _) in posted.items() if len(t) > 2 and not words.is_stop(t)}
    return {term: place for place, term in enumerate(sorted(worth, key=lambda term: (-worth[term], term)))}


def _talk(counts: Mapping[str, int], order: Mapping[str, int]) -> list[str]:
    """The terms that say most about a unit."""
    return sorted(filter(order.__contains__, counts), key=order.__getitem__)[:TALK]


def _names(units: list[Unit]) -> dict[str, list[int]]:
    """A name's terms, sorted and joined by a blank -> the units that bear it."""
    found: dict[str, list[int]] = {}
    for number, unit in enumerate(units):
        for name in unit.names:
            if key := " ".join(sorted(words.spoken(name))):
                numbers = found.setdefault(key, [])
                if number not in numbers[-1:]:
                    numbers.append(number)
    return found


def _texts(unit: Unit) -> tuple[tuple[str, str], ...]:
    return ("names", "\n".join(unit.names)), ("text", unit.text), ("aside", unit.aside)


def _posted(fields: Mapping[str, _Field], share: float) -> dict[str, _Posted]:
    """Term -> numbers of the rows that hold it, ascending, and its impact in each.

    Most terms stand once in a row and in its text alone: their impact is the row's, looked up at the end for whole
    lists of rows, and only the others are worked out one by one.
    """
    kept = {name: (FIELD_WEIGHTS[name] * (K1 + 1), field.counts, field.floors(share)) for name, field in fields.items()}
    top, texts, floors = kept.pop("text")
    usual = [top / (1 + floor) for floor in floors]
    numbers: dict[str, list[int]] = defaultdict(list)
    unusual: dict[str, dict[int, float]] = defaultdict(dict)
    for number, text in enumerate(texts):
        row = _impacts([(weight, counts[number], all_floors[number]) for weight, counts, all_floors in kept.values()])
        for term, times in text.items():
            at = numbers[term]
            if times > 1 or term in row:
                unusual[term][len(at)] = row.pop(term, 0.0) + top * times / (times + floors[number])
            at.append(number)
        for term, impact in row.items():
            unusual[term][len(numbers[term])] = impact
            numbers[term].append(number)
    return {term: (array("I", at), _looked_up(usual, at, unusual.get(term))) for term, at in numbers.items()}


def _impacts(fields: list[tuple[float, Mapping[str, int], float]]) -> dict[str, float]:
    """The terms of a row's lesser fields, most often empty, with what each adds to the score."""
    row: dict[str, float] = {}
    for top, counts, floor in fields:
        for term, times in counts.items():
            row[term] = row.get(term, 0.0) + top * times / (times + floor)
    return row


def _looked_up(usual: list[float], numbers: list[int], unusual: Mapping[int, float] | None) -> array[float]:
    impacts = array("f", map(usual.__getitem__, numbers))
    if unusual:
        for place, impact in unusual.items():
            impacts[place] = impact
    return impacts


def _terms(units: Mapping[str, _Posted], groups: Mapping[str, _Posted]) -> list[tuple[str, bytes, bytes]]:
    """Every term of either grain; what only a group's heading says stands in no unit."""
    return [(term, _packed(units.get(term)), _packed(groups.get(term))) for term in sorted(groups)]


def _packed(posted: _Posted | None) -> bytes:
    return b"" if posted is None else posted[0].tobytes() + posted[1].tobytes()
