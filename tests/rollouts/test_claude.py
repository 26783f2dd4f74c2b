"""The Claude Code reader: every line type, streamed answers, the tree, copies."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.model import Host, RolloutId, RolloutKind, Tier, Transcript
from tests.rollouts.writers import CLAUDE, CLAUDE_SESSION, OTHER, Session, reasons, result, use

DATA = Path(__file__).parent / "data"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / f"{CLAUDE_SESSION}.jsonl")


# -- every type of line -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_types() -> Transcript:
    return CLAUDE.read(DATA / f"{CLAUDE_SESSION}.jsonl")


def test_every_known_type_of_line_is_understood(all_types: Transcript) -> None:
    report = all_types.report
    assert report.unknown_types == {}
    assert (report.bad_json, report.partial_tail, report.not_objects) == (0, 0, 0)
    assert report.lines == (DATA / f"{CLAUDE_SESSION}.jsonl").read_bytes().count(b"\n")


@pytest.mark.req("Z071", "Z072", "Z073", "C019")
@pytest.mark.fault("M38")
def test_no_evidence_carries_what_the_host_the_harness_or_a_memory_put_there(all_types: Transcript) -> None:
    evidence = "\n".join(event.text for event in all_types.events if event.tier is not Tier.DERIVED)
    assert "CANARY" not in evidence
    assert "QkFTRTY0" not in evidence


def test_thinking_progress_and_private_words_are_no_events_at_all(all_types: Transcript) -> None:
    everything = "\n".join(event.text for event in all_types.events)
    for word in ("REASONING-", "PROGRESS-", "PRIVATE-", "TWIN-", "PROMPT-", "SUMMARY-", "QkFTRTY0"):
        assert word not in everything


def test_derived_events_say_what_they_come_from(all_types: Transcript) -> None:
    found: dict[str, set[str | None]] = {}
    for event in all_types.events:
        for part in event.text.split("-CANARY")[:-1]:
            found.setdefault(part.split()[-1].rpartition(">")[2], set()).add(event.derived_from)
    assert found == {
        "OWN-MEMORY": {"memory"},
        "HOOK": {"hook_output"},
        "CLAUDEMD": {"instructions_file"},
        "MEMORY": {"memory"},
        "SKILL": {"skill"},
        "REMINDER": {"reminder"},
        "RECALL": {"own_tool"},
        "MEMORY-FILE": {"memory"},
        "CAVEAT": {"command_output"},
        "STDOUT": {"command_output"},
        "IDE": {"ide_selection"},
        "NOTIFICATION": {"notification"},
        "THIRD-PARTY": {"third_party"},
        "AWAY": {"compaction"},
        "APIERROR": {"api_error"},
        "COMPACTION": {"compaction"},
    }


def test_the_persons_words_are_exactly_these(all_types: Transcript) -> None:
    assert [event.text for event in all_types.events if event.tier is Tier.HUMAN] == [
        "Use uv, never pip, in this repo. Now fix the failing cart test.",
        "never delete build, use make clean",
        '(asked "Which database?") Postgres 16, as "always"',
        "see screenshot\n[image]",
        "/deploy staging",
        "! git status",
        "Why is total negative?",
        "Ship it.",
        "Our parser must drop <system-reminder> blocks, remember that.",
        'Is this ok? <pasted_content id="1a2b">\nlong log\n</pasted_content id="1a2b">',
        "keep that to yourself",
        "also bump the version",
        "the last word",
    ]


def test_what_the_agents_said_is_exactly_this(all_types: Transcript) -> None:
    said = {Tier.FINAL, Tier.COMMENTARY, Tier.AGENT}
    assert [(event.tier.value, event.text) for event in all_types.events if event.tier in said] == [
        ("commentary", "I will run the test."),
        ("agent", "find totals in the repo"),
        ("agent", "Totals are in cart.py and tax.py."),
        ("agent", "Totals are computed in cart.py and tax.py."),
        ("final", "The cart test passes now."),
        ("agent", "the index is stale"),
        ("commentary", "Let me look at the totals."),
        ("final", "Version is 1.3.0 now."),
    ]


def test_tools_are_paired_named_and_judged(all_types: Transcript) -> None:
    shown = [(e.tool, e.ok, e.text.split("\n")[0]) for e in all_types.events if e.tier is Tier.TOOL]
    assert shown == [
        ("Bash", None, "uv run pytest tests/test_cart.py -q"),
        ("Bash", False, "Exit code 1"),
        ("Read", None, "file_path: /home/ana/shop/cart.py"),
        ("Read", True, "def total(): ..."),
        ("Bash", None, "rm -rf build"),
        ("Bash", False, shown[5][2]),
        ("AskUserQuestion", None, 'questions: [{"question":"Which database?","options":[]}]'),
        ("Task", None, "description: explore"),
        ("user_shell", None, "clean tree"),
    ]


def test_the_header_says_who_where_and_when(all_types: Transcript) -> None:
    header = all_types.header
    assert header.id == RolloutId(Host.CLAUDE, CLAUDE_SESSION)
    assert (header.cwd, header.branch, header.version) == ("/home/ana/shop-v2", "main", "2.1.332")
    assert (header.kind, header.title) == (RolloutKind.INTERACTIVE, "cart fix by custom-title")
    assert header.started == datetime(2026, 11, 2, 9, 15, 1, 250_000, tzinfo=UTC)
    assert all_types.events[-1].cwd == "/home/ana/shop-v2"
    assert all_types.events[0].cwd == "/home/ana/shop"


def test_events_are_numbered_from_one_in_file_order_with_the_offset_and_id_of_their_record(
    all_types: Transcript,
) -> None:
    data = (DATA / f"{CLAUDE_SESSION}.jsonl").read_bytes()
    assert [event.number for event in all_types.events] == list(range(1, len(all_types.events) + 1))
    for event in all_types.events:
        record = json.loads(data[event.offset : data.index(b"\n", event.offset)])
        assert record["uuid"] == event.host_id


def test_unknown_types_are_counted_by_name_and_never_stop_the_reader(session: Session) -> None:
    session.raw(type="brand-new", sessionId=CLAUDE_SESSION).attachment("hologram", content="x")
    session.assistant({"type": "novelty"}, "still here").raw(payload=1)
    transcript = session.read()
    assert transcript.report.unknown_types == {
        "brand-new": 1,
        "attachment/hologram": 1,
        "assistant/novelty": 1,
        "None": 1,
    }
    assert session.said() == [("final", "still here")]


# -- answers written as several records ---------------------------------------------------------------


def test_blocks_of_one_answer_spread_over_records_are_each_taken_once(session: Session) -> None:
    session.user("q").assistant({"type": "thinking", "thinking": "hm"}, message="m")
    session.assistant("answer", message="m").assistant("answer", use("t1", command="ls"), message="m")
    session.assistant(use("t1", command="ls"), message="m").user([result("t1", "a.txt")])
    transcript = session.read()
    assert session.said() == [("human", "q"), ("commentary", "answer"), ("tool", "ls"), ("tool", "a.txt")]
    assert transcript.report.duplicates == 2


def test_a_partial_text_gives_way_to_the_whole_one(session: Session) -> None:
    session.user("q").assistant("The fix is", message="m").assistant("The fix is to pin it.", message="m")
    assert session.said() == [("human", "q"), ("final", "The fix is to pin it.")]
    assert reasons(session.events()) == [None, "partial", None]


def test_equal_texts_of_different_answers_both_stay(session: Session) -> None:
    session.user("q").assistant("Done.", message="m1").user("again").assistant("Done.", message="m2")
    assert [text for _, text in session.said()] == ["q", "Done.", "again", "Done."]


def test_a_record_that_stands_twice_in_a_file_counts_once(session: Session) -> None:
    session.user("q", uuid="a").assistant("r", uuid="b")
    session.lines += session.lines
    transcript = session.read()
    assert [event.text for event in transcript.events] == ["q", "r"]
    assert transcript.report.duplicates == 2


def test_the_last_message_after_the_last_tool_call_closes_a_turn(session: Session) -> None:
    session.user("go").assistant("first I look").call("Bash", "x", command="ls").assistant("one").assistant("two")
    session.user("next").assistant("I will try").call("Bash", "x", command="ls")
    assert [(tier, text) for tier, text in session.said() if tier in {"commentary", "final"}] == [
        ("commentary", "first I look"),
        ("commentary", "one"),
        ("final", "two"),
        ("commentary", "I will try"),
    ]


def test_an_interrupted_answer_is_no_closing_text(session: Session) -> None:
    session.user("go").assistant("half an answer").user([{"type": "text", "text": "[Request interrupted by user]"}])
    session.user("do it differently").assistant("done")
    assert ("commentary", "half an answer") in session.said()
    assert ("final", "done") in session.said()


# -- the tree -----------------------------------------------------------------------------------------


@pytest.mark.req("Z073")
def test_a_branch_left_by_a_rewind_keeps_its_numbers_and_is_no_evidence(session: Session) -> None:
    session.user("hello", uuid="a").assistant("hi", uuid="b")
    session.user("use sqlite", uuid="c").assistant("done with sqlite", uuid="d").call("Bash", "x", command="ls")
    session.user("use postgres instead", parent="b").assistant("done with postgres")
    assert session.said() == [
        ("human", "hello"),
        ("final", "hi"),
        ("human", "use postgres instead"),
        ("final", "done with postgres"),
    ]
    assert reasons(session.events()) == [None, None, *["abandoned_branch"] * 4, None, None]


def test_a_rewind_behind_hooks_and_reminders_is_seen(session: Session) -> None:
    session.user("hello", uuid="a").assistant("hi", uuid="b").user("use sqlite").assistant("sqlite it is")
    session.record("attachment", parent="b", attachment={"type": "todo_reminder"}).user("use postgres")
    assert [text for tier, text in session.said() if tier == "human"] == ["hello", "use postgres"]


def test_a_rewind_to_the_first_prompt_is_seen(session: Session) -> None:
    session.user("use sqlite").assistant("sqlite it is").user("use postgres", parent=None).assistant("postgres it is")
    assert [text for _, text in session.said()] == ["use postgres", "postgres it is"]


def test_an_answer_made_anew_replaces_the_first(session: Session) -> None:
    session.user("q", uuid="q").assistant("first try").assistant("second try", parent="q")
    assert session.said() == [("human", "q"), ("final", "second try")]


def test_parallel_tool_calls_are_no_rewind(session: Session) -> None:
    session.user("go", uuid="q").assistant(use("t1", command="ls"), message="m", uuid="a1")
    session.assistant(use("t2", command="pwd"), message="m", uuid="a2")
    session.user([result("t1", "one")], parent="a1", uuid="r1").user([result("t2", "two")], parent="a2", uuid="r2")
    session.assistant("both done", parent="r1")
    assert [text for _, text in session.said()] == ["go", "ls", "pwd", "one", "two", "both done"]


def test_a_prompt_typed_beside_a_tool_result_stays(session: Session) -> None:
    session.user("go").assistant(use("t1", command="ls"), uuid="a1").user("and be quick", parent="a1")
    session.user([result("t1", "one")], parent="a1").assistant("done")
    assert ("human", "and be quick") in session.said()


def test_two_terminals_in_one_session_both_stay(session: Session) -> None:
    session.user("hello", uuid="a").assistant("hi", uuid="b")
    session.user("left one", parent="b").assistant("left answer", uuid="l").user("right one", parent="b")
    session.assistant("right answer", uuid="r").user("left two", parent="l").assistant("left end", uuid="l2")
    session.user("right two", parent="r").assistant("right end")
    assert [text for tier, text in session.said() if tier == "human"] == [
        "hello",
        "left one",
        "right one",
        "left two",
        "right two",
    ]


def test_going_back_to_an_earlier_branch_leaves_the_later_one(session: Session) -> None:
    session.user("hello", uuid="a").assistant("hi", uuid="b").user("one").assistant("one done", uuid="c")
    session.user("other", parent="b").assistant("other done").user("one more", parent="c").assistant("end")
    assert [text for tier, text in session.said() if tier == "human"] == ["hello", "one", "one more"]


def test_missing_parents_lose_nothing(session: Session) -> None:
    session.record(
        "system", subtype="compact_boundary", parent=None, logicalParentUuid="gone", content="Conversation compacted"
    )
    session.user("day one").assistant("answer one").user("go on", parent="never-written").assistant("answer two")
    assert [text for _, text in session.said()] == ["day one", "answer one", "go on", "answer two"]


def test_what_was_said_before_a_compaction_stays(session: Session) -> None:
    session.user("use uv").assistant("noted", uuid="z")
    session.record(
        "system", subtype="compact_boundary", parent=None, logicalParentUuid="z", content="Conversation compacted"
    )
    session.user("This session is being continued from a previous conversation. User wants pip.", isCompactSummary=True)
    session.user("go on").assistant("going on")
    assert [text for _, text in session.said()] == ["use uv", "noted", "go on", "going on"]


def test_records_without_links_are_taken_in_file_order(session: Session) -> None:
    for text in ("one", "two", "three"):
        session.user(text, parent=None)
    assert [text for _, text in session.said()] == ["one", "two", "three"]


def test_parents_that_form_a_circle_do_no_harm(session: Session) -> None:
    session.user("one", uuid="a", parent="b").assistant("two", uuid="b", parent="a").user("three", uuid="c", parent="c")
    assert [text for _, text in session.said()] == ["one", "two", "three"]


# -- resumed and forked copies ------------------------------------------------------------------------


def test_a_resumed_copy_is_named_by_its_file_and_keeps_the_ids_of_its_origin(tmp_path: Path) -> None:
    origin = (
        Session(tmp_path / f"{CLAUDE_SESSION}.jsonl").user("old turn", uuid="x1").assistant("old answer", uuid="x2")
    )
    copy = Session(tmp_path / f"{OTHER}.jsonl")
    copy.lines = [line.replace(CLAUDE_SESSION, OTHER) for line in origin.lines]
    copy.user("new turn", parent="x2", sessionId=OTHER)
    assert copy.read().header.id == RolloutId(Host.CLAUDE, OTHER)
    assert [event.host_id for event in copy.events()][:2] == [event.host_id for event in origin.events()]
    assert CLAUDE.peek(copy.path).fingerprint == CLAUDE.peek(origin.path).fingerprint


def test_a_copy_that_kept_the_session_id_of_its_origin_names_it(tmp_path: Path) -> None:
    copy = Session(tmp_path / f"{OTHER}.jsonl", sessionId=CLAUDE_SESSION).user("old turn")
    assert copy.read().header.id == RolloutId(Host.CLAUDE, OTHER)
    assert copy.read().header.forked_from == RolloutId(Host.CLAUDE, CLAUDE_SESSION)


def test_a_fork_gives_its_copied_records_the_ids_of_their_origin(tmp_path: Path) -> None:
    fork = Session(tmp_path / f"{OTHER}.jsonl", sessionId=OTHER)
    fork.user("old turn", uuid="new-id", forkedFrom={"sessionId": CLAUDE_SESSION, "messageUuid": "x1"}).user("new turn")
    assert [event.host_id for event in fork.events()] == ["x1", "u1"]
    assert fork.read().header.forked_from == RolloutId(Host.CLAUDE, CLAUDE_SESSION)


def test_lineage_records_name_the_origin(session: Session) -> None:
    session.raw(type="derived-from", v=1, sessionId=CLAUDE_SESSION, sessions=[{"id": OTHER, "via": "fork"}]).user("hi")
    assert session.read().header.forked_from == RolloutId(Host.CLAUDE, OTHER)
