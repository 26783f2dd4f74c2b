"""What every aggregate shares: access to transactions and the clock."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from memory.clock import Clock

Tx = Connection
"""A transaction: what `Store.write()` and `Store.read()` hand out."""


class Database(Protocol):
    """The part of the store an aggregate may use."""

    clock: Clock
    generation: str

    def write(self, tx: Tx | None = None) -> AbstractContextManager[Tx]: ...

    def read(self, tx: Tx | None = None) -> AbstractContextManager[Tx]: ...


class Aggregate:
    """One table's operations. A method given a `tx` takes part in it, else it is a transaction of its own."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def _now(self) -> datetime:
        return self._db.clock.now()
