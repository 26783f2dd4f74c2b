"""Installing changes the hosts' files as little as possible."""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest

from hosts.install import Command, hook_command, install, uninstall
from hosts.install_claude import Claude
from hosts.install_codex import PASSED, Codex
from hosts.install_pi import Pi
from tests.hosts_install.configured import CLAUDE_SETTINGS, CODEX_CONFIG, INLINE_HOOKS, put


def server_table(command: Command) -> str:
    """What Codex is told of the memory tools."""
    program, *arguments = command.server()
    lines = [f'command = "{program}"', f"args = {json.dumps(arguments)}", f"env_vars = {json.dumps(PASSED)}"]
    return "\n".join(["", "[mcp_servers.slowwave]", *lines, ""])


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
    theirs = INLINE_HOOKS.removesuffix("\n")
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
