"""Leafing through the runs: a page of them at a time, narrowed and counted by the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, and_, func, select, true

from memory.state.runs import RunRow
from memory.state.schema import runs

if TYPE_CHECKING:
    from memory.state.store import Store

UNFINISHED = "unfinished"
"""Stands for the outcome of a run without an end."""


def run_page(
    store: Store, *, limit: int, offset: int = 0, trigger: str = "", outcome: str = ""
) -> tuple[list[RunRow], int]:
    """A page of runs, newest first, and how many there are in all; empty values narrow nothing."""
    c = runs.c
    parts: list[ColumnElement[bool]] = [true()]
    if trigger:
        parts.append(c.trigger == trigger)
    if outcome:
        parts.append(c.outcome.is_(None) if outcome == UNFINISHED else c.outcome == outcome)
    condition = and_(*parts)
    with store.read() as tx:
        total = tx.execute(select(func.count()).select_from(runs).where(condition)).scalar_one()
        query = select(*c).where(condition).order_by(c.started.desc(), c.run_id.desc()).limit(limit).offset(offset)
        return [RunRow(*row) for row in tx.execute(query)], total
