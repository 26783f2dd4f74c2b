"""Evidence within its budget: what is kept first, what is cut, and that every loss is visible."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memory.documents import GAP, parse_evidence
from memory.model import Boundary, EventKind, Tier
from memory.tokens import TokenCounter
from tests.rollouts.made import (
    COMMENTARY,
    COUNTER,
    DERIVED,
    FINAL,
    HUMAN,
    LIMITS,
    TOOL,
    event,
    evidence,
    said,
    transcript,
    words,
)

SPEAKING = [tier for tier in Tier if tier is not Tier.DERIVED]

# -- the budget ----------------------------------------------------------------------------------------------


@pytest.mark.req("Z075")
def test_strong_tiers_are_kept_whole_and_weak_ones_newest_first() -> None:
    parts = []
    for step in range(60):
        parts += [(HUMAN, f"human {step}"), (COMMENTARY, f"note {step}"), (TOOL, f"out {step} " + words(120, step))]
    found = evidence(said(*parts, (FINAL, "the end")), budget=9_000)
    kept = {tier: [e.number for e in found.events if e.tier is tier] for tier in (HUMAN, FINAL, COMMENTARY, TOOL)}
    assert len(kept[HUMAN]) == 60
    assert len(kept[FINAL]) == 1
    tools = [n for n in range(1, 182) if n % 3 == 0]
    assert 0 < len(kept[TOOL]) < 60
    assert kept[TOOL] == tools[-len(kept[TOOL]) :]


@pytest.mark.req("C066")
@pytest.mark.fault("M1", "O34")
def test_every_gap_is_visible_and_counted() -> None:
    parts = [(HUMAN, "the task")] + [(TOOL, words(300, n)) for n in range(80)] + [(HUMAN, "thanks")]
    found = evidence(said(*parts), budget=4_000)
    gaps = [line for line in found.text.split("\n") if GAP.match(line)]
    assert found.gaps == len(gaps) >= 1
    left = sum(int(re.findall(r"\d+", gap)[0]) for gap in gaps)
    assert left == found.coverage["left_out"] == found.coverage["events"] - found.coverage["kept"]
    assert found.coverage["tool_total"] == 80
    assert found.coverage["human_kept"] == found.coverage["human_total"] == 2


@pytest.mark.fault("M1", "M2")
def test_first_human_message_survives_any_number_of_later_ones() -> None:
    parts = [(HUMAN, "TASK: move the port to 9090")] + [(HUMAN, words(100, n)) for n in range(200)]
    found = evidence(said(*parts, (HUMAN, "LAST: no, to 9191")), budget=3_000)
    assert "TASK: move the port" in found.text
    assert "LAST: no, to 9191" in found.text
    numbers = [e.number for e in found.events]
    assert numbers == [1, *range(202 - len(numbers) + 2, 203)]


@pytest.mark.fault("M1", "M67")
def test_human_message_larger_than_the_budget_is_cut_not_lost() -> None:
    task = "TASK begins " + words(4_000) + " TASK ends"
    found = evidence(said((HUMAN, task), (TOOL, words(500)), (HUMAN, "and hurry")), budget=800)
    assert found.events[0].cut
    assert found.events[0].text.startswith("TASK begins")
    assert found.events[0].text.endswith("TASK ends")
    assert "characters left out]" in found.events[0].text
    assert " cut] TASK begins" in found.text
    assert "and hurry" in found.text


@pytest.mark.fault("M67", "O6")
def test_one_tool_output_is_held_to_its_own_limit() -> None:
    big = "BEGIN\n" + "\n".join(f"{n} {words(12, n)}" for n in range(9_000)) + "\nEND"
    found = evidence(transcript([event(1, HUMAN, "go"), event(2, TOOL, big[:32_000], full_chars=len(big))]), 50_000)
    shown = found.events[1]
    assert shown.cut
    assert COUNTER.count(shown.text) <= LIMITS.tool_output_tokens
    assert len(shown.text.encode()) <= LIMITS.event_bytes
    stated = int(re.findall(r"\[cut: ([\d,]+) characters left out\]", shown.text)[0].replace(",", ""))
    rest = re.sub(r"\[cut: .*\]\n?", "", shown.text)
    assert stated == pytest.approx(len(big) - len(rest), abs=40)


@pytest.mark.fault("M67")
@pytest.mark.parametrize("text", ["语" * 9_000, "🙂" * 5_000, "x" * 30_000, words(6_000), "\n" * 20_000 + "end"])
def test_one_event_is_held_to_its_bytes(text: str) -> None:
    found = evidence(said((HUMAN, text), (FINAL, text)), 60_000)
    assert all(len(e.text.encode()) <= LIMITS.event_bytes for e in found.events)


HARD = {
    "cjk": "数据库端口改成九零九零，以后统一用这个方案。" * 60,
    "base64": "".join(random.Random(1).choices("ABCDEFGHabcdefgh0123456789+/", k=3_000)),
    "letters": "".join(random.Random(2).choices("abcdefghijklmnopqrstuvwxyz", k=3_000)),
    "words of noise": " ".join("".join(random.Random(n).choices("bcdfgxzqv", k=3)) for n in range(900)),
    "blanks": "a" + " " * 4_000 + "b\n" * 500,
    "emoji": "🙂🚀👩‍💻🔥" * 400,
    "numbers": " ".join(str(n * 7919 % 1000003) for n in range(700)),
    "code": "def f(x): return {'a': [x[0], *x[1:]], \"b\": lambda y: y**2}\n" * 60,
    "prose": words(700),
    "rare": "".join(chr(random.Random(n).randint(0x4E00, 0x9FFF)) for n in range(1_200)),
}


@pytest.mark.req("Z075", "Z076")
@pytest.mark.fault("M1", "M3", "M27", "X9")
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.sampled_from([HUMAN, FINAL, Tier.AGENT, COMMENTARY, TOOL]),
            st.sampled_from([*HARD]),
            st.integers(0, 3_000),
        ),
        max_size=30,
    ),
    st.integers(0, 6_000),
    st.sampled_from([None, 0, 3]),
)
@example([(TOOL, "rare", 1_031)], 2_024, None)
@example([(HUMAN, "code", 1_129), (HUMAN, "cjk", 189), (HUMAN, "cjk", 165)], 824, None)
def test_print_never_exceeds_its_budget(parts: list[tuple[Tier, str, int]], budget: int, since: int | None) -> None:
    found = said(*[(tier, HARD[name][:size]) for tier, name, size in parts])
    made = evidence(found, budget, since=None if since is None else Boundary(since * 100, since, "x"))
    assert COUNTER.count(made.text) == made.tokens <= budget
    assert list(parse_evidence(made.text)) == list(made.events)
    for shown in made.events:
        assert len(shown.text.encode()) <= LIMITS.event_bytes
        if shown.kind is EventKind.TOOL_RESULT:
            assert COUNTER.count(shown.text) <= LIMITS.tool_output_tokens
    assert sum(made.coverage[f"{tier.value}_kept"] for tier in Tier if tier is not DERIVED) == len(made.events)


@pytest.mark.req("Z075")
@pytest.mark.fault("X9")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(SPEAKING), st.sampled_from([*HARD]), st.integers(1, 5)), min_size=20, max_size=60
    ),
    st.integers(4_000, 24_000),
)
def test_large_print_of_mixed_events_never_exceeds_its_budget(parts: list[tuple[Tier, str, int]], budget: int) -> None:
    made = evidence(said(*[(tier, HARD[name] * times) for tier, name, times in parts]), budget)
    assert COUNTER.count(made.text) <= budget


@pytest.mark.req("Z075")
def test_budget_is_used_not_wasted() -> None:
    parts = [(HUMAN if n % 9 == 0 else TOOL, words(150, n)) for n in range(400)]
    found = evidence(said(*parts), 12_000)
    assert 0.75 * 12_000 < found.tokens <= 12_000


@pytest.mark.fault("O34")
def test_events_that_print_short_leave_their_room_to_others() -> None:
    blob = "".join(random.Random(3).choices("ABCDEFGHabcdefgh0123456789", k=9_000))
    parts = [(TOOL, words(150, n)) for n in range(60)] + [(TOOL, blob)] * 20 + [(HUMAN, "go")]
    found = evidence(said(*parts), 8_000)
    assert found.tokens > 0.6 * 8_000


def test_what_fits_is_kept_whole() -> None:
    parts = [(HUMAN if n % 5 == 0 else TOOL, words(60, n)) for n in range(100)]
    found = evidence(said(*parts), 20_000)
    assert found.coverage["left_out"] == found.gaps == 0


def test_counter_without_vocabulary_keeps_the_budget_by_its_own_measure() -> None:
    blind = TokenCounter("none")
    found = evidence(said(*[(TOOL, HARD["cjk"]) for _ in range(30)], (HUMAN, "端口")), 2_000, tokens=blind)
    assert blind.count(found.text) <= 2_000
    assert found.events
