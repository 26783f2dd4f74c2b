"""Write-ahead rows: what a publish is about to do to a file, so that a start-up can finish or undo it [Z106]."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select

from memory.errors import FencedError
from memory.state.base import Aggregate, Tx
from memory.state.jobs import Jobs, Lease
from memory.state.schema import intents


@dataclass(frozen=True, slots=True)
class IntentRow:
    """An open intent: the file with hash `old_sha` (None: absent) was to become `new_sha` (None: removed)."""

    id: int
    kind: str
    job_kind: str
    job_key: str
    generation: str
    token: int
    old_sha: str | None
    new_sha: str | None
    payload: dict[str, Any]
    opened: datetime


class Intents(Aggregate):
    def open(
        self, lease: Lease, kind: str, old_sha: str | None, new_sha: str | None, payload: dict[str, Any], tx: Tx
    ) -> int:
        """Records the intent under the lease and returns its id. Raises FencedError."""
        Jobs(self._db).check(lease, tx)
        values = {
            "kind": kind,
            "job_kind": lease.kind,
            "job_key": lease.key,
            "generation": lease.generation,
            "token": lease.token,
            "old_sha": old_sha,
            "new_sha": new_sha,
            "payload": payload,
            "opened": self._now(),
        }
        found = tx.execute(insert(intents).returning(intents.c.id), values).scalar_one()
        return int(found)

    def close(self, intent: int, tx: Tx) -> None:
        """Removes it. Raises FencedError when it is gone: somebody else finished or undid it."""
        if tx.execute(delete(intents).where(intents.c.id == intent)).rowcount != 1:
            raise FencedError(f"Intent {intent} was already closed by another process; nothing was written.")

    def pending(self, tx: Tx | None = None) -> list[IntentRow]:
        """Open intents, oldest first."""
        with self._db.read(tx) as connection:
            return [IntentRow(*row) for row in connection.execute(select(*intents.c).order_by(intents.c.id))]
