"""Uninstalling where nothing is known of the installation, as after the data folder was deleted."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts.install import ALL_OURS, UNKNOWN, Command, Host, install, uninstall
from hosts.install_claude import EVENTS, Claude
from hosts.install_codex import Codex
from hosts.install_pi import Pi
from tests.hosts_install.configured import CLAUDE_SETTINGS, put

pytestmark = pytest.mark.fault("O45")
THEIRS = {"hooks": [{"type": "command", "command": "theirs"}]}


def there_and_back(host: Host, folder: Path, command: Command) -> list[tuple[str, str, str]]:
    """Installs with a record, uninstalls without; what was said, by file name."""
    install(host, folder, folder.parent / "records", command)
    changes = uninstall(host, folder, folder.parent / "nothing")
    return [(change.path.name, change.what, change.note) for change in changes]


@pytest.mark.parametrize(
    "text",
    [
        '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
        '{\n  "hooks": {\n    "SessionEnd": [],\n    "UserPromptSubmit": []\n  },\n  "model": "opus"\n}\n',
        '{\n  "hooks": {\n    "PreCompact": [],\n    "Stop": []\n  }\n}\n',
        '{"hooks": {}, "model": "opus"}',
        '{"hooks": {"Stop": []}, "model": "opus"}',
        CLAUDE_SETTINGS,
        '{"model": "opus"}\n',
        "{}",
    ],
)
def test_empty_lists_of_the_users_own_come_back_byte_for_byte(tmp_path: Path, command: Command, text: str) -> None:
    folder = tmp_path / "host"
    path = put(folder / "settings.json", text)
    said = there_and_back(Claude(), folder, command)
    assert path.read_text("utf-8") == text
    assert ("settings.json", "written", UNKNOWN) in said


@settings(max_examples=60, deadline=None)
@given(
    own=st.dictionaries(
        st.sampled_from([*EVENTS, "PreCompact", "Notification"]),
        st.sampled_from([[], [THEIRS], [THEIRS, THEIRS]]),
        max_size=5,
    ),
    before=st.booleans(),
    behind=st.booleans(),
)
def test_nothing_that_holds_something_is_ever_lost(own: dict[str, Any], before: bool, behind: bool) -> None:
    data = ({"a": 1} if before else {}) | {"hooks": own} | ({"b": [2]} if behind else {})
    with tempfile.TemporaryDirectory() as name:
        path = put(Path(name) / "host" / "settings.json", json.dumps(data, indent=2))
        there_and_back(Claude(), path.parent, Command(("/x/python", "-I", "/x/slowwave-hook")))
        left = json.loads(path.read_text("utf-8") if path.exists() else "{}")
    hooks = left.pop("hooks", {})
    assert left == {key: value for key, value in data.items() if key != "hooks"}
    assert {event: groups for event, groups in hooks.items() if groups} == {e: g for e, g in own.items() if g}
    assert set(hooks) <= set(own), "a list of ours was left"


@pytest.mark.parametrize("host", [Claude(), Codex()])
def test_files_we_made_go_and_what_is_left_empty_is_told(tmp_path: Path, command: Command, host: Host) -> None:
    folder = tmp_path / ".host"
    folder.mkdir()
    said = there_and_back(host, folder, command)
    assert [path.name for path in folder.rglob("*") if path.is_file()] == []
    assert [note for _, what, note in said if what == "removed"].count(ALL_OURS) >= 2
    assert said[-1] == (".host", "left", "it is empty and may be yours")


def test_a_folder_of_our_own_name_goes_and_one_that_may_be_the_users_stays(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "agent"
    put(folder / "settings.json", "{}")
    said = there_and_back(Pi(), folder, command)
    assert not (folder / "extensions" / "slowwave").exists()
    assert (folder / "extensions").is_dir()
    assert said[-1] == ("extensions", "left", "it is empty and may be yours")


def test_a_folder_of_our_name_that_holds_something_else_stays(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / "agent"
    mine = put(folder / "extensions" / "slowwave" / "mine.ts", "export {}")
    said = there_and_back(Pi(), folder, command)
    assert mine.exists()
    assert {what for _, what, _ in said} == {"removed"}


def test_with_a_record_folders_that_were_there_are_not_spoken_of(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / ".claude"
    (folder / "commands").mkdir(parents=True)
    install(Claude(), folder, tmp_path / "records", command)
    changes = uninstall(Claude(), folder, tmp_path / "records")
    assert {change.what for change in changes} == {"removed"}
    assert [path.name for path in folder.rglob("*")] == ["commands"]
