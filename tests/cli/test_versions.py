"""State of another version, or half of one: nothing is converted, so nothing can be lost by converting it."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.command_line import SAMPLES, Slowwave

ROOT = SAMPLES.parents[1]

COMMANDS: list[tuple[str, ...]] = [
    ("run",),
    ("run", "--dry-run"),
    ("status",),
    ("sources",),
    ("history",),
    ("why", "6"),
    ("show", "--numbers"),
    ("doctor",),
    ("doctor", "--fix"),
    ("clear", "--yes"),
    ("forget", "--text", "pnpm", "--yes"),
    ("restore", "1", "--yes"),
    ("remember", "--note", "Never force-push."),
    ("search", "pnpm"),
]


def old_state(home: Path, version: int, *, open_log: bool) -> dict[str, bytes]:
    """A database of another version: a hundred memories, most of them without a hash; `open_log`: the last of them
    stand in the write-ahead log alone, as a killed process leaves it."""
    made = home.parent / "old"
    made.mkdir()
    with sqlite3.connect(made / "state.db", isolation_level=None) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, hash TEXT, text TEXT)")
        database.execute(f"PRAGMA user_version={version}")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        rows = [(None if number % 50 else f"h{number}", f"memory {number}") for number in range(100)]
        database.executemany("INSERT INTO memories (hash, text) VALUES (?, ?)", rows)
        if not open_log:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for path in made.iterdir():
            if not path.name.endswith("-shm"):
                shutil.copy(path, home / path.name)
    database.close()
    return files(home)


def files(home: Path) -> dict[str, bytes]:
    """The database and whatever lies beside it."""
    return {path.name: path.read_bytes() for path in sorted(home.glob("*state.db*")) if path.stat().st_size}


def memories(home: Path) -> int:
    """How many there are, looked at in a copy."""
    copy = home.parent / "copy"
    copy.mkdir()
    for path in home.glob("state.db*"):
        shutil.copy(path, copy / path.name)
    with sqlite3.connect(copy / "state.db") as database:
        found = database.execute("SELECT count(*) FROM memories").fetchone()[0]
    database.close()
    return int(found)


@pytest.mark.req("Z013", "Z119")
@pytest.mark.fault("O35", "O36")
@pytest.mark.parametrize(("version", "open_log"), [(1, False), (1, True), (3, False)])
def test_no_command_loses_a_row_of_another_version(
    slowwave: Slowwave, home: Path, version: int, *, open_log: bool
) -> None:
    before = old_state(home, version, open_log=open_log)
    for command in COMMANDS:
        done = slowwave(*command)
        assert files(home) == before, command
        assert done.code != 0 or command[0] == "search", command
        assert "Traceback" not in done.err + done.out
        if command[0] not in {"doctor", "search"}:
            assert "never converted" in done.err, command
    findings = slowwave("doctor", "--json").json
    assert [one["level"] for one in findings if one["check"] == "state"] == ["error"]
    assert memories(home) == 100


@pytest.mark.fault("O36")
@pytest.mark.parametrize("missing", ["ALTER TABLE ledger DROP COLUMN money", "DROP TABLE tombstones"])
def test_half_a_schema_is_refused_by_every_command_and_mended_only_when_asked(
    after_run: Slowwave, home: Path, missing: str
) -> None:
    with sqlite3.connect(home / "state.db") as database:
        database.execute(missing)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    before = (home / "state.db").read_bytes()
    for command in (command for command in COMMANDS if command != ("doctor", "--fix")):
        done = after_run(*command)
        assert (home / "state.db").read_bytes() == before, command
        assert done.code != 0 or command[0] == "search", command
    mended = after_run("doctor", "--fix", "--json")
    kept = [path for path in home.rglob("*") if path.is_file() and path.read_bytes() == before]
    assert kept, "what was there is set aside, never deleted"
    assert mended.json["mended"]
    assert after_run("status").code == 0


@pytest.mark.fault("O36")
@pytest.mark.parametrize("point", ["state.create.before", "state.create.after"])
def test_a_start_that_was_killed_while_it_made_the_state_is_made_good_by_the_next(
    slowwave: Slowwave, home: Path, point: str
) -> None:
    program = (
        f"from memory import failpoints; failpoints.arm_from_text('{point}=kill')\n"
        "from cli.main import main; main(['status'])"
    )
    environment = {"SLOWWAVE_HOME": str(home), "HOME": str(home.parent), "PATH": "/usr/bin:/bin"}
    killed = subprocess.run([sys.executable, "-c", program], env=environment, check=False, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    assert slowwave("status").code == 0
    assert json.loads(slowwave("run", "--json").out)["outcome"] == "ok"
    assert slowwave("doctor").code == 0
