"""Pi's session files: entries and the tree; Pi's own projection is the oracle."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.model import Event, EventKind, Host, RolloutId, RolloutKind, Tier
from rollouts.adapters import ADAPTERS, Adapter
from rollouts.pi import PiAdapter
from tests.rollouts.pi_files import DATA, GOLDEN, HEADER, PI, STAMP, entry, info, read, shown, write


def test_the_registry_offers_it() -> None:
    assert isinstance(ADAPTERS[Host.PI], PiAdapter)
    assert isinstance(PI, Adapter)


# -- the oracle ----------------------------------------------------------------------------------------


def projected(event: Event) -> tuple[str, str]:
    if event.derived_from is not None:
        return {"system_prompt": "system", "branch_summary": "branchSummary"}[event.derived_from], event.text
    if event.kind is EventKind.TOOL_RESULT:
        return "toolResult", event.text
    return ("user" if event.tier is Tier.HUMAN else "assistant"), event.text


def pieces(message: dict[str, Any]) -> list[tuple[str, str]]:
    """What Pi sends for a message, without thinking; a tool call as its bare arguments."""
    role: str = message["role"]
    content: Any = message.get("content")
    if role == "branchSummary":
        return [(role, message["summary"])]
    if role == "system":
        return [(role, "\n".join(message["sections"].values()))]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    found = []
    for block in blocks:
        if block["type"] == "text":
            found.append((role, block["text"]))
        elif block["type"] == "toolCall":
            values = block["arguments"]
            found.append((role, values.get("command") or "\n".join(f"{k}: {v}" for k, v in values.items())))
    return found


def test_the_active_branch_is_the_one_pi_itself_takes() -> None:
    oracle = json.loads((DATA / "pi_golden_projection.json").read_text())
    transcript = PI.read(GOLDEN)
    on_branch = {name for name, _ in oracle["branchIds"]}
    ours = {event.host_id for event in transcript.events if event.derived_from not in {"abandoned_branch"}}
    off = {event.host_id for event in transcript.events if event.derived_from == "abandoned_branch"}
    with_events = {name for name, kind in oracle["branchIds"] if kind in {"message", "compaction", "branch_summary"}}
    assert with_events <= ours
    assert not off & on_branch
    abandoned = {event.host_id for event in transcript.events} - on_branch
    assert all(
        event.derived_from is not None for event in transcript.events if event.host_id in abandoned
    )  # nothing off the branch is evidence


def test_the_conversation_is_the_one_pi_itself_sends() -> None:
    oracle = json.loads((DATA / "pi_golden_projection.json").read_text())
    branch = {name for name, _ in oracle["branchIds"]}
    events = [event for event in PI.read(GOLDEN).events if event.host_id in branch]
    until = next(number for number, event in enumerate(events) if event.derived_from == "compaction")
    wanted = [piece for message in oracle["midBranchContextBeforeCompaction"]["messages"] for piece in pieces(message)]
    assert [projected(event) for event in events[:until]] == wanted
    after = oracle["context"]["messages"][-2:]
    assert [projected(event) for event in events[until + 1 :]] == [piece for m in after for piece in pieces(m)]


def test_compaction_keeps_the_originals_and_drops_the_summary() -> None:
    transcript = PI.read(GOLDEN)
    kept = [event.text for event in transcript.events if event.tier is Tier.HUMAN]
    assert kept[0] == "新增测试统一用 Vitest，历史 Jest 用例逐步迁移。"
    assert [event.text for event in transcript.events if event.derived_from == "compaction"] == [
        "## Goal\nMigrate tests to Vitest"
    ]


# -- entries -------------------------------------------------------------------------------------------


def test_header_tells_session_folder_start_and_version(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER, entry("m1", None, "user", "hello"), {**info("Payments"), "parentId": "m1"})
    header = PI.read(path).header
    assert header.id == RolloutId(Host.PI, "s1")
    assert (header.cwd, header.version, header.title) == ("/w/app", "3", "Payments")
    assert header.started == datetime(2026, 7, 1, 10, 0, tzinfo=UTC)
    assert header.kind is RolloutKind.INTERACTIVE


def test_a_fork_names_its_origin_by_the_file_it_came_from(tmp_path: Path) -> None:
    place = "/home/dev/.pi/agent/sessions/--w-app--/2026-11-30T04-59-21-854Z_01a22ad2-677e.jsonl"
    fork = read(tmp_path, entry("m1", None, "user", "x"), header={**HEADER, "parentSession": place})
    assert fork.header.forked_from == RolloutId(Host.PI, "01a22ad2-677e")
    windows = {**HEADER, "parentSession": r"C:\pi\sessions\2026-11-30T04-59-21-854Z_abc.jsonl"}
    assert read(tmp_path, header=windows).header.forked_from == RolloutId(Host.PI, "abc")
    old = {"type": "session", "id": "s1", "timestamp": STAMP.format(0), "cwd": "/w", "branchedFrom": place}
    assert read(tmp_path, header=old).header.forked_from == RolloutId(Host.PI, "01a22ad2-677e")


@pytest.mark.req("Z071")
def test_each_role_has_its_tier(tmp_path: Path) -> None:
    blocks = [
        {"type": "thinking", "thinking": "secret thoughts", "thinkingSignature": "s"},
        {"type": "text", "text": "I look."},
        {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "npm test"}},
    ]
    found = read(
        tmp_path,
        entry("m1", None, "system", "", content="", sections={"preamble": "You are an assistant."}),
        entry("m2", "m1", "user", content="plain string"),
        entry("m3", "m2", "assistant", content=blocks, stopReason="toolUse"),
        entry("m4", "m3", "toolResult", "2 failed", toolCallId="c1", toolName="bash", isError=True),
        entry("m5", "m4", "assistant", "It fails.", stopReason="stop"),
        entry("m6", "m5", "assistant", "half an ans", stopReason="aborted", errorMessage="Request was aborted"),
    )
    assert shown(found) == [
        ("system_prompt", "You are an assistant."),
        ("human", "plain string"),
        ("commentary", "I look."),
        ("tool", "npm test"),
        ("tool", "2 failed"),
        ("final", "It fails."),
        ("commentary", "half an ans"),
        ("error", "Request was aborted"),
    ]
    call, result = found.events[3], found.events[4]
    assert (call.kind, call.tool, call.call_id, call.ok) == (EventKind.TOOL_CALL, "bash", "c1", None)
    assert (result.kind, result.tool, result.call_id, result.ok) == (EventKind.TOOL_RESULT, "bash", "c1", False)
    assert "secret thoughts" not in str(found.events)


def test_a_typed_command_is_a_tool_event_and_an_excluded_one_leaves_no_text(tmp_path: Path) -> None:
    typed: dict[str, Any] = {"command": "git status", "output": "clean\n", "exitCode": 0, "cancelled": False}
    hidden: dict[str, Any] = {
        "command": "env | grep KEY",
        "output": "SECRET=1",
        "exitCode": 0,
        "excludeFromContext": True,
    }
    failed: dict[str, Any] = {"command": "false", "output": "", "exitCode": 1}
    found = read(
        tmp_path,
        entry("m1", None, "bashExecution", content=None, **typed),
        entry("m2", "m1", "bashExecution", content=None, **hidden),
        entry("m3", "m2", "bashExecution", content=None, **failed),
    )
    assert [(event.tier, event.kind, event.ok) for event in found.events] == [
        (Tier.TOOL, EventKind.TOOL_CALL, None),
        (Tier.TOOL, EventKind.TOOL_RESULT, True),
        (Tier.DERIVED, EventKind.MESSAGE, None),
        (Tier.TOOL, EventKind.TOOL_CALL, None),
        (Tier.TOOL, EventKind.TOOL_RESULT, False),
    ]
    assert "SECRET" not in str(found.events)
    assert "grep KEY" not in str(found.events)


@pytest.mark.req("Z072", "Z073")
def test_what_extensions_inject_is_derived_and_memory_is_called_so(tmp_path: Path) -> None:
    def injected(name: str, kind: str, text: str) -> dict[str, Any]:
        return {"type": "custom_message", "id": name, "parentId": None, "customType": kind, "content": text}

    found = read(
        tmp_path,
        injected("a1", "pi-memory-context", "prefers Vitest"),
        injected("a2", "volatile-project-context", "<system-reminder>tree</system-reminder>"),
        injected("a3", "ctx", "<memory>from cmd</memory>"),
        entry("m1", "a3", "custom", content="hook text", customType="legacy-hook", display=True),
        entry("m2", "m1", "hookMessage", content="old hook", customType="x"),
        {"type": "branch_summary", "id": "b1", "parentId": "m2", "fromId": "m1", "summary": "tried A"},
    )
    # a1 and a2 are roots of their own, so the path from the last entry does not hold them
    assert shown(found) == [
        ("memory", "prefers Vitest"),
        ("extension", "<system-reminder>tree</system-reminder>"),
        ("memory", "<memory>from cmd</memory>"),
        ("extension", "hook text"),
        ("extension", "old hook"),
        ("branch_summary", "tried A"),
    ]


@pytest.mark.req("Z072")
def test_injected_blocks_are_taken_off_the_persons_words(tmp_path: Path) -> None:
    text = '<skill name="jest" location="/s/SKILL.md">\nUse Jest.\n</skill>\n\nmigrate it to Vitest'
    found = read(
        tmp_path,
        entry("m1", None, "user", text),
        entry("m2", "m1", "user", "<memories>\nlikes tabs\n</memories>\ngo on"),
        entry("m3", "m2", "user", "why does <memory> appear in the page?"),
    )
    assert [pair for pair in shown(found) if pair[0] == "human"] == [
        ("human", "migrate it to Vitest"),
        ("human", "go on"),
        ("human", "why does <memory> appear in the page?"),
    ]
    assert {"skill", "memory"} <= {kind for kind, _ in shown(found)}


@pytest.mark.req("Z073")
def test_calls_and_results_of_our_own_tools_are_derived(tmp_path: Path) -> None:
    calls = [{"type": "toolCall", "id": "c1", "name": "memory_recall", "arguments": {"query": "tests"}}]
    found = read(
        tmp_path,
        entry("m1", None, "assistant", content=calls, stopReason="toolUse"),
        entry("m2", "m1", "toolResult", "prefers Vitest", toolCallId="c1", toolName="memory_recall", isError=False),
    )
    assert [kind for kind, _ in shown(found)] == ["memory", "memory"]


@pytest.mark.fault("X15")
def test_findings_of_a_subagent_reach_the_parent_as_agent_events(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        entry("m1", None, "toolResult", "the cache is stale", toolCallId="c1", toolName="subagent", isError=False),
        entry("m2", "m1", "toolResult", "ok", toolCallId="c2", toolName="mcp__tools__Agents", isError=False),
    )
    assert [event.tier for event in found.events] == [Tier.AGENT, Tier.AGENT]


def test_images_are_named_never_sent(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "See"}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]
    path = write(tmp_path, HEADER, entry("m1", None, "user", content=blocks))
    assert shown(PI.read(path)) == [("human", "See\n[image]")]
    only = write(tmp_path, HEADER, entry("m1", None, "user", content=blocks[1:]))
    assert PI.peek(only).user_chars == 0


def test_a_null_edit_withdraws_and_a_shortening_one_keeps_the_original(tmp_path: Path) -> None:
    def edit(name: str, parent: str, target: str, replacement: Any) -> dict[str, Any]:
        return {
            "type": "context_edit",
            "id": name,
            "parentId": parent,
            "targetId": target,
            "replacement": replacement,
        }

    found = read(
        tmp_path,
        entry("m1", None, "user", "use yarn"),
        entry("m2", "m1", "user", "long text"),
        edit("e1", "m2", "m1", None),
        edit("e2", "e1", "m2", {"content": [{"type": "text", "text": "[elided]"}]}),
        edit("e3", "e2", "gone", None),
        entry("m3", "e3", "user", "use pnpm"),
    )
    assert shown(found) == [("withdrawn", "use yarn"), ("human", "long text"), ("human", "use pnpm")]
    restored = read(
        tmp_path,
        entry("m1", None, "user", "use yarn"),
        edit("e1", "m1", "m1", None),
        edit("e2", "e1", "m1", {"content": "x"}),
    )
    assert shown(restored) == [("human", "use yarn")]


def test_labels_names_and_settings_are_no_events_and_unknown_types_are_counted(tmp_path: Path) -> None:
    quiet = [
        {"type": kind, "id": f"q{number}", "parentId": None}
        for number, kind in enumerate(("label", "session_info", "model_change", "thinking_level_change", "usage"))
    ]
    found = read(tmp_path, *quiet, {"type": "from_the_future", "id": "x"}, entry("m1", None, "oracle", "?"))
    assert found.events == ()
    assert found.report.unknown_types == {"from_the_future": 1, "message/oracle": 1}


# -- the tree ------------------------------------------------------------------------------------------


def test_an_abandoned_branch_is_derived(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        entry("m1", None, "user", "use sqlite"),
        entry("m2", "m1", "assistant", "done with sqlite", stopReason="stop"),
        entry("m3", None, "user", "use postgres instead"),
        entry("m4", "m3", "assistant", "done with postgres", stopReason="stop"),
    )
    assert [kind for kind, _ in shown(found)] == ["abandoned_branch", "abandoned_branch", "human", "final"]


def test_a_label_is_the_leaf_when_it_comes_last(tmp_path: Path) -> None:
    label = {"type": "label", "id": "l1", "parentId": "m1", "targetId": "m1"}
    found = read(tmp_path, entry("m1", None, "user", "a"), entry("m2", "m1", "user", "b"), label)
    assert [kind for kind, _ in shown(found)] == ["human", "abandoned_branch"]


def test_a_link_to_a_lost_entry_goes_to_the_one_before(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        entry("m1", None, "user", "first"),
        entry("m3", "m2", "user", "third"),
        entry("m4", "m3", "user", "fourth"),
    )
    assert [kind for kind, _ in shown(found)] == ["human", "human", "human"]


def test_links_in_a_ring_end(tmp_path: Path) -> None:
    found = read(
        tmp_path, entry("m1", "m2", "user", "a"), entry("m2", "m1", "user", "b"), entry("m3", "m3", "user", "c")
    )
    assert [kind for kind, _ in shown(found)] == ["human", "human", "human"]


def test_files_without_links_are_read_in_their_order(tmp_path: Path) -> None:
    old = {"type": "session", "id": "v1", "timestamp": STAMP.format(0), "cwd": "/w", "provider": "p", "modelId": "m"}
    lines = [
        {"type": "message", "timestamp": STAMP.format(number), "message": {"role": "user", "content": text}}
        for number, text in enumerate(("one", "two", "three"))
    ]
    found = read(tmp_path, *lines, {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1}, header=old)
    assert shown(found) == [("human", "one"), ("human", "two"), ("human", "three"), ("compaction", "s")]
    assert found.header.version == "1"
    nulls = [entry(f"m{number}", None, "user", str(number)) for number in range(3)]
    assert [kind for kind, _ in shown(read(tmp_path, *nulls))] == ["human"] * 3


def test_a_long_branched_session_is_read_in_linear_time(tmp_path: Path) -> None:
    def took(size: int) -> float:
        records = [
            entry(f"m{n}", f"m{n - 1}" if n % 3 else (f"m{n - 3}" if n else None), "user", "x") for n in range(size)
        ]
        for number, record in enumerate(records):
            record["timestamp"] = STAMP.format(number % 60)
        path = write(tmp_path, HEADER, *records)
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            PI.read(path)
            best = min(best, time.process_time() - began)
        return best

    took(100)
    assert took(8_000) < 8 * 2.5 * took(1_000)
