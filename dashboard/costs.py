"""The numbers behind the page of costs: days without a gap, shares of a whole, ceilings with what is used of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Literal

from dashboard.running import of, past
from memory.state import RunRow, Spend
from memory.state.spending import DaySpend

Unit = Literal["tokens", "requests", "money"]
UNITS: tuple[Unit, ...] = ("tokens", "requests", "money")
SPANS = (7, 30, 90)
SERIES = ("extract", "consolidate")
"""Stages with a colour of their own; all others share the third."""
HEIGHT = 100.0
STEP = 10.0
GAP = 2.0


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a bar, in the chart's own coordinates. `series` is 0 to 2."""

    series: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Day:
    """A UTC day and its sums: `values` by series."""

    day: str
    values: tuple[float, float, float]
    unpriced: int
    blocks: tuple[Block, ...] = ()

    @property
    def total(self) -> float:
        return sum(self.values)


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars of days, oldest first, in a box of `width` × 100; `top` is the highest bar's value."""

    days: tuple[Day, ...]
    width: float
    top: float


@dataclass(frozen=True, slots=True)
class Share:
    """A row of a table of shares: `part` of the largest one, 0 to 1."""

    spend: Spend
    part: float


def chart(found: Sequence[DaySpend], *, now: datetime, days: int, unit: Unit) -> Chart:
    """Every day of the span, whether something was spent or not."""
    sums: dict[str, list[float]] = {}
    unpriced: dict[str, int] = {}
    for one in found:
        values = sums.setdefault(one.day, [0.0, 0.0, 0.0])
        values[SERIES.index(one.stage) if one.stage in SERIES else 2] += float(getattr(one, unit))
        unpriced[one.day] = unpriced.get(one.day, 0) + one.unpriced
    names = [f"{now - timedelta(days=back):%Y-%m-%d}" for back in range(days - 1, -1, -1)]
    top = max((sum(sums.get(name, ())) for name in names), default=0.0)
    made = []
    for place, name in enumerate(names):
        a, b, c = sums.get(name, [0.0, 0.0, 0.0])
        made.append(Day(name, (a, b, c), unpriced.get(name, 0), _blocks(place, (a, b, c), top)))
    return Chart(tuple(made), days * STEP, top)


def _blocks(place: int, values: Sequence[float], top: float) -> tuple[Block, ...]:
    blocks, base = [], HEIGHT
    for series, value in enumerate(values):
        height = round(HEIGHT * value / top, 2) if top else 0.0
        if height:
            base -= height
            blocks.append(Block(series, place * STEP + GAP / 2, round(base, 2), STEP - GAP, height))
    return tuple(blocks)


def shares(found: Sequence[Spend], unit: Unit) -> list[Share]:
    """The largest first."""
    values = [(float(getattr(one, unit)), one) for one in found]
    top = max((value for value, _ in values), default=0.0)
    ordered = sorted(values, key=lambda item: (-item[0], item[1].name))
    return [Share(one, round(value / top, 4) if top else 0.0) for value, one in ordered]


def usual(rows: Sequence[RunRow]) -> tuple[int, int]:
    """How many of these runs called a model, and the tokens of the middle one of those."""
    tokens = [past(row, {}).tokens for row in rows if of(row.detail, "spend").get("requests")]
    return len(tokens), round(median(tokens)) if tokens else 0
