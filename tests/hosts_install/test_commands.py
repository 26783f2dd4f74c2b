"""`slowwave hosts` as people and programs use it."""

from __future__ import annotations

import json
import os
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from hosts.install import Command


@pytest.fixture
def installed(tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Path:
    """A home with a Codex and a Claude Code folder, and hosts on PATH; returns the home."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(Path(command.argv[-1]).parent))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("codex", "claude"):
        (programs / name).write_text("#!/bin/sh\n", "utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    (isolated_home / ".codex").mkdir()
    (isolated_home / ".claude").mkdir()
    (isolated_home / ".codex" / "config.toml").write_text('notify = ["theirs"]\n', "utf-8")
    return isolated_home


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code: object = 0
    try:
        main(["hosts", *arguments])
    except SystemExit as ended:
        code = ended.code or 0
    captured = capsys.readouterr()
    return code if isinstance(code, int) else 1, captured.out, captured.err


def state(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, out, _ = call(capsys, "status", "--json")
    assert code == 0
    return {host["host"]: host for host in json.loads(out)}


def test_all_hosts_that_are_here_are_served_and_the_missing_approval_is_said(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, "install")
    assert (code, err) == (0, "")
    assert "Codex CLI: done" in out
    assert "Claude Code: done" in out
    assert "Installed, not trusted" in out
    assert "Pi" not in out
    found = state(capsys)
    assert [found[name]["state"] for name in ("codex", "claude", "pi")] == ["installed", "installed", "absent"]
    assert not (installed / ".pi").exists()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("", "Mode short: sessions get what you wrote down."),
        ('[memory]\nmode = "long"\n', "Mode long: "),
        ("[memory]\nenabled = false\n", "Memory is switched off"),
        ('[memory]\nmode = "off"\n', "Memory is switched off"),
    ],
)
def test_whoever_installs_is_told_what_sessions_will_get(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str, says: str
) -> None:
    data = installed / ".local" / "share" / "slowwave"
    data.mkdir(parents=True, mode=0o700)
    (data / "config.toml").write_text(config, "utf-8")
    assert call(capsys, "install")[1].splitlines()[-1].startswith(says)
    json.loads(call(capsys, "install", "--json")[1])


def test_installing_twice_and_uninstalling_leaves_the_home_as_it_was(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in installed.rglob("*") if path.is_file()}
    call(capsys, "install")
    code, out, _ = call(capsys, "install")
    assert code == 0
    assert out.count("already installed") == 2
    assert call(capsys, "uninstall")[0] == 0
    assert {path: path.read_bytes() for path in installed.rglob("*") if path.is_file()} == before
    assert call(capsys, "uninstall")[1].count("nothing of slowwave was there") == 3


def test_one_broken_host_is_named_and_the_others_are_served(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (installed / ".claude" / "settings.json").write_text("{,}", "utf-8")
    code, out, _ = call(capsys, "install")
    assert code == 1
    assert "Claude Code: not installed." in out
    assert "settings.json is not valid JSON" in out
    assert state(capsys)["codex"]["state"] == "installed"
    assert state(capsys)["claude"]["state"] == "broken"


def test_the_hook_is_told_the_home_and_the_store_only_where_they_are_not_the_usual_ones(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call(capsys, "install", "claude")
    settings = installed / ".claude" / "settings.json"
    assert "SLOWWAVE" not in settings.read_text("utf-8")
    monkeypatch.setenv("SLOWWAVE_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SLOWWAVE_STORE", "team")
    call(capsys, "install", "claude")
    text = settings.read_text("utf-8")
    assert f"/usr/bin/env SLOWWAVE_HOME={tmp_path}/data SLOWWAVE_STORE=team " in text
    assert text.count("slowwave-hook") == 5


@pytest.mark.fault("X51")
def test_status_says_when_a_host_last_called_the_hook(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("SLOWWAVE_HOME", str(data))
    lines = ["2026-11-30T08:00:00Z codex Stop a released 0 9", "2026-11-30T09:00:00Z codex Stop b", "broken codex", ""]
    (data / "hook.log").write_text("\n".join(lines), "utf-8")
    call(capsys, "install")
    assert state(capsys)["codex"]["last_hook"].startswith("2026-11-30T09:00:00")
    assert state(capsys)["claude"]["last_hook"] is None
    assert "last called: never" in call(capsys, "status")[1]


def test_one_name_that_is_no_host_stops_an_uninstall_before_it_begins(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "install")
    there = (installed / ".codex" / "hooks.json").read_bytes()
    code, out, err = call(capsys, "uninstall", "codex", "cursor")
    assert (code, out, "'cursor' is no host" in err) == (2, "", True)
    assert (installed / ".codex" / "hooks.json").read_bytes() == there


def test_the_greeting_of_the_tool_server_stays_while_a_host_is_left_that_uses_it(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "install")
    (greeting,) = installed.rglob("mcp.greeting.json")
    call(capsys, "uninstall", "codex")
    assert greeting.is_file()
    call(capsys, "uninstall")
    assert not greeting.exists()


def test_an_unknown_host_and_an_empty_machine_are_said_in_a_sentence(
    installed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = call(capsys, "install", "cursor")
    assert code == 2
    assert "'cursor' is no host. Hosts are codex, claude, pi." in err
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setenv("HOME", str(installed / "nobody"))
    code, _, err = call(capsys, "install")
    assert code == 2
    assert "No host was found" in err


def test_the_plugin_folder_is_printed_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "plugin")
    assert code == 0
    assert (Path(out.strip()) / ".claude-plugin" / "plugin.json").is_file()
