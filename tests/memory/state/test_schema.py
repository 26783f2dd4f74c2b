"""The document of the state is true: every column, and what may stand in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memory.state.schema import Moment, metadata

DOCUMENT = Path(__file__).parents[3] / "docs" / "state.md"
KINDS = {"id", "word", "count", "time", "hash", "counts", "path", "text"}


def documented() -> dict[str, dict[str, str]]:
    """Table -> column -> kind, from docs/state.md."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \| ([^|]+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    return {table: dict(re.findall(r"`(\w+)` (\w+)", columns)) for table, columns in rows}


def test_every_table_and_column_is_documented_with_its_kind() -> None:
    expected = {table.name: [column.name for column in table.c] for table in metadata.sorted_tables}
    written = documented()
    assert {name: list(columns) for name, columns in written.items()} == expected
    assert {kind for columns in written.values() for kind in columns.values()} <= KINDS


def test_a_column_of_times_is_one_in_the_document_too() -> None:
    written = documented()
    moments = {(t.name, c.name) for t in metadata.sorted_tables for c in t.c if isinstance(c.type, Moment)}
    said = {(table, name) for table, columns in written.items() for name, kind in columns.items() if kind == "time"}
    assert said == moments | {("ledger", "day")}


@pytest.mark.req("C022", "C055", "C059", "C060", "C061", "C062")
def test_text_of_people_or_models_stands_in_the_named_columns_only() -> None:
    texts = {
        (table, name) for table, columns in documented().items() for name, kind in columns.items() if kind == "text"
    }
    assert texts == {("rollouts", "title"), ("outputs", "slug"), ("versions", "changes"), ("intents", "payload")}
