"""Copied events count once, with the elder; families and elders are found from rows alone."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from memory.model import (
    Boundary,
    Event,
    EventKind,
    Header,
    Host,
    ReadReport,
    Reason,
    RolloutId,
    RolloutKind,
    Tier,
    Transcript,
)
from memory.settings import ExtractSettings, RolloutSettings
from memory.state import RolloutRow
from rollouts.claude import ClaudeAdapter
from rollouts.codex import CodexAdapter
from rollouts.eligibility import classify
from rollouts.lineage import COPIED, EventKeys, after, elders, families, keys_of, owned, read_own
from rollouts.pi import PiAdapter

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def said(number: int, text: str, *, tier: Tier = Tier.HUMAN, host_id: str | None = None, **changes: Any) -> Event:
    time = changes.pop("time", NOW + timedelta(seconds=number))
    return Event(number, tier, EventKind.MESSAGE, text, time=time, host_id=host_id, **changes)


def transcript(name: str, *events: Event, **header: Any) -> Transcript:
    head = Header(RolloutId(Host.CODEX, name), Path(f"/s/{name}.jsonl"), **header)
    return Transcript(head, events, Boundary(10, len(events), "aa"), ReadReport())


def copied(found: Transcript) -> list[int]:
    return [event.number for event in found.events if event.derived_from == COPIED]


def talk(prefix: str = "", *, shift: float = 0, ids: bool = False, size: int = 6) -> list[Event]:
    tiers = (Tier.HUMAN, Tier.COMMENTARY, Tier.TOOL, Tier.FINAL)
    return [
        said(
            number,
            f"{prefix}text {number}",
            tier=tiers[number % 4],
            host_id=f"u{number}" if ids else None,
            time=NOW + timedelta(seconds=number + shift),
        )
        for number in range(1, size + 1)
    ]


def test_a_copied_prefix_with_its_times_belongs_to_the_other(tmp_path: Path) -> None:
    origin = transcript("a", *talk())
    copy = transcript("b", *talk()[:4], said(5, "something new"), said(6, "and more"))
    found = owned(copy, others=[origin])
    assert copied(found) == [1, 2, 3, 4]
    assert [event.text for event in found.events] == [event.text for event in copy.events]
    assert [event.number for event in found.events] == [1, 2, 3, 4, 5, 6]
    assert found.boundary == copy.boundary


def test_ids_are_known_again_wherever_they_stand() -> None:
    origin = transcript("a", *talk(ids=True))
    copy = transcript("b", said(1, "new start"), *[replace(event, number=event.number + 1) for event in talk(ids=True)])
    assert copied(owned(copy, others=[origin])) == [2, 3, 4, 5, 6, 7]


def test_an_equal_id_with_another_text_is_chance() -> None:
    origin = transcript("a", said(1, "one", host_id="12ab34cd"))
    other = transcript("b", said(1, "another thing", host_id="12ab34cd"))
    assert owned(other, others=[origin]) is other


def test_a_replay_with_new_times_is_a_copy_where_the_origin_is_named() -> None:
    origin = transcript("a", *talk())
    events = [*talk(shift=7200)[:3], said(9, "child task")]
    fork = transcript("b", *events, forked_from=RolloutId(Host.CODEX, "a"))
    assert copied(owned(fork, others=[origin])) == [1, 2, 3]
    assert owned(transcript("b", *events), others=[origin]).events == tuple(events)


def test_equal_first_words_alone_are_no_copy() -> None:
    script = said(1, "fix the build")
    one, two = transcript("a", script, said(2, "I did A")), transcript("b", script, said(2, "I did B"))
    assert owned(two, others=[one]) is two
    untimed = [said(number, "continue", time=None) for number in (1, 2, 3)]
    assert owned(transcript("b", *untimed), others=[transcript("a", *untimed)]).events == tuple(untimed)


def test_prompts_of_the_host_do_not_break_a_run() -> None:
    prompt = said(1, "You are an agent.", tier=Tier.DERIVED, derived_from="system_prompt")
    origin = transcript("a", prompt, *[replace(event, number=event.number + 1) for event in talk()])
    copy = transcript("b", *talk(), said(7, "new"))
    assert copied(owned(copy, others=[origin])) == [1, 2, 3, 4, 5, 6]


def test_what_was_derived_keeps_its_reason() -> None:
    dropped = said(2, "no", tier=Tier.DERIVED, derived_from="abandoned_branch", host_id="x2")
    both = [said(1, "a", host_id="x1"), dropped]
    found = owned(transcript("b", *both), others=[transcript("a", *both)])
    assert [event.derived_from for event in found.events] == [COPIED, "abandoned_branch"]


def test_what_was_cleared_first_does_not_hide_a_copy() -> None:
    origin = transcript("a", *talk())
    copy = transcript("b", *talk(), said(7, "new"))
    found = owned(after(copy, NOW + timedelta(seconds=3)), others=[origin])
    assert [event.derived_from for event in found.events] == ["before_watermark"] * 3 + [COPIED] * 3 + [None]


def test_keys_do_instead_of_transcripts_and_a_rollout_is_no_copy_of_itself() -> None:
    origin = transcript("a", *talk())
    keys = keys_of(origin)
    assert isinstance(keys, EventKeys)
    assert copied(owned(transcript("b", *talk()), others=[keys])) == [1, 2, 3, 4, 5, 6]
    assert owned(origin, others=[keys]) is origin


def test_keys_take_a_few_bytes_an_event() -> None:
    big = transcript("a", *talk("x" * 500, ids=True, size=20_000))
    tracemalloc.start()
    keys = keys_of(big)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(keys.said) == 20_000
    assert kept < 20_000 * 40


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=12),
    st.integers(0, 12),
    st.lists(st.text(max_size=3), max_size=4),
)
def test_nothing_is_lost_and_nothing_counts_twice(texts: list[str], cut: int, more: list[str]) -> None:
    origin = transcript("a", *(said(number, text) for number, text in enumerate(texts, start=1)))
    shared = list(origin.events[:cut])
    tail = [said(len(shared) + number, f"own {text}") for number, text in enumerate(more, start=1)]
    fork = transcript("b", *shared, *tail, forked_from=RolloutId(Host.CODEX, "a"))
    found = owned(fork, others=[origin])
    evidence = [event for event in found.events if event.tier is not Tier.DERIVED]
    assert [event.text for event in evidence] == [event.text for event in tail]
    assert [event.text for event in found.events] == [event.text for event in fork.events]


# -- with real readers -----------------------------------------------------------------------------------


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_pi_fork_keeps_only_what_was_said_after_it(tmp_path: Path) -> None:
    def one(name: str, parent: str | None, text: str) -> dict[str, Any]:
        message = {"role": "user", "content": [{"type": "text", "text": text}]}
        return {
            "type": "message",
            "id": name,
            "parentId": parent,
            "timestamp": "2026-07-01T10:00:00Z",
            "message": message,
        }

    head = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-07-01T10:00:00Z", "cwd": "/w"}
    shared = [one("aaaa0001", None, "use sqlite"), one("aaaa0002", "aaaa0001", "and pytest")]
    first = lines(tmp_path / "2026-07-01T10-00-00-000Z_s1.jsonl", head, *shared, one("aaaa0003", "aaaa0002", "go"))
    fork = lines(
        tmp_path / "2026-07-02T10-00-00-000Z_s2.jsonl",
        {**head, "id": "s2", "parentSession": str(first)},
        *shared,
        one("bbbb0003", "aaaa0002", "use postgres"),
    )
    reader = PiAdapter()
    found = owned(reader.read(fork), others=[reader.read(first)])
    assert [(event.tier, event.text) for event in found.events][-1] == (Tier.HUMAN, "use postgres")
    assert copied(found) == [1, 2]


def test_a_resumed_claude_session_keeps_only_its_new_turn(tmp_path: Path) -> None:
    def turn(uuid: str, parent: str | None, session: str, role: str, text: str, second: int) -> dict[str, Any]:
        return {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": session,
            "timestamp": f"2026-07-01T10:00:{second:02}.000Z",
            "version": "2.1.200",
            "cwd": "/w/app",
            "isSidechain": False,
            "userType": "external",
            "message": {"role": role, "content": text, **({"id": "msg_1"} if role == "assistant" else {})},
        }

    one, two = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    old = [("u1", None, "user", "old turn", 0), ("a1", "u1", "assistant", "old answer", 5)]
    first = lines(tmp_path / f"{one}.jsonl", *(turn(u, p, one, r, t, s) for u, p, r, t, s in old))
    again = lines(
        tmp_path / f"{two}.jsonl",
        *(turn(u, p, two, r, t, s) for u, p, r, t, s in old),
        turn("u9", "a1", two, "user", "new turn", 9),
    )
    reader = ClaudeAdapter()
    found = owned(reader.read(again), others=[reader.read(first)])
    assert [event.text for event in found.events if event.tier is not Tier.DERIVED] == ["new turn"]


def codex_fork(folder: Path) -> tuple[Path, Path]:
    """A parent and a child that begins with the parent's history under new times."""

    def meta(name: str, **more: Any) -> dict[str, Any]:
        payload = {"id": name, "timestamp": "2026-07-01T10:00:00.000Z", "cwd": "/w", "originator": "codex-tui", **more}
        return {
            "timestamp": "2026-07-01T10:00:00.000Z",
            "type": "session_meta",
            "payload": {"source": "cli", **payload},
        }

    def message(time: str, role: str, text: str) -> dict[str, Any]:
        kind = "input_text" if role == "user" else "output_text"
        payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        return {"timestamp": f"2026-07-01T{time}.000Z", "type": "response_item", "payload": payload}

    one, two = "01a00000-0000-7000-8000-000000000001", "01a00000-0000-7000-8000-000000000002"
    parent = lines(
        folder / f"rollout-2026-07-01T10-00-00-{one}.jsonl",
        meta(one),
        message("10:00:01", "user", "parent question"),
        message("10:00:02", "assistant", "parent answer"),
    )
    child = lines(
        folder / f"rollout-2026-07-01T12-00-00-{two}.jsonl",
        meta(two, forked_from_id=one),
        meta(one),
        message("12:00:00", "user", "parent question"),
        message("12:00:00", "assistant", "parent answer"),
        message("12:00:07", "user", "child task"),
    )
    return parent, child


def test_a_codex_fork_keeps_only_its_own_task(tmp_path: Path) -> None:
    parent, child = codex_fork(tmp_path)
    reader = CodexAdapter()
    fork = reader.read(child)
    assert fork.header.forked_from == reader.read(parent).header.id
    found = owned(fork, others=[reader.read(parent)])
    assert [event.text for event in found.events if event.tier is not Tier.DERIVED] == ["child task"]


def test_reading_a_rollout_to_extract_it_leaves_out_what_others_own_and_what_was_cleared(tmp_path: Path) -> None:
    parent, child = codex_fork(tmp_path)
    reader = CodexAdapter()
    rows = [row(reader.read(path).header.id.session, path=path) for path in (parent, child)]
    rows[1] = replace(rows[1], forked_from=rows[0].id)

    def evidence(**arguments: Any) -> list[str]:
        return [event.text for event in read_own(rows[1], rows, **arguments).events if event.tier is not Tier.DERIVED]

    assert evidence() == ["child task"]
    assert evidence(watermark=datetime(2026, 7, 1, 12, 0, 7, tzinfo=UTC)) == []
    gone = replace(rows[0], path=tmp_path / "gone.jsonl")
    found = read_own(rows[1], [gone, rows[1]])
    assert [event.text for event in found.events if event.tier is not Tier.DERIVED][-1] == "child task"
    assert "could not be read" in found.report.notes[-1]


# -- the clear ---------------------------------------------------------------------------------------------


@pytest.mark.req("Z022", "Z115")
def test_what_was_said_up_to_the_clear_is_no_evidence_any_more() -> None:
    events = [said(1, "a"), said(2, "b", time=None), said(3, "c"), said(4, "d", time=None)]
    found = after(transcript("a", *events), NOW + timedelta(seconds=2))
    assert [event.derived_from for event in found.events] == ["before_watermark", "before_watermark", None, None]
    assert after(transcript("a", *events), None).events == tuple(events)
    unknown = transcript("a", said(1, "a", time=None), said(2, "b"))
    assert [event.tier for event in after(unknown, NOW).events] == [Tier.DERIVED, Tier.HUMAN]


# -- relatives ---------------------------------------------------------------------------------------------


def row(name: str, *, began: float = 0, **changes: Any) -> RolloutRow:
    base = RolloutRow(
        id=RolloutId(Host.CODEX, name),
        path=Path(f"/s/{name}.jsonl"),
        size=100,
        mtime_ns=1,
        inode=1,
        cwd="/w",
        started=NOW - timedelta(days=1) + timedelta(seconds=began),
        last_event=NOW - timedelta(hours=8),
        user_chars=9,
        reason=Reason.ELIGIBLE,
    )
    return replace(base, **changes)


def names(rows: list[RolloutRow]) -> list[str]:
    return [item.id.session for item in rows]


def test_elders_are_the_origins_first_and_then_twins_by_age() -> None:
    ident = RolloutId(Host.CODEX, "mid")
    top, mid = row("top"), row("mid", began=5, forked_from=RolloutId(Host.CODEX, "top"))
    leaf = row("leaf", began=9, forked_from=ident, fingerprint="ff")
    twin = row("twin", began=2, fingerprint="ff")
    same_start = row("abc", began=9)
    younger = row("younger", began=50, fingerprint="ff")
    stranger = row("stranger", began=1, fingerprint="00")
    elsewhere = row("elsewhere", began=1, fingerprint="ff", cwd="/other")
    rows = [stranger, younger, elsewhere, twin, same_start, leaf, mid, top]
    assert names(elders(leaf, rows)) == ["mid", "top", "abc", "twin"]


def test_of_two_twins_one_is_the_elder_whatever_their_order() -> None:
    one, two = row("one"), row("two")
    for rows in ([one, two], [two, one]):
        assert names(elders(two, rows)) == ["one"]
        assert elders(one, rows) == []


def test_what_was_extracted_first_stays_the_owner() -> None:
    one, two = row("one"), row("two")
    done = frozenset({two.id})
    assert names(elders(one, [one, two], extracted=done)) == ["two"]
    assert elders(two, [one, two], extracted=done) == []


def test_an_elder_that_is_never_extracted_owns_nothing_but_a_forgotten_one_does() -> None:
    copy = row("copy", began=9)
    for reason, owns in (
        (Reason.TOO_OLD, False),
        (Reason.MISSING, False),
        (Reason.EXHAUSTED, False),
        (Reason.FORGOTTEN, True),
        (Reason.BEFORE_WATERMARK, True),
        (Reason.ARCHIVED, True),
        (Reason.UP_TO_DATE, True),
    ):
        elder = row("elder", reason=reason)
        fork = replace(copy, forked_from=elder.id)
        assert bool(elders(fork, [elder, fork])) is owns, reason
        assert elders(fork, [elder, fork], extracted=frozenset({elder.id}))


def test_forks_in_a_ring_end() -> None:
    one = row("one", forked_from=RolloutId(Host.CODEX, "two"))
    two = row("two", forked_from=RolloutId(Host.CODEX, "one"))
    assert names(elders(one, [one, two])) == ["two"]


@pytest.mark.fault("X15")
def test_parent_and_children_are_one_unit_of_work() -> None:
    parent = row("parent")
    child = row("child", began=3, kind=RolloutKind.SUBAGENT, parent=parent.id)
    grandchild = row("grandchild", began=5, kind=RolloutKind.SUBAGENT, parent=child.id)
    orphan = row("orphan", kind=RolloutKind.SUBAGENT, parent=RolloutId(Host.CODEX, "gone"))
    rows = [grandchild, orphan, child, parent]
    found = families(rows)
    assert {str(top): names(list(members)) for top, members in found.items()} == {
        "codex:parent": ["child", "grandchild"],
        "codex:gone": ["orphan"],
    }
    taken = [
        item.id.session
        for item in rows
        if classify(item, now=NOW, extract=ExtractSettings(), rollouts=RolloutSettings())[0] is Reason.ELIGIBLE
    ]
    assert taken == ["parent"]
