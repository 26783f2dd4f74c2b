"""Pi's session files: kinds, peeking, damage, growth, and every real one there is."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from memory.errors import UnreadableRollout
from memory.model import Host, RolloutId, RolloutKind, Tier
from tests.rollouts.pi_files import GOLDEN, HEADER, PI, STAMP, entry, shown, write

# -- kinds ---------------------------------------------------------------------------------------------


@pytest.mark.req("Z067", "Z068")
def test_subagents_and_own_sessions_are_told_apart(tmp_path: Path) -> None:
    user = entry("m1", None, "user", "hello")
    child = write(tmp_path, HEADER, user, name="2026-07-01T10-00-00-000Z_boss/0-task.jsonl")
    assert PI.peek(child).header.kind is RolloutKind.SUBAGENT
    assert PI.peek(child).header.parent == RolloutId(Host.PI, "boss")
    place = {**HEADER, "cwd": "/home/dev/.local/share/slowwave/generations/g1/memories_v2/workspace"}
    assert PI.peek(write(tmp_path, place, user)).header.kind is RolloutKind.OWN
    mark = {"type": "custom", "id": "c1", "parentId": None, "customType": "slowwave", "data": {"own": True}}
    assert PI.read(write(tmp_path, HEADER, mark, user)).header.kind is RolloutKind.OWN
    watcher = entry("m1", None, "user", "You are a Claude-Mem, a specialized observer tool")
    assert PI.peek(write(tmp_path, HEADER, watcher)).header.kind is RolloutKind.AUXILIARY


# -- peek ----------------------------------------------------------------------------------------------


def test_peek_agrees_with_a_whole_reading(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        HEADER,
        entry("m1", None, "user", "fix the tests"),
        entry("m2", "m1", "assistant", "done", stopReason="stop"),
        {"type": "usage", "id": "u1", "parentId": "m2", "timestamp": STAMP.format(59), "kind": "cache_warm"},
    )
    peek, transcript = PI.peek(path), PI.read(path)
    assert peek.header == transcript.header
    assert peek.last_event == transcript.last_event == datetime(2026, 7, 1, 10, 0, 2, tzinfo=UTC)
    assert (peek.user_chars, peek.whole, peek.open_turn) == (len("fix the tests"), True, False)
    assert PI.peek(write(tmp_path, HEADER, entry("m1", None, "user", "go"))).open_turn


def test_only_a_header_before_the_first_entry_counts(tmp_path: Path) -> None:
    late = write(tmp_path, entry("m1", None, "user", "hello"), {**HEADER, "id": "other"})
    assert PI.peek(late).header.id == PI.read(late).header.id == RolloutId(Host.PI, "s1")
    early = write(tmp_path, {"type": "noise"}, {**HEADER, "id": "other"}, entry("m1", None, "user", "hello"))
    assert PI.peek(early).header.id == PI.read(early).header.id == RolloutId(Host.PI, "other")


def test_a_session_without_its_header_has_the_id_of_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, entry("m1", None, "user", "hello"))
    assert PI.peek(path).header.id == PI.read(path).header.id == RolloutId(Host.PI, "s1")


@pytest.mark.fault("M67", "O5")
@pytest.mark.parametrize(
    "foreign",
    [
        {"role": "user", "content": "chat export line"},
        {"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "claude"}},
        {"timestamp": "x", "type": "session_meta", "payload": {"id": "t", "cwd": "/w", "originator": "codex"}},
        {"type": "session", "version": 1, "id": "g", "host_name": "aider", "started": "2026-07-01T10:00:00Z"},
        [1, 2, 3],
        "text",
    ],
)
def test_other_tools_files_are_refused(tmp_path: Path, foreign: Any) -> None:
    with pytest.raises(UnreadableRollout, match=r"holds no Pi session"):
        PI.peek(write(tmp_path, foreign))


def test_default_folders_follow_pis_own_variables() -> None:
    assert PI.default_roots({"HOME": "/h"}) == [Path("/h/.pi/agent/sessions")]
    assert PI.default_roots({"HOME": "/h", "PI_CODING_AGENT_DIR": "~/agent"}) == [Path("/h/agent/sessions")]
    both = {"HOME": "/h", "PI_CODING_AGENT_SESSION_DIR": "/s", "PI_CODING_AGENT_DIR": "/a"}
    assert PI.default_roots(both) == [Path("/s"), Path("/a/sessions")]
    assert PI.default_roots({}) == []


# -- damage and growth -----------------------------------------------------------------------------------


def test_a_record_appended_to_a_torn_line_survives(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER, entry("m1", None, "user", "hello"))
    torn = json.dumps(entry("m2", "m1", "assistant", "half"))[:90]
    with path.open("a") as file:
        file.write(torn + json.dumps(entry("m3", "m1", "user", "this one must survive")) + "\n")
    found = PI.read(path)
    assert ("human", "this one must survive") in shown(found)
    assert found.report.bad_json == 1


def test_a_partial_last_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER, entry("m1", None, "user", "hello"))
    whole = PI.read(path).boundary
    line = json.dumps(entry("m2", "m1", "user", "later"))
    with path.open("a") as file:
        file.write(line[:40])
    half = PI.read(path)
    assert half.boundary == whole
    assert half.report.partial_tail == 1
    with path.open("a") as file:
        file.write(line[40:] + "\n")
    assert [text for _, text in shown(PI.read(path))] == ["hello", "later"]


def test_numbers_and_texts_stay_while_the_file_grows() -> None:
    data = GOLDEN.read_bytes()
    ends = [number + 1 for number, byte in enumerate(data) if byte == 10]
    whole = PI.read(GOLDEN)
    for end in ends:
        part = PI.read(GOLDEN, limit=end)
        assert part.boundary.offset == end
        for early, late in zip(part.events, whole.events, strict=False):
            assert (early.number, early.text, early.host_id, early.offset) == (
                late.number,
                late.text,
                late.host_id,
                late.offset,
            )
    assert [event.number for event in whole.events] == list(range(1, len(whole.events) + 1))


LINES = GOLDEN.read_text().splitlines()
JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A line of a real session with one value at any depth replaced, or cut, or doubled."""
    line = draw(st.sampled_from(LINES))
    how = draw(st.sampled_from(["value", "cut", "double", "bytes", "whole"]))
    if how == "whole":
        return json.dumps(draw(JUNK))
    if how == "cut":
        return line[: draw(st.integers(0, len(line)))]
    if how == "double":
        return line + line
    if how == "bytes":
        at = draw(st.integers(0, len(line)))
        return line[:at] + draw(st.text(max_size=4)).replace("\n", " ") + line[at:]
    record = json.loads(line)
    spot: Any = record
    while True:
        key = draw(st.sampled_from(sorted(spot) if isinstance(spot, dict) else range(len(spot))))
        if isinstance(spot[key], dict | list) and spot[key] and draw(st.booleans()):
            spot = spot[key]
            continue
        spot[key] = draw(JUNK)
        return json.dumps(record)


@hypothesis.settings(
    max_examples=120, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(st.lists(mutated(), max_size=12), st.booleans())
def test_no_line_whatever_is_in_it_stops_the_reader(tmp_path: Path, lines: list[str], header: bool) -> None:
    path = tmp_path / "f.jsonl"
    text = "\n".join([*LINES[:1], *lines] if header else lines) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = PI.read(path)
    assert [event.number for event in found.events] == list(range(1, len(found.events) + 1))
    assert found.boundary.events == len(found.events)
    for event in found.events:
        assert (event.tier is Tier.DERIVED) == (event.derived_from is not None)
        event.text.encode("utf-8")
    try:
        assert PI.peek(path).header.id == found.header.id
    except UnreadableRollout:
        assert not header


@pytest.mark.corpus
def test_every_real_session_is_read_to_its_end(corpus: Path) -> None:
    paths = sorted((corpus / "pi").rglob("*.jsonl"))
    assert paths
    tiers: Counter[str] = Counter()
    for path in paths:
        peek, found = PI.peek(path), PI.read(path)
        assert found.report.unknown_types == {}, path
        assert found.report.not_objects == 0
        assert peek.header.id == found.header.id
        assert peek.header.cwd == found.header.cwd is not None
        assert peek.fingerprint
        assert any(event.tier is Tier.HUMAN for event in found.events), path
        whole = path.read_bytes()
        assert found.boundary.offset + (0 if whole.endswith(b"\n") else len(whole) - whole.rfind(b"\n") - 1) == len(
            whole
        )
        tiers.update(event.derived_from or event.tier.value for event in found.events)
    assert tiers["human"] > 150
    assert tiers["final"] > 90
    assert tiers["tool"] > 2_000
    assert tiers["compaction"] >= 4
