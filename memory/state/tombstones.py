"""What the user asked to forget: never extracted, read or published again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select

from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.schema import jobs, tombstones


class Tombstones(Aggregate):
    """Kinds: `rollout` (key: the rollout id as text), `note` (the note's name), `own` (id of a session we started)."""

    def add(self, kind: str, key: str, tx: Tx | None = None) -> None:
        """Idempotent; the first time stays. Delete outputs after it, in the same transaction."""
        with self._db.write(tx) as connection:
            if kind == "rollout":  # wait for an extraction that is storing its result right now
                held = select(jobs.c.key).where(jobs.c.kind == "extract", jobs.c.key == key)
                connection.execute(held.with_for_update())
            values = {"kind": kind, "key": key, "at": self._now()}
            connection.execute(insert(connection, tombstones).on_conflict_do_nothing(), values)

    def all(self, tx: Tx | None = None) -> set[tuple[str, str]]:
        with self._db.read(tx) as connection:
            return {(kind, key) for kind, key in connection.execute(select(tombstones.c.kind, tombstones.c.key))}

    def when(self, kind: str, key: str, tx: Tx | None = None) -> datetime | None:
        """When it was forgotten first; None for never."""
        with self._db.read(tx) as connection:
            query = select(tombstones.c.at).where(tombstones.c.kind == kind, tombstones.c.key == key)
            return connection.execute(query).scalar_one_or_none()

    def has(self, kind: str, key: str, tx: Tx | None = None) -> bool:
        with self._db.read(tx) as connection:
            query = select(tombstones.c.key).where(tombstones.c.kind == kind, tombstones.c.key == key)
            return connection.execute(query).first() is not None
