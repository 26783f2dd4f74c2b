"""The policy, with fakes for a host: what a turn and a start give, and what is kept of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recall import policy
from recall.policy import Call
from tests.recall.rig import Rig

ROOT = Path(policy.__file__).parents[1]


# -- turns ----------------------------------------------------------------------------------------------


@pytest.mark.req("Z014", "Z017", "Z018")
def test_a_turn_has_a_selection_and_the_end_of_the_run_releases_it(rig: Rig) -> None:
    rig.send("start", source="startup")
    assert rig.state()["selection"] is None
    rig.prompt(message="m7")
    assert rig.state()["selection"] == {"message": "m7", "parts": ["summary", "user", "project"]}
    rig.send("tool", reads=("aaaa0001",))
    assert rig.state()["selection"]["message"] == "m7"
    rig.send("end")
    assert rig.state()["selection"] is None
    rig.prompt(message="m8")
    assert rig.state()["selection"]["message"] == "m8"
    assert {"batch", "selection", "usage", "block"} <= rig.state().keys()


@pytest.mark.req("Z041", "Z042")
def test_text_is_live_at_the_next_turn_and_stands_still_within_one(rig: Rig) -> None:
    assert "USR" in rig.prompt()
    rig.say(user="EDITED")
    assert rig.send("tool", reads=("aaaa0001",)).text == ""
    assert "EDITED" not in str(rig.store.blocks)
    rig.send("end")
    assert "EDITED" in rig.prompt()


@pytest.mark.req("P024")
@pytest.mark.fault("O47", "O48")
def test_a_block_is_given_once_and_again_only_when_it_changed(rig: Rig) -> None:
    first = rig.send("start", source="startup").text
    assert first
    assert [rig.prompt() for _ in range(10)] == [""] * 10
    assert len(rig.built) == 1
    rig.say(summary="SUM2")
    assert "SUM2" in rig.prompt()
    assert rig.prompt() == ""
    usage = rig.state()["usage"]
    assert (usage["turns"], usage["blocks"]) == (12, 2)
    assert usage["tokens"] > 0


@pytest.mark.req("Z015")
def test_each_turn_of_a_person_asks_for_one_check_and_nothing_else_does(rig: Rig) -> None:
    rig.send("start", source="startup")
    rig.send("tool", reads=("aaaa0001",))
    rig.send("end")
    assert rig.store.wakes == []
    rig.prompt()
    rig.prompt()
    rig.prompt(by_user=False)
    rig.send("tool", reads=("aaaa0001",))
    assert len(rig.store.wakes) == 2
    wake = rig.store.wakes[0]
    assert (wake["host"], wake["session"], wake["models"]) == (
        "claude",
        "s1",
        {"extract": "small", "consolidate": "large"},
    )


@pytest.mark.req("Z018")
def test_a_batch_keeps_the_models_it_was_asked_for_with(rig: Rig) -> None:
    rig.prompt()
    rig.models.names = {"extract": "other", "consolidate": "other"}
    rig.send("tool", reads=("aaaa0001",))
    assert rig.state()["batch"]["models"] == {"extract": "small", "consolidate": "large"}
    rig.prompt()
    assert rig.state()["batch"]["models"]["extract"] == "other"


@pytest.mark.req("Z043")
def test_short_memory_asks_for_no_model_and_no_check(rig: Rig) -> None:
    rig.set(mode="short")
    rig.send("start", source="startup")
    rig.prompt()
    rig.send("tool", reads=("note:x",))
    rig.send("end")
    assert (rig.models.calls, rig.store.wakes) == (0, [])


@pytest.mark.req("P005", "C032")
def test_a_delivery_that_comes_twice_counts_once(rig: Rig) -> None:
    first = rig.send("prompt", message="m1")
    second = rig.send("prompt", message="m1")
    assert bool(first.text)
    assert second.text == ""
    assert len(rig.store.wakes) == 1
    assert rig.state()["usage"]["turns"] == 1
    assert rig.send("start", source="startup").text == ""


@pytest.mark.req("Z016")
def test_sources_read_are_kept_with_their_time_and_handed_on(rig: Rig) -> None:
    rig.prompt()
    rig.store.uses.clear()
    rig.send("tool", reads=("aaaa0001", "note:x"))
    assert rig.store.uses == [{"aaaa0001": rig.now, "note:x": rig.now}]
    assert rig.state()["usage"]["read"] == {"aaaa0001": rig.now, "note:x": rig.now}
    assert rig.send("tool").outcome == "nothing"
    assert rig.send("tool", "never seen", reads=("aaaa0001",)).outcome == "nothing"
    for number in range(300):
        rig.send("tool", reads=(f"note:n{number}",))
    assert len(rig.state()["usage"]["read"]) == policy.KEEP_READS


def test_sources_whose_lines_are_given_count_as_used(rig: Rig) -> None:
    rig.prompt()
    rig.prompt()
    assert [list(used) for used in rig.store.uses] == [["aaaa0001"]]


# -- starts ---------------------------------------------------------------------------------------------


@pytest.mark.fault("X34")
@pytest.mark.parametrize("source", ["clear", "compact"])
def test_where_the_context_is_lost_the_same_text_is_given_again_once(rig: Rig, source: str) -> None:
    first = rig.send("start", source="startup").text
    rig.prompt()
    assert rig.send("start", source=source).text == first
    assert rig.prompt() == ""


@pytest.mark.parametrize("source", ["resume", "fork"])
def test_a_conversation_that_goes_on_gets_the_block_only_when_it_is_not_in_it(rig: Rig, source: str) -> None:
    first = rig.send("start", source="startup").text
    rig.records.texts["t"] = f"... {first} ..."
    assert rig.send("start", source=source, transcript="t").text == ""
    rig.records.texts["t"] = "..."
    assert rig.send("start", source=source, transcript="t").text == first
    rig.say(user="CHANGED")
    rig.records.texts["t"] = first
    assert "CHANGED" in rig.send("start", source=source, transcript="t").text


@pytest.mark.req("P037", "P040")
def test_a_host_that_asks_for_every_request_gets_the_same_block_every_turn(rig: Rig) -> None:
    assert rig.send("start", host="pi", source="startup").text == ""
    texts = [rig.prompt(host="pi") for _ in range(5)]
    assert len(set(texts)) == 1
    assert texts[0]
    assert len(rig.built) == 1
    assert rig.policy().cached(Call("prompt", "pi", "s1", cwd=str(rig.home))).text == texts[0]
    rig.say(user="CHANGED")
    assert rig.policy().cached(Call("prompt", "pi", "s1", cwd=str(rig.home))).text == ""
    assert "CHANGED" in rig.prompt(host="pi")
    rig.set(mode="long", enabled=False)
    assert rig.prompt(host="pi") == ""


def test_a_file_changed_right_after_it_was_read_is_not_missed(rig: Rig) -> None:
    rig.now = (rig.home / "watched").stat().st_mtime - 9.9  # read within the same second as it was written
    rig.prompt()
    rig.prompt()
    assert len(rig.built) == 2


@pytest.mark.fault("M86")
def test_the_project_is_that_of_the_folder_a_session_began_in(rig: Rig, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    rig.prompt()
    call = Call("prompt", "claude", "s1", cwd=str(other), message="x")
    rig.say(user="USR2")
    rig.policy().handle(call).commit()
    assert [request.cwd for request in rig.built] == [str(rig.home)] * 2
    rig.policy().handle(Call("start", "claude", "s1", cwd=str(other), source="resume")).commit()
    assert rig.built[-1].cwd == str(other)


# -- the policy itself ----------------------------------------------------------------------------------


@pytest.mark.req("Z012")
@pytest.mark.parametrize(
    "state", [{}, {"mode": 7}, {"usage": {}}, {"usage": None, "mode": "long"}, {"seen": "x"}, {"parts": None}]
)
def test_a_snapshot_of_another_form_is_taken_for_none(rig: Rig, state: dict[str, Any]) -> None:
    rig.prompt()
    rig.store.sessions["claude", "s1"].update(state) if state else rig.store.sessions.update({("claude", "s1"): {}})
    assert "SUM" in rig.prompt() or state == {}
    assert rig.state()["usage"]["turns"] == 1


@pytest.mark.req("C032", "P041", "Z001", "C037", "C038")
def test_giving_memory_makes_no_memory(rig: Rig) -> None:
    before = {path: path.read_bytes() for path in rig.home.rglob("*") if path.is_file()}
    rig.send("start", source="startup")
    rig.prompt()
    rig.send("start", source="compact")
    assert {path: path.read_bytes() for path in rig.home.rglob("*") if path.is_file()} == before


@pytest.mark.req("Z019")
def test_the_policy_knows_no_host_and_nothing_but_the_standard_library() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n"
        "import recall.policy, recall.inject, recall.snapshot, recall.reads\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"memory", "recall"}
    assert "hosts" not in done.stdout
