"""The only module that knows which database it is: engines, upserts, locks, error codes, creation.

SQLite: WAL, `BEGIN IMMEDIATE` for writers, busy timeout, full synchronisation (an intent row must survive a power
cut). PostgreSQL: see `postgres.py`.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from memory.errors import SettingsError, StateBusyError, StateCorruptError, StateError
from memory.settings import Settings
from memory.state import checking, postgres
from memory.state.schema import VERSION, metadata

WRITE_OPTION = postgres.WRITE_OPTION
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.03
"""Seconds between looks for the writer's place."""
MENDS = "Restore it from a backup, or let `slowwave doctor --fix` set it aside and rebuild it from the files on disk."


def parse_url(url: str) -> URL:
    """A checked URL. Raises SettingsError without repeating the URL: it may hold a password."""
    if postgres.is_address(url):
        return postgres.parse(url)
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise SettingsError("state.url is not a database URL.", hint="Use sqlite:///PATH or postgresql://...") from None
    if backend != "sqlite":
        raise SettingsError(
            f"state.url names {backend[:40]}, which is not supported.", hint="Use SQLite or PostgreSQL."
        )
    if parsed.database in {None, "", ":memory:"}:
        raise SettingsError("state.url must name a file: state is shared between processes.")
    return parsed


def url_of(settings: Settings) -> URL:
    """Where the state lives: `state.url`, else `state.db` in the home, whatever characters its path has."""
    wanted = settings.state.url.get_secret_value()
    return parse_url(wanted) if wanted else URL.create("sqlite", database=str(settings.home / "state.db"))


def sqlite_path(url: URL) -> Path | None:
    """The database file, None for PostgreSQL."""
    if url.get_backend_name() != "sqlite":
        return None
    return Path(str(url.database)).expanduser().absolute()


def on_server(settings: Settings) -> bool:
    """Whether the state lives on a database server, whose own it is to be mended. Raises SettingsError."""
    return sqlite_path(url_of(settings)) is None


def mends(url: URL) -> str:
    """What helps where rows or all of the database are gone."""
    return MENDS if sqlite_path(url) is not None else postgres.MENDS


def where(url: URL) -> str:
    """The database as messages name it, without a password."""
    path = sqlite_path(url)
    return str(path) if path is not None else postgres.where(url)


# -- engines ------------------------------------------------------------------------------------------


def engine_for(url: URL, *, busy_seconds: float, store: str) -> Engine:
    """An engine whose errors never show parameters."""
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, busy_seconds)
    return postgres.engine(url, busy_seconds, store)


def _sqlite_engine(url: URL, busy_seconds: float) -> Engine:
    path = sqlite_path(url)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": busy_seconds, "isolation_level": None},
        hide_parameters=True,
        max_overflow=-1,
    )

    @event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITE_OPTION, False):
            _begin_immediate(connection, busy_seconds)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _begin_immediate(connection: Connection, busy_seconds: float) -> None:
    """Waits for the one writer's place in steps of milliseconds.

    SQLite's own waiting sleeps up to a tenth of a second at a time; our transactions last milliseconds, so a crowd of
    writers would mostly sleep beside a free place. Raises what SQLite raises when `busy_seconds` are over.
    """
    raw = connection.connection.dbapi_connection
    assert raw is not None
    end, pause = time.monotonic() + busy_seconds, FIRST_PAUSE
    try:
        raw.execute("PRAGMA busy_timeout=0")
        while (left := end - time.monotonic()) > 0:
            try:
                raw.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    break
            time.sleep(min(random.uniform(0.5, 1.0) * pause, left))
            pause = min(pause * 2, LONGEST_PAUSE)
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # still without waiting: the last look, whose error is told
    finally:
        raw.execute(f"PRAGMA busy_timeout={int(busy_seconds * 1000)}")


def reading(engine: Engine) -> Engine:
    """The engine for transactions that only read: everything in one is of one moment, as SQLite has it anyway."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ")


def away(error: DBAPIError) -> bool:
    """Whether the database may be back in a moment: a server that is started again."""
    return not isinstance(error.orig, sqlite3.Error) and postgres.away(error)


# -- statements whose form differs --------------------------------------------------------------------


def insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT with `on_conflict_do_update` / `on_conflict_do_nothing`."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


# -- errors -------------------------------------------------------------------------------------------


def translate(error: DBAPIError | PoolTimeout, place: str) -> StateError:
    """The error a user can act on. Never repeats the statement or its parameters."""
    if isinstance(error, PoolTimeout):
        return busy(place)
    original = error.orig
    if isinstance(original, sqlite3.Error):
        return translate_sqlite(original, place)
    return busy(place) if postgres.trouble(error) == "busy" else postgres.translate(error, place)


def busy(place: str) -> StateBusyError:
    return StateBusyError(
        f"Another process kept the state database {place} locked for longer than state.busy_seconds.",
        hint="Nothing is damaged: run it again, or raise state.busy_seconds.",
    )


def translate_sqlite(error: sqlite3.Error, place: str) -> StateError:
    """By SQLite's primary result code."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return busy(place)
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return corrupt(place)
    words = {
        sqlite3.SQLITE_FULL: ("the disk is full", "Free some space."),
        sqlite3.SQLITE_READONLY: ("it is read-only", "Check the permissions of the file and its folder."),
        sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "Check the permissions of the file and its folder."),
        sqlite3.SQLITE_PERM: ("access is denied", "Check the permissions of the file and its folder."),
        sqlite3.SQLITE_IOERR: ("the disk reports an I/O error", "Check the disk; network file systems do not do."),
    }
    what, hint = words.get(code, (f"it refused a statement ({type(error).__name__}, code {code})", ""))
    return StateError(f"The state database {place} cannot be used: {what}.", hint=hint)


def corrupt(place: str) -> StateCorruptError:
    return StateCorruptError(
        f"The state database {place} is damaged or is not an SQLite file; it was left as it is.", hint=MENDS
    )


# -- looking before opening ---------------------------------------------------------------------------


Columns = postgres.Columns
"""(table, column) pairs: those a database has, or should have."""


def expected_columns() -> Columns:
    """What version 2 consists of."""
    return {(table.name, column.name) for table in metadata.sorted_tables for column in table.c}


def incomplete(place: str) -> StateCorruptError:
    return StateCorruptError(
        f"The state database {place} says version {VERSION} but lacks tables or columns of it; it was left as it is.",
        hint=MENDS,
    )


def inspect_sqlite(path: Path, busy_seconds: float) -> tuple[int, dict[str, str], Columns]:
    """(user_version, meta rows, columns), read-only: no byte of the file changes.

    Raises StateCorruptError (also where pages or write-ahead log are damaged) or StateBusyError.
    """
    written = _header_version(path)
    if written != VERSION:
        return written, {}, set()
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=busy_seconds)
    except sqlite3.Error as error:
        raise translate_sqlite(error, str(path)) from None
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        columns = {(str(table), str(name)) for table, name in connection.execute(_SQLITE_COLUMNS)}
        rows = _sqlite_meta(connection, columns)
        if not checking.whole(connection, path):
            raise corrupt(str(path))
    except sqlite3.Error as error:
        raise translate_sqlite(error, str(path)) from None
    finally:
        connection.close()
    return version, rows, columns


def _header_version(path: Path) -> int:
    """The version in the file's first page. Ours is written before the file gets its name, so a write-ahead log
    never holds another one; reading it by hand keeps SQLite from leaving its helper files beside a foreign one."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise StateError(
            f"The state database {path} cannot be read ({error.strerror}).", hint="Check the file's permissions."
        ) from None
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise corrupt(str(path))
    return int.from_bytes(head[60:64], "big")


_SQLITE_COLUMNS = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
_META = {("meta", "name"), ("meta", "value")}


def _sqlite_meta(connection: sqlite3.Connection, columns: Columns) -> dict[str, str]:
    if not columns >= _META:
        return {}
    found = connection.execute("SELECT name, value FROM meta WHERE name NOT LIKE '%:%'")  # not one for each rollout
    return {str(name): str(value) for name, value in found}


# -- creation -----------------------------------------------------------------------------------------


def create_sqlite(path: Path, rows: dict[str, str]) -> bool:
    """Builds the database beside its place and links it in: nobody ever sees half of one.

    False when another process was first.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        engine = create_engine(URL.create("sqlite", database=str(temporary)), hide_parameters=True)
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                metadata.create_all(connection)
                connection.execute(metadata.tables["meta"].insert(), _meta_list(rows))
                connection.exec_driver_sql(f"PRAGMA user_version={VERSION}")
                connection.commit()
        finally:
            engine.dispose()
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        _link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _link(temporary: Path, path: Path) -> None:
    """Gives the file its name unless the name is taken (FileExistsError)."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(str(path)) from None
        temporary.rename(path)


def _meta_list(rows: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in rows.items()]
