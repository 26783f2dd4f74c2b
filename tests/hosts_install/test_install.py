"""Installing changes the hosts' files as little as possible, says what is missing, and refuses rather than guesses."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hosts import edit
from hosts.edit import HostConfigError
from hosts.install import Command, Host, hook_command, install, status, uninstall
from hosts.install_claude import Claude
from hosts.install_codex import PASSED, Codex
from hosts.install_pi import Pi
from hosts.versions import Program, find

CLAUDE_SETTINGS = """{
    "model": "opus",   "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]
    },
    "permissions": {"allow": ["Bash(ls:*)"], "deny": []}
}"""
CODEX_CONFIG = """# my settings
model = "m"  # fast
notify = ["/usr/bin/theirs", "--flag"] # tell me

[features]
hooks = true

[projects."/home/dev/shop"]
trust_level = "trusted"
"""
PROGRAM = Program(Path("/usr/bin/host"), "1.2.3")


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def server_table(command: Command) -> str:
    """What Codex is told of the memory tools."""
    program, *arguments = command.server()
    lines = [f'command = "{program}"', f"args = {json.dumps(arguments)}", f"env_vars = {json.dumps(PASSED)}"]
    return "\n".join(["", "[mcp_servers.slowwave]", *lines, ""])


def codes(host: Host, folder: Path, command: Command) -> list[str]:
    return [finding.code for finding in status(host, folder, PROGRAM, command).findings]


# -- what is written --------------------------------------------------------------------------------------------------


def test_claude_settings_keep_every_line_and_gain_ours_last(tmp_path: Path, records: Path, command: Command) -> None:
    path = put(tmp_path / "c" / "settings.json", CLAUDE_SETTINGS)
    install(Claude(), tmp_path / "c", records, command)
    text = path.read_text("utf-8")
    stop = json.loads(text)["hooks"]["Stop"]
    assert stop[0] == {"hooks": [{"type": "command", "command": "theirs"}]}
    assert Command.is_ours(stop[1]["hooks"][0]["command"])
    assert text.startswith('{\n    "model": "opus",   "hooks": {\n        "Stop": [{"hooks": [{"type": "command"')
    assert text.endswith('\n    "permissions": {"allow": ["Bash(ls:*)"], "deny": []}\n}')


def test_every_event_a_host_needs_is_there_with_an_absolute_isolated_command(
    tmp_path: Path, records: Path, command: Command
) -> None:
    install(Claude(), tmp_path / "c", records, command)
    install(Codex(), tmp_path / "x", records, command)
    for path in (tmp_path / "c" / "settings.json", tmp_path / "x" / "hooks.json"):
        hooks = json.loads(path.read_text("utf-8"))["hooks"]
        assert set(hooks) == {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd"}
        for (group,) in hooks.values():
            python, isolated, program, host = shlex.split(group["hooks"][0]["command"])
            assert Path(python).is_absolute()
            assert Path(program).is_file()
            assert (isolated, host) == ("-I", "claude" if path.name == "settings.json" else "codex")


def test_codex_hooks_go_into_a_file_of_their_own_and_the_configuration_stays(
    tmp_path: Path, records: Path, command: Command
) -> None:
    config = put(tmp_path / "config.toml", CODEX_CONFIG.replace("notify", "# notify"))
    before = config.read_bytes()
    install(Codex(), tmp_path, records, command)
    assert config.read_bytes() == before + server_table(command).encode()
    assert (tmp_path / "hooks.json").is_file()


def test_codex_hooks_follow_the_users_own_inline_ones(tmp_path: Path, records: Path, command: Command) -> None:
    theirs = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "theirs"'
    config = put(tmp_path / "config.toml", theirs)
    install(Codex(), tmp_path, records, command)
    assert not (tmp_path / "hooks.json").exists()
    assert config.read_text("utf-8").startswith(theirs)
    stop = tomllib.loads(config.read_text("utf-8"))["hooks"]["Stop"]
    assert [Command.is_ours(group["hooks"][0]["command"]) for group in stop] == [False, True]


def test_an_existing_notify_is_chained_behind_ours_and_comes_back(
    tmp_path: Path, records: Path, command: Command
) -> None:
    config = put(tmp_path / "config.toml", CODEX_CONFIG)
    install(Codex(), tmp_path, records, command)
    notify = tomllib.loads(config.read_text("utf-8"))["notify"]
    program = str(Path(command.argv[-1]).with_name("slowwave-notify"))
    assert notify == [*command.argv[:-1], program, "--then", "/usr/bin/theirs", "--flag"]
    config.write_text(config.read_text("utf-8") + "[new]\nx = 1\n", "utf-8")
    uninstall(Codex(), tmp_path, records)
    assert config.read_text("utf-8") == CODEX_CONFIG + "[new]\nx = 1\n"


@pytest.mark.fault("O45")
@pytest.mark.parametrize(
    "written",
    [
        'notify = ["/bin/theirs", "a b"]   # mine, "all" of it #1\n',
        'notify=["/bin/the#irs"]\t#mine\r\n',
        "'notify' = [ # inside\n  '/bin/#theirs', # inside\n] # behind",
        'notify = ["/bin/theirs#"]\n',
    ],
)
def test_what_is_written_behind_a_notify_stays_there_even_without_a_record(
    tmp_path: Path, records: Path, command: Command, written: str
) -> None:
    config = put(tmp_path / "config.toml", "")
    config.write_bytes(written.encode())
    theirs = tomllib.loads(written)["notify"]
    comment = written.rpartition("]")[2].splitlines()[0]
    for _ in range(2):
        install(Codex(), tmp_path, records, command)
        here = config.read_bytes().decode()
        (line,) = [line for line in here.splitlines(keepends=True) if line.startswith("notify")]
        assert line.rstrip("\r\n").endswith(f"]{comment}")
    shutil.rmtree(records)
    uninstall(Codex(), tmp_path, records)
    left = config.read_bytes().decode()
    assert tomllib.loads(left)["notify"] == theirs
    assert f"]{comment}" in left


def test_no_notify_is_set_where_there_was_none(tmp_path: Path, records: Path, command: Command) -> None:
    install(Codex(), tmp_path, records, command)
    assert "notify" not in tomllib.loads((tmp_path / "config.toml").read_text("utf-8"))


@pytest.mark.fault("O45")
def test_settings_of_the_host_stay_the_users(tmp_path: Path, records: Path, command: Command) -> None:
    """Built-in memory, permissions and features are not ours to switch."""
    put(tmp_path / "c" / "settings.json", '{"autoMemoryEnabled": true, "disableAllHooks": true}')
    put(tmp_path / "x" / "config.toml", "[features]\nmemories = true\nhooks = false\n")
    install(Claude(), tmp_path / "c", records, command)
    install(Codex(), tmp_path / "x", records, command)
    settings = json.loads((tmp_path / "c" / "settings.json").read_text("utf-8"))
    assert settings["autoMemoryEnabled"] is True
    assert settings["disableAllHooks"] is True
    config = (tmp_path / "x" / "config.toml").read_text("utf-8")
    assert config == "[features]\nmemories = true\nhooks = false\n" + server_table(command)


@pytest.mark.fault("O32")
def test_nothing_is_written_outside_the_hosts_folder_and_our_home(
    tmp_path: Path, records: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = put(tmp_path / "shop" / "AGENTS.md", "Rules.").parent
    monkeypatch.chdir(project)
    for host in (Codex(), Claude(), Pi()):
        install(host, tmp_path / host.name, records, command)
    assert [path.name for path in project.rglob("*")] == ["AGENTS.md"]
    expected = {"a venv", "claude", "codex", "pi", "records", "shop"}
    assert {path.name for path in tmp_path.iterdir()} == expected


def test_a_data_folder_of_its_own_is_named_in_the_command(tmp_path: Path, command: Command) -> None:
    scripts = Path(command.argv[-1]).parent
    named = hook_command({"SLOWWAVE_HOME": str(tmp_path / "my home")}, scripts=scripts)
    assert named.argv[:2] == ("/usr/bin/env", f"SLOWWAVE_HOME={tmp_path / 'my home'}")
    assert Command.is_ours(named.shell("pi"))


# -- coming back -------------------------------------------------------------------------------------------------------


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
    theirs = '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "theirs"\n'
    config = put(tmp_path / "config.toml", theirs)
    install(Codex(), tmp_path, records, command)
    text = config.read_text("utf-8")
    place = text.index("[[hooks.Stop]]", len(theirs))
    added = '[hooks.state."x:stop:0:0"]\ntrusted_hash = "sha256:1"\n'
    config.write_text(text[:place] + added + text[place:], "utf-8")
    uninstall(Codex(), tmp_path, records)
    left = config.read_text("utf-8")
    assert left.startswith(theirs)
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


# -- files that are not plain -----------------------------------------------------------------------------------------


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


# -- what status says --------------------------------------------------------------------------------------------------


@pytest.mark.fault("X51")
def test_codex_hooks_without_approval_are_installed_not_trusted(
    tmp_path: Path, records: Path, command: Command
) -> None:
    put(tmp_path / "config.toml", CODEX_CONFIG)
    install(Codex(), tmp_path, records, command)
    assert "trusted_hash" not in (tmp_path / "config.toml").read_text("utf-8")
    (finding,) = status(Codex(), tmp_path, PROGRAM, command).findings
    assert finding.code == "not_trusted"
    assert finding.text.startswith("Installed, not trusted: 5 of 5 hooks wait for your approval.")
    assert "/hooks" in finding.text
    assert finding.blocks


@pytest.mark.fault("X51")
def test_the_approvals_codex_keeps_are_found_by_its_own_names(tmp_path: Path, records: Path, command: Command) -> None:
    install(Codex(), tmp_path, records, command)
    events = ["session_start", "user_prompt_submit", "post_tool_use", "stop", "session_end"]
    state = "".join(
        f'[hooks.state."{tmp_path}/hooks.json:{event}:0:0"]\ntrusted_hash = "sha256:00"\n' for event in events
    )
    state = (tmp_path / "config.toml").read_text("utf-8") + state
    put(tmp_path / "config.toml", state)
    assert codes(Codex(), tmp_path, command) == []
    put(tmp_path / "config.toml", state + "enabled = false\n")
    assert codes(Codex(), tmp_path, command) == ["hooks_off"]
    put(tmp_path / "config.toml", state.replace("stop:0:0", "stop:1:0"))
    (finding,) = status(Codex(), tmp_path, PROGRAM, command).findings
    assert "1 of 5" in finding.text
    assert not finding.blocks


@pytest.mark.parametrize(
    ("host", "name", "text"),
    [
        (Claude(), "settings.json", '{"disableAllHooks": true}'),
        (Codex(), "config.toml", "[features]\nhooks = false\n"),
        (Pi(), "settings.json", '{"extensions": ["-extensions/slowwave/index.ts"]}'),
    ],
)
def test_a_switch_that_keeps_ours_from_running_is_named(
    host: Host, name: str, text: str, tmp_path: Path, records: Path, command: Command
) -> None:
    put(tmp_path / name, text)
    install(host, tmp_path, records, command)
    assert "hooks_off" in codes(host, tmp_path, command)


def test_hooks_and_plugin_at_once_are_named(tmp_path: Path, records: Path, command: Command) -> None:
    put(tmp_path / "settings.json", '{"enabledPlugins": {"slowwave@here": true}}')
    install(Claude(), tmp_path, records, command)
    assert codes(Claude(), tmp_path, command) == ["twice"]


@pytest.mark.fault("O39")
def test_a_host_whose_program_is_gone_is_named(tmp_path: Path, records: Path, command: Command) -> None:
    install(Claude(), tmp_path, records, command)
    found = status(Claude(), tmp_path, None, command)
    assert found.state == "installed"
    assert [finding.code for finding in found.findings] == ["no_program"]
    assert status(Claude(), tmp_path / "nowhere", None, command).state == "absent"


def test_half_an_installation_is_named(tmp_path: Path, records: Path, command: Command) -> None:
    install(Pi(), tmp_path, records, command)
    (tmp_path / "extensions" / "slowwave" / "command.json").unlink()
    assert status(Pi(), tmp_path, PROGRAM, command).state == "partly"


# -- versions ----------------------------------------------------------------------------------------------------------


def program(path: Path) -> Path:
    put(path, "#!/bin/sh\n").chmod(0o755)
    return path


def test_versions_are_read_beside_the_program_without_starting_it(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "@openai" / "codex"
    put(package / "package.json", '{"version": "0.171.0"}')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex").symlink_to(program(package / "bin" / "codex.js"))
    (tmp_path / "bin" / "claude").symlink_to(program(tmp_path / "share" / "claude" / "versions" / "2.1.332"))
    program(tmp_path / "bin" / "pi")
    found: dict[str, Any] = {name: find(name, str(tmp_path / "bin")) for name in ("codex", "claude", "pi", "no")}
    assert found["codex"].version == "0.171.0"
    assert found["claude"].version == "2.1.332"
    assert found["pi"].version is None
    assert found["no"] is None


# -- /remember of Claude Code -----------------------------------------------------------------------------------------


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
