"""The Codex reader: injected text, tools, kinds of sessions, files and peeking."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from memory.errors import UnreadableRollout
from memory.model import EventKind, Host, RolloutId, RolloutKind, Tier, Transcript
from rollouts.adapters import ADAPTERS, Adapter
from rollouts.codex import CodexAdapter
from tests.rollouts.writers import CODEX, CODEX_SESSION, Rollout, reasons

DATA = Path(__file__).parent / "data"


@pytest.fixture
def rollout(tmp_path: Path) -> Rollout:
    return Rollout(tmp_path / f"rollout-2026-11-02T09-15-00-{CODEX_SESSION}.jsonl")


@pytest.fixture(scope="module")
def all_types() -> Transcript:
    return CODEX.read(DATA / "codex_all_types.jsonl")


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
    rollout = Rollout(tmp_path / f"rollout-2026-11-02T09-15-00-{CODEX_SESSION}.jsonl").user("hello")
    del rollout.lines[0]
    assert rollout.read().header.id.session == CODEX_SESSION


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
    fork = Rollout(tmp_path / "rollout-b.jsonl", id="b", forked_from_id=CODEX_SESSION).meta()
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
