"""What search reaches on public data and on our own Chinese set; the data is read in place and may be absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import recall_data, recall_measures

CHINESE = Path(__file__).parent / "data" / "chinese.json"


def data(name: str) -> Path:
    path = recall_data.folder(name)
    if path is None:
        pytest.skip("no retrieval data: set SLOWWAVE_BENCH_DATA to its folder")
    return path


@pytest.mark.fault("M9", "M25", "O31", "M23")
@pytest.mark.req("P069")
def test_chinese_questions_find_their_facts() -> None:
    found = recall_measures.chinese(CHINESE)
    assert found["questions"] >= 60
    assert found["R@3"] >= 95
    assert found["cut R@3"] >= 90


@pytest.mark.fault("M9")
def test_sessions_and_turns_are_found_in_long_conversations() -> None:
    found = recall_measures.locomo(data("locomo"))
    assert found["questions"] == 1982
    assert found["session R@5"] >= 88.5
    assert found["session R@10"] >= 94.5
    assert found["session MRR"] >= 80.5
    assert found["turn R@10"] >= 67


@pytest.mark.fault("M9")
def test_messages_are_found_in_long_chats() -> None:
    found = recall_measures.beam(data("beam"))
    assert found["questions"] == 355
    assert found["fraction@10"] >= 52


@pytest.mark.fault("O18", "O29", "O21", "M87")
def test_the_right_belief_and_nothing_else_is_found() -> None:
    path = data("precisionmembench")
    for half in (0, 1):
        found = recall_measures.precision(path, half)
        assert found.precision >= 0.6
        assert found.recall >= 0.9
        assert (found.leaks, found.stale) == (0, 0)
