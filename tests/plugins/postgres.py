"""A real PostgreSQL server for tests, on loopback, in a temporary folder; its tests skip where there is none.

Its text sorts by a language's rules, as on most servers, not by bytes as SQLite's does. The roles `guarded` (password
`PASSWORD`) and `slowwave` need a password; all others come in without.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.ports import reserved

PASSWORD = "hunter2-§ %"
"""Of the role `guarded`; with characters a URL must write otherwise."""
QUOTED = "hunter2-%C2%A7%20%25"


@dataclass(frozen=True)
class Server:
    """`account` runs it where the tests run as root, which PostgreSQL refuses to be."""

    binaries: Path
    folder: Path
    port: int
    account: str | None

    def url(self, database: str = "postgres", *, user: str = "test", password: str = "") -> str:
        """As `state.url` has it; `password` as a URL writes it."""
        return f"postgresql://{user}{password and f':{password}'}@127.0.0.1:{self.port}/{database}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def run(self, *command: str) -> None:
        # Nothing is captured: a server that is started keeps what it was given open.
        with (self.folder / "said").open("w") as said:
            subprocess.run(
                command, check=True, user=self.account, cwd=self.folder, stdout=said, stderr=said, timeout=60
            )

    def create(self) -> None:
        self.data.mkdir(mode=0o700)
        if self.account is not None:
            shutil.chown(self.folder, self.account)
            shutil.chown(self.data, self.account)
        initdb = str(self.binaries / "initdb")
        known = subprocess.run([initdb, "--help"], capture_output=True, text=True, check=True).stdout
        sorting = ["--locale-provider=icu", "--icu-locale=en-US"] if "--icu-locale" in known else []
        self.run(initdb, "-D", str(self.data), "-U", "test", "-A", "trust", "-E", "UTF8", *sorting, "--no-sync")
        rules = self.data / "pg_hba.conf"
        rules.write_text("host all guarded,slowwave 127.0.0.1/32 scram-sha-256\n" + rules.read_text("utf-8"), "utf-8")

    def start(self) -> None:
        options = (
            f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories= -c fsync=off"
            " -c autovacuum_naptime=1h"
        )
        program, log = str(self.binaries / "pg_ctl"), str(self.folder / "log")
        self.run(program, "-D", str(self.data), "-o", options, "-w", "-l", log, "start")

    def stop(self, mode: str = "immediate") -> None:
        self.run(str(self.binaries / "pg_ctl"), "-D", str(self.data), "-m", mode, "-w", "stop")

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement by the server's owner, outside any transaction; its rows."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def guarded(self, database: str) -> str:
        """A new database that belongs to `guarded`; its URL, which holds the password."""
        if not self.sql("SELECT 1 FROM pg_roles WHERE rolname = 'guarded'"):
            self.sql(f"CREATE ROLE guarded LOGIN PASSWORD '{PASSWORD}'")
        self.sql(f"CREATE DATABASE {database} OWNER guarded")
        return self.url(database, user="guarded", password=QUOTED)

    def drop(self, database: str) -> None:
        self.sql(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def copy(self, old: str, new: str) -> None:
        """A database with everything in another one; nobody may be connected to that."""
        self.drop(new)
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{old}'")
        self.sql(f"CREATE DATABASE {new} TEMPLATE {old}")

    def rows_holding(self, database: str, word: str) -> list[str]:
        """Tables of the stores that hold a word in any column."""
        named = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'slowwave%'"
        tables = [str(name) for (name,) in self.sql(named, database)]
        return [
            name
            for name in tables
            if self.sql(f"SELECT 1 FROM {name} t WHERE t::text LIKE '%{word}%' LIMIT 1", database)
        ]

    def holding(self, word: str) -> list[Path]:
        """Files of its tables that hold a word, once everything written is on disk."""
        self.sql("CHECKPOINT")
        files = [path for path in (self.data / "base").rglob("*") if path.is_file()]
        return [path for path in files if word.encode() in path.read_bytes()]


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A server of its own; stopped in the end, if the test has not. Skips where PostgreSQL or its driver is missing."""
    pytest.importorskip("psycopg")
    binaries, account = _binaries(), _account()
    if binaries is None:
        pytest.skip("PostgreSQL server binaries are not installed")
    if account is None and os.geteuid() == 0:
        pytest.skip("PostgreSQL does not run as root and there is no other account")
    with tempfile.TemporaryDirectory(prefix="slowwave-pg-") as folder, reserved() as port:
        server = Server(binaries, Path(folder), port, account)
        server.create()
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):  # stopped by the test
                server.stop()


def _binaries() -> Path | None:
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda p: p.parts)
    return folders[-1].parent if folders else None


def _account() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    return None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One for all tests of the folder: each makes a database or a store of its own in it."""
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: Server) -> str:
    """Its URL, for whoever comes in without a password."""
    return postgres_server.url()
