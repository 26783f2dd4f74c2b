"""When a source or note was last of use: read by somebody or injected into a session."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import case, select

from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.schema import usage


class UsageTable(Aggregate):
    def touch(self, citations: Iterable[str], at: datetime, tx: Tx | None = None) -> None:
        """Counts one use of each citation. An older time never replaces a later one."""
        values = [{"citation": citation, "uses": 1, "last_used": at} for citation in sorted(set(citations))]
        if not values:
            return
        with self._db.write(tx) as connection:
            statement = insert(connection, usage)
            new, old = statement.excluded.last_used, usage.c.last_used
            changes = {"uses": usage.c.uses + 1, "last_used": case((new > old, new), else_=old)}
            connection.execute(statement.on_conflict_do_update(index_elements=["citation"], set_=changes), values)

    def last_used(self, tx: Tx | None = None) -> dict[str, datetime]:
        """Citation -> last use."""
        with self._db.read(tx) as connection:
            return {name: at for name, at in connection.execute(select(usage.c.citation, usage.c.last_used))}

    def counts(self, tx: Tx | None = None) -> dict[str, int]:
        """Citation -> number of uses."""
        with self._db.read(tx) as connection:
            return {name: uses for name, uses in connection.execute(select(usage.c.citation, usage.c.uses))}
