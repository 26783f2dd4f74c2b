"""Runs whose process ended without a word: their rows are closed, as failed, by the next run and by the service."""

from __future__ import annotations

from datetime import datetime

from memory import live
from memory.runtime import owner_is_gone
from memory.settings import Settings
from memory.state import RunRow, Store

LOST = "Its process ended without a word."


def close_rows(store: Store, settings: Settings, *, now: datetime) -> list[RunRow]:
    """Ends the rows of runs that were killed, as failed; forgets their live files. Returns those rows."""
    gone = {run.run_id for run in live.dead(settings.home, now=now)}
    alive = {run.run_id for run in live.running(settings.home, now=now)}
    closed = []
    for row in store.runs.unfinished():
        owner = str(row.detail.get("owner", ""))
        if row.run_id in alive or (row.run_id not in gone and not owner_is_gone(owner)):
            continue
        detail = {**row.detail, "run": row.run_id, "outcome": "failed", "error": f"killed: {LOST}"}
        if store.runs.close(row.run_id, "failed", detail):
            closed.append(row)
    live.sweep(settings.home, now=now)
    return closed
