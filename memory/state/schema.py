"""The tables of state version 2 and the column types that keep them portable.

Times are UTC text that sorts (`memory.clock.iso`), JSON is text, so that SQLite and PostgreSQL hold the same
bytes. Text is cleaned on its way in: PostgreSQL refuses NUL, both refuse lone surrogates.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)

from memory.clock import iso, parse_iso

VERSION = 2
"""The only state version this program reads or writes [Z119]."""


def clean(text: str) -> str:
    """Text both databases accept: NUL dropped, lone surrogates replaced."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text.replace("\0", "")


def path_text(path: Path | str) -> str:
    """A path as text: as it is where it is UTF-8, else `bytes:<hex>` of the name the system knows."""
    text = str(path)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        try:
            return f"bytes:{text.encode('utf-8', 'surrogateescape').hex()}"
        except UnicodeEncodeError:  # no file system gave us this
            return clean(text)
    return text


def path_from(text: str) -> Path:
    """The inverse of `path_text`."""
    return Path(bytes.fromhex(text[6:]).decode("utf-8", "surrogateescape") if text.startswith("bytes:") else text)


BYTES = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that sorts and compares by its bytes, as on SQLite, whatever language the server sorts by."""


class CleanText(TypeDecorator[str]):
    """Text through `clean`."""

    impl = BYTES
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else clean(value)


class Moment(TypeDecorator[datetime]):
    """An aware datetime as UTC text with microseconds."""

    impl = BYTES
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        return iso(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:
        return parse_iso(value)


class Json(TypeDecorator[Any]):
    """A JSON value as ASCII text; what JSON has no word for is kept as its `str`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        return dump_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


_ENCODE = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode


def dump_json(value: Any) -> str:
    """Compact ASCII JSON without NUL escapes."""
    text = _ENCODE(value)
    return text.replace("\\u0000", "") if "\\u0000" in text else text


metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("name", BYTES, primary_key=True),
    Column("value", BYTES, nullable=False),
)

rollouts = Table(
    "rollouts",
    metadata,
    Column("id", CleanText, primary_key=True),
    Column("path", BYTES, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mtime_ns", BigInteger, nullable=False),
    Column("inode", BYTES, nullable=False),
    Column("kind", BYTES, nullable=False),
    Column("cwd", CleanText),
    Column("branch", CleanText),
    Column("remote", CleanText),
    Column("project", CleanText, nullable=False),
    Column("project_name", CleanText, nullable=False),
    Column("started", Moment),
    Column("last_event", Moment),
    Column("user_chars", BigInteger, nullable=False),
    Column("parent", CleanText),
    Column("forked_from", CleanText),
    Column("fingerprint", CleanText, nullable=False),
    Column("version", CleanText),
    Column("title", CleanText),
    Column("reason", BYTES),
    Column("detail", CleanText, nullable=False),
    Column("report", Json, nullable=False),
    Index("rollouts_reason", "reason"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("kind", BYTES, primary_key=True),
    Column("key", CleanText, primary_key=True),
    Column("generation", BYTES, nullable=False),
    Column("status", BYTES, nullable=False),
    Column("boundary", CleanText, nullable=False),
    Column("done_boundary", CleanText),
    Column("owner", CleanText, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("lease_until", Moment),
    Column("retry_at", Moment),
    Column("updated", Moment, nullable=False),
    Column("finished", Moment),
    Column("error_code", BYTES),
    Column("error_message", CleanText),
)

outputs = Table(
    "outputs",
    metadata,
    Column("rollout", CleanText, primary_key=True),
    Column("generation", BYTES, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("prefix_hash", BYTES, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("outcome", BYTES, nullable=False),
    Column("slug", CleanText, nullable=False),
    Column("sha256", BYTES, nullable=False),
    Column("project", CleanText, nullable=False),
    Column("project_name", CleanText, nullable=False),
    Column("ended", Moment),
    Column("written", Moment, nullable=False),
    Column("model", CleanText, nullable=False),
    Column("shrinks", Integer, nullable=False),
    Column("coverage", Json, nullable=False),
)

usage = Table(
    "usage",
    metadata,
    Column("citation", CleanText, primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("last_used", Moment, nullable=False),
)

hook_uses = Table(
    "hook_uses",
    metadata,
    Column("session", CleanText, primary_key=True),
    Column("citation", CleanText, primary_key=True),
    Column("at", Moment, nullable=False),
)
"""The last use of a source in a session of a host that was counted."""

versions = Table(
    "versions",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("generation", BYTES, nullable=False),
    Column("published", Moment, nullable=False),
    Column("sha256", BYTES, nullable=False),
    Column("manifest", Json, nullable=False),
    Column("model", CleanText, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("money", Float),
    Column("changes", Json, nullable=False),
)

intents = Table(
    "intents",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("kind", BYTES, nullable=False),
    Column("job_kind", BYTES, nullable=False),
    Column("job_key", CleanText, nullable=False),
    Column("generation", BYTES, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("old_sha", BYTES),
    Column("new_sha", BYTES),
    Column("payload", Json, nullable=False),
    Column("opened", Moment, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", CleanText, primary_key=True),
    Column("trigger", CleanText, nullable=False),
    Column("started", Moment, nullable=False),
    Column("finished", Moment),
    Column("outcome", CleanText),
    Column("detail", Json, nullable=False),
    Column("models", Json, nullable=False),
    Index("runs_started", "started"),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("kind", BYTES, primary_key=True),
    Column("key", CleanText, primary_key=True),
    Column("at", Moment, nullable=False),
)

ledger = Table(
    "ledger",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("state", BYTES, nullable=False),
    Column("day", BYTES, nullable=False),
    Column("run_id", CleanText, nullable=False),
    Column("role", CleanText, nullable=False),
    Column("job", CleanText, nullable=False),
    Column("project", CleanText, nullable=False),
    Column("provider", CleanText, nullable=False),
    Column("model", CleanText, nullable=False),
    Column("billable", Boolean, nullable=False),
    Column("admitted", Moment, nullable=False),
    Column("started", Moment),
    Column("seconds", Float, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cached_tokens", BigInteger, nullable=False),
    Column("reported", Boolean, nullable=False),
    Column("money", Float),
    Column("outcome", BYTES, nullable=False),
    Column("detail", Json, nullable=False),
    Index("ledger_day", "day", "project"),
    Index("ledger_run", "run_id"),
    Index("ledger_state", "state", "admitted"),
)
