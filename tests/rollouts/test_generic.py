"""Our own format: what docs/generic_rollout.md promises, and that nothing in a file can stop its reader."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import zstandard
from hypothesis import strategies as st

from memory.errors import UnreadableRollout
from memory.model import EventKind, Host, RolloutId, RolloutKind, Tier, Transcript
from rollouts.adapters import ADAPTERS, Adapter
from rollouts.generic import GenericAdapter

DOC = Path(__file__).parents[2] / "docs" / "generic_rollout.md"
GENERIC = GenericAdapter()
HEADER = {"type": "session", "version": 1, "id": "g1", "host_name": "aider", "cwd": "/w/app", "started": 1782900000}


def event(role: str, text: Any = "", **fields: Any) -> dict[str, Any]:
    return {"type": "event", "role": role, "text": text, "time": "2026-07-01T10:00:00Z", **fields}


def write(folder: Path, *records: Any, name: str = "g1.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(folder: Path, *records: Any) -> Transcript:
    return GENERIC.read(write(folder, HEADER, *records))


def shown(transcript: Transcript) -> list[tuple[str, str]]:
    return [(found.derived_from or found.tier.value, found.text) for found in transcript.events]


def test_the_example_of_the_documentation_reads_as_it_says(tmp_path: Path) -> None:
    example = re.search(r"```jsonl\n(.*?)```", DOC.read_text(), re.DOTALL)
    assert example is not None
    path = tmp_path / "example.jsonl"
    path.write_text(example[1])
    found = GENERIC.read(path)
    assert found.header.id == RolloutId(Host.GENERIC, "aider-2026-11-28-payments")
    assert found.header.cwd == "/home/dev/payments"
    assert found.header.started == datetime(2026, 11, 28, 8, 14, tzinfo=UTC)
    assert found.last_event == datetime(2026, 11, 28, 8, 16, tzinfo=UTC)
    assert [(item.derived_from or item.tier.value, item.kind.value, item.ok) for item in found.events] == [
        ("system_prompt", "message", None),
        ("human", "message", None),
        ("commentary", "message", None),
        ("tool", "tool_call", None),
        ("tool", "tool_result", False),
        ("agent", "message", None),
        ("memory", "message", None),
        ("final", "message", None),
    ]
    assert found.report.unknown_types == {}
    peek = GENERIC.peek(path)
    assert peek.header == found.header
    assert (peek.last_event, peek.whole) == (found.last_event, True)
    assert peek.user_chars == len("New tests use Vitest from now on, not Jest.")


def test_the_documentation_names_every_field_the_reader_knows() -> None:
    source = (Path(__file__).parents[2] / "rollouts" / "generic.py").read_text()
    fields = set(re.findall(r'(?:source|record)\.get\("(\w+)"\)', source)) - {"timestamp"}
    assert len(fields) > 15
    text = DOC.read_text()
    assert {name for name in fields if f"`{name}`" not in text} == set()


def test_the_registry_offers_it() -> None:
    assert isinstance(ADAPTERS[Host.GENERIC], GenericAdapter)
    assert isinstance(GENERIC, Adapter)
    assert GENERIC.default_roots({"HOME": "/h"}) == []


@pytest.mark.req("Z067", "Z068", "Z069", "Z070")
@pytest.mark.parametrize("kind", list(RolloutKind))
def test_the_header_says_what_sort_of_session_it_is(tmp_path: Path, kind: RolloutKind) -> None:
    path = write(tmp_path, {**HEADER, "kind": kind.value}, event("user", "x"))
    assert GENERIC.peek(path).header.kind is kind


def test_parents_and_origins_are_ids_of_this_format_or_of_any_host(tmp_path: Path) -> None:
    path = write(tmp_path, {**HEADER, "parent": "boss", "forked_from": "codex:abc"}, event("user", "x"))
    header = GENERIC.peek(path).header
    assert header.parent == RolloutId(Host.GENERIC, "boss")
    assert header.forked_from == RolloutId(Host.CODEX, "abc")


def test_a_session_without_id_or_with_a_wild_one_has_the_id_of_its_file(tmp_path: Path) -> None:
    for given in (None, "", 7, "a b", "x" * 300, "new\nline"):
        path = write(tmp_path, {**HEADER, "id": given}, event("user", "x"), name="my file.jsonl")
        assert GENERIC.peek(path).header.id == RolloutId(Host.GENERIC, "my_file")


@pytest.mark.req("Z072", "Z073")
def test_injected_memory_and_our_own_tools_are_no_evidence(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        event("user", "<memory>likes tabs</memory>\nadd a test"),
        event("assistant", "query: tests", tool="memory_recall", call_id="c"),
        event("tool", "prefers Vitest", tool="memory_recall", call_id="c", ok=True),
        event("user", "again", derived="No Such Word"),
        event("user", "again", derived=True),
    )
    assert shown(found) == [
        ("memory", "<memory>likes tabs</memory>"),
        ("human", "add a test"),
        ("memory", "query: tests"),
        ("memory", "prefers Vitest"),
        ("derived", "again"),
        ("derived", "again"),
    ]


def test_wrong_fields_are_left_out_and_unknown_roles_and_types_counted(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"type": "event", "role": "user", "text": ["a", "b"], "time": "yesterday", "id": 5, "ok": "yes"},
        {"type": "event", "role": "assistant", "text": "done", "final": "yes"},
        {"type": "event", "role": "tool", "text": None, "ok": 1},
        event("oracle", "hm"),
        {"type": "event", "role": 5, "text": "x"},
        {"type": "telemetry"},
        {"role": "user", "text": "no type"},
        HEADER,
    )
    assert shown(found) == [("human", "a\nb"), ("commentary", "done"), ("tool", ""), ("unknown_role", "hm")]
    first, _, result, _ = found.events
    assert (first.time, first.host_id, result.kind, result.ok) == (None, None, EventKind.TOOL_RESULT, None)
    assert found.report.unknown_types == {"role/oracle": 1, "event": 1, "telemetry": 1, "(none)": 1}
    assert found.report.duplicates == 1


def test_an_event_may_have_a_folder_of_its_own(tmp_path: Path) -> None:
    found = read(tmp_path, event("user", "a"), event("user", "b", cwd="/w/lib"), event("user", "c"))
    assert [item.cwd for item in found.events] == ["/w/app", "/w/lib", "/w/app"]


@pytest.mark.fault("M67", "O5")
def test_other_formats_are_refused(tmp_path: Path) -> None:
    foreign = [
        {"role": "user", "content": "chat export"},
        {"type": "session", "version": 3, "id": "p", "timestamp": "2026-07-01T10:00:00Z", "cwd": "/w"},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "codex"}},
    ]
    for record in foreign:
        with pytest.raises(UnreadableRollout, match="generic"):
            GENERIC.peek(write(tmp_path, record))


def test_a_compressed_session_reads_the_same(tmp_path: Path) -> None:
    plain = write(tmp_path, HEADER, event("user", "a"), event("assistant", "b", final=True))
    packed = tmp_path / "g1.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    assert GENERIC.matches(packed)
    assert GENERIC.read(packed).events == GENERIC.read(plain).events
    assert GENERIC.read(packed).boundary == GENERIC.read(plain).boundary


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=4,
)
FIELDS = ["type", "role", "text", "time", "tool", "call_id", "ok", "id", "final", "derived", "cwd", "started", "kind"]
ROLES = ["user", "assistant", "agent", "tool", "system"]
RECORDS = st.builds(
    lambda base, more: {**base, **more},
    st.sampled_from([HEADER, *(event(role, "words", tool="t", ok=True, id="x") for role in ROLES)]),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3),
)


@hypothesis.settings(
    max_examples=100, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(st.lists(RECORDS, max_size=10), st.integers(0, 400))
def test_no_line_whatever_is_in_it_stops_the_reader(tmp_path: Path, records: list[Any], cut: int) -> None:
    path = tmp_path / "f.jsonl"
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_text(text[: len(text) - cut] if cut < len(text) else text)
    found = GENERIC.read(path)
    assert [item.number for item in found.events] == list(range(1, len(found.events) + 1))
    for item in found.events:
        assert (item.tier is Tier.DERIVED) == (item.derived_from is not None)
        item.text.encode()
    try:
        assert GENERIC.peek(path).header.id == found.header.id
    except UnreadableRollout:
        assert not found.events


@hypothesis.settings(
    max_examples=40, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(st.lists(RECORDS, min_size=1, max_size=8), st.integers(1, 7))
def test_numbers_and_texts_stay_while_the_file_grows(tmp_path: Path, records: list[Any], until: int) -> None:
    early = GENERIC.read(write(tmp_path, *records[:until]))
    late = GENERIC.read(write(tmp_path, *records))
    assert [(item.number, item.text) for item in early.events] == [
        (item.number, item.text) for item in late.events[: len(early.events)]
    ]
