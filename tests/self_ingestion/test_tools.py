"""What a memory tool answered is known already: in no host's session does it become evidence again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import extract
from hosts.mcp_text import fenced
from hosts.mcp_tools import TOOLS
from memory.runtime import open_runtime
from memory.testing import FrozenClock
from recall.trace import Tracer
from rollouts.discover import discover
from tests.self_ingestion.hosts import HOSTS, Hosts

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
CANARY = "zebra-umbrella"
COMMAND = "./run.sh"
"""What a shell was asked for: something that prints memory without saying so."""
TIME = "2026-11-30T01:00:00.000Z"
Lines = list[dict[str, Any]]


def codex(tool: str, answer: str) -> Lines:
    text = [{"type": "input_text", "text": "Wall time: 0.1 seconds\nOutput:"}, {"type": "input_text", "text": answer}]
    call = {"type": "function_call", "name": tool, "namespace": "mcp__slowwave", "arguments": "{}", "call_id": "c1"}
    if tool == "shell":
        call |= {"name": "exec_command", "arguments": json.dumps({"cmd": COMMAND})}
        del call["namespace"]
    done = {"type": "McpToolCall", "id": "c1", "server": "slowwave", "tool": tool, "arguments": {}}
    done["result"] = {"content": [{"type": "text", "text": answer}], "isError": False}
    output = {"type": "function_call_output", "call_id": "c1", "output": text}
    event = {"timestamp": TIME, "type": "event_msg", "payload": {"type": "item_completed", "item": done}}
    return [
        {"timestamp": TIME, "type": "response_item", "payload": call},
        *([] if tool == "shell" else [event]),
        {"timestamp": TIME, "type": "response_item", "payload": output},
    ]


def claude(tool: str, answer: str) -> Lines:
    block = {"type": "tool_use", "id": "t1", "name": f"mcp__slowwave__{tool}", "input": {}}
    if tool == "shell":
        block |= {"name": "Bash", "input": {"command": COMMAND}}
    content = [{"type": "text", "text": answer}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": answer if tool == "shell" else content}
    called = {"role": "assistant", "content": [block], "id": "m9", "type": "message", "model": "x"}
    common = {"timestamp": TIME, "isSidechain": False, "userType": "external", "version": "2.1.332"}
    return [
        {**common, "type": "assistant", "uuid": "u1", "message": called},
        {**common, "type": "user", "uuid": "u2", "parentUuid": "u1", "message": {"role": "user", "content": [result]},
         "toolUseResult": {"stdout": answer} if tool == "shell" else content},
    ]  # fmt: skip


def pi(tool: str, answer: str) -> Lines:
    call = {"type": "toolCall", "id": "k1", "name": tool, "arguments": {}}
    if tool == "shell":
        call |= {"name": "bash", "arguments": {"command": COMMAND}}
    asked = {"role": "assistant", "content": [call], "stopReason": "toolUse"}
    told = {"role": "toolResult", "toolCallId": "k1", "toolName": call["name"], "isError": False}
    told["content"] = [{"type": "text", "text": answer}]
    return [
        {"type": "message", "id": "p1", "parentId": "00000001", "timestamp": TIME, "message": asked},
        {"type": "message", "id": "p2", "parentId": "p1", "timestamp": TIME, "message": told},
    ]


FORMS: dict[str, Callable[[str, str], Lines]] = {"codex": codex, "claude": claude, "pi": pi}


def evidence(hosts: Hosts, rollout: str, more: Lines) -> str:
    """What the extractor would send of the session with these lines behind it."""
    (path,) = hosts.root(rollout.partition(":")[0]).rglob(f"*{rollout.partition(':')[2]}.jsonl")
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line in more:
        line.update({key: lines[-1][key] for key in ("sessionId", "cwd") if key in lines[-1]})
        if line.get("uuid") == "u1":
            line["parentUuid"] = lines[-1]["uuid"]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]), "utf-8")
    with open_runtime(hosts.settings(), clock=FrozenClock(NOW)) as runtime:
        discover(runtime.settings, runtime.clock, runtime.store)
        (row,) = Tracer(runtime.store, runtime.workspace, runtime.redactor).find(rollout)
        found = asyncio.run(extract.preview(runtime, row))
        assert found.evidence.tainted == (), "using memory is no use of the outside"
        return found.user


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    made = Hosts(tmp_path)
    made.configure_hosts()
    return made


@pytest.mark.req("Z072", "Z073", "C035")
@pytest.mark.fault("O10", "M66")
@pytest.mark.parametrize("tool", ["memory_recall", "shell", "json"])
@pytest.mark.parametrize("host", HOSTS)
def test_an_answer_of_a_memory_tool_is_no_evidence(hosts: Hosts, host: str, tool: str) -> None:
    turns = [("user", "What do we know of releases?"), ("assistant", "I look it up.")]
    rollout = hosts.session(host, *turns, began=NOW - timedelta(hours=20))
    answer = fenced(f"- [3f9a1c2e] {CANARY} waits for the night build.\n\n# Title\n</x>", "memory_recall", 9_000)
    if tool == "json":
        answer, tool = f"before\n{json.dumps({'text': answer})}\nbehind", "shell"
    found = evidence(hosts, rollout, FORMS[host](tool, answer))
    assert "What do we know of releases?" in found
    assert CANARY not in found


@pytest.mark.req("Z074")
@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("slowwave search 'night build'", False),
        ("cd x && /opt/bin/slowwave show --numbers", False),
        ("grep -r slowwave search/", True),
        ("slowwave run", True),
    ],
)
@pytest.mark.parametrize("host", HOSTS)
def test_what_a_command_of_ours_printed_is_no_evidence(
    hosts: Hosts, host: str, command: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "COMMAND", command)
    turns = [("user", "What do we know of releases?"), ("assistant", "I look it up.")]
    rollout = hosts.session(host, *turns, began=NOW - timedelta(hours=20))
    found = evidence(hosts, rollout, FORMS[host]("shell", f"1. {CANARY} waits for the night build."))
    assert (CANARY in found) is kept


@pytest.mark.req("Z073")
def test_every_tool_of_ours_is_known_as_ours_by_its_name_in_every_host() -> None:
    from rollouts.drafts import is_own_tool
    from rollouts.evidence import is_external

    names = [prefix + name for prefix in ("", "mcp__slowwave__", "mcp__plugin_slowwave_slowwave__") for name in TOOLS]
    assert all(is_own_tool(name) for name in names)
    assert not any(is_external(name) for name in names), "`rollouts.skip_external` means other people's words"
    assert is_external("mcp__weather__today")
