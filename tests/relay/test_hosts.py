"""What each real host does with what the installer leaves: approval, plugin, extension, tool, chained notification."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from examples.record.bench import run
from examples.record.script import Step
from hosts.install import Command
from hosts.install_claude import PLUGIN, remember_command
from hosts.install_codex import Codex
from hosts.install_pi import SOURCE
from tests.relay.world import FENCE, SECONDS, Said, World, blocks, opened

pytestmark = [pytest.mark.hosts]

SHORT = "- [tests] New tests use Vitest.\n"
DONE = (Step(say="Done."),)
REMEMBER = (
    'tool:memory_remember {"content": "Amounts are whole cents, \\"never\\" floats; $(id) `id`", "topic": "money",'
    ' "title": "Amounts of money", "scope": "project"}'
)

Open = Callable[..., AbstractContextManager[World]]


@pytest.fixture
def machine(tmp_path: Path, hosts_folder: Path) -> Open:
    """Opens a machine whose project has one entry of short memory."""

    def start(*story: Said) -> AbstractContextManager[World]:
        return opened(tmp_path, hosts_folder, story, [story[0].host])

    return start


def with_memory(world: World) -> World:
    for project in {said.project for said in world.story.values()}:
        folder = world.bench.project(project) / ".slowwave"
        folder.mkdir()
        (folder / "memory.md").write_text(SHORT, "utf-8")
    return world


# -- Codex -------------------------------------------------------------------------------------------------------------


@pytest.mark.req("P064")
@pytest.mark.fault("X51", "X52")
def test_codex_skips_hooks_nobody_approved_and_the_scan_still_finds_the_session(machine: Open) -> None:
    prompt = "New tests use Jest, they go under tests/. Please add one."
    with machine(Said("ask", "codex", "shop", prompt, DONE)) as world:
        with_memory(world).slowwave("hosts", "install")
        (body,) = world.say("ask", trusted=False)
        assert FENCE not in json.dumps(body)
        assert not (world.data / "hook.log").exists()
        assert "Installed, not trusted" in world.slowwave("hosts", "status", "codex")
        assert "version 1 published" in world.slowwave("run")


@pytest.mark.fault("X51")
def test_codex_lists_our_hooks_under_the_names_the_status_looks_for(machine: Open) -> None:
    with machine(Said("ask", "codex", "shop", "Hello?", DONE)) as world:
        world.slowwave("hosts", "install")
        listed = codex_hooks(world)
        assert {hook["trustStatus"] for hook in listed} == {"untrusted"}
        # What Codex itself would write when its user approves; the status must then be content.
        state = {hook["key"]: hook["currentHash"] for hook in listed}
        config = world.bench.home / ".codex" / "config.toml"
        lines = "".join(f'[hooks.state."{key}"]\ntrusted_hash = "{value}"\n' for key, value in state.items())
        config.write_text(config.read_text("utf-8") + lines, "utf-8")
        assert {hook["trustStatus"] for hook in codex_hooks(world)} == {"trusted"}
        assert Codex().findings(config.parent) == []
        (body,) = with_memory(world).say("ask", trusted=False)
        assert FENCE in json.dumps(body)


def codex_hooks(world: World) -> list[dict[str, Any]]:
    """What Codex's own server says about the hooks of the project."""
    host = world.machines["codex"]
    project = world.bench.project("shop")
    asked = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}},
    ]
    command = [*host.interactive()[:2], "app-server"]
    with subprocess.Popen(
        command,
        cwd=project,
        env=host.env(""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("".join(json.dumps(message) + "\n" for message in asked))
        server.stdin.flush()
        answer = next(said for line in server.stdout if (said := json.loads(line)).get("id") == 2)
        server.stdin.close()
        server.terminate()
        for _ in server.stdout:
            pass
    (folder,) = answer["result"]["data"]
    return list(folder["hooks"])


def test_a_notify_of_the_users_own_runs_behind_ours_as_before(machine: Open) -> None:
    with machine(Said("ask", "codex", "shop", "Hello?", DONE)) as world:
        told = world.bench.home / "told.jsonl"
        theirs = world.bench.home / "theirs.sh"
        theirs.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" "$2" >{told}.part && mv {told}.part {told}\n', "utf-8")
        theirs.chmod(0o755)
        config = world.bench.home / ".codex" / "config.toml"
        config.write_text(f'notify = ["{theirs}", "mine"]\n' + config.read_text("utf-8"), "utf-8")
        before = config.read_bytes()
        world.slowwave("hosts", "install")
        world.say("ask", trusted=False)
        wait_for(told)
        first, second = told.read_text("utf-8").splitlines()
        assert first == "mine"
        assert json.loads(second)["type"] == "agent-turn-complete"
        wakes = [json.loads(path.read_text("utf-8")) for path in (world.data / "spool").glob("wake-codex-*.json")]
        assert [wake["session"] for wake in wakes] == [json.loads(second)["thread-id"]]
        assert "Hello?" not in json.dumps(wakes)
        world.slowwave("hosts", "uninstall")
        assert config.read_bytes() == before


def wait_for(path: Path) -> None:
    """Codex does not wait for the program it notifies."""
    import time

    for _ in range(1_200):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{path} did not appear")


# -- Claude Code -------------------------------------------------------------------------------------------------------


def test_the_plugin_brings_memory_and_the_command_without_any_setting(machine: Open) -> None:
    wait = Step(say="One moment.", run="sleep 3")
    with machine(Said("ask", "claude", "shop", "Hello?", (wait, *DONE))) as world:
        for program in ("slowwave-hook", "slowwave"):
            (world.bench.bin / program).symlink_to(Path(sys.executable).with_name(program))
        first, last = with_memory(world).say("ask", more=["--plugin-dir", str(PLUGIN)])
        (text,) = blocks(first)
        assert "New tests use Vitest." in text
        assert "slowwave:remember" in json.dumps(first)
        assert "mcp__plugin_slowwave_slowwave__memory_recall" in json.dumps(last)


@pytest.mark.req("P012")
def test_the_installed_remember_command_tells_the_model_what_to_run_and_the_next_session_has_it(machine: Open) -> None:
    kept = "Amounts are whole cents, never floats."
    program = Command((sys.executable, "-I", str(Path(sys.executable).with_name("slowwave-hook"))))
    told = remember_command(program).split("\n---\n", 1)[1].replace("$ARGUMENTS", kept).strip()
    call = shlex.join([*program.remember(), "--project", "--", kept])
    assert f"{shlex.join(program.remember())} --project -- 'the text'" in told
    story = [
        Said("keep", "claude", "shop", told, (Step(say="Saving.", run=call), *DONE)),
        Said("ask", "claude", "shop", "What about amounts?", DONE),
    ]
    with machine(*story) as world:
        world.slowwave("hosts", "install")
        host, project = world.machines["claude"], world.bench.project("shop")
        run(host.printing(f"/remember {kept}", None), project, host.env(world.models.url), SECONDS)
        _, second = world.bodies("keep")
        assert "remembered" in json.dumps(second["messages"][-1])
        assert kept in (project / ".slowwave" / "memory.md").read_text("utf-8")
        (text,) = blocks(world.say("ask")[0])
        assert kept in text


def test_the_host_finds_the_plugin_without_a_fault(machine: Open) -> None:
    with machine(Said("ask", "claude", "shop", "Hello?", DONE)) as world:
        host = world.machines["claude"]
        command = [*host.interactive(), "plugin", "validate", "--strict", str(PLUGIN)]
        assert "passed" in run(command, world.bench.home, host.env(""), SECONDS)


# -- Pi ----------------------------------------------------------------------------------------------------------------


@pytest.mark.req("P007", "P008", "P019")
def test_pi_offers_the_four_tools_and_shows_the_title_of_what_was_kept_in_the_next_session(machine: Open) -> None:
    story = [
        Said("keep", "pi", "shop", "Please remember: whole cents.", (Step(say="Saving.", run=REMEMBER), *DONE)),
        Said("ask", "pi", "shop", "What about amounts?", DONE),
    ]
    with machine(*story) as world:
        world.slowwave("hosts", "install")
        config = world.data / "config.toml"
        config.write_text(config.read_text("utf-8") + "[inject]\ntitles = true\n", "utf-8")
        first, second = world.say("keep")
        offered = [tool["function"]["name"] for tool in first["tools"] if "memory" in tool["function"]["name"]]
        assert offered == ["memory_recall", "memory_list", "memory_remember", "memory_forget"]
        result = next(message for message in second["messages"] if message["role"] == "tool")
        assert "money/Amounts of money (project/profile)" in json.dumps(result)
        found = json.loads(world.slowwave("search", "whole cents", "--all", "--json"))
        assert found["hits"][0]["text"] == 'Amounts are whole cents, "never" floats; $(id) `id`'
        (body,) = world.say("ask")
        (titles,) = blocks(body)
        assert "- [project/profile] money/Amounts of money" in titles
        assert "floats" not in titles


@pytest.mark.req("P013", "P014")
def test_what_pi_keeps_for_one_session_is_in_its_record_alone_and_there_when_it_goes_on(machine: Open) -> None:
    kept = (
        'tool:memory_remember {"content": "The branch under test is lighthouse.", "title": "Branch", "scope": "agent"}'
    )
    recall = Step(say="Looking.", run='tool:memory_recall {"query": "which branch is under test"}')
    story = [
        Said("keep", "pi", "shop", "For this session: mind the branch.", (Step(say="Saving.", run=kept), *DONE)),
        Said("on", "pi", "shop", "Which branch was it?", (recall, *DONE)),
        Said("other", "pi", "shop", "Which branch is it here?", (recall, *DONE)),
    ]
    with machine(*story) as world:
        world.slowwave("hosts", "install")
        world.say("keep")
        assert "lighthouse" in json.dumps(world.say("on", world.session_of("keep"))[-1]["messages"][-1])
        assert "lighthouse" not in json.dumps(world.say("other"))
        files = [path for path in world.data.rglob("*") if path.is_file()]
        assert not any(b"lighthouse" in path.read_bytes() for path in files)


def test_pi_takes_nothing_away_where_nobody_can_agree(machine: Open) -> None:
    forget = Step(say="Forgetting.", run='tool:memory_forget {"id": "mem:0"}')
    with machine(Said("ask", "pi", "shop", "Forget it.", (forget, *DONE))) as world:
        world.slowwave("hosts", "install")
        assert "did not agree" in json.dumps(world.say("ask")[-1]["messages"][-1])


@pytest.mark.fault("O48", "O47")
def test_pi_goes_on_without_memory_when_slowwave_is_gone_or_off(machine: Open) -> None:
    story = [Said("ask", "pi", "shop", "Hello?", DONE), Said("again", "pi", "shop", "Hello again?", DONE)]
    with machine(*story) as world:
        with_memory(world).slowwave("hosts", "install")
        config = world.data / "config.toml"
        config.write_text(config.read_text("utf-8").replace('"long"', '"off"'), "utf-8")
        (body,) = world.say("ask")
        assert FENCE not in json.dumps(body)
        told = world.bench.home / ".pi" / "agent" / "extensions" / "slowwave" / "command.json"
        told.write_text(
            '{"hook": ["/gone/python", "/gone/slowwave-hook", "pi"], "tool": ["/gone"], "tools": []}', "utf-8"
        )
        (body,) = world.say("again")
        assert FENCE not in json.dumps(body)
        assert "memory_recall" not in [tool["function"]["name"] for tool in body["tools"]]


@pytest.mark.fault("O12")
@pytest.mark.parametrize("host", ["codex", "claude", "pi"])
def test_a_session_slowwave_itself_started_gets_no_memory_and_leaves_no_trace(machine: Open, host: str) -> None:
    with machine(Said("ask", host, "shop", "Hello?", DONE)) as world:
        with_memory(world).slowwave("hosts", "install")
        (body,) = world.say("ask", variables={"SLOWWAVE_OWN_SESSION": "1"})
        assert FENCE not in json.dumps(body)
        assert "memory_remember" not in json.dumps(body)
        assert {path.name for path in world.data.iterdir()} - {"mcp.greeting.json"} == {"config.toml", "hosts"}


def test_the_extension_type_checks_against_pi_itself(hosts_folder: Path, tmp_path: Path) -> None:
    compiler = hosts_folder / "tsc" / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.is_file():
        pytest.skip("typescript is not installed: run deploy/install_hosts.sh")
    (tmp_path / "index.ts").write_bytes(SOURCE.read_bytes())
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    (tmp_path / "node_modules").symlink_to(hosts_folder / "pi" / "node_modules")
    strict = [
        "strict",
        "noUncheckedIndexedAccess",
        "exactOptionalPropertyTypes",
        "noUnusedLocals",
        "noUnusedParameters",
    ]
    options = dict.fromkeys(strict, True) | {"noEmit": True, "skipLibCheck": True, "types": ["node"]}
    options |= {"target": "es2023", "lib": ["es2023"], "module": "nodenext", "moduleResolution": "nodenext"}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["index.ts"]}), "utf-8")
    done = subprocess.run(
        ["node", str(compiler), "-p", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout
