"""The `/remember` command of Claude Code: one program it may run, and a user's own command left alone."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from hosts.install import Command, install, status, uninstall
from hosts.install_claude import Claude
from tests.hosts_install.configured import PROGRAM, codes, put


@pytest.mark.req("P012")
def test_claude_gets_a_command_that_runs_this_installation_and_nothing_else(
    tmp_path: Path, records: Path, command: Command
) -> None:
    install(Claude(), tmp_path / "c", records, command)
    text = (tmp_path / "c" / "commands" / "remember.md").read_text("utf-8")
    call = shlex.join([*command.argv[:-1], str(Path(command.argv[-1]).with_name("slowwave")), "remember"])
    assert f"\nallowed-tools: Bash({call}:*)\n" in text
    assert f"\n    {call} --project -- 'the text'\n" in text
    assert "$ARGUMENTS" in text
    assert "!`" not in text, "arguments must not reach a shell before the model quoted them"
    assert status(Claude(), tmp_path / "c", PROGRAM, command).state == "installed"
    uninstall(Claude(), tmp_path / "c", records)
    assert not (tmp_path / "c").exists()


def test_a_remember_command_of_the_users_own_stays_and_is_told(tmp_path: Path, records: Path, command: Command) -> None:
    theirs = put(tmp_path / "c" / "commands" / "remember.md", "Mine.\r\nslowwave remember $ARGUMENTS")
    before = theirs.read_bytes()
    install(Claude(), tmp_path / "c", records, command)
    assert theirs.read_bytes() == before
    assert codes(Claude(), tmp_path / "c", command) == ["remember_taken"]
    assert status(Claude(), tmp_path / "c", PROGRAM, command).state == "installed"
    uninstall(Claude(), tmp_path / "c", records)
    assert theirs.read_bytes() == before
    assert not (tmp_path / "c" / "settings.json").exists()


def test_an_older_remember_command_of_ours_is_renewed_and_one_made_the_users_own_is_left(
    tmp_path: Path, records: Path, command: Command
) -> None:
    install(Claude(), tmp_path / "c", records, command)
    path = tmp_path / "c" / "commands" / "remember.md"
    ours = path.read_text("utf-8")
    path.write_text(ours.replace("The user asks", "Somebody asks"), "utf-8")
    assert status(Claude(), tmp_path / "c", PROGRAM, command).state == "outdated"
    install(Claude(), tmp_path / "c", records, command)
    assert path.read_text("utf-8") == ours
    path.write_text("My own words: $ARGUMENTS\n", "utf-8")
    install(Claude(), tmp_path / "c", records, command)
    uninstall(Claude(), tmp_path / "c", records)
    assert path.read_text("utf-8") == "My own words: $ARGUMENTS\n"
