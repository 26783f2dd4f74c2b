"""The vocabulary: ids, citations and keys that other rooms and files on disk rely on."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.model import (
    ANCHOR,
    CITATION,
    Boundary,
    Host,
    InputFile,
    Manifest,
    ReadReport,
    RolloutId,
    Tier,
)

FILE = InputFile("3f9a1c2e", "rollout_summaries/3f9a1c2e00000000.md", "aa", 9, "p1")


@given(st.sampled_from(list(Host)), st.text(min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_a_rollout_id_survives_its_way_through_text(host: Host, session: str) -> None:
    assert RolloutId.parse(str(RolloutId(host, session))) == RolloutId(host, session)


@pytest.mark.parametrize("text", ["", "codex", "codex:", "emacs:1", ":1", "Codex:1"])
def test_what_is_no_rollout_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"rollout id|Host"):
        RolloutId.parse(text)


@pytest.mark.req("Z054")
def test_the_name_of_a_rollouts_summary_never_changes() -> None:
    rollout = RolloutId.parse("codex:01a0f1aa-0000-7000-8000-000000000001")
    assert rollout.source_id == "c1a276d9f262f8b1"
    assert rollout.citation == "c1a276d9"
    assert RolloutId(Host.PI, "\ud800").source_id


def test_ids_of_a_thousand_rollouts_differ_and_can_be_cited() -> None:
    ids = [RolloutId(host, str(n)) for host in Host for n in range(250)]
    assert len({i.source_id for i in ids}) == 1_000
    assert all(CITATION.fullmatch(f"[{i.citation}]") and CITATION.fullmatch(f"[{i.source_id}]") for i in ids)


def test_tiers_rank_from_the_human_down() -> None:
    assert sorted(Tier, key=lambda tier: tier.rank) == [
        Tier.HUMAN, Tier.FINAL, Tier.AGENT, Tier.COMMENTARY, Tier.TOOL, Tier.DERIVED,
    ]  # fmt: skip
    assert Tier.HUMAN.rank == 0


@pytest.mark.parametrize("text", ["[e1]", "[e12]", "[e999999999]"])
def test_an_anchor_is_e_and_a_number_from_one(text: str) -> None:
    assert ANCHOR.fullmatch(text)


@pytest.mark.parametrize("text", ["[e0]", "[e01]", "[e]", "[E1]", "[e1", "e1", "[e1,e2]", "[e-1]", "[e1234567890]"])
def test_what_is_no_anchor_is_not_taken_for_one(text: str) -> None:
    assert not ANCHOR.search(text)


@pytest.mark.parametrize("text", ["[3f9a1c2e]", "[3f9a1c2e00000000]", "[note:a.b-c_D]"])
def test_a_citation_is_a_source_or_a_note(text: str) -> None:
    assert CITATION.fullmatch(text)


@pytest.mark.parametrize(
    "text",
    ["[3f9a1c2]", "[3F9A1C2E]", "[3f9a1c2e0]", "[note:]", "[note:a/b]", f"[note:{'a' * 65}]", "[e12]", "3f9a1c2e"],
)
def test_what_is_no_citation_is_not_taken_for_one(text: str) -> None:
    assert not CITATION.search(text)


def test_equal_input_sets_have_equal_keys_in_any_order() -> None:
    other = replace(FILE, citation="note:style", sha256="bb")
    assert Manifest("g", (FILE, other)).key() == Manifest("h", (other, FILE), removed=("x",)).key()
    assert re.fullmatch(r"[0-9a-f]{64}", Manifest("g", ()).key())


@pytest.mark.parametrize("change", [{"sha256": "bb"}, {"citation": "3f9a1c2f"}, {"pinned": True}])
def test_a_changed_input_changes_the_key(change: dict[str, object]) -> None:
    assert Manifest("g", (replace(FILE, **change),)).key() != Manifest("g", (FILE,)).key()  # type: ignore[arg-type]


def test_inputs_are_found_by_their_citation() -> None:
    assert Manifest("g", (FILE,)).by_citation() == {"3f9a1c2e": FILE}


def test_a_boundary_is_named_by_offset_events_and_hash() -> None:
    assert Boundary(120, 7, "ab" * 32).key() == "120:7:abababab"
    assert Boundary().key() == "0:0:"


def test_unknown_record_types_are_counted() -> None:
    report = ReadReport()
    for kind in ("a", "b", "a"):
        report.unknown(kind)
    assert report.unknown_types == {"a": 2, "b": 1}


def test_the_model_reads_no_file_and_no_clock() -> None:
    source = (Path(__file__).parents[2] / "memory" / "model.py").read_text("utf-8")
    imported = set(re.findall(r"^(?:from|import) ([\w.]+)", source, re.MULTILINE))
    assert imported <= {
        "__future__", "hashlib", "re", "collections.abc", "dataclasses", "datetime", "enum", "pathlib",
    }  # fmt: skip
