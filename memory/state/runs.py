"""One row per run of the pipeline: when, why, how it ended. Ids and counts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update

from memory.errors import UsageError
from memory.state.base import Aggregate, Tx
from memory.state.schema import runs


@dataclass(frozen=True, slots=True)
class RunRow:
    """`finished` and `outcome` are None while it runs and for ever when its process was killed.

    `models` are the model names by stage as they were when it started: a change of settings reaches the next run
    only [Z018].
    """

    run_id: str
    trigger: str
    started: datetime
    finished: datetime | None = None
    outcome: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)


class Runs(Aggregate):
    def start(
        self,
        run_id: str,
        trigger: str,
        tx: Tx | None = None,
        *,
        models: Mapping[str, str] | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Writes the row that `finish` ends. `models` is stage -> model name; `detail` stands until then."""
        values: dict[str, Any] = {"run_id": run_id, "trigger": trigger, "detail": dict(detail or {})}
        values["models"] = dict(models or {})
        with self._db.write(tx) as connection:
            values["started"] = self._now()
            connection.execute(insert(runs), values)

    def finish(self, run_id: str, outcome: str, detail: dict[str, Any], tx: Tx | None = None) -> None:
        """Raises UsageError for a run that was never started."""
        with self._db.write(tx) as connection:
            values = {"finished": self._now(), "outcome": outcome, "detail": detail}
            if connection.execute(update(runs).where(runs.c.run_id == run_id).values(**values)).rowcount != 1:
                raise UsageError(f"Run {run_id} was never started.")

    def close(self, run_id: str, outcome: str, detail: dict[str, Any], tx: Tx | None = None) -> bool:
        """As `finish`, for a run whose process is gone; False, and nothing changed, where it has finished after all."""
        with self._db.write(tx) as connection:
            values = {"finished": self._now(), "outcome": outcome, "detail": detail}
            still = update(runs).where(runs.c.run_id == run_id, runs.c.finished.is_(None))
            return connection.execute(still.values(**values)).rowcount == 1

    def get(self, run_id: str, tx: Tx | None = None) -> RunRow | None:
        with self._db.read(tx) as connection:
            row = connection.execute(select(*runs.c).where(runs.c.run_id == run_id)).first()
            return RunRow(*row) if row is not None else None

    def unfinished(self, tx: Tx | None = None) -> list[RunRow]:
        """Runs without an end, newest first: they run, or their process was killed."""
        with self._db.read(tx) as connection:
            query = select(*runs.c).where(runs.c.finished.is_(None)).order_by(runs.c.started.desc())
            return [RunRow(*row) for row in connection.execute(query)]

    def last(self, number: int = 1, tx: Tx | None = None) -> list[RunRow]:
        """The latest runs, newest first."""
        with self._db.read(tx) as connection:
            query = select(*runs.c).order_by(runs.c.started.desc(), runs.c.run_id.desc()).limit(number)
            return [RunRow(*row) for row in connection.execute(query)]
