"""Times have one form: UTC that ends in Z, whole for programs, to the minute for people."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.output import print_json
from memory.clock import minutes, parse_iso
from tests.plugins.command_line import Slowwave

STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(?:[+-]\d\d:?\d\d|Z)?")
WHOLE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SHORT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ")
COMMANDS = [
    ("status",),
    ("sources",),
    ("history",),
    ("search", "tests", "--all"),
    ("doctor",),
    ("run",),
    ("run", "--dry-run"),
    ("hosts", "status"),
    ("short", "list"),
]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone of its own, half an hour off the hour."""
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def texts(value: Any) -> Iterator[str]:
    """Every text of a JSON document."""
    if isinstance(value, dict):
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from texts(item)
    if isinstance(value, str):
        yield value


def check(after_run: Slowwave, *command: str) -> int:
    """Runs a command both ways; how many times it told."""
    shown = re.sub(r"(?m)^(?:started|ended): .*$", "", after_run(*command).out)  # a rollout summary, as it is on disk
    spoken = STAMP.findall(shown)
    assert [stamp for stamp in spoken if not SHORT.fullmatch(stamp)] == []
    whole = 0
    for text in texts(json.loads(after_run(*command, "--json").out)):
        assert text.count("+00:00") == 0
        if STAMP.fullmatch(text):
            assert WHOLE.fullmatch(text)
            whole += 1
    return whole


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_tells_a_time_in_another_form(after_run: Slowwave, command: tuple[str, ...]) -> None:
    told = check(after_run, *command)
    assert told or command[0] not in {"status", "sources", "history", "search"}


def test_what_lies_behind_a_line_and_a_session_has_that_form_too(after_run: Slowwave) -> None:
    after_run("remember", "--note", "Never force-push.")
    after_run("run")
    source = next(row["source"] for row in after_run("sources", "--json").json if ":" in row["source"])
    check(after_run, "why", source)
    lines = after_run("why", source, "--json").json[0]["lines"]
    assert check(after_run, "why", str(lines[0]["line"])) > 0
    used = after_run("sources", "--json").json
    assert {WHOLE.fullmatch(row["time"]) is not None for row in used if row.get("time")} == {True}


def test_a_time_of_any_zone_is_told_in_utc(capsys: pytest.CaptureFixture[str]) -> None:
    moment = parse_iso("2026-11-30T01:30:00+05:30")
    assert (minutes(moment), minutes(None)) == ("2026-11-29T20:00Z", "–")
    print_json({"at": moment, "now": datetime(2026, 1, 2, tzinfo=UTC)})
    said = json.loads(capsys.readouterr().out)
    assert said == {"at": "2026-11-29T20:00:00.000000Z", "now": "2026-01-02T00:00:00.000000Z"}
