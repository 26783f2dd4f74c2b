"""What stage 1 made of each rollout; the text itself is a file of the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import delete, select

from memory.clock import iso, parse_iso
from memory.model import Boundary, Outcome, RolloutId
from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.jobs import Jobs, Lease
from memory.state.schema import outputs


@dataclass(frozen=True, slots=True)
class OutputRow:
    """The latest extraction of one rollout. `kept` is False for "nothing worth keeping": then there is no file.

    `sha256` is that of the rollout summary file, empty where there is none. `coverage` holds counts only.
    """

    rollout: RolloutId
    generation: str
    boundary: Boundary
    kept: bool
    outcome: Outcome
    slug: str
    sha256: str
    project: str
    project_name: str
    ended: datetime | None
    written: datetime
    model: str
    shrinks: int = 0
    coverage: dict[str, Any] = field(default_factory=dict)


def output_to_dict(row: OutputRow) -> dict[str, Any]:
    """An output as JSON-ready values; the inverse is `output_from_dict`."""
    return _values(row) | {"ended": iso(row.ended), "written": iso(row.written)}


def output_from_dict(values: Mapping[str, Any]) -> OutputRow:
    """Raises KeyError, TypeError or ValueError on a dict that `output_to_dict` did not make."""
    moments = {"ended": parse_iso(values["ended"]), "written": parse_iso(values["written"])}
    return _row([{**values, **moments}[column.name] for column in _READ])


class Outputs(Aggregate):
    def save(self, lease: Lease, row: OutputRow, tx: Tx) -> None:
        """Writes the row under the lease. Raises FencedError when it is lost or is another rollout's."""
        jobs = Jobs(self._db)
        jobs.check(lease, tx)
        jobs.must_match(lease, kind="extract", key=str(row.rollout), generation=row.generation)
        values = _values(row) | {"token": lease.token}
        statement = insert(tx, outputs)
        changes = {name: statement.excluded[name] for name in values if name != "rollout"}
        tx.execute(statement.on_conflict_do_update(index_elements=["rollout"], set_=changes), values)

    def rewrite(self, row: OutputRow, tx: Tx | None = None) -> None:
        """Writes a row without a claim: for changes the user asked for (forget, restore), under the writer lock."""
        values = _values(row) | {"token": 0}
        with self._db.write(tx) as connection:
            statement = insert(connection, outputs)
            changes = {name: statement.excluded[name] for name in values if name != "rollout"}
            connection.execute(statement.on_conflict_do_update(index_elements=["rollout"], set_=changes), values)

    def get(self, rollout: RolloutId, tx: Tx | None = None) -> OutputRow | None:
        with self._db.read(tx) as connection:
            row = connection.execute(select(*_READ).where(outputs.c.rollout == str(rollout))).one_or_none()
        return None if row is None else _row(row)

    def all(self, tx: Tx | None = None) -> list[OutputRow]:
        """Every output, kept or not, in the order of rollout ids."""
        with self._db.read(tx) as connection:
            return [_row(row) for row in connection.execute(select(*_READ).order_by(outputs.c.rollout))]

    def delete(self, rollout: RolloutId, tx: Tx | None = None) -> bool:
        """Removes the row (forget). True when there was one."""
        with self._db.write(tx) as connection:
            return bool(connection.execute(delete(outputs).where(outputs.c.rollout == str(rollout))).rowcount)


_READ = tuple(column for column in outputs.c if column.name != "token")


def _values(row: OutputRow) -> dict[str, Any]:
    return {
        "rollout": str(row.rollout),
        "generation": row.generation,
        "offset": row.boundary.offset,
        "events": row.boundary.events,
        "prefix_hash": row.boundary.prefix_hash,
        "kept": row.kept,
        "outcome": row.outcome.value,
        "slug": row.slug,
        "sha256": row.sha256,
        "project": row.project,
        "project_name": row.project_name,
        "ended": row.ended,
        "written": row.written,
        "model": row.model,
        "shrinks": row.shrinks,
        "coverage": row.coverage,
    }


def _row(row: Sequence[Any]) -> OutputRow:
    rollout, generation, offset, events, prefix_hash, kept, outcome, *rest = row
    boundary = Boundary(offset, events, prefix_hash)
    return OutputRow(RolloutId.parse(rollout), generation, boundary, kept, Outcome(outcome), *rest)
