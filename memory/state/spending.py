"""What was spent on each day by each stage: two groups at once, for charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import case, func, select

from memory.state.schema import ledger

if TYPE_CHECKING:
    from memory.state.store import Store


@dataclass(frozen=True, slots=True)
class DaySpend:
    """Calls of a stage on a UTC day (`2026-11-30`). `money` sums what is known, `unpriced` counts the other calls."""

    day: str
    stage: str
    requests: int
    tokens: int
    money: float
    unpriced: int


def daily(store: Store, since: str) -> list[DaySpend]:
    """From a day on, by day and stage."""
    c = ledger.c
    query = (
        select(
            c.day,
            c.role,
            func.count(),
            func.sum(c.input_tokens + c.output_tokens),
            func.coalesce(func.sum(c.money), 0.0),
            func.sum(case((c.money.is_(None), 1), else_=0)),
        )
        .where(c.day >= since)
        .group_by(c.day, c.role)
        .order_by(c.day, c.role)
    )
    with store.read() as tx:
        return [
            DaySpend(str(day), str(stage), int(calls), int(tokens), float(money), int(unpriced))
            for day, stage, calls, tokens, money, unpriced in tx.execute(query)
        ]
