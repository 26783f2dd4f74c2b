"""What a hook gave whose time was up: known to the next one, without a lock and without a word given twice."""

from __future__ import annotations

from typing import Any

import pytest

from recall.policy import Answer, Call
from tests.recall.rig import Rig

pytestmark = [pytest.mark.req("Z042", "P024"), pytest.mark.fault("M77", "O47")]


def late(rig: Rig, session: str = "late", host: str = "claude", *, at: float = 10) -> Answer:
    """A prompt whose hook has run out of time."""
    rig.now += at
    answer = rig.policy().cached(Call("prompt", host, session, cwd=str(rig.home), message="late"))
    answer.commit()
    return answer


@pytest.fixture
def shared(rig: Rig) -> Rig:
    """A folder another session has built a block for."""
    assert rig.prompt("first")
    return rig


def test_what_a_late_hook_gave_is_not_given_again(shared: Rig) -> None:
    assert "SUM" in late(shared).text
    assert late(shared).text == ""
    assert [shared.prompt("late") for _ in range(3)] == ["", "", ""]
    state = shared.state("late")
    assert (state["usage"]["blocks"], state["usage"]["turns"]) == (1, 3)
    assert state["usage"]["tokens"] == shared.state("first")["usage"]["tokens"]
    shared.say(summary="SUM2")
    assert "SUM2" in shared.prompt("late")
    assert shared.prompt("late") == ""


def test_its_lines_count_as_used_once_and_when_they_were_given(shared: Rig) -> None:
    shared.store.uses.clear()
    late(shared)
    given = shared.now
    for _ in range(3):
        shared.prompt("late")
    assert shared.store.uses == [{"aaaa0001": given}]


def test_it_freezes_mode_and_parts_as_any_first_send_does(shared: Rig) -> None:
    late(shared)
    shared.set(mode="short")
    shared.prompt("late")
    assert shared.state("late")["mode"] == "long"
    assert shared.state("late")["parts"] == ["summary", "user", "project"]


@pytest.mark.parametrize("event", [{"kind": "start", "source": "clear"}, {"kind": "start", "source": "compact"}])
def test_where_the_context_is_lost_afterwards_the_block_comes_again(shared: Rig, event: dict[str, Any]) -> None:
    late(shared)
    assert "SUM" in shared.send(session="late", **event).text
    assert shared.prompt("late") == ""


def test_what_it_gave_is_taken_back_like_everything_else(shared: Rig) -> None:
    late(shared)
    shared.set(enabled=False)
    assert "withdrawn" in shared.prompt("late")


def test_a_later_answer_of_a_hook_that_had_its_time_stands(shared: Rig) -> None:
    """Two hooks at once: the one with the lock began later and is done before the other leaves its mark."""
    mark = shared.policy().cached(Call("prompt", "claude", "late", cwd=str(shared.home)))
    shared.say(summary="SUM2")
    assert "SUM2" in shared.prompt("late")
    mark.commit()
    assert shared.prompt("late") == ""
    assert shared.state("late")["usage"]["blocks"] == 2


@pytest.mark.parametrize("mark", [{}, {"at": "x"}, {"at": 1.0, "digest": 3}, {"at": True, "digest": "d", "tokens": 1}])
def test_a_mark_of_another_form_is_none(shared: Rig, mark: dict[str, Any]) -> None:
    shared.store.save_late("claude", "late", mark)
    assert "SUM" in shared.prompt("late")


def test_a_host_that_asks_for_every_request_gets_it_every_time(rig: Rig) -> None:
    rig.prompt("first", "pi")
    first = late(rig, host="pi").text
    assert late(rig, host="pi").text == first == rig.prompt("late", "pi") != ""
