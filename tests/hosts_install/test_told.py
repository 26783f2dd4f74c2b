"""What `status` says of an installation, and of the hosts' programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hosts.install import Command, Host, install, status
from hosts.install_claude import Claude
from hosts.install_codex import Codex
from hosts.install_pi import Pi
from hosts.versions import find
from tests.hosts_install.configured import CODEX_CONFIG, PROGRAM, codes, put

# -- what status says -------------------------------------------------------------------------------------------------


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


# -- versions ---------------------------------------------------------------------------------------------------------


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
