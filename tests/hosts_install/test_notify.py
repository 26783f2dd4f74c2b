"""Joined to a user's `notify`, slowwave leaves a wake-up at most, and the user's program runs as if it were alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-I", "-m", "hosts.notify"]
TURN = {
    "type": "agent-turn-complete",
    "thread-id": "0199aaaa-0000-7000-8000-000000000001",
    "turn-id": "7",
    "cwd": "/home/dev/app",
    "input-messages": ["a secret prompt"],
    "last-assistant-message": "a secret answer",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data folder in mode long."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "config.toml").write_text('[memory]\nmode = "long"\n', "utf-8")
    return folder


def notify(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(home.parent), "SLOWWAVE_HOME": str(home), **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )


def wakes(home: Path) -> list[str]:
    return [path.read_text("utf-8") for path in (home / "spool").glob("*")] if (home / "spool").exists() else []


def test_a_finished_turn_leaves_one_wake_up_without_a_word_of_it(home: Path) -> None:
    for _ in range(2):
        done = notify(home, json.dumps(TURN))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (wake,) = wakes(home)
    assert json.loads(wake)["session"] == TURN["thread-id"]
    assert "secret" not in wake


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type": "other"}', '{"type": "agent-turn-complete"}', "x" * 100_000])
def test_whatever_codex_says_the_users_program_gets_it(home: Path, text: str) -> None:
    done = notify(home, "--then", "/bin/echo", "mine", text)
    assert (done.returncode, done.stdout) == (0, f"mine {text}\n")
    assert wakes(home) == []


def test_the_users_program_keeps_its_exit_code_and_a_missing_one_is_no_fault(home: Path) -> None:
    assert notify(home, "--then", "/bin/sh", "-c", "exit 7", json.dumps(TURN)).returncode == 7
    done = notify(home, "--then", "/gone/program", json.dumps(TURN))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(wakes(home)) == 1


@pytest.mark.fault("O12")
def test_sessions_of_our_own_wake_nobody(home: Path) -> None:
    notify(home, json.dumps(TURN), SLOWWAVE_OWN_SESSION="1")
    notify(home, json.dumps(TURN | {"cwd": str(home / "generations")}))
    assert wakes(home) == []


@pytest.mark.fault("O47")
def test_it_stays_silent_where_long_memory_is_off_or_never_was(home: Path, tmp_path: Path) -> None:
    notify(home, json.dumps(TURN), SLOWWAVE_MEMORY_MODE="short")
    notify(home, json.dumps(TURN), SLOWWAVE_MEMORY_ENABLED="false")
    assert wakes(home) == []
    notify(tmp_path / "nowhere", json.dumps(TURN))
    assert not (tmp_path / "nowhere").exists()


def test_it_needs_the_standard_library_alone(home: Path) -> None:
    code = (
        "import sys, json; before = set(sys.modules); from hosts import notify;"
        "notify.wake(json.dumps({'type': 'agent-turn-complete', 'thread-id': 'a', 'cwd': '/x'}));"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        env={"HOME": str(home.parent), "SLOWWAVE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["hosts", "memory", "recall"]
    assert len(wakes(home)) == 1
