"""Files that are links, broken, read-only, changing or somebody else's: kept as they are, or refused in a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hosts import edit
from hosts.edit import HostConfigError
from hosts.install import Command, hook_command, install, status, uninstall
from hosts.install_claude import Claude
from hosts.install_codex import Codex
from hosts.install_pi import Pi
from tests.hosts_install.configured import CLAUDE_SETTINGS, CODEX_CONFIG, PROGRAM, put


def test_a_linked_file_is_changed_where_it_lies_and_the_link_stays(
    tmp_path: Path, records: Path, command: Command
) -> None:
    real = put(tmp_path / "dotfiles" / "claude.json", CLAUDE_SETTINGS)
    real.chmod(0o640)
    link = tmp_path / "c" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(Path("..") / "dotfiles" / "claude.json")
    install(Claude(), tmp_path / "c", records, command)
    assert link.is_symlink()
    assert "slowwave-hook" in real.read_text("utf-8")
    assert real.stat().st_mode & 0o777 == 0o640
    uninstall(Claude(), tmp_path / "c", records)
    assert link.is_symlink()
    assert real.read_text("utf-8") == CLAUDE_SETTINGS


def test_a_hard_linked_file_keeps_its_other_names(tmp_path: Path, records: Path, command: Command) -> None:
    other = put(tmp_path / "other.json", CLAUDE_SETTINGS)
    (tmp_path / "c").mkdir()
    os.link(other, tmp_path / "c" / "settings.json")
    install(Claude(), tmp_path / "c", records, command)
    assert "slowwave-hook" in other.read_text("utf-8")


BROKEN: dict[str, bytes] = {
    "a comma too many": b'{"a": 1,}',
    "a comment": b'{"a": 1} // x',
    "a list": b"[]",
    "hooks that are a list": b'{"hooks": []}',
    "an event that is an object": b'{"hooks": {"Stop": {}}}',
    "latin-1": b'{"a": "\xe9"}',
    "half a file": b'{"hooks": {"Stop": [',
    "a thousand brackets": b'{"a": ' + b"[" * 100_000,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_settings_file_with_faults_is_refused_in_a_sentence_and_left(
    content: bytes, tmp_path: Path, records: Path, command: Command
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(HostConfigError, match=r"settings\.json.*\."):
        install(Claude(), tmp_path, records, command)
    assert path.read_bytes() == content
    assert not records.exists()


@pytest.mark.parametrize(
    ("config", "hooks"),
    [
        (b"a = ", b"{}"),
        (b"", b"{"),
        (b'notify = "one string"', b"{}"),
        (b"notify = [1]", b"{}"),
        (b"hooks = 3\n", b"{"),
        (b"\xff", b"{}"),
    ],
)
def test_one_broken_codex_file_keeps_both_from_being_changed(
    config: bytes, hooks: bytes, tmp_path: Path, records: Path, command: Command
) -> None:
    (tmp_path / "config.toml").write_bytes(config)
    (tmp_path / "hooks.json").write_bytes(hooks)
    with pytest.raises(HostConfigError):
        install(Codex(), tmp_path, records, command)
    assert (tmp_path / "config.toml").read_bytes() == config
    assert (tmp_path / "hooks.json").read_bytes() == hooks
    assert status(Codex(), tmp_path, PROGRAM, command).state == "broken"


def test_a_read_only_file_is_left_to_the_program_that_manages_it(
    tmp_path: Path, records: Path, command: Command
) -> None:
    path = put(tmp_path / "settings.json", "{}")
    path.chmod(0o444)
    with pytest.raises(HostConfigError, match="read-only"):
        install(Claude(), tmp_path, records, command)
    assert path.read_text("utf-8") == "{}"
    assert not records.exists()


def test_when_the_second_file_cannot_be_written_the_first_is_taken_back(
    tmp_path: Path, records: Path, command: Command
) -> None:
    config = put(tmp_path / "x" / "config.toml", CODEX_CONFIG)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    put(elsewhere / "hooks.json", "{}")
    (tmp_path / "x" / "hooks.json").symlink_to(elsewhere / "hooks.json")
    real = edit.replace

    def full(before: edit.Found, data: bytes | None) -> None:
        if before.real.name == "hooks.json":
            raise HostConfigError("The disk is full.")
        real(before, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "replace", full)
        with pytest.raises(HostConfigError, match="full"):
            install(Codex(), tmp_path / "x", records, command)
    assert config.read_text("utf-8") == CODEX_CONFIG


def test_a_folder_a_dangling_link_and_a_fifo_are_refused(tmp_path: Path, records: Path, command: Command) -> None:
    path = tmp_path / "settings.json"
    path.mkdir()
    with pytest.raises(HostConfigError, match="not a regular file"):
        install(Claude(), tmp_path, records, command)
    path.rmdir()
    path.symlink_to(tmp_path / "gone.json")
    with pytest.raises(HostConfigError, match="does not exist"):
        install(Claude(), tmp_path, records, command)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(HostConfigError, match="not a regular file"):
        install(Claude(), tmp_path, records, command)


def test_a_file_another_program_changes_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = put(tmp_path / "settings.json", "{}")
    found = edit.read(path)
    path.write_text('{"new": 1}', "utf-8")
    with pytest.raises(HostConfigError, match="just now"):
        edit.replace(found, b'{"ours": 1}')
    assert path.read_text("utf-8") == '{"new": 1}'


def test_an_extension_of_somebody_else_by_our_name_is_left(tmp_path: Path, records: Path, command: Command) -> None:
    path = put(tmp_path / "extensions" / "slowwave" / "index.ts", "export default () => {};\n")
    with pytest.raises(HostConfigError, match="another extension"):
        install(Pi(), tmp_path, records, command)
    assert path.read_text("utf-8") == "export default () => {};\n"


def test_a_missing_program_is_refused_before_any_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(HostConfigError, match="slowwave-hook is missing"):
        hook_command(scripts=tmp_path)
