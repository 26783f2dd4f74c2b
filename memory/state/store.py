"""The store: opening, refusing what is not version 2, transactions, and the aggregates behind one object."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from memory import failpoints
from memory.clock import Clock
from memory.errors import StateBusyError, StateCorruptError, StateError
from memory.settings import Settings
from memory.state import dialect, postgres
from memory.state.base import Tx
from memory.state.health import Health, read_health
from memory.state.intents import Intents
from memory.state.jobs import Jobs
from memory.state.meta import (
    Meta,
    check_meta,
    new_generation_id,
    read_generation_file,
    write_generation_file,
)
from memory.state.outputs import Outputs
from memory.state.rollouts import Rollouts
from memory.state.runs import Runs
from memory.state.schema import VERSION, outputs, versions
from memory.state.tombstones import Tombstones
from memory.state.usage import UsageTable
from memory.state.versions import Versions

failpoints.declare(
    "state.commit.before", "state.commit.after", "state.scrub.before", "state.scrub.after",
    "state.create.before", "state.create.after",
)  # fmt: skip

OUR_FILES = ("config.toml", "generation.json", "state.db")
LONGEST_PAUSE = 0.5
"""Seconds between two tries to reach a server that went away."""


class Store:
    """Open it with `Store.open`, close it with `close` or a `with` block. Safe between threads and processes.

    Transactions are short and synchronous: never await inside one. A transaction opened inside another of the
    same store joins it, so a method called without `tx` inside `write()` cannot wait for its own lock.
    """

    def __init__(self, engine: Engine, url: URL, settings: Settings, clock: Clock, generation: str) -> None:
        self._engine = engine
        self._writer = engine.execution_options(**{dialect.WRITE_OPTION: True})
        self._reader = dialect.reading(engine)
        self._place = dialect.where(url)
        self._patience = 0.0
        self._away = False
        self._current: ContextVar[Tx | None] = ContextVar("slowwave_transaction", default=None)
        self.settings = settings
        self.clock = clock
        self.generation = generation
        self.meta = Meta(self)
        self.rollouts = Rollouts(self)
        self.jobs = Jobs(self)
        self.outputs = Outputs(self)
        self.usage = UsageTable(self)
        self.versions = Versions(self)
        self.intents = Intents(self)
        self.runs = Runs(self)
        self.tombstones = Tombstones(self)
        _open_stores.add(self)

    # -- opening ------------------------------------------------------------------------------------

    @classmethod
    def open(cls, settings: Settings, clock: Clock) -> Store:
        """Opens the state, creating version 2 where there is none.

        Raises StateVersionError for any other version and StateCorruptError for a file that is no database or a
        database that vanished; neither changes a byte [Z012 Z013 Z119 Z120]. StateBusyError, StateError and
        SettingsError say the rest.
        """
        url = dialect.url_of(settings)
        _private_folder(settings.home)
        written = read_generation_file(settings.home)
        path = dialect.sqlite_path(url)
        if path is not None:
            _open_sqlite(path, settings, written)
        engine = dialect.engine_for(url, busy_seconds=settings.state.busy_seconds, store=settings.store)
        try:
            if path is None:
                _open_postgres(engine, url, settings, written)
            store = cls(engine, url, settings, clock, "")
            store.generation = store.meta.generation()
            if written not in {None, store.generation, *store.meta.former_generations()}:
                raise _behind(dialect.where(url), settings.home, dialect.mends(url))
        except (DBAPIError, PoolTimeout) as error:
            engine.dispose()
            raise dialect.translate(error, dialect.where(url)) from None
        except BaseException:
            engine.dispose()
            raise
        if store.generation != written:
            write_generation_file(settings.home, store.generation)
        store._patience = settings.state.busy_seconds
        return store

    def close(self) -> None:
        """Closes every connection; the store must not be used again."""
        _open_stores.discard(self)
        self._engine.dispose()

    def dispose(self, *, close: bool = True) -> None:
        """Drops pooled connections; the store goes on with new ones.

        A forked child does this by itself with `close=False`: the connections are its parent's.
        """
        self._engine.dispose(close=close)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def place(self) -> str:
        """The database as messages name it, without a password."""
        return self._place

    @property
    def schema(self) -> str:
        """The SQL schema on a server; empty for a file of our own."""
        return "" if dialect.sqlite_path(self._engine.url) else postgres.schema_of(self.settings.store)

    @property
    def writable(self) -> bool:
        """Whether a server lets this user change rows. A file that cannot be written to is refused at the opening."""
        if not self.schema:
            return True
        with self.read() as tx:
            return postgres.may_write(tx, self.settings.store)

    @property
    def clear_watermark(self) -> datetime | None:
        """Read at every use: another process may clear."""
        return self.meta.clear_watermark()

    # -- transactions ---------------------------------------------------------------------------------

    @contextmanager
    def write(self, tx: Tx | None = None) -> Iterator[Tx]:
        """One write transaction (`BEGIN IMMEDIATE`), committed at the end, rolled back by any exception.

        `tx` given, or already inside one: takes part in it. Raises StateBusyError, StateCorruptError, StateError.
        """
        joined = tx if tx is not None else self._current.get()
        if joined is not None:
            with self._errors():
                yield joined
            return
        with self._errors(), self._connected(self._writer) as connection, connection.begin():
            token = self._current.set(connection)
            try:
                yield connection
            finally:
                self._current.reset(token)
            failpoints.hit("state.commit.before")
        failpoints.hit("state.commit.after")

    @contextmanager
    def read(self, tx: Tx | None = None) -> Iterator[Tx]:
        """One consistent read transaction; inside `write()` it sees what was written there."""
        joined = tx if tx is not None else self._current.get()
        if joined is not None:
            with self._errors():
                yield joined
            return
        with self._errors(), self._connected(self._reader) as connection:
            yield connection

    def _connected(self, engine: Engine) -> Connection:
        """A connection. A server that was there when the store was opened and is not now is waited for, as a lock is:
        it may be started again at this moment, and a run must not end for that. Once in vain: those who then tidy up
        need not wait each for itself."""
        end, pause = time.monotonic() + (0 if self._away else self._patience), 0.05
        while True:
            try:
                connection = engine.connect()
            except DBAPIError as error:
                if not dialect.away(error):
                    raise
                if time.monotonic() >= end:
                    self._away = True
                    raise
            else:
                self._away = False
                return connection
            time.sleep(random.uniform(0.5, 1.0) * pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (DBAPIError, PoolTimeout) as error:
            raise dialect.translate(error, self._place) from None

    def scrub(self) -> None:
        """Removes from the database what deleted rows left behind in it (free pages, write-ahead log) [M48 M56].

        SQLite rewrites its file, PostgreSQL the store's tables; the server's own log and backups are its own.
        `meta.scrub_due` is true from the deletion to here, so that the next start makes up for what a kill or a busy
        database left. Raises StateBusyError when others kept the database in use, StateError when the disk refuses.
        """
        path = dialect.sqlite_path(self._engine.url)
        self._engine.dispose()
        try:
            with failpoints.step("state.scrub"):
                if path is None:
                    self._vacuum()
                else:
                    self._rewrite(path)
        except sqlite3.OperationalError as error:
            found = dialect.translate_sqlite(error, self._place)
            if not isinstance(found, StateBusyError):
                raise found from None
            raise self._unscrubbed() from None
        self.meta.scrubbed()

    def _vacuum(self) -> None:
        try:
            with self._errors():
                done = postgres.scrub(self._engine, self.settings.store, self.settings.state.busy_seconds)
        except StateBusyError:
            done = False
        if not done:
            raise self._unscrubbed()

    def _rewrite(self, path: Path) -> None:
        with closing(sqlite3.connect(path, timeout=self.settings.state.busy_seconds, isolation_level=None)) as raw:
            raw.execute("VACUUM")
            busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:  # somebody still reads the old pages in the write-ahead log
            raise self._unscrubbed()

    def _unscrubbed(self) -> StateBusyError:
        return StateBusyError(
            f"{self._place} is in use, so deleted text could not be scrubbed from it yet.",
            hint="The next start of slowwave does it.",
        )

    # -- facts ----------------------------------------------------------------------------------------

    def health(self) -> Health:
        """Facts for `status` and `doctor` (see `memory.state.health`)."""
        return read_health(self)


_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_open_stores):
        store.dispose(close=False)


os.register_at_fork(after_in_child=_after_fork)


def _private_folder(home: Path) -> None:
    """Creates the home with mode 0700; narrows one that is ours and was left open to others. Refuses a link."""
    if home.is_symlink():
        raise StateError(
            f"The data folder {home} is a symbolic link; links are never followed.",
            hint=f"Set SLOWWAVE_HOME to the real folder, {os.path.realpath(home)}.",
        )
    try:
        home.mkdir(parents=True, mode=0o700, exist_ok=True)
        mode = home.stat()
        names = {entry.name for entry in home.iterdir()}
    except OSError as error:
        raise StateError(
            f"The data folder {home} cannot be used ({error.strerror}).", hint="Set SLOWWAVE_HOME to another folder."
        ) from None
    if os.statvfs(home).f_flag & os.ST_RDONLY:
        raise StateError(
            f"The data folder {home} lies on a read-only file system.",
            hint="Mount it writable, or set SLOWWAVE_HOME to a folder on another disk.",
        )
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise StateError(
            f"The data folder {home} may not be written to by this user.",
            hint=f"Run chmod 700 {home}, or set SLOWWAVE_HOME to another folder.",
        )
    ours = not names or names.intersection(OUR_FILES)
    if ours and stat.S_IMODE(mode.st_mode) & 0o077 and mode.st_uid == os.getuid():
        home.chmod(0o700)


def _vanished(place: str, home: Path, mends: str) -> StateCorruptError:
    return StateCorruptError(
        f"{home / 'generation.json'} says there was state, but {place} has none: what was forgotten or cleared would"
        " be unknown.",
        hint=mends,
    )


def _behind(place: str, home: Path, mends: str) -> StateCorruptError:
    """The file is written after the database: one that is ahead of it proves that commits were lost."""
    return StateCorruptError(
        f"The state database {place} is older than {home / 'generation.json'}: it has lost a clear, and with it what"
        " may never become memory again.",
        hint=mends,
    )


def _open_sqlite(path: Path, settings: Settings, written: str | None) -> None:
    if not path.exists():
        if written is not None:
            raise _vanished(str(path), settings.home, dialect.MENDS)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with failpoints.step("state.create"):
                dialect.create_sqlite(path, {"version": str(VERSION), "generation": new_generation_id()})
        except OSError as error:
            raise StateError(
                f"The state database {path} cannot be created ({error.strerror}).", hint="Check its folder."
            ) from None
        except DBAPIError as error:
            raise dialect.translate(error, str(path)) from None
    version, rows, columns = dialect.inspect_sqlite(path, settings.state.busy_seconds)
    check_meta(rows, str(path), user_version=version)
    if not dialect.expected_columns() <= columns:
        raise dialect.incomplete(str(path))
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        path.chmod(0o600)


def _open_postgres(engine: Engine, url: URL, settings: Settings, written: str | None) -> None:
    place = dialect.where(url)
    with engine.begin() as connection:
        rows, columns = postgres.inspect(connection, settings.store)
        if not columns:
            postgres.lock_creation(connection)
            rows, columns = postgres.inspect(connection, settings.store)
        if not columns:
            if written is not None:
                raise _vanished(place, settings.home, dialect.mends(url))
            rows = {"version": str(VERSION), "generation": new_generation_id()}
            with failpoints.step("state.create"):
                postgres.create(connection, settings.store, rows, place)
            return
        check_meta(rows, place, hint=postgres.OTHER_VERSION)
        if not dialect.expected_columns() <= columns:
            raise postgres.incomplete(place)
        if written is None and not (settings.home / "generations").exists() and _used(connection):
            raise StateError(
                f"{place} holds the memory of another data folder (store {settings.store}); {settings.home} has none of"
                " its files.",
                hint="Give this one a store of its own (SLOWWAVE_STORE), or bring the other folder here.",
            )


def _used(connection: Connection) -> bool:
    """Whether there are rows that stand for files of a data folder."""
    return any(
        connection.execute(select(func.count()).select_from(table)).scalar_one() for table in (outputs, versions)
    )
