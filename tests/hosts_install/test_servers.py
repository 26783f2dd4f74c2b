"""The memory tools come into Codex's and Claude Code's own lists of servers, and leave without a trace."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hosts.install import Command, Host, install, status, uninstall
from hosts.install_claude import PLUGIN, Claude, servers_file
from hosts.install_codex import Codex
from hosts.mcp_tools import TOOLS
from tests.hosts_install.configured import PROGRAM, codes, put

STATE = '{\n  "numStartups": 3,\n  "primaryApiKey": "sk-ant-secret",\n  "mcpServers": {"mine": {"command": "x"}}\n}\n'
THEIRS = [
    '[mcp_servers.slowwave]\ncommand = "slowwave"\nargs = ["mcp"]\n',
    '[mcp_servers.slowwave]\nurl = "http://127.0.0.1:8777/mcp"\n',
]


def servers(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        return dict(tomllib.loads(text)["mcp_servers"])
    return dict(json.loads(text)["mcpServers"])


# -- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.req("P007")
@pytest.mark.parametrize(("host", "name"), [(Codex(), "config.toml"), (Claude(), ".claude.json")])
def test_each_host_starts_this_installations_program_by_absolute_path_and_isolated(
    host: Host, name: str, tmp_path: Path, records: Path, command: Command
) -> None:
    install(host, tmp_path, records, command)
    entry = servers(tmp_path / name)["slowwave"]
    program = str(Path(command.argv[-1]).with_name("slowwave"))
    assert [entry["command"], *entry["args"]] == [*command.argv[:-1], program, "mcp"]
    assert status(host, tmp_path, PROGRAM, command).state == "installed"


def test_a_data_folder_of_its_own_is_named_in_the_entry(tmp_path: Path, records: Path) -> None:
    named = Command(("/usr/bin/env", "SLOWWAVE_HOME=/d a", "/py", "-I", "/bin/slowwave-hook"))
    install(Codex(), tmp_path, records, named)
    entry = servers(tmp_path / "config.toml")["slowwave"]
    assert entry["command"] == "/usr/bin/env"
    assert entry["args"] == ["SLOWWAVE_HOME=/d a", "/py", "-I", "/bin/slowwave", "mcp"]


@pytest.mark.fault("O49")
def test_every_name_a_provider_sees_is_short_enough(tmp_path: Path) -> None:
    prefixes = ("mcp__slowwave__", "mcp__plugin_slowwave_slowwave__")
    assert all(len(name) <= 40 for name in TOOLS)
    assert all(len(prefix + name) <= 64 for prefix in prefixes for name in TOOLS)


@pytest.mark.parametrize(
    ("home", "files", "wanted"),
    [
        (".claude", (), "../.claude.json"),
        ("elsewhere", (), ".claude.json"),
        (".claude", (".claude.json",), ".claude.json"),
        (".claude", (".config.json",), ".config.json"),
    ],
)
def test_the_file_is_the_one_claude_code_reads(home: str, files: tuple[str, ...], wanted: str, tmp_path: Path) -> None:
    folder = tmp_path / home
    folder.mkdir()
    for name in files:
        put(folder / name, "{}")
    assert servers_file(folder).resolve() == (folder / wanted).resolve()


def test_the_plugin_offers_the_same_server(tmp_path: Path) -> None:
    (entry,) = json.loads((PLUGIN / ".mcp.json").read_text("utf-8"))["mcpServers"].items()
    assert entry == ("slowwave", {"command": "sh", "args": ["${CLAUDE_PLUGIN_ROOT}/scripts/mcp.sh"]})
    assert (PLUGIN / "scripts" / "mcp.sh").is_file()


# -- what is the user's ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theirs", THEIRS)
def test_a_codex_server_of_the_users_by_our_name_stays_and_is_told(
    theirs: str, tmp_path: Path, records: Path, command: Command
) -> None:
    config = put(tmp_path / "config.toml", theirs)
    install(Codex(), tmp_path, records, command)
    assert config.read_text("utf-8") == theirs
    assert "mcp_taken" in codes(Codex(), tmp_path, command)
    uninstall(Codex(), tmp_path, records)
    assert config.read_text("utf-8") == theirs


def test_a_claude_server_of_the_users_by_our_name_stays_and_is_told(
    tmp_path: Path, records: Path, command: Command
) -> None:
    theirs = '{"mcpServers": {"slowwave": {"type": "http", "url": "http://127.0.0.1:8777/mcp"}}}'
    file = put(tmp_path / ".claude.json", theirs)
    install(Claude(), tmp_path, records, command)
    assert file.read_text("utf-8") == theirs
    assert codes(Claude(), tmp_path, command) == ["mcp_taken"]
    uninstall(Claude(), tmp_path, records)
    assert file.read_text("utf-8") == theirs


def test_servers_in_a_form_nothing_can_be_added_to_are_left_and_the_hooks_come_anyway(
    tmp_path: Path, records: Path, command: Command
) -> None:
    theirs = 'mcp_servers = { mine = { command = "x" } }\n'
    config = put(tmp_path / "config.toml", theirs)
    install(Codex(), tmp_path, records, command)
    assert config.read_text("utf-8") == theirs
    assert (tmp_path / "hooks.json").is_file()
    assert "mcp_by_hand" in codes(Codex(), tmp_path, command)


def test_what_codex_adds_to_our_table_stays_when_it_is_renewed_and_goes_with_it(
    tmp_path: Path, records: Path, command: Command
) -> None:
    config = put(tmp_path / "config.toml", 'model = "m"\n')
    install(Codex(), tmp_path, records, Command(("/old/python", "-I", "/old/slowwave-hook")))
    added = 'enabled = false\n\n[mcp_servers.slowwave.tools.memory_forget]\napproval_mode = "approve"\n'
    config.write_text(config.read_text("utf-8") + added + "\n# mine\n[tui]\nx = 1\n", "utf-8")
    install(Codex(), tmp_path, records, command)
    entry = servers(config)["slowwave"]
    assert [entry["command"], *entry["args"]] == command.server()
    assert entry["enabled"] is False
    assert entry["tools"] == {"memory_forget": {"approval_mode": "approve"}}
    assert "mcp_off" in codes(Codex(), tmp_path, command)
    assert all(change.what == "unchanged" for change in install(Codex(), tmp_path, records, command))
    uninstall(Codex(), tmp_path, records)
    assert tomllib.loads(config.read_text("utf-8")) == {"model": "m", "tui": {"x": 1}}
    assert "# mine" in config.read_text("utf-8")


def test_a_broken_list_of_servers_is_refused_with_nothing_changed(
    tmp_path: Path, records: Path, command: Command
) -> None:
    from hosts.edit import HostConfigError

    put(tmp_path / ".claude.json", '{"mcpServers": []}')
    with pytest.raises(HostConfigError, match="mcpServers"):
        install(Claude(), tmp_path, records, command)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [".claude.json"]


# -- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.fault("M56")
def test_no_copy_is_kept_of_a_file_that_may_hold_keys_and_it_still_comes_back_exactly(
    tmp_path: Path, records: Path, command: Command
) -> None:
    file = put(tmp_path / ".claude.json", STATE)
    install(Claude(), tmp_path, records, command)
    assert set(servers(file)) == {"mine", "slowwave"}
    assert not any(b"sk-ant" in path.read_bytes() for path in records.rglob("*") if path.is_file())
    uninstall(Claude(), tmp_path, records)
    assert file.read_text("utf-8") == STATE


def test_after_claude_code_has_rewritten_its_state_only_our_server_goes(
    tmp_path: Path, records: Path, command: Command
) -> None:
    file = put(tmp_path / ".claude.json", STATE)
    install(Claude(), tmp_path, records, command)
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "numStartups": 4}, indent=2), "utf-8")
    uninstall(Claude(), tmp_path, records)
    assert json.loads(file.read_text("utf-8")) == {**json.loads(STATE), "numStartups": 4}


# -- hosts that rewrite their files -----------------------------------------------------------------------------------


def test_what_a_host_adds_to_its_file_leaves_the_installation_as_it_is(
    tmp_path: Path, records: Path, command: Command
) -> None:
    state, config = put(tmp_path / ".claude.json", STATE), tmp_path / "config.toml"
    for host in (Claude(), Codex()):
        install(host, tmp_path, records, command)
    state.write_text(json.dumps(json.loads(state.read_text("utf-8")) | {"userID": "x"}, indent=4), "utf-8")
    config.write_text(config.read_text("utf-8") + '\n[projects."/home/dev/shop"]\ntrust_level = "trusted"\n', "utf-8")
    before = state.read_bytes(), config.read_bytes()
    for host in (Claude(), Codex()):
        assert status(host, tmp_path, PROGRAM, command).state == "installed"
        assert all(change.what == "unchanged" for change in install(host, tmp_path, records, command))
        assert status(host, tmp_path, PROGRAM, Command(("/new/python", "-I", "/new/slowwave-hook"))).state == "outdated"
    assert (state.read_bytes(), config.read_bytes()) == before
    for host in (Claude(), Codex()):
        uninstall(host, tmp_path, records)
    assert json.loads(state.read_text("utf-8")) == json.loads(STATE) | {"userID": "x"}
    assert config.read_text("utf-8") == '\n[projects."/home/dev/shop"]\ntrust_level = "trusted"\n'


def test_a_fresh_installation_knows_what_hosts_ask_first_and_forgets_it_with_them(
    tmp_path: Path, isolated_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.main import main
    from hosts.mcp_greeting import NAME, Greeting

    home = tmp_path / "data"
    monkeypatch.setenv("SLOWWAVE_HOME", str(home))
    (isolated_home / ".codex").mkdir()
    with pytest.raises(SystemExit, match="0"):
        main(["hosts", "install", "codex", "--json"])
    greeting = Greeting(str(home))
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"x": {}}, "clientInfo": {"name": "c", "version": "9"}}
    for number, (method, params) in enumerate((("initialize", hello), ("tools/list", {}), ("resources/list", {}))):
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        assert json.loads(greeting.answer(json.dumps(asked).encode()))["id"] == number
    with pytest.raises(SystemExit, match="0"):
        main(["hosts", "uninstall", "codex", "--json"])
    assert not (home / NAME).exists()
