"""When a source or note was last of use: read by somebody or injected into a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import case, delete, select

from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.schema import hook_uses, usage


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

    def count(self, session: str, uses: Mapping[str, datetime], tx: Tx | None = None) -> int:
        """Counts the uses of a host's session, citation -> time, that were not counted before; returns how many.

        A use is known by session, source and time, so handing the same ones over again changes nothing. They are
        remembered until `forget_counted`.
        """
        with self._db.write(tx) as connection:
            rows = connection.execute(
                select(hook_uses.c.citation, hook_uses.c.at).where(hook_uses.c.session == session)
            )
            counted: dict[str, datetime] = {citation: at for citation, at in rows}
            fresh = {name: at for name, at in uses.items() if name not in counted or at > counted[name]}
            if not fresh:
                return 0
            statement = insert(connection, hook_uses)
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["session", "citation"], set_={"at": statement.excluded.at}
                ),
                [{"session": session, "citation": name, "at": at} for name, at in fresh.items()],
            )
            for name, at in fresh.items():
                self.touch([name], at, connection)
        return len(fresh)

    def forget_counted(self, before: datetime, tx: Tx | None = None) -> int:
        """Forgets which uses older than this were counted: what left them is long gone. Returns how many."""
        with self._db.write(tx) as connection:
            return connection.execute(delete(hook_uses).where(hook_uses.c.at < before)).rowcount
