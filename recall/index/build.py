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
from collections.abc import Iterable, Mapping
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

    def add(self, counts: Mapping[str, int]) -> None:
        self.counts.append(counts)
        self.lengths.append(sum(counts.values()))

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
        together: dict[str, dict[str, int]] = {name: {} for name in FIELD_WEIGHTS}
        for unit in group:
            for name, text in _texts(unit):
                fields[name].add(counts := _counts(text))
                _add(together[name], counts)
        for about in {unit.about: None for unit in group}:
            _add(together["text"], _counts(about))
        for name, counts in together.items():
            whole[name].add(counts)
    posted = _posted(fields, UNIT_LENGTH, len(listed))
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
        terms=_terms(posted, _posted(whole, GROUP_LENGTH, len(groups))),
    )


def _grouped(units: Iterable[Unit]) -> list[list[Unit]]:
    """Units of a group one after the other, groups in the order they came. A group never spans two scopes: what one
    may not see lends no words to what he may."""
    found: dict[tuple[str, Scope], list[Unit]] = {}
    for unit in units:
        found.setdefault((unit.group, unit.scope), []).append(unit)
    return list(found.values())


def _counts(text: str) -> dict[str, int]:
    return Counter(words.term_texts(text[:MAX_TEXT])) if text else {}


def _add(total: dict[str, int], counts: Mapping[str, int]) -> None:
    if not total:
        total.update(counts)
        return
    for term, count in counts.items():
        total[term] = total.get(term, 0) + count


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


def _posted(fields: Mapping[str, _Field], share: float, count: int) -> dict[str, _Posted]:
    """Term -> numbers of the rows that hold it, ascending, and its impact in each."""
    kept = [(FIELD_WEIGHTS[name] * (K1 + 1), field.counts, field.floors(share)) for name, field in fields.items()]
    numbers: dict[str, list[int]] = defaultdict(list)
    impacts: dict[str, list[float]] = defaultdict(list)
    for number in range(count):
        filled = [(top, counts[number], floors[number]) for top, counts, floors in kept if floors[number]]
        for term, impact in _impacts(filled):
            numbers[term].append(number)
            impacts[term].append(impact)
    return {term: (array("I", at), array("f", impacts[term])) for term, at in numbers.items()}


def _impacts(filled: list[tuple[float, Mapping[str, int], float]]) -> Iterable[tuple[str, float]]:
    """A row's terms with what each adds to the score; most rows have one field."""
    if len(filled) == 1:
        top, counts, floor = filled[0]
        return [(term, top * count / (count + floor)) for term, count in counts.items()]
    row: dict[str, float] = {}
    for top, counts, floor in filled:
        for term, count in counts.items():
            row[term] = row.get(term, 0.0) + top * count / (count + floor)
    return row.items()


def _terms(units: Mapping[str, _Posted], groups: Mapping[str, _Posted]) -> list[tuple[str, bytes, bytes]]:
    """Every term of either grain; what only a group's heading says stands in no unit."""
    return [(term, _packed(units.get(term)), _packed(groups.get(term))) for term in sorted(groups)]


def _packed(posted: _Posted | None) -> bytes:
    return b"" if posted is None else posted[0].tobytes() + posted[1].tobytes()
