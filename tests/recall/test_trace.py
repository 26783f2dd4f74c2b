"""Why a line stands in memory, and why a session does or does not: down to the moment it was said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.documents import claims, print_summary
from memory.errors import UnknownReference
from memory.model import Claim, Host, Reason, RolloutId, Tier
from memory.redact import Redactor
from memory.settings import RedactSettings
from memory.state import RolloutRow
from memory.testing import StoreBench
from recall.trace import ClaimTrace, RolloutTrace, Tracer, cited_sources, nearest
from tests.recall.desk import Desk

BODY = """## What happened
- The tests run with vitest. [e1] [e2]
- The server listens on port 9090. [e3]
- Deploys go out on Fridays. [e4]

## What worked
- vitest run finished in four seconds. [e5]
"""
SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"


# -- which bullets a claim rests on ---------------------------------------------------------------------------


def test_the_nearest_bullet_comes_first_and_strangers_do_not_come_at_all() -> None:
    found = nearest("The tests run with vitest", BODY)
    assert found[0].startswith("The tests run with vitest.")
    assert all("port" not in bullet and "Friday" not in bullet for bullet in found)
    assert nearest("Kubernetes cluster upgrades", BODY) == ()
    assert nearest("anything", "") == ()


def test_at_most_three_bullets_are_shown_and_equal_ones_in_their_order() -> None:
    body = "## What happened\n" + "".join(f"- The tests run with vitest. [e{number}]\n" for number in range(1, 7))
    assert [bullet[-4:] for bullet in nearest("The tests run with vitest", body)] == ["[e1]", "[e2]", "[e3]"]


def test_sources_are_counted_by_the_lines_that_cite_them() -> None:
    text = print_summary({"## User preferences": ["A. [3f9a1c2e] [note:x]", "B. [3f9a1c2e]"]})
    assert cited_sources(text) == {"3f9a1c2e": 2, "note:x": 1}
    assert cited_sources("") == {}


# -- every kind of reference ------------------------------------------------------------------------------------


@pytest.fixture
def trace(desk: Desk) -> Iterator[Tracer]:
    """Over the home that a run has filled."""
    with desk.runtime() as runtime:
        yield Tracer(runtime.store, runtime.workspace, runtime.redactor)


def first_claim(desk: Desk) -> Claim:
    return claims(desk.summary.read_text())[0]


@pytest.mark.req("P054", "P058")
def test_a_line_number_a_word_and_a_citation_lead_to_the_words_of_the_user(desk: Desk, trace: Tracer) -> None:
    claim = first_claim(desk)
    for reference in (str(claim.line), claim.text[:30].upper(), f"  {claim.text[5:40]} "):
        found = trace.why(reference)
        assert isinstance(found[0], ClaimTrace), reference
        assert found[0].claim == claim
        assert found[0].version == 1
        (support, *_) = found[0].supports
        assert support.problem == ""
        assert support.source.startswith("generic:")
        assert support.bullets
        assert any(moment.spoken and "vitest" in moment.text for moment in support.moments)
        assert all(moment.time is not None for moment in support.moments)


def test_a_session_is_found_by_id_beginning_path_citation_and_source_id(desk: Desk, trace: Tracer) -> None:
    rollout = RolloutId.parse("generic:one")
    path = str(desk.sessions / "one.jsonl")
    references = [str(rollout), "one", "generic:o", path, rollout.citation, f"[{rollout.citation}]", rollout.source_id]
    for reference in references:
        (found,) = trace.why(reference)
        assert isinstance(found, RolloutTrace), reference
        assert (found.row.id, found.row.reason) == (rollout, Reason.UP_TO_DATE)
        assert found.output is not None
        assert found.job is not None
        assert found.lines
        assert "vitest" in found.body


def test_an_ambiguous_beginning_gives_every_session_and_too_short_a_one_none(trace: Tracer) -> None:
    assert {str(found.row.id) for found in trace.why("generic:") if isinstance(found, RolloutTrace)} == {
        "generic:one",
        "generic:two",
    }
    assert trace.find("gen") == []


@pytest.mark.parametrize("reference", ["1", "9999", "deadbeef", "note:none", "no such words anywhere", ""])
def test_what_nothing_answers_to_is_said_with_what_to_try(trace: Tracer, reference: str) -> None:
    with pytest.raises(UnknownReference) as caught:
        trace.why(reference)
    assert "slowwave" in caught.value.hint


def test_a_line_of_nothing_published_is_said_so(bench: StoreBench) -> None:
    with pytest.raises(UnknownReference, match="no lines yet"):
        trace_of(bench).why("3")


# -- notes ---------------------------------------------------------------------------------------------------------


def published(bench: StoreBench, *bullets: str) -> None:
    bench.workspace.install_summary(print_summary({"## User preferences": list(bullets)}), None)


def trace_of(bench: StoreBench) -> Tracer:
    return Tracer(bench.store, bench.workspace, Redactor(RedactSettings()))


def test_a_line_that_rests_on_a_note_shows_the_note_redacted(bench: StoreBench) -> None:
    bench.workspace.write_note("style", f"Always answer in English. Token {SECRET}")
    published(bench, "The user wants English. [note:style]")
    (found,) = trace_of(bench).why("note:style")
    assert isinstance(found, ClaimTrace)
    (support,) = found.supports
    assert support.path.endswith("notes/style.md")
    assert "Always answer in English." in support.bullets[0]
    assert SECRET not in support.bullets[0]
    bench.workspace.remove_note("style")
    (found,) = trace_of(bench).why("note:style")
    assert isinstance(found, ClaimTrace)
    assert found.supports[0].problem == "the note is gone"


# -- what became of the sources -----------------------------------------------------------------------------------


def session(bench: StoreBench, name: str, *texts: str) -> Path:
    path = bench.settings.home / f"{name}.jsonl"
    lines = [{"type": "session", "id": name, "cwd": "/w"}]
    lines += [{"type": "event", "role": "user", "text": text, "time": "2026-11-29T10:00:00Z"} for text in texts]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def known(bench: StoreBench, name: str, path: Path) -> RolloutId:
    """A kept generic session whose summary cites e1 and e2."""
    rollout = RolloutId(Host.GENERIC, name)
    bench.store.rollouts.upsert_many([RolloutRow(rollout, path, path.stat().st_size, 1, 1)])
    citation = bench.add(name, BODY)
    codex = RolloutId.parse(f"codex:{name}")
    text = bench.workspace.rollout_summaries()[codex.source_id].replace(f"codex:{name}", f"generic:{name}")
    bench.workspace.remove_rollout_summary(codex.source_id)
    bench.workspace.write_rollout_summary(rollout.source_id, text)
    assert citation
    return rollout


def only_support(bench: StoreBench) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    (found,) = trace_of(bench).why("vitest")
    assert isinstance(found, ClaimTrace)
    (support,) = found.supports
    return support.problem, tuple(m.text for m in support.moments), tuple(m.number for m in support.moments)


def test_moments_are_redacted_and_clipped(bench: StoreBench) -> None:
    path = session(bench, "s", f"Use vitest with token {SECRET}", "Long: " + "word " * 400, "c", "d", "e")
    rollout = known(bench, "s", path)
    published(bench, f"The tests run with vitest. [{rollout.citation}]")
    problem, texts, numbers = only_support(bench)
    assert problem == ""
    assert numbers[:2] == (1, 2)
    assert "Use vitest with token" in texts[0]
    assert SECRET not in "".join(texts)
    assert texts[1].endswith(" […]")
    assert len(texts[1]) <= 604


def test_a_session_file_that_went_or_changed_is_said_and_the_bullet_still_shown(bench: StoreBench) -> None:
    path = session(bench, "s", "Use vitest.", "Yes.", "c", "d", "e")
    rollout = known(bench, "s", path)
    published(bench, f"The tests run with vitest. [{rollout.citation}]")
    session(bench, "s", "Only one event is left.")
    problem, texts, _ = only_support(bench)
    assert problem.startswith("not in the session file any more: e2")
    assert texts == ("Only one event is left.",)
    path.unlink()
    problem, texts, _ = only_support(bench)
    assert problem == f"the session file {path} can no longer be read"
    assert texts == ()
    bench.store.rollouts.delete([rollout])
    assert only_support(bench)[0] == "the rollout is no longer known"


def test_a_damaged_or_missing_rollout_summary_is_said(bench: StoreBench) -> None:
    rollout = known(bench, "s", session(bench, "s", "Use vitest."))
    published(bench, f"The tests run with vitest. [{rollout.citation}]")
    bench.workspace.write_rollout_summary(rollout.source_id, "no header\n")
    assert only_support(bench)[0].startswith("its rollout summary is damaged")
    bench.workspace.remove_rollout_summary(rollout.source_id)
    assert only_support(bench)[0] == "its rollout summary is gone"


def test_a_rollout_summary_is_shown_redacted(bench: StoreBench) -> None:
    rollout = known(bench, "s", session(bench, "s", "Use vitest."))
    text = bench.workspace.rollout_summaries()[rollout.source_id].replace("port 9090", SECRET)
    bench.workspace.write_rollout_summary(rollout.source_id, text)
    (found,) = trace_of(bench).why("generic:s")
    assert isinstance(found, RolloutTrace)
    assert SECRET not in found.body
    assert "vitest" in found.body


def test_only_a_person_counts_as_having_spoken(bench: StoreBench) -> None:
    path = bench.settings.home / "s.jsonl"
    lines: list[dict[str, object]] = [{"type": "session", "id": "s", "cwd": "/w"}]
    lines += [
        {"type": "event", "role": "user", "text": "Use vitest.", "time": "2026-11-29T10:00:00Z"},
        {"type": "event", "role": "assistant", "text": "The tests run.", "time": "2026-11-29T10:01:00Z", "final": True},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rollout = known(bench, "s", path)
    published(bench, f"The tests run with vitest. [{rollout.citation}]")
    (found,) = trace_of(bench).why("vitest")
    assert isinstance(found, ClaimTrace)
    moments = found.supports[0].moments
    assert [(moment.tier, moment.spoken) for moment in moments[:2]] == [(Tier.HUMAN, True), (Tier.FINAL, False)]
