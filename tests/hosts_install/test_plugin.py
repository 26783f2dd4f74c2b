"""The Claude Code plugin does what the installer's entries do, and nothing where slowwave is not installed."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hosts.install import Command
from hosts.install_claude import PLUGIN, groups

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> Any:
    return json.loads((PLUGIN / name).read_text("utf-8"))


def test_the_plugin_listens_to_the_same_events_as_the_installer() -> None:
    hooks = load("hooks/hooks.json")["hooks"]
    wanted = groups(Command(("x",)))
    for group in [*hooks.values(), *([group] for group in wanted.values())]:
        group[0]["hooks"][0].pop("command")
    assert hooks == {event: [group] for event, group in wanted.items()}


def test_the_plugin_is_named_and_versioned_as_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    manifest, (listed,) = load(".claude-plugin/plugin.json"), load(".claude-plugin/marketplace.json")["plugins"]
    assert (manifest["name"], manifest["version"]) == (project["name"], project["version"])
    assert (listed["name"], listed["source"]) == (project["name"], "./")


@pytest.mark.req("P012")
def test_remember_is_a_command_that_may_run_one_program_only() -> None:
    text = (PLUGIN / "commands" / "remember.md").read_text("utf-8")
    assert re.search(r"^allowed-tools: Bash\(slowwave remember:\*\)$", text, re.MULTILINE)
    assert "$ARGUMENTS" in text
    assert "!`" not in text, "arguments must not reach a shell before the model quoted them"


def run_hook(home: Path, path: str, payload: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(PLUGIN / "scripts" / "hook.sh")],
        input=payload,
        env={"HOME": str(home), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.fault("O39", "O25")
def test_without_slowwave_the_hook_succeeds_in_silence(tmp_path: Path) -> None:
    done = run_hook(tmp_path, "/usr/bin:/bin", "{}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("place", ["bin", ".local/bin"])
def test_the_hook_runs_isolated_in_the_interpreter_it_was_installed_with(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "a home" / place
    folder.mkdir(parents=True)
    interpreter = tmp_path / "python3"
    interpreter.write_text('#!/bin/sh\nprintf "%s|" "$@"; cat\n', "utf-8")
    interpreter.chmod(0o755)
    program = folder / "slowwave-hook"
    program.write_text(f"#!{interpreter}\nprint()\n", "utf-8")
    program.chmod(0o755)
    done = run_hook(tmp_path / "a home", f"{folder}:/usr/bin:/bin" if place == "bin" else "/usr/bin:/bin", "payload")
    assert done.stdout == f"-I|{program}|claude|payload"


@pytest.mark.parametrize("place", ["bin", ".local/bin", ""])
def test_the_memory_tools_start_the_same_way_and_say_where_slowwave_is_not_installed(
    tmp_path: Path, place: str
) -> None:
    folder = tmp_path / "a home" / (place or "elsewhere")
    folder.mkdir(parents=True)
    interpreter = tmp_path / "python3"
    interpreter.write_text('#!/bin/sh\nprintf "%s|" "$@"\n', "utf-8")
    interpreter.chmod(0o755)
    program = folder / "slowwave"
    program.write_text(f"#!{interpreter}\nprint()\n", "utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(PLUGIN / "scripts" / "mcp.sh")],
        env={
            "HOME": str(tmp_path / "a home"),
            "PATH": f"{folder}:/usr/bin:/bin" if place == "bin" else "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == (f"-I|{program}|mcp|" if place else "")
    assert ("not installed" in done.stderr) is (not place)
