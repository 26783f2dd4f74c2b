"""One row per run of the pipeline: when, why, how it ended. Ids and counts only."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update

from memory.errors import UsageError
from memory.state.base import Aggregate, Tx
from memory.state.schema import runs


@dataclass(frozen=True, slots=True)
class RunRow:
    """`finished` and `outcome` are None while it runs and for ever when its process was killed."""

    run_id: str
    trigger: str
    started: datetime
    finished: datetime | None = None
    outcome: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


class Runs(Aggregate):
    def start(self, run_id: str, trigger: str, tx: Tx | None = None) -> None:
        with self._db.write(tx) as connection:
            values = {"run_id": run_id, "trigger": trigger, "started": self._now(), "detail": {}}
            connection.execute(insert(runs), values)

    def finish(self, run_id: str, outcome: str, detail: dict[str, Any], tx: Tx | None = None) -> None:
        """Raises UsageError for a run that was never started."""
        with self._db.write(tx) as connection:
            values = {"finished": self._now(), "outcome": outcome, "detail": detail}
            if connection.execute(update(runs).where(runs.c.run_id == run_id).values(**values)).rowcount != 1:
                raise UsageError(f"Run {run_id} was never started.")

    def last(self, number: int = 1, tx: Tx | None = None) -> list[RunRow]:
        """The latest runs, newest first."""
        with self._db.read(tx) as connection:
            query = select(*runs.c).order_by(runs.c.started.desc(), runs.c.run_id.desc()).limit(number)
            return [RunRow(*row) for row in connection.execute(query)]
