"""PostgreSQL: how it is addressed, connected to and looked at, what its errors mean, how deleted rows leave it.

One writer at a time in a store, by an advisory lock, and REPEATABLE READ for readers: so everything that holds on
SQLite holds here, and two writers who need the same rows in different order cannot block each other. One SQL schema for
each store.
"""

from __future__ import annotations

import re
import time
from typing import Any, Literal

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from memory.errors import SettingsError, StateCorruptError, StateError, StateLostError
from memory.state.schema import VERSION, metadata

DRIVER = "psycopg"
WRITE_OPTION = "slowwave_write"
"""Execution option of connections whose transactions write."""
CREATING, WRITING = 7301942, 7301943
"""Our advisory locks: of whoever creates a schema, and of the writer of a store."""
CONNECT_SECONDS = 10
"""How long a host may take to answer, unless the URL says otherwise: the system's own patience is minutes."""
SILENT_SECONDS = 60
"""A connection whose other end says nothing for so long is given up by both ends, and with it what it holds locked."""
MENDS = "Check state.url and SLOWWAVE_STORE; if they are right, restore its schema from a backup of the server."
OTHER_VERSION = "Old state is never converted: rename its schema, or name another store (SLOWWAVE_STORE)."
_URL = re.compile(r"postgres(?:ql)?(?:\+(\w*))?://(.*)", re.DOTALL)
_PAUSE = 0.05

Trouble = Literal[
    "busy", "login", "no_host", "no_answer", "no_database", "crowded", "ssl", "option", "lost", "denied", "read_only",
    "full", "encoding", "incomplete", "damaged", "",
]  # fmt: skip
"""What an error of the server or its client comes to; empty: something else."""

_BY_STATE: dict[str, Trouble] = {
    "55P03": "busy", "40P01": "busy", "40001": "busy",
    "28000": "login", "28P01": "login", "3D000": "no_database", "53300": "crowded",
    "57P01": "lost", "57P02": "lost", "57P03": "lost", "57P05": "lost", "25P03": "lost",
    "42501": "denied", "25006": "read_only", "53100": "full",
    "22P05": "encoding", "22021": "encoding",
    "3F000": "incomplete", "42P01": "incomplete", "42703": "incomplete",
    "XX001": "damaged", "XX002": "damaged",
}  # fmt: skip
_BY_WORDS: tuple[tuple[str, Trouble], ...] = (
    ("password authentication failed", "login"),
    ("no password supplied", "login"),
    ("pg_hba.conf", "login"),
    ("resolve host", "no_host"),
    ("translate host name", "no_host"),
    ("too many clients", "crowded"),
    ("connection slots", "crowded"),
    ("too many connections", "crowded"),
    ("invalid response", "no_answer"),
    ("SSL", "ssl"),
    ("connection is bad", "option"),
    ("connection option", "option"),
)
"""The client gives no SQLSTATE for a connection that did not come about, only the server's words."""
_SAYS: dict[Trouble, tuple[str, str]] = {
    "login": (
        "The server of the state database {0} refused the login.",
        "Check user and password: in state.url, or in the password file of PostgreSQL (~/.pgpass, PGPASSFILE).",
    ),
    "no_host": ("The host of the state database {0} is not known.", "Check its name in state.url."),
    "no_answer": (
        "The server of the state database {0} cannot be reached.",
        "Start it, or check host and port in state.url. Nothing is lost: the next run goes on.",
    ),
    "no_database": (
        "The server has no database of that name: {0}.",
        "Create it (createdb), or check its name in state.url.",
    ),
    "crowded": (
        "The server of the state database {0} takes no more connections.",
        "Wait, or raise max_connections of the server. Nothing is lost.",
    ),
    "ssl": (
        "The server of the state database {0} and sslmode in state.url do not agree on encryption.",
        "Give the server a certificate, or choose another sslmode.",
    ),
    "option": (
        "The options of state.url do not suit PostgreSQL's client.",
        "Check what stands behind its question mark.",
    ),
    "lost": (
        "The connection to the state database {0} was lost.",
        "Nothing is lost: run it again when the server is up, and it goes on where it was.",
    ),
    "denied": (
        "The user of the state database {0} may not do that there.",
        "It must own the schema and its tables; to create them it needs GRANT CREATE ON DATABASE.",
    ),
    "read_only": (
        "The state database {0} is read-only.",
        "Name the primary server in state.url, not a standby, and a user who may write.",
    ),
    "full": ("The disk of the server of the state database {0} is full.", "Free some space there. Nothing is lost."),
    "encoding": (
        "The state database {0} cannot hold every character.",
        "Use a database with the encoding UTF8 (createdb -E UTF8 -T template0).",
    ),
}


# -- the address --------------------------------------------------------------------------------------


def is_address(url: str) -> bool:
    """Whether a URL names PostgreSQL."""
    return _URL.fullmatch(url) is not None


def parse(url: str) -> URL:
    """A checked URL with our driver. Raises SettingsError without repeating any of it."""
    found = _URL.fullmatch(url)
    assert found is not None
    if found[1] not in {None, DRIVER}:
        raise SettingsError(
            "state.url names a driver that is not used here.", hint="Write postgresql://USER@HOST/DATABASE."
        )
    if found[2].count("@") > 1:  # the first of them would end the password, and its rest be shown as the host
        raise SettingsError(
            "state.url has more than one @, so that nobody can tell where its password ends.",
            hint="Inside a user name or password write %40 for @, %3A for : and %2F for /.",
        )
    try:
        return make_url(f"postgresql+{DRIVER}://{found[2]}")
    except (ArgumentError, ValueError):
        raise SettingsError("state.url is not a database URL.", hint="Use sqlite:///PATH or postgresql://...") from None


def where(url: URL) -> str:
    """The database as messages name it: user, host, port and database, whichever way the URL gives them; no password
    and no option."""
    user, host = url.username or _option(url, "user"), url.host or _option(url, "host")
    port, database = str(url.port or "") or _option(url, "port"), url.database or _option(url, "dbname")
    return f"postgresql://{user and f'{user}@'}{host}{port and f':{port}'}/{database}"


def _option(url: URL, name: str) -> str:
    value = url.query.get(name, "")
    return value if isinstance(value, str) else ",".join(value)


def schema_of(store: str) -> str:
    """The SQL schema of a store: `slowwave_<name>`."""
    return "slowwave_" + store.replace("-", "_")


# -- connecting ---------------------------------------------------------------------------------------


def engine(url: URL, busy_seconds: float, store: str) -> Engine:
    """An engine whose errors never show parameters. Raises SettingsError where the driver is not installed."""
    ours = {
        "lock_timeout": int(busy_seconds * 1000),
        "idle_in_transaction_session_timeout": SILENT_SECONDS * 1000,
        "tcp_keepalives_idle": SILENT_SECONDS,
        "timezone": "UTC",
    }
    options = " ".join(f"-c {name}={value}" for name, value in ours.items())
    arguments: dict[str, Any] = {"options": f"{_option(url, 'options')} {options}".strip()}
    wanted = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": SILENT_SECONDS,
        "tcp_user_timeout": SILENT_SECONDS * 1000,
        "application_name": "slowwave",
    }
    arguments |= {name: value for name, value in wanted.items() if name not in url.query}
    try:
        made = create_engine(
            url, connect_args=arguments, hide_parameters=True, pool_pre_ping=True, pool_timeout=busy_seconds
        )
    except ImportError:
        raise SettingsError(
            "state.url names PostgreSQL, but its driver is not installed.", hint="Install slowwave[postgres]."
        ) from None

    @event.listens_for(made, "begin")
    def _begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITE_OPTION, False):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_turn(store)})")

    return made.execution_options(schema_translate_map={None: schema_of(store)})


def _turn(store: str) -> str:
    """Arguments of the advisory lock that the writer of a store holds."""
    return f"{WRITING}, hashtext('{schema_of(store)}')"


# -- errors -------------------------------------------------------------------------------------------


def trouble(error: DBAPIError) -> Trouble:
    """What an error comes to. Never looks at a statement or its parameters."""
    state = getattr(error.orig, "sqlstate", None)
    if state:
        return "lost" if state.startswith("08") else _BY_STATE.get(state, "")
    words = str(error.orig)
    if error.connection_invalidated or error.statement is not None:
        return "lost"
    if "does not exist" in words:
        return "no_database" if "database" in words else "login"
    return next((found for phrase, found in _BY_WORDS if phrase in words), "no_answer")


def away(error: DBAPIError) -> bool:
    """Whether the server may be back in a moment."""
    return trouble(error) in {"no_answer", "lost", "crowded"}


def translate(error: DBAPIError, place: str) -> StateError:
    """The error a user can act on. The client's own words stay out of it: they may quote the URL."""
    found = trouble(error)
    if found == "incomplete":
        return incomplete(place)
    if found == "damaged":
        return StateCorruptError(
            f"The server of the state database {place} reports damaged data.", hint="Restore it from a backup."
        )
    if found in _SAYS:
        says, hint = _SAYS[found]
        kind = StateLostError if found in {"no_answer", "lost", "crowded"} else StateError
        return kind(says.format(place), hint=hint)
    state = getattr(error.orig, "sqlstate", None) or ""
    return StateError(
        f"The state database {place} refused a statement ({type(error.orig).__name__} {state}).".replace(" )", ")"),
        hint="Check that the server is up and the user may create and change tables in its schema.",
    )


def incomplete(place: str) -> StateCorruptError:
    return StateCorruptError(
        f"The state database {place} says version {VERSION} but lacks tables or columns of it; it was left as it is.",
        hint=MENDS,
    )


# -- looking and creating -----------------------------------------------------------------------------

Columns = set[tuple[str, str]]


def inspect(connection: Connection, store: str) -> tuple[dict[str, str], Columns]:
    """(meta rows, columns) of the store's schema, also where the user may not read it. Raises DBAPIError then."""
    schema = schema_of(store)
    # Not information_schema: it hides what one may not read, and a database without rights is no empty one.
    query = text(
        "SELECT t.relname, c.attname FROM pg_catalog.pg_attribute c"
        " JOIN pg_catalog.pg_class t ON t.oid = c.attrelid JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace"
        " WHERE s.nspname = :schema AND t.relkind IN ('r', 'p') AND c.attnum > 0 AND NOT c.attisdropped"
    )
    columns = {(str(table), str(name)) for table, name in connection.execute(query, {"schema": schema})}
    if not columns >= {("meta", "name"), ("meta", "value")}:
        return {}, columns
    rows = connection.execute(text(f"SELECT name, value FROM \"{schema}\".meta WHERE position(':' in name) = 0"))
    return {str(name): str(value) for name, value in rows}, columns


def create(connection: Connection, store: str, rows: dict[str, str], place: str) -> None:
    """Creates the store's schema, unless an administrator did, and its tables; the caller holds `lock_creation`.

    Raises StateError for a database that cannot hold every text.
    """
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        says, hint = _SAYS["encoding"]
        raise StateError(says.format(place), hint=hint)
    there = text("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :schema")
    if connection.execute(there, {"schema": schema_of(store)}).first() is None:
        connection.execute(text(f'CREATE SCHEMA "{schema_of(store)}"'))
    metadata.create_all(connection)
    values = [{"name": name, "value": value} for name, value in rows.items()]
    connection.execute(metadata.tables["meta"].insert(), values)


def lock_creation(connection: Connection) -> None:
    """One creator at a time, until the transaction ends."""
    connection.execute(text(f"SELECT pg_advisory_xact_lock({CREATING})"))


def may_write(connection: Connection, store: str) -> bool:
    """Whether this user may change every table, on a server that takes changes."""
    query = text(
        "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off' AND coalesce(bool_and("
        "has_table_privilege(t.oid, 'INSERT') AND has_table_privilege(t.oid, 'UPDATE')"
        " AND has_table_privilege(t.oid, 'DELETE')), false)"
        " FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace s ON s.oid = t.relnamespace"
        " WHERE s.nspname = :schema AND t.relkind IN ('r', 'p')"
    )
    return bool(connection.execute(query, {"schema": schema_of(store)}).scalar_one())


# -- what deleted rows leave behind ---------------------------------------------------------------------


def scrub(made: Engine, store: str, seconds: float) -> bool:
    """Writes every table of the store anew, without its deleted rows; False when others were in the way for `seconds`.

    A deleted row stays in its table as long as somebody's transaction might still see it, so those that began before
    are waited for; those of other databases, too, for they hold back what a new snapshot takes for over. What the
    server keeps beside the tables (write-ahead log, backups, standbys) is its own.
    """
    end = time.monotonic() + seconds
    with made.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        mark = int(connection.execute(text("SELECT txid_current()")).scalar_one())
        while _older(connection, mark):
            if time.monotonic() >= end:
                return False
            time.sleep(_PAUSE)
        connection.execute(text(f"SELECT pg_advisory_lock({_turn(store)})"))
        try:
            before = _files(connection, store)
            for name in before:
                connection.execute(text(f'VACUUM FULL "{schema_of(store)}"."{name}"'))
            # A table of somebody else is passed over with a warning only.
            after = _files(connection, store)
        finally:
            connection.execute(text(f"SELECT pg_advisory_unlock({_turn(store)})"))
    return all(after.get(name) != number for name, number in before.items())


def _older(connection: Connection, mark: int) -> bool:
    """Whether a transaction that began before `mark` goes on anywhere, or reads in this database."""
    running = int(connection.execute(text("SELECT txid_snapshot_xmin(txid_current_snapshot())")).scalar_one())
    return running < mark or connection.execute(text(_OLDER), {"mark": str(mark & 0xFFFFFFFF)}).first() is not None


_OLDER = (
    "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname IS NULL OR"
    " datname = current_database()) AND (age(backend_xmin) >= age(CAST(:mark AS xid))"
    " OR age(backend_xid) >= age(CAST(:mark AS xid))) LIMIT 1"
)


def _files(connection: Connection, store: str) -> dict[str, int]:
    """Table -> the number of the file it lies in; a new one when it was written anew."""
    query = text(
        "SELECT t.relname, t.relfilenode FROM pg_catalog.pg_class t JOIN pg_catalog.pg_namespace s"
        " ON s.oid = t.relnamespace WHERE s.nspname = :schema AND t.relkind = 'r'"
    )
    return {str(name): int(number) for name, number in connection.execute(query, {"schema": schema_of(store)})}
