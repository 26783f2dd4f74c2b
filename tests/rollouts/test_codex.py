"""The Codex reader: every line type, twins, closing texts, turns taken back, forks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.model import EventKind, Host, RolloutId, RolloutKind, Tier, Transcript
from tests.rollouts.writers import CODEX, CODEX_SESSION, Rollout, reasons

DATA = Path(__file__).parent / "data"


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path / f"rollout-2026-11-02T09-15-00-{CODEX_SESSION}.jsonl")


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
    assert header.id == RolloutId(Host.CODEX, CODEX_SESSION)
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
