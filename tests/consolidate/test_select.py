"""Which sources a consolidation reads: whole files, pinned first, then by use and age, with every omission listed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from consolidate.run import _project_of_note, gather
from consolidate.select import Candidate, Selection, binding_cap, choose
from memory.settings import ConsolidateSettings
from memory.testing import StoreBench

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LIMITS = ConsolidateSettings()


def rollout(name: int, *, days: float = 1, used: float | None = None, size: int = 10) -> Candidate:
    citation = f"{name:08x}"
    last = None if used is None else NOW - timedelta(days=used)
    path = f"rollout_summaries/{citation}00000000.md"
    return Candidate(citation, path, "x" * size, "p", "shop", NOW - timedelta(days=days), last)


def note(name: str, *, pinned: bool = False, size: int = 10) -> Candidate:
    path = f"extensions/ad_hoc/notes/{name}.md"
    return Candidate(f"note:{name}", path, "n" * size, "", "all projects", NOW, note=True, pinned=pinned)


def chosen(*candidates: Candidate, limits: ConsolidateSettings = LIMITS) -> Selection:
    shuffled = list(candidates)
    random.Random(7).shuffle(shuffled)
    return choose(shuffled, generation="g", now=NOW, limits=limits)


def citations(selection: Selection) -> list[str]:
    return [item.citation for item in selection.manifest.inputs]


@pytest.mark.req("Z085")
def test_at_most_256_sources_are_taken_and_the_rest_is_listed() -> None:
    selection = chosen(*(rollout(n, days=n / 100) for n in range(300)))
    assert len(selection.manifest.inputs) == 256
    assert citations(selection)[0] == f"{0:08x}"
    assert {item.reason for item in selection.manifest.left_out} == {"max_sources"}
    assert len(selection.manifest.left_out) == 44


@pytest.mark.req("Z086")
@pytest.mark.parametrize(("age", "taken"), [(timedelta(days=30), True), (timedelta(days=30, seconds=1), False)])
def test_a_source_unused_for_more_than_thirty_days_is_left_out(age: timedelta, taken: bool) -> None:
    days = age.total_seconds() / 86_400
    selection = chosen(rollout(1, days=60, used=days), rollout(2, days=days))
    assert len(selection.manifest.inputs) == (2 if taken else 0)
    assert [item.reason for item in selection.manifest.left_out] == ([] if taken else ["unused", "unused"])


@pytest.mark.req("Z086")
def test_a_read_resets_the_age() -> None:
    assert citations(chosen(rollout(1, days=200, used=1))) == ["00000001"]


@pytest.mark.req("Z087")
def test_the_total_is_counted_in_code_points_and_cut_between_files() -> None:
    limits = LIMITS.model_copy(update={"max_chars": 1_000})
    selection = chosen(rollout(1, size=600), rollout(2, days=2, size=600), rollout(3, days=3, size=400), limits=limits)
    assert citations(selection) == ["00000001", "00000003"]
    assert sum(item.chars for item in selection.manifest.inputs) == 1_000
    assert binding_cap(selection.manifest.left_out) == "max_chars"


def test_order_is_pinned_notes_then_notes_then_last_used_then_newest() -> None:
    selection = chosen(
        rollout(1, days=1), rollout(2, days=9, used=2), rollout(3, days=3), note("b"), note("a", pinned=True)
    )
    assert citations(selection) == ["note:a", "note:b", "00000002", "00000001", "00000003"]


def test_notes_do_not_expire() -> None:
    old = Candidate("note:a", "n/a.md", "x", "", "", NOW - timedelta(days=900), note=True)
    assert citations(chosen(old)) == ["note:a"]


def test_two_sources_with_the_same_eight_digits_are_cited_by_sixteen() -> None:
    twins = [Candidate("aaaaaaaa", f"rollout_summaries/aaaaaaaa{n:08x}.md", "x", "p", "p", NOW) for n in (1, 2)]
    assert set(citations(chosen(*twins))) == {"aaaaaaaa00000001", "aaaaaaaa00000002"}


@pytest.mark.fault("X32")
def test_what_was_cited_before_and_is_no_input_any_more_is_removed() -> None:
    selection = choose([rollout(1)], generation="g", now=NOW, limits=LIMITS, cited_before=["00000001", "00000002"])
    assert selection.manifest.removed == ("00000002",)


def test_the_same_candidates_in_any_order_give_the_same_manifest() -> None:
    items = [rollout(n, days=n % 5, used=n % 3 or None) for n in range(40)]
    assert chosen(*items).manifest == chosen(*reversed(items)).manifest


def test_a_note_names_its_project_by_id_or_by_a_name_only_one_project_has(bench: StoreBench) -> None:
    bench.add("one", "## Task\n- Moved to Vitest. [e1]\n", project="shop")
    for name, project in {"by-id": "shop", "other": "api"}.items():
        bench.workspace.write_note(name, "Deploy from main.", project=project)
    bench.workspace.write_note("everywhere", "Never force-push.", is_global=True)
    selection = gather(bench.runtime(), None)
    found = {item.citation: (item.project, item.projects_global) for item in selection.manifest.inputs}
    assert found["note:by-id"] == ("shop", False)
    assert found["note:other"] == ("api", False)
    assert found["note:everywhere"] == ("", True)
    names = {"aaaaaaaaaaaa": "shop", "bbbbbbbbbbbb": "api", "cccccccccccc": "api"}
    by_name = {
        note.name: _project_of_note(note, names) for note in bench.workspace.notes().notes if note.project is not None
    }
    assert by_name == {"by-id": ("aaaaaaaaaaaa", "shop"), "other": ("api", "api")}
