"""The file of an index: SQLite as a container, written once, read only. The one place of recall that opens it.

The state database is another file, which only `memory.state` opens.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from array import array
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recall.index import meaning
from recall.index.unit import Scope, Unit

FORMAT = 2
"""Raised whenever terms or measures change: an index of another format is made anew."""

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE columns (name TEXT PRIMARY KEY, numbers BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE scopes (id INTEGER PRIMARY KEY, scope TEXT NOT NULL);
CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL);
CREATE TABLE units (id INTEGER PRIMARY KEY, ref TEXT NOT NULL, unit TEXT NOT NULL, talk TEXT NOT NULL);
CREATE TABLE names (name TEXT PRIMARY KEY, units TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE terms (term TEXT PRIMARY KEY, units BLOB NOT NULL, groups BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE vectors (unit INTEGER PRIMARY KEY, model TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL);
"""
_BY_REF = "CREATE INDEX refs ON units (ref)"
_BATCH = 256
COLUMNS = ("scope", "time", "used", "superseded")


class Rows(NamedTuple):
    """Everything an index holds. Units and groups are numbered from 0 in their order.

    `columns` has a number for each unit: of its scope, of its time among all times, how often it was used, whether it
    is superseded. `talk` are the terms of each unit that say most about it. `names` are names' terms, joined by a
    blank, and the units that bear them. `vectors` are there when search by meaning is on, for units that have one.
    """

    meta: dict[str, str]
    units: list[Unit]
    columns: dict[str, array[int]]
    scopes: list[Scope]
    groups: list[tuple[str, int, int]]
    talk: list[list[str]]
    names: dict[str, list[int]]
    terms: list[tuple[str, bytes, bytes]]
    vectors: Mapping[int, meaning.Vector] = {}


class Posting(NamedTuple):
    """Where a term stands: row numbers, ascending, and its impact in each."""

    numbers: array[int]
    impacts: array[float]


class UnusableIndex(Exception):
    """The file is missing, damaged or of another format: it has to be made anew."""


def write(path: Path, rows: Rows) -> None:
    """A complete new file with mode 0600, flushed. Raises OSError when there is one or the disk refuses."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        database = sqlite3.connect(path, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            fill(database, rows)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise OSError(f"SQLite: {type(error).__name__}") from None
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fill(database: sqlite3.Connection, rows: Rows) -> None:
    """Creates the tables and fills them in one transaction."""
    database.executescript(_SCHEMA)
    database.execute("BEGIN")
    database.executemany("INSERT INTO meta VALUES (?, ?)", {**rows.meta, "byteorder": sys.byteorder}.items())
    database.executemany("INSERT INTO columns VALUES (?, ?)", ((k, v.tobytes()) for k, v in rows.columns.items()))
    database.executemany("INSERT INTO scopes VALUES (?, ?)", ((at, _json(row)) for at, row in enumerate(rows.scopes)))
    database.executemany("INSERT INTO groups VALUES (?, ?, ?, ?)", ((at, *row) for at, row in enumerate(rows.groups)))
    units = enumerate(zip(rows.units, rows.talk, strict=True))
    database.executemany(
        "INSERT INTO units VALUES (?, ?, ?, ?)",
        ((at, unit.ref, _json(unit), " ".join(talk)) for at, (unit, talk) in units),
    )
    database.executemany("INSERT INTO names VALUES (?, ?)", ((name, _json(at)) for name, at in rows.names.items()))
    database.executemany("INSERT INTO terms VALUES (?, ?, ?)", rows.terms)
    database.executemany("INSERT INTO vectors VALUES (?, ?, ?, ?)", ((at, *kept) for at, kept in rows.vectors.items()))
    database.execute(_BY_REF)
    database.execute("COMMIT")


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class IndexFile:
    """An open index. Not to be shared between threads; the file behind it may be replaced or removed meanwhile."""

    def __init__(self, database: sqlite3.Connection) -> None:
        """Use `open` or `in_memory`. Raises UnusableIndex."""
        self._database = database
        self._near: meaning.Near | None = None
        try:
            self._load()
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            database.close()
            raise UnusableIndex(type(error).__name__) from None
        except UnusableIndex:
            database.close()
            raise

    def _load(self) -> None:
        self.meta: dict[str, str] = dict(self._database.execute("SELECT key, value FROM meta"))
        if self.meta.get("format") != str(FORMAT) or self.meta.get("byteorder") != sys.byteorder:
            raise UnusableIndex("another format")
        columns = dict(self._database.execute("SELECT name, numbers FROM columns"))
        self.scope_of, self.time_of, self.used, self.superseded = (array("I", columns[name]) for name in COLUMNS)
        scopes = self._database.execute("SELECT scope FROM scopes ORDER BY id")
        self.scopes = [_scope(json.loads(text)) for (text,) in scopes]
        self.groups: list[tuple[str, int, int]] = self._database.execute(
            "SELECT name, first, count FROM groups ORDER BY id"
        ).fetchall()
        self.group_of = array("I", (at for at, (_, _, count) in enumerate(self.groups) for _ in range(count)))
        self.group_scope = array("I", (self.scope_of[first] for _, first, _ in self.groups))
        if len(self.group_of) != len(self.scope_of):
            raise UnusableIndex("rows are missing")

    @classmethod
    def open(cls, path: Path) -> IndexFile:
        """Read only, without locks or side files. Raises UnusableIndex."""
        if not path.is_file() or path.is_symlink():
            raise UnusableIndex("missing")
        try:
            place = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            return cls(sqlite3.connect(place, uri=True, isolation_level=None))
        except sqlite3.Error as error:
            raise UnusableIndex(type(error).__name__) from None

    @classmethod
    def in_memory(cls, rows: Rows) -> IndexFile:
        """For a disk that takes no file."""
        database = sqlite3.connect(":memory:", isolation_level=None)
        fill(database, rows)
        return cls(database)

    def __len__(self) -> int:
        """Units."""
        return len(self.scope_of)

    def close(self) -> None:
        self._database.close()

    def postings(self, terms: Collection[str]) -> dict[str, tuple[Posting, Posting]]:
        """Where terms stand among units and among groups; those that stand nowhere are left out."""
        found: dict[str, tuple[Posting, Posting]] = {}
        listed = list(terms)
        for at in range(0, len(listed), _BATCH):
            some = listed[at : at + _BATCH]
            sql = f"SELECT term, units, groups FROM terms WHERE term IN ({','.join('?' * len(some))})"
            found.update((term, (_posting(units), _posting(groups))) for term, units, groups in self._all(sql, some))
        return found

    def vocabulary(self, beginning: str) -> list[str]:
        """Terms that begin like this."""
        rows = self._all("SELECT term FROM terms WHERE term >= ? AND term < ?", (beginning, _after(beginning)))
        return [str(row[0]) for row in rows]

    def named(self, said: frozenset[str]) -> set[int]:
        """Units with a name all of whose terms are said."""
        found: set[int] = set()
        for term in said:
            sql = "SELECT name, units FROM names WHERE name = ? OR (name >= ? AND name < ?)"
            for name, units in self._all(sql, (term, f"{term} ", f"{term}!")):
                if said.issuperset(name.split(" ")):
                    found.update(json.loads(units))
        return found

    def unit(self, number: int) -> Unit:
        rows = self._all("SELECT unit FROM units WHERE id = ?", (number,))
        if not rows:
            raise UnusableIndex("a row is missing")
        return _unit(json.loads(rows[0][0]))

    def talk(self, number: int) -> list[str]:
        """The terms of a unit that say most about it, most first."""
        rows = self._all("SELECT talk FROM units WHERE id = ?", (number,))
        return str(rows[0][0]).split(" ") if rows and rows[0][0] else []

    def find(self, ref: str) -> list[int]:
        """Numbers of the units of this name."""
        return [int(row[0]) for row in self._all("SELECT id FROM units WHERE ref = ? ORDER BY id", (ref,))]

    def similarities(self, text: str) -> dict[int, float]:
        """Cosine of every unit that has a vector with the question; empty where search by meaning is off."""
        if not self.meta.get("semantic"):
            return {}
        if self._near is None:
            rows = self._all("SELECT unit, vector FROM vectors WHERE model = ? ORDER BY unit", (self.meta["semantic"],))
            if not rows:
                return {}
            self._near = meaning.Near(rows)
        return self._near.similarities(text)

    def vectors(self) -> dict[bytes, bytes]:
        """Digest of an embedded text -> its vector, for the next index."""
        return dict(self._all("SELECT digest, vector FROM vectors", ()))

    def _all(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        try:
            return self._database.execute(sql, tuple(values)).fetchall()
        except sqlite3.Error as error:
            raise UnusableIndex(type(error).__name__) from None


def _after(beginning: str) -> str:
    return beginning[:-1] + chr(ord(beginning[-1]) + 1)


def _posting(packed: bytes) -> Posting:
    half = len(packed) // 2
    return Posting(array("I", packed[:half]), array("f", packed[half:]))


def _unit(values: list[Any]) -> Unit:
    unit = Unit(*values)
    return unit._replace(names=tuple(unit.names), citations=tuple(unit.citations), scope=_scope(unit.scope))


def _scope(values: Sequence[Any]) -> Scope:
    return Scope(tuple(map(str, values[0])), values[1] is True)
