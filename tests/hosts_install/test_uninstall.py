"""Uninstalling takes out what is ours, whatever the user did to the file meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

from hosts.install import Command, install, status, uninstall
from hosts.install_claude import Claude
from hosts.install_codex import Codex
from hosts.install_pi import Pi
from tests.hosts_install.configured import CLAUDE_SETTINGS, INLINE_HOOKS, PROGRAM, put


def test_after_the_user_changed_the_file_only_our_entries_go(tmp_path: Path, records: Path, command: Command) -> None:
    path = put(tmp_path / "settings.json", CLAUDE_SETTINGS)
    install(Claude(), tmp_path, records, command)
    path.write_text(path.read_text("utf-8").replace('"opus"', '"haiku"'), "utf-8")
    uninstall(Claude(), tmp_path, records)
    assert path.read_text("utf-8") == CLAUDE_SETTINGS.replace('"opus"', '"haiku"')


def test_a_handler_the_user_put_into_our_group_stays(tmp_path: Path, records: Path, command: Command) -> None:
    install(Claude(), tmp_path, records, command)
    path = tmp_path / "settings.json"
    data = json.loads(path.read_text("utf-8"))
    theirs = {"type": "command", "command": "theirs"}
    data["hooks"]["Stop"][0]["hooks"].append(theirs)
    put(path, json.dumps(data))
    uninstall(Claude(), tmp_path, records)
    assert json.loads(path.read_text("utf-8")) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}


def test_inline_codex_hooks_go_and_what_codex_wrote_between_them_stays(
    tmp_path: Path, records: Path, command: Command
) -> None:
    config = put(tmp_path / "config.toml", INLINE_HOOKS)
    install(Codex(), tmp_path, records, command)
    text = config.read_text("utf-8")
    place = text.index("[[hooks.Stop]]", len(INLINE_HOOKS))
    added = '[hooks.state."x:stop:0:0"]\ntrusted_hash = "sha256:1"\n'
    config.write_text(text[:place] + added + text[place:], "utf-8")
    uninstall(Codex(), tmp_path, records)
    left = config.read_text("utf-8")
    assert left.startswith(INLINE_HOOKS)
    assert added in left
    assert "slowwave" not in left


def test_without_any_record_our_entries_are_still_found(tmp_path: Path, records: Path, command: Command) -> None:
    path = put(tmp_path / "settings.json", CLAUDE_SETTINGS)
    install(Claude(), tmp_path, records, command)
    uninstall(Claude(), tmp_path, tmp_path / "another home")
    assert path.read_text("utf-8") == CLAUDE_SETTINGS


def test_another_installation_of_slowwave_is_renewed_in_place(tmp_path: Path, records: Path, command: Command) -> None:
    path = put(tmp_path / "settings.json", CLAUDE_SETTINGS)
    old = Command(("/old/python", "-I", "/old/bin/slowwave-hook"))
    install(Claude(), tmp_path, records, old)
    assert status(Claude(), tmp_path, PROGRAM, command).state == "outdated"
    install(Claude(), tmp_path, records, command)
    assert status(Claude(), tmp_path, PROGRAM, command).state == "installed"
    assert "/old/" not in path.read_text("utf-8")
    uninstall(Claude(), tmp_path, records)
    assert path.read_text("utf-8") == CLAUDE_SETTINGS


def test_uninstalling_what_was_never_installed_changes_nothing(tmp_path: Path, records: Path) -> None:
    path = put(tmp_path / "settings.json", CLAUDE_SETTINGS)
    for host in (Claude(), Codex(), Pi()):
        assert uninstall(host, tmp_path, records) == []
    assert [p.name for p in tmp_path.iterdir()] == ["settings.json"]
    assert path.read_text("utf-8") == CLAUDE_SETTINGS


def test_a_copy_of_the_file_is_kept_for_its_owner_alone(tmp_path: Path, records: Path, command: Command) -> None:
    put(tmp_path / "settings.json", '{"env": {"KEY": "secret"}}')
    change, *_ = install(Claude(), tmp_path, records, command)
    assert change.copy is not None
    assert change.copy.read_text("utf-8") == '{"env": {"KEY": "secret"}}'
    assert change.copy.stat().st_mode & 0o777 == 0o600
