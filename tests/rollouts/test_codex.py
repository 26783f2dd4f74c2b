"""The Codex reader: every line type, twins, turns taken back, forks, kinds, and what is no evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from memory.errors import UnreadableRollout
from memory.model import Event, EventKind, Host, RolloutId, RolloutKind, Tier, Transcript
from rollouts.adapters import ADAPTERS, Adapter
from rollouts.codex import CodexAdapter

DATA = Path(__file__).parent / "data"
SESSION = "01a0f1aa-0000-7000-8000-000000000001"
CODEX = CodexAdapter()


class Rollout:
    """Writes a rollout line by line; time runs a second a line."""

    def __init__(self, path: Path, **meta: Any) -> None:
        self.path = path
        self.lines: list[str] = []
        self.meta(**meta)

    def meta(self, **fields: Any) -> Rollout:
        payload = {"id": SESSION, "cwd": "/w", "originator": "codex-tui", "cli_version": "0.155.0", "source": "cli"}
        return self.line("session_meta", {**payload, **fields})

    def line(self, kind: str, payload: Mapping[str, Any], **extra: Any) -> Rollout:
        number = len(self.lines)
        stamp = f"2026-11-02T09:{number // 60:02d}:{number % 60:02d}.000Z"
        record = {"timestamp": stamp, "type": kind, "payload": payload, **extra}
        self.lines.append(json.dumps(record, separators=(",", ":")))
        return self

    def user(self, *texts: str, **extra: Any) -> Rollout:
        content = [{"type": "input_text", "text": text} for text in texts]
        return self.item(type="message", role="user", content=content, **extra)

    def assistant(self, text: str, **extra: Any) -> Rollout:
        return self.item(type="message", role="assistant", content=[{"type": "output_text", "text": text}], **extra)

    def item(self, **payload: Any) -> Rollout:
        return self.line("response_item", payload)

    def event(self, kind: str, **payload: Any) -> Rollout:
        return self.line("event_msg", {"type": kind, **payload})

    def call(self, name: str, arguments: Any, output: Any, call_id: str = "c1", **extra: Any) -> Rollout:
        self.item(type="function_call", name=name, arguments=json.dumps(arguments), call_id=call_id, **extra)
        return self.item(type="function_call_output", call_id=call_id, output=output)

    def read(self) -> Transcript:
        self.path.write_text("".join(line + "\n" for line in self.lines))
        return CODEX.read(self.path)

    def events(self) -> list[Event]:
        return list(self.read().events)

    def said(self) -> list[tuple[str, str]]:
        """Tier and text of every event that is evidence."""
        return [(event.tier.value, event.text) for event in self.read().events if event.tier is not Tier.DERIVED]


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path / f"rollout-2026-11-02T09-15-00-{SESSION}.jsonl")


def reasons(events: list[Event]) -> list[str | None]:
    return [event.derived_from for event in events]


# -- every type of line -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_types() -> Transcript:
    return CODEX.read(DATA / "codex_all_types.jsonl")


def test_every_known_type_of_line_is_understood(all_types: Transcript) -> None:
    report = all_types.report
    assert report.unknown_types == {}
    assert (report.bad_json, report.partial_tail, report.not_objects) == (0, 0, 0)
    assert report.lines == (DATA / "codex_all_types.jsonl").read_bytes().count(b"\n")


@pytest.mark.req("Z071", "Z072", "Z073", "C019")
@pytest.mark.fault("M38")
def test_no_evidence_carries_what_the_host_the_harness_or_a_memory_put_there(all_types: Transcript) -> None:
    evidence = "\n".join(event.text for event in all_types.events if event.tier is not Tier.DERIVED)
    assert "CANARY" not in evidence
    assert "base64" not in evidence
    assert "QkFTRTY0" not in evidence


def test_reasoning_and_environments_of_tools_are_no_events_at_all(all_types: Transcript) -> None:
    everything = "\n".join(event.text for event in all_types.events)
    for word in ("REASONING-CANARY", "ENV-CANARY", "QkFTRTY0"):
        assert word not in everything


def test_derived_events_say_what_they_come_from(all_types: Transcript) -> None:
    found = {event.text.split("-CANARY")[0].split()[-1]: event.derived_from for event in all_types.events}
    expected = {
        "SYSTEM-PROMPT": "system_prompt",
        "DEVELOPER": "developer",
        "MEMORY": "memory",
        "AGENTS": "instructions_file",
        "ENVIRONMENT": "environment",
        "WORLD": "environment",
        "RECALL": None,
        "OWN-TOOL": "own_tool",
        "MEMORY-FILE": "memory",
        "COMPACTION": "compaction",
        "IDE": "ide_selection",
        "HOOK": "hook_output",
        "SKILL": "skill",
        "TEMPLATE": "command",
        "ABORT": "interrupt",
        "ROLLBACK": "rolled_back",
        "INHERITED": "inherited",
        "OWN-MEMORY": "memory",
    }
    recall = next(event for event in all_types.events if event.text.startswith("RECALL-CANARY"))
    assert recall.derived_from == "own_tool"
    assert {name: found.get(name) for name in expected if name != "RECALL"} == {
        name: reason for name, reason in expected.items() if name != "RECALL"
    }


def test_the_persons_words_are_exactly_these(all_types: Transcript) -> None:
    assert [event.text for event in all_types.events if event.tier is Tier.HUMAN] == [
        "Use pnpm here, never npm. Then fix the flaky login test.",
        '(asked "Which DB?") Postgres 16',
        "rename foo to bar",
        "Why does <skill> appear in my prompt?",
        "! git log -1",
        "add a health endpoint",
        "[image]\nmake it look like this",
        "now write the docs",
        "and mention pnpm",
    ]


def test_tools_are_paired_named_and_judged(all_types: Transcript) -> None:
    shown = [
        (event.tool, event.ok, event.text.split("\n")[0])
        for event in all_types.events
        if event.kind is not EventKind.MESSAGE and event.tier is Tier.TOOL
    ]
    assert shown == [
        ("exec_command", None, "pnpm test login"),
        ("exec_command", False, "Exit code: 1"),
        ("shell", None, "git status"),
        ("shell", True, "clean"),
        ("apply_patch", None, "*** Begin Patch"),
        ("apply_patch", True, "Done"),
        ("shell", None, "ls -la"),
        ("shell", True, "login.ts"),
        ("web_search", None, "playwright flaky login"),
        ("tool_search_call", None, "query: browser"),
        ("tool_search_call", None, "browser_click, browser_type"),
        ("image_generation", None, "a login form"),
        ("request_user_input", None, 'questions: [{"id":"q1","question":"Which DB?"},{"id":"q2","question":"Port?"}]'),
        ("mcp__docs__search", None, "q: vitest"),
        ("mcp__docs__search", False, "tool call failed"),
        ("user_shell", None, "abc123 fix"),
    ]


def test_each_event_has_the_folder_its_turn_worked_in(all_types: Transcript) -> None:
    folders = {event.text: event.cwd for event in all_types.events}
    assert folders["Use pnpm here, never npm. Then fix the flaky login test."] == "/home/ana/shop/api"
    assert folders["Docs are written."] == "/home/ana/shop/web"
    assert all_types.header.cwd == "/home/ana/shop"


def test_the_header_says_who_where_and_when(all_types: Transcript) -> None:
    header = all_types.header
    assert header.id == RolloutId(Host.CODEX, SESSION)
    assert (header.branch, header.remote, header.version) == ("main", "git@example.com:ana/shop.git", "0.155.0")
    assert header.started == datetime(2026, 11, 2, 9, 15, 0, 100_000, tzinfo=UTC)
    assert (header.title, header.kind) == ("Login test", RolloutKind.INTERACTIVE)


def test_events_are_numbered_from_one_in_file_order_with_the_offset_of_their_line(all_types: Transcript) -> None:
    assert [event.number for event in all_types.events] == list(range(1, len(all_types.events) + 1))
    data = (DATA / "codex_all_types.jsonl").read_bytes()
    for event in all_types.events:
        assert event.offset == 0 or data[event.offset - 1 : event.offset] == b"\n"
    assert all_types.boundary.events == len(all_types.events)


def test_the_bare_format_of_2025_is_read() -> None:
    transcript = CODEX.read(DATA / "codex_bare.jsonl")
    assert [(event.tier.value, event.text) for event in transcript.events if event.tier is not Tier.DERIVED] == [
        ("human", "add a license file"),
        ("tool", "ls"),
        ("tool", "README.md\n"),
        ("final", "Added LICENSE (MIT)."),
    ]
    assert transcript.header.id.session == "0198c3f0-1111-7222-8333-444455556666"
    assert transcript.last_event == datetime(2025, 8, 20, 10, tzinfo=UTC)
    assert transcript.report.unknown_types == {}


def test_unknown_types_are_counted_by_name_and_never_stop_the_reader(rollout: Rollout) -> None:
    rollout.line("from_the_future", {"a": 1}).event("brand_new").item(type="hologram").user("still here")
    rollout.lines.insert(1, '{"type":"frame-link","path":"/x"}')
    transcript = rollout.read()
    assert transcript.report.unknown_types == {
        "from_the_future": 1,
        "event_msg/brand_new": 1,
        "response_item/hologram": 1,
        "frame-link": 1,
    }
    assert [event.text for event in transcript.events] == ["still here"]


# -- twins --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["item first", "event first"])
def test_a_message_written_as_item_and_as_event_counts_once(rollout: Rollout, order: str) -> None:
    for text in ("hello", "hello"):
        steps = [lambda t=text: rollout.user(t, id="m1"), lambda t=text: rollout.event("user_message", message=t)]
        for step in steps if order == "item first" else reversed(steps):
            step()
        rollout.event("agent_message", message="hi there").assistant("hi there")
    assert rollout.said() == [("human", "hello"), ("final", "hi there")] * 2
    transcript = rollout.read()
    assert transcript.report.duplicates == 4
    assert {event.host_id for event in transcript.events if event.tier is Tier.HUMAN} == {"m1"}


def test_files_with_only_one_of_the_two_streams_lose_nothing(tmp_path: Path) -> None:
    items = Rollout(tmp_path / "rollout-a.jsonl").user("question").assistant("answer", phase="final_answer")
    events = Rollout(tmp_path / "rollout-b.jsonl").event("user_message", message="question")
    events.event("agent_message", message="answer")
    assert items.said() == events.said() == [("human", "question"), ("final", "answer")]


def test_a_twin_with_an_image_is_still_a_twin(rollout: Rollout) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    rollout.item(type="message", role="user", content=[{"type": "input_text", "text": "like this"}, image])
    rollout.event("user_message", message="like this", images=["data:image/png;base64,AAAA"])
    assert rollout.said() == [("human", "like this\n[image]")]


def test_a_twin_brings_its_phase_along(rollout: Rollout) -> None:
    rollout.user("go").assistant("first").event("agent_message", message="first", phase="commentary")
    rollout.assistant("second").event("agent_message", message="second", phase="final_answer")
    assert rollout.said() == [("human", "go"), ("commentary", "first"), ("final", "second")]


def test_saying_the_same_again_later_is_said_again(rollout: Rollout) -> None:
    rollout.user("continue").assistant("done a").user("continue").assistant("done b")
    assert [text for tier, text in rollout.said() if tier == "human"] == ["continue", "continue"]


# -- closing texts ------------------------------------------------------------------------------------


def test_without_phases_the_last_message_of_a_turn_is_final_and_earlier_ones_are_commentary(rollout: Rollout) -> None:
    rollout.user("go").assistant("looking").call("shell", {"command": ["ls"]}, "a.txt").assistant("done")
    rollout.user("more").assistant("also done")
    assert [(tier, text) for tier, text in rollout.said() if tier != "tool"] == [
        ("human", "go"),
        ("commentary", "looking"),
        ("final", "done"),
        ("human", "more"),
        ("final", "also done"),
    ]


def test_a_message_before_a_tool_call_never_closes_a_turn(rollout: Rollout) -> None:
    rollout.user("go").assistant("I will look now").call("shell", {"command": ["ls"]}, "a.txt")
    assert ("commentary", "I will look now") in rollout.said()


def test_a_turn_broken_off_has_no_closing_text(rollout: Rollout) -> None:
    rollout.event("task_started").user("go").assistant("half way").event("turn_aborted", reason="interrupted")
    rollout.event("task_started").user("again").assistant("all the way").event("task_complete")
    assert ("commentary", "half way") in rollout.said()
    assert ("final", "all the way") in rollout.said()


def test_steering_inside_a_turn_does_not_close_it(rollout: Rollout) -> None:
    rollout.event("task_started").user("go").assistant("working").user("use uv").assistant("done with uv")
    rollout.event("task_complete")
    assert [tier for tier, _ in rollout.said()] == ["human", "commentary", "human", "final"]


# -- turns taken back, forks, inherited context -------------------------------------------------------


@pytest.mark.req("Z073")
def test_a_turn_taken_back_keeps_its_numbers_and_is_no_evidence(rollout: Rollout) -> None:
    rollout.user("keep one").assistant("kept").user("drop one").call("shell", {"command": ["rm"]}, "gone")
    rollout.assistant("dropped").user("drop two").event("thread_rolled_back", num_turns=2)
    rollout.user("keep two")
    events = rollout.events()
    assert [event.number for event in events] == list(range(1, 9))
    assert reasons(events) == [None, None, *["rolled_back"] * 5, None]
    assert rollout.said() == [("human", "keep one"), ("final", "kept"), ("human", "keep two")]


def test_taking_back_counts_only_turns_in_which_the_person_spoke(rollout: Rollout) -> None:
    rollout.user("one").user("two").user("<environment_context>\n<cwd>/w</cwd>\n</environment_context>")
    rollout.event("thread_rolled_back", num_turns=1)
    assert rollout.said() == [("human", "one")]


@pytest.mark.parametrize("count", [0, -1, 99, None, "1", True])
def test_odd_counts_of_turns_taken_back_do_no_harm(rollout: Rollout, count: Any) -> None:
    rollout.user("one").assistant("two").event("thread_rolled_back", num_turns=count)
    assert len(rollout.said()) == (0 if count == 99 else 2)


def test_words_said_anew_after_being_taken_back_count(rollout: Rollout) -> None:
    rollout.user("use yarn").event("thread_rolled_back", num_turns=1).event("user_message", message="use yarn")
    assert rollout.said() == [("human", "use yarn")]


def test_a_fork_is_itself_and_names_its_origin(tmp_path: Path) -> None:
    fork = Rollout(tmp_path / "rollout-x.jsonl", id="child", forked_from_id="parent", source="vscode")
    fork.meta(id="parent", cwd="/elsewhere").user("parent question", id="msg_1").assistant("parent answer")
    fork.user("child question")
    header = fork.read().header
    assert header.id == RolloutId(Host.CODEX, "child")
    assert header.forked_from == RolloutId(Host.CODEX, "parent")
    assert header.cwd == "/w"
    assert [event.host_id for event in fork.events()] == ["msg_1", None, None]


def test_context_inherited_from_a_parent_is_not_this_sessions_evidence(tmp_path: Path) -> None:
    child = Rollout(tmp_path / "rollout-x.jsonl", subagent_history_start_ordinal=3)
    child.line("response_item", {"type": "message", "role": "user", "content": "from parent"}, ordinal=1)
    child.line("response_item", {"type": "message", "role": "user", "content": "own"}, ordinal=3)
    child.line(
        "response_item",
        {"type": "message", "role": "user", "content": "copied"},
        metadata={"inherited_user_message": True},
    )
    assert child.said() == [("human", "own")]
    assert reasons(child.events()) == ["inherited", None, "inherited"]


def test_a_beginning_that_lies_in_another_file_is_noted(tmp_path: Path) -> None:
    paginated = Rollout(tmp_path / "rollout-x.jsonl", history_base={"thread_id": "other-rollout"}).user("go on")
    assert paginated.read().report.notes == ["the beginning of this rollout lies in other-rollout"]


# -- injected text ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<environment_context>\n<cwd>/w</cwd>\n</environment_context>\n\nfix it", ["environment", None]),
        (
            "# AGENTS.md instructions\n\n<INSTRUCTIONS>\nuse tabs\n</INSTRUCTIONS>\n帮我检查这个项目",
            ["instructions_file", None],
        ),
        ("<user_instructions>\nuse tabs\n</user_instructions>", ["instructions_file"]),
        ("<recommended_plugins>x</recommended_plugins>", ["internal_context"]),
        ('<codex_internal_context source="goal">steer</codex_internal_context>', ["internal_context"]),
        ("<external_calendar>meeting</external_calendar>\nwhat is next?", ["third_party", None]),
        ("fix it\n<slowwave-memory v=1>\nlikes tabs\n</slowwave-memory>\nand test", [None, "memory"]),
        ("fix it\n<slowwave-memory v=1>\nnever closed", [None, "memory"]),
        ("Warning: apply_patch was requested via exec_command.", ["notification"]),
        ("A previous agent produced the plan below to accomplish the task.", [None]),
        ("Why does <skill> appear?", [None]),
        ("what is </environment_context> for", [None]),
        ("```\n<environment_context>\nx\n</environment_context>\n```", [None]),
    ],
)
def test_injected_blocks_are_split_from_the_persons_words(
    rollout: Rollout, text: str, expected: list[str | None]
) -> None:
    events = rollout.user(text).events()
    assert sorted(map(str, reasons(events))) == sorted(map(str, expected))


def test_labels_of_content_items_outrank_marks(rollout: Rollout) -> None:
    labels = {"content_item_kinds": ["agents_md.instructions", "user.text", "memories.instructions", "hooks.stop"]}
    rollout.user(
        "plain words that are instructions",
        "<skill>I typed this myself</skill>",
        "remembered",
        "hooked",
        internal_chat_message_metadata_passthrough=labels,
    )
    assert rollout.said() == [("human", "<skill>I typed this myself</skill>")]
    assert sorted(map(str, reasons(rollout.events()))) == ["None", "hook_output", "instructions_file", "memory"]


def test_labels_that_do_not_fit_the_content_are_not_trusted(rollout: Rollout) -> None:
    rollout.user("<skill>x</skill>", internal_chat_message_metadata_passthrough={"content_item_kinds": []})
    assert reasons(rollout.events()) == ["skill"]


def test_a_plan_handed_over_by_another_agent_is_that_agents_word(rollout: Rollout) -> None:
    rollout.user("A previous agent produced the plan below to accomplish the task.\n1. tests")
    assert [tier for tier, _ in rollout.said()] == ["agent"]


# -- tools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "text", "ok"),
    [
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nfine", "fine", True),
        ("Exit code: 127\nWall time: 0 seconds\nOutput:\nno such file", "Exit code: 127\nno such file", False),
        ('{"output":"x\\n","metadata":{"exit_code":2}}', "Exit code: 2\nx\n", False),
        ("apply_patch verification failed: no match", "apply_patch verification failed: no match", False),
        ("Wall time: 16.5 seconds\naborted by user", "Wall time: 16.5 seconds\naborted by user", False),
        ("Plan updated", "Plan updated", None),
        ("the log says Exit code: 3", "the log says Exit code: 3", None),
        ([{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "x"}], "a\n[image]", None),
        ([{"type": "encrypted_content", "encrypted_content": "x"}], "", None),
        ({"content": "boxed", "success": True}, "boxed", None),
        (None, "", None),
    ],
)
def test_outputs_of_every_shape_become_text_and_an_outcome(
    rollout: Rollout, output: Any, text: str, ok: bool | None
) -> None:
    result = rollout.call("exec_command", {"cmd": "x"}, output).events()[-1]
    assert (result.text, result.ok, result.kind) == (text, ok, EventKind.TOOL_RESULT)


@pytest.mark.parametrize("late", [False, True])
def test_an_outcome_told_by_an_event_reaches_the_result_before_or_after_it(rollout: Rollout, late: bool) -> None:
    rollout.item(type="custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="p")
    if not late:
        rollout.event("patch_apply_end", call_id="p", success=False)
    rollout.item(type="custom_tool_call_output", call_id="p", output="patch text")
    if late:
        rollout.event("patch_apply_end", call_id="p", success=False)
    assert rollout.events()[-1].ok is False


@pytest.mark.req("Z072", "Z074")
@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("memory_list", {}, "own_tool"),
        ("mcp__slowwave__memory_recall", {"query": "x"}, "own_tool"),
        ("exec_command", {"cmd": "cat ~/.codex/memories/memory_summary.md"}, "memory"),
        ("shell", {"command": ["cat", "/home/ana/.local/share/slowwave/generations/g1/memories_v2/x.md"]}, "memory"),
        ("shell", {"command": ["cat", ".specify/memory/constitution.md"]}, None),
        ("shell", {"command": ["grep", "memory", "alloc.c"]}, None),
    ],
)
def test_what_a_memory_said_is_not_learned_again(
    rollout: Rollout, name: str, arguments: dict[str, Any], reason: str | None
) -> None:
    assert reasons(rollout.call(name, arguments, "uses pnpm").events()) == [reason, reason]


@pytest.mark.req("C019")
@pytest.mark.fault("M67", "O7")
def test_a_huge_output_is_clipped_with_a_mark_and_its_length_kept(rollout: Rollout) -> None:
    result = rollout.call("exec_command", {"cmd": "x"}, "a" * 500_000 + "b" * 500_000).events()[-1]
    assert len(result.text) <= 32_768
    assert result.full_chars == 1_000_000
    assert result.text.startswith("aaaa")
    assert result.text.endswith("bbbb")
    assert "left out" in result.text


def test_an_answer_to_a_question_without_an_answer_stays_a_tool_result(rollout: Rollout) -> None:
    rollout.call("request_user_input", {"questions": [{"id": "q", "question": "Which?"}]}, '{"answers":{}}')
    assert [event.kind for event in rollout.events()] == [EventKind.TOOL_CALL, EventKind.TOOL_RESULT]


# -- kinds --------------------------------------------------------------------------------------------


@pytest.mark.req("Z067", "Z068", "Z069", "Z070")
@pytest.mark.fault("X15")
@pytest.mark.parametrize(
    ("meta", "kind"),
    [
        ({}, RolloutKind.INTERACTIVE),
        ({"source": "vscode"}, RolloutKind.INTERACTIVE),
        ({"source": {"custom": "chatgpt"}}, RolloutKind.INTERACTIVE),
        ({"source": None}, RolloutKind.INTERACTIVE),
        ({"source": "exec"}, RolloutKind.EXEC),
        ({"source": "mcp", "originator": "codex_exec"}, RolloutKind.EXEC),
        ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}}, RolloutKind.SUBAGENT),
        ({"source": {"subagent": "review"}}, RolloutKind.SUBAGENT),
        ({"thread_source": "subagent"}, RolloutKind.SUBAGENT),
        ({"source": {"subagent": "memory_consolidation"}}, RolloutKind.AUXILIARY),
        ({"source": {"subagent": {"other": "guardian"}}}, RolloutKind.AUXILIARY),
        ({"source": {"internal": "memory_consolidation"}}, RolloutKind.AUXILIARY),
        ({"thread_source": "thread_title"}, RolloutKind.AUXILIARY),
        ({"memory_mode": "disabled"}, RolloutKind.DIAGNOSTIC),
        ({"memory_mode": "enabled"}, RolloutKind.INTERACTIVE),
        ({"memory_mode": "polluted"}, RolloutKind.INTERACTIVE),
    ],
)
def test_the_kind_follows_from_what_started_the_session(
    tmp_path: Path, meta: dict[str, Any], kind: RolloutKind
) -> None:
    rollout = Rollout(tmp_path / "rollout-x.jsonl", **meta).user("hello")
    assert rollout.read().header.kind is kind
    assert CODEX.peek(rollout.path).header.kind is kind


def test_a_spawned_agent_names_its_parent_and_its_task_is_an_agents_word(tmp_path: Path) -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}
    child = Rollout(tmp_path / "rollout-x.jsonl", source=spawn).user("map the auth module").assistant("two entries")
    assert child.read().header.parent == RolloutId(Host.CODEX, "p")
    assert child.said() == [("agent", "map the auth module"), ("final", "two entries")]


def test_memory_switched_off_later_in_the_session_counts(rollout: Rollout) -> None:
    rollout.user("hello").meta(memory_mode="disabled").meta(id="other", memory_mode="enabled")
    assert rollout.read().header.kind is RolloutKind.DIAGNOSTIC
    assert CODEX.peek(rollout.path).header.kind is RolloutKind.DIAGNOSTIC


@pytest.mark.req("Z069")
def test_archived_sessions_are_told_by_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "archived_sessions" / "2026"
    folder.mkdir(parents=True)
    assert Rollout(folder / "rollout-x.jsonl").user("hello").read().header.kind is RolloutKind.ARCHIVED


@pytest.mark.req("Z068", "Z074")
@pytest.mark.fault("M66", "X5")
@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({"cwd": "/home/ana/.local/share/slowwave/generations/g1/memories_v2/workspace"}, "hello"),
        ({"cwd": r"C:\data\slowwave\generations\g1\memories_v2"}, "hello"),
        ({}, "<slowwave-own-session/>\nconsolidate"),
        ({}, "Session: codex:x\n\n<evidence>\n[e1 human 2026-11-02T09:15+01:00] hi\n</evidence>"),
    ],
)
def test_our_own_sessions_are_told_by_place_and_by_mark(tmp_path: Path, meta: dict[str, Any], text: str) -> None:
    own = Rollout(tmp_path / "rollout-x.jsonl", **meta).user(text)
    assert own.read().header.kind is RolloutKind.OWN
    assert CODEX.peek(own.path).header.kind is RolloutKind.OWN


@pytest.mark.parametrize(
    "cwd", ["/home/ana/generations/app", "/home/ana/memories_v2", "/x/generations/a/b/memories_v2"]
)
def test_projects_with_similar_folders_are_not_ours(tmp_path: Path, cwd: str) -> None:
    assert Rollout(tmp_path / "rollout-x.jsonl", cwd=cwd).user("hi").read().header.kind is RolloutKind.INTERACTIVE


# -- files --------------------------------------------------------------------------------------------


def test_names_and_places_of_sessions() -> None:
    assert CODEX.default_roots({"HOME": "/home/ana"}) == [
        Path("/home/ana/.codex/sessions"),
        Path("/home/ana/.codex/archived_sessions"),
    ]
    assert CODEX.default_roots({"HOME": "/home/ana", "CODEX_HOME": "/c"})[0] == Path("/c/sessions")
    assert CODEX.default_roots({}) == []
    for name in ("rollout-2026-11-02T09-15-00-x.jsonl", "rollout-x_y.jsonl.zst", "rollout-x.jsonl.gz"):
        assert CODEX.matches(Path("/s") / name)
    for name in ("history.jsonl", "rollout-x.json", "session_index.jsonl", "rollout-x.jsonl.zst.tmp"):
        assert not CODEX.matches(Path("/s") / name)


def test_a_session_without_its_header_is_named_by_its_file(tmp_path: Path) -> None:
    rollout = Rollout(tmp_path / f"rollout-2026-11-02T09-15-00-{SESSION}.jsonl").user("hello")
    del rollout.lines[0]
    assert rollout.read().header.id.session == SESSION


def test_compressed_rollouts_read_the_same(rollout: Rollout) -> None:
    plain = rollout.user("hello").assistant("hi").read()
    packed = rollout.path.with_suffix(".jsonl.zst")
    packed.write_bytes(zstandard.compress(rollout.path.read_bytes()))
    assert CODEX.read(packed).events == plain.events
    assert CODEX.read(packed).boundary == plain.boundary
    assert CODEX.peek(packed).header.id == plain.header.id


@pytest.mark.fault("O5", "M67")
@pytest.mark.parametrize(
    "line",
    [
        '{"role":"user","content":"chat export line"}',
        '{"type":"user","uuid":"u1","message":{"role":"user","content":"another host"}}',
        '{"type":"session","version":3,"id":"p1","cwd":"/w"}',
        '{"type":"message","id":"m1","message":{"role":"user","content":"another host"}}',
        "",
    ],
)
def test_files_of_other_tools_are_refused_by_peek_and_give_no_events(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rollout-x.jsonl"
    path.write_text(f"{line}\n" * 3)
    with pytest.raises(UnreadableRollout, match="holds no Codex session"):
        CODEX.peek(path)
    transcript = CODEX.read(path)
    assert transcript.events == ()
    assert transcript.report.notes == (["no Codex record in 3 lines"] if line else [])


# -- peek ---------------------------------------------------------------------------------------------


def test_peek_tells_what_read_tells_from_head_and_tail(all_types: Transcript) -> None:
    peek = CODEX.peek(DATA / "codex_all_types.jsonl")
    first = next(event.text for event in all_types.events if event.tier is Tier.HUMAN)
    assert peek.header.id == all_types.header.id
    assert peek.header.cwd == all_types.header.cwd
    assert (peek.user_chars, peek.whole, peek.open_turn) == (len(first), True, False)
    assert peek.last_event is not None
    assert all_types.last_event is not None
    assert peek.last_event >= all_types.last_event


@pytest.mark.req("Z063", "Z064")
@pytest.mark.fault("M35", "M36")
def test_peek_finds_the_last_event_by_its_time_and_sees_an_open_turn(rollout: Rollout) -> None:
    rollout.event("task_started").user("go").read()
    peek = CODEX.peek(rollout.path)
    assert peek.open_turn
    assert peek.last_event == datetime(2026, 11, 2, 9, 0, 2, tzinfo=UTC)
    rollout.event("task_complete").event("token_count").event("thread_name_updated", thread_name="x").read()
    peek = CODEX.peek(rollout.path)
    assert not peek.open_turn
    assert peek.last_event == datetime(2026, 11, 2, 9, 0, 3, tzinfo=UTC)


def test_peek_reads_no_more_than_the_ends_of_a_large_file(rollout: Rollout) -> None:
    rollout.meta(base_instructions={"text": "p" * 300_000})
    del rollout.lines[0]
    rollout.user("the first words")
    for number in range(3_000):
        rollout.assistant(f"{number} " + "x" * 400)
    rollout.read()
    peek = CODEX.peek(rollout.path)
    assert (peek.user_chars, peek.whole) == (len("the first words"), False)
    assert peek.last_event == CODEX.read(rollout.path).last_event


def test_a_fork_and_a_grown_copy_have_the_fingerprint_of_their_origin(tmp_path: Path) -> None:
    origin = Rollout(tmp_path / "rollout-a.jsonl").user("fix the   login").assistant("done")
    fork = Rollout(tmp_path / "rollout-b.jsonl", id="b", forked_from_id=SESSION).meta()
    fork.user("<environment_context>x</environment_context>").user("fix the login").assistant("done").user("more")
    other = Rollout(tmp_path / "rollout-c.jsonl").user("something else")
    prints = []
    for each in (origin, fork, other):
        each.read()
        prints.append(CODEX.peek(each.path).fingerprint)
    assert prints[0] == prints[1] != prints[2]
    assert len(prints[0]) == 64


def test_the_registry_makes_the_reader_and_it_is_an_adapter() -> None:
    assert isinstance(ADAPTERS[Host.CODEX], CodexAdapter)
    assert isinstance(ADAPTERS[Host.CODEX], Adapter)
