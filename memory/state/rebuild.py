"""A new state database in place of a damaged one: what the files on disk tell, and what can still be read of it.

Tombstones, ledger, runs and uses are taken over row by row as far as the damaged file gives them. Claims, back-offs
and the list of sessions are not: the next run makes them again. Nobody can know which clears and forgets the damage
took with it, so the watermark is now: no session becomes memory for what it holds up to this moment.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, create_engine, func, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from memory.clock import Clock, iso
from memory.errors import SlowwaveError, StateError
from memory.settings import Settings
from memory.state import dialect
from memory.state.outputs import OutputRow
from memory.state.schema import VERSION, hook_uses, ledger, meta, runs, tombstones, usage
from memory.state.store import Store
from memory.state.versions import VersionRow

PARTS = ("", "-wal", "-shm")
"""A database and its helper files."""
_FOLDER = ".rebuild-"
_MAGIC = b"SQLite format 3\0"
_SALVAGED = (tombstones, ledger, runs, usage, hook_uses)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """`salvaged` counts rows taken over by table; a table whose reading broke off is in `broken`."""

    generation: str
    watermark: datetime
    outputs: int
    versions: int
    salvaged: dict[str, int]
    broken: tuple[str, ...]


def database_files(settings: Settings) -> list[Path]:
    """The database's files that are there; empty for PostgreSQL."""
    path = dialect.sqlite_path(dialect.url_of(settings))
    if path is None:
        return []
    return [found for part in PARTS if (found := path.with_name(path.name + part)).exists()]


def rebuild(
    settings: Settings,
    clock: Clock,
    *,
    generation: str,
    outputs: Iterable[OutputRow],
    versions: Iterable[VersionRow],
    damaged: Path | None,
    aside: Path,
) -> Rebuilt:
    """Builds the new database aside, moves the old files into the existing folder `aside`, then puts the new one there.

    `damaged` is the file to read what is left from, None where there is none. The caller holds the writer lock.
    Raises StateError when the disk refuses, or for PostgreSQL, which is its server's to mend.
    """
    path = dialect.sqlite_path(dialect.url_of(settings))
    if path is None:
        raise StateError("State on PostgreSQL cannot be rebuilt from here.", hint="Restore it from a backup.")
    now = clock.now()
    folder = path.parent / f"{_FOLDER}{now:%Y%m%dT%H%M%S}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
        rows = {"version": str(VERSION), "generation": generation, "clear_watermark": str(iso(now))}
        dialect.create_sqlite(folder / "state.db", rows)
        made = _fill(settings, clock, folder, generation, now, list(outputs), list(versions), damaged)
        for old in database_files(settings):
            old.rename(aside / old.name)
        (folder / "state.db").rename(path)
    except OSError as error:
        raise StateError(
            f"The state database {path} could not be rebuilt ({error.strerror}).", hint="Nothing was removed."
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return made


def distrust(store: Store, moment: datetime) -> None:
    """Raises the watermark to `moment`: for a database that has lost commits and cannot say which."""
    with store.write() as tx:
        before = store.meta.clear_watermark(tx)
        if before is None or before < moment:
            statement = dialect.insert(tx, meta)
            tx.execute(
                statement.on_conflict_do_update(index_elements=["name"], set_={"value": statement.excluded.value}),
                {"name": "clear_watermark", "value": str(iso(moment))},
            )


def _fill(
    settings: Settings,
    clock: Clock,
    folder: Path,
    generation: str,
    now: datetime,
    outputs: list[OutputRow],
    versions: list[VersionRow],
    damaged: Path | None,
) -> Rebuilt:
    state = settings.state.model_copy(update={"url": type(settings.state.url)("")})
    there = settings.model_copy(update={"home": folder, "state": state})
    with Store.open(there, clock) as store, store.write() as tx:
        for output in outputs:
            store.outputs.rewrite(output, tx)
        for version in versions:
            store.versions.add(version, tx)
        salvaged, broken = _salvage(tx, damaged, folder)
    with closing(sqlite3.connect(folder / "state.db", isolation_level=None)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return Rebuilt(generation, now, len(outputs), len(versions), salvaged, broken)


def _salvage(tx: Connection, damaged: Path | None, folder: Path) -> tuple[dict[str, int], tuple[str, ...]]:
    """Reads a copy: opening a database may change it, and the damaged one is kept as it was found."""
    names = tuple(table.name for table in _SALVAGED)
    if damaged is None:
        return {}, names
    copy = folder / "damaged.db"
    for part in PARTS[:2]:
        old = damaged.with_name(damaged.name + part)
        if old.exists():
            shutil.copyfile(old, copy.with_name(copy.name + part))
    _lend_header(copy, folder / "state.db")
    found: dict[str, int] = {}
    broken: list[str] = []
    engine = create_engine(URL.create("sqlite", database=str(copy)), hide_parameters=True)
    try:
        for table in _SALVAGED:
            rows, whole = _readable(engine.connect, table)
            for row in rows:
                tx.execute(dialect.insert(tx, table).on_conflict_do_nothing(), row)
            if rows:
                found[table.name] = len(rows)
            if not whole:
                broken.append(table.name)
        kept, _ = _readable(engine.connect, meta)
        for row in kept:
            if ":" in row["name"]:  # how a rollout stood at a clear; the rest is made anew
                tx.execute(dialect.insert(tx, meta).on_conflict_do_nothing(), row)
    finally:
        engine.dispose()
    return found, tuple(broken)


def _lend_header(damaged: Path, sound: Path) -> None:
    """A file whose first bytes are destroyed may still have all its rows: it gets the header of a database of ours,
    with no free pages and no page count, so that SQLite takes the count from the file's size."""
    with damaged.open("r+b") as file, sound.open("rb") as model:
        if file.read(len(_MAGIC)) == _MAGIC:
            return
        header = bytearray(model.read(100))
        header[24:40] = bytes(16)
        file.seek(0)
        file.write(header)


def _readable(connect: Any, table: Table) -> tuple[list[dict[str, Any]], bool]:
    """Rows that can be read and understood, and whether that was all of them."""
    rows: list[dict[str, Any]] = []
    whole = True
    try:
        with connect() as connection:
            result = connection.execute(select(*table.c))
            for row in _each(result):
                if row is None:
                    whole = False
                else:
                    rows.append(row)
            whole = whole and connection.execute(select(func.count()).select_from(table)).scalar_one() == len(rows)
    except DBAPIError:
        whole = False
    return rows, whole


def _each(result: Any) -> Iterator[dict[str, Any] | None]:
    """None for a row whose values are not what their columns hold."""
    while True:
        try:
            row = result.fetchone()
        except (ValueError, TypeError, SlowwaveError):
            yield None
            continue
        if row is None:
            return
        yield dict(row._mapping)
