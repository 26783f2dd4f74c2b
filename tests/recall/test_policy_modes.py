"""The policy by mode: what each gives, when it is frozen, and what is taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory import switches
from memory.settings import load as load_settings
from recall import inject
from tests.recall.rig import Rig

# -- modes ----------------------------------------------------------------------------------------------


@pytest.mark.req("Z004", "Z014")
@pytest.mark.parametrize(
    ("mode", "expected"), [("off", []), ("short", ["USR", "PRJ"]), ("long", ["SUM", "USR", "PRJ"])]
)
def test_each_mode_gives_its_set_of_sources(rig: Rig, mode: str, expected: list[str]) -> None:
    rig.set(mode=mode)
    text = rig.prompt()
    assert [part for part in ("SUM", "USR", "PRJ") if part in text] == expected


@pytest.mark.req("Z004")
@pytest.mark.parametrize("mode", ["medium", "LONG", "", "Short"])
def test_a_mode_that_does_not_exist_switches_memory_off_and_is_named(rig: Rig, mode: str) -> None:
    rig.set(mode=mode)
    assert rig.prompt() == ""
    assert "memory.mode" in rig.state()["diagnostics"][0][0]


@pytest.mark.req("Z005")
def test_without_settings_the_mode_is_short(rig: Rig) -> None:
    (rig.home / "config.toml").unlink()
    text = rig.prompt()
    assert "USR PRJ" in text
    assert "SUM" not in text
    assert rig.state()["mode"] == "short"


@pytest.mark.req("Z006")
def test_the_mode_is_frozen_at_the_first_send_and_not_before(rig: Rig) -> None:
    rig.set(mode="short")
    assert "SUM" not in rig.send("start", source="startup").text
    assert rig.state()["mode"] == ""
    rig.set(mode="long")
    assert "SUM" in rig.prompt()
    assert rig.state()["mode"] == "long"
    rig.set(mode="short")
    rig.say(user="USR2")
    assert "SUM USR2" in rig.prompt()


@pytest.mark.req("Z011")
@pytest.mark.parametrize("later", ["long", "off"])
def test_a_live_session_keeps_the_set_it_began_with(rig: Rig, later: str) -> None:
    rig.set(mode="short")
    rig.prompt()
    rig.set(mode=later)
    rig.say(user="USR2")
    text = rig.prompt()
    assert "USR2 PRJ" in text
    assert "SUM" not in text
    assert rig.prompt("s2") == "" if later == "off" else "SUM" in rig.prompt("s2")


@pytest.mark.req("Z009", "Z010", "Z011")
def test_switched_off_is_off_at_once_and_the_options_are_kept(rig: Rig) -> None:
    rig.set(mode="long", enabled=False)
    assert rig.prompt() == ""
    assert rig.send("start", "s2", source="startup").text == ""
    assert rig.store.wakes == []
    rig.set(mode="long", enabled=True)
    assert "SUM" in rig.prompt("s3")
    assert rig.prompt("s1") == ""  # began without memory and gets none later
    rig.set(mode="long", enabled=False)
    assert inject.WITHDRAWN in rig.prompt("s3")
    assert rig.send("tool", "s3", reads=("aaaa0001",)).outcome == "nothing"
    rig.set(mode="long", enabled=True)
    assert "SUM" in rig.prompt("s3")


@pytest.mark.req("Z007", "Z008", "Z003")
def test_the_policy_and_the_service_read_one_stored_value(rig: Rig, tmp_path: Path) -> None:
    config = rig.home / "config.toml"
    for mode in switches.MODES:
        rig.set(mode=mode)
        text = config.read_text("utf-8")
        assert text.count("mode") == 1
        environ = {"SLOWWAVE_HOME": str(rig.home)}
        assert load_settings(environ=environ).memory.mode == switches.load(environ).mode == mode
    rig.prompt()
    before = rig.state()["parts"]
    with config.open("a", encoding="utf-8") as file:
        file.write('[model]\nname = "another"\n[schedule]\nevery_minutes = 5\n')
    rig.prompt()
    assert rig.state()["parts"] == before
    assert switches.load({"SLOWWAVE_HOME": str(rig.home)}).mode == "long"


def test_settings_that_become_unreadable_leave_a_session_with_those_it_had(rig: Rig) -> None:
    rig.prompt()
    (rig.home / "config.toml").write_text("[memory\nmode = ", "utf-8")
    rig.say(user="USR2")
    assert "SUM USR2" in rig.prompt()
    assert "cannot be read as TOML" in rig.state()["diagnostics"][0][0]
    assert rig.prompt("s2") == ""  # a session that begins now fails closed


# -- revocation -----------------------------------------------------------------------------------------


@pytest.mark.req("Z023")
@pytest.mark.fault("X40", "O44")
def test_after_a_clear_a_live_session_gets_what_is_left_or_a_withdrawal(rig: Rig) -> None:
    rig.prompt()
    rig.say(summary="")
    text = rig.prompt()
    assert "SUM" not in text
    assert "USR" in text
    rig.say(user="", project="")
    assert inject.WITHDRAWN in rig.prompt()
    assert rig.prompt() == ""
    rig.say(user="AGAIN")
    assert "AGAIN" in rig.prompt()


@pytest.mark.req("Z023")
def test_mode_off_takes_the_summary_back_and_disabling_takes_everything(rig: Rig) -> None:
    rig.prompt()
    rig.set(mode="off")
    text = rig.prompt()
    assert "USR" in text
    assert "SUM" not in text
    assert rig.store.wakes[1:] == []
    rig.set(mode="off", enabled=False)
    assert inject.WITHDRAWN in rig.prompt()


@pytest.mark.req("Z023")
def test_a_fork_of_a_session_that_had_memory_is_told_that_it_no_longer_holds(rig: Rig) -> None:
    given = rig.prompt("parent")
    rig.records.texts["fork"] = f"{given} and more"
    rig.set(mode="off")
    assert inject.WITHDRAWN in rig.send("start", "child", source="fork", transcript="fork").text
    assert rig.prompt("child", transcript="fork") == ""
    assert inject.WITHDRAWN in rig.prompt("child2", transcript="fork")
    assert rig.prompt("child2", transcript="fork") == ""
    assert rig.prompt("never had any", transcript="other") == ""
