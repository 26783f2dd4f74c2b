"""Choosing from what discovery found: verdicts are stored, bounds hold, finished and cleared work stays away."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta

import pytest

from memory.model import Host, Reason, RolloutId
from memory.state import Lease, Store
from rollouts.discover import choose, discover
from rollouts.eligibility import Picks, boundary_of
from tests.rollouts.machine import IDLE, NOW, Machine, append


@pytest.mark.req("Z065")
def test_a_choice_takes_the_newest_two_and_stores_what_changed(machine: Machine) -> None:
    for number in range(5):
        machine.pi_session(f"p{number}", at=IDLE - timedelta(hours=number))
    machine.pi_session("young", at=NOW - timedelta(hours=1))
    machine.look()
    found = choose(machine.settings, machine.clock, machine.store)
    assert [row.id.session for row in found.chosen] == ["p0", "p1"]
    assert (found.waiting, found.next_check) == (3, NOW + timedelta(hours=5))
    machine.clock.advance(11 * 24 * 3600)
    choose(machine.settings, machine.clock, machine.store)
    assert set(machine.reasons().values()) == {Reason.TOO_OLD}


def test_picks_by_hand_reach_settled_rows_and_store_no_verdict(machine: Machine) -> None:
    machine.pi_session("old", at=NOW - timedelta(days=40))
    machine.look()
    pick = Picks(rollouts=frozenset({RolloutId(Host.PI, "old")}))
    for picks in (pick, Picks(since=NOW - timedelta(days=60))):
        chosen = choose(machine.settings, machine.clock, machine.store, picks=picks).chosen
        assert [row.id.session for row in chosen] == ["old"]
    assert machine.row("pi:old").reason is Reason.TOO_OLD


def test_a_picked_host_is_found_behind_thousands_of_others(machine: Machine) -> None:
    machine.pi_session("p0", at=IDLE - timedelta(days=3))
    for number in range(5):
        machine.codex_session(number)
    machine.look()
    small = machine.settings.extract.model_copy(update={"scan_limit": 3})
    settings = machine.settings.model_copy(update={"extract": small})
    found = choose(settings, machine.clock, machine.store, picks=Picks(hosts=frozenset({Host.PI})))
    assert [row.id.session for row in found.chosen] == ["p0"]


def test_a_longer_age_in_the_settings_brings_old_sessions_back(machine: Machine) -> None:
    machine.pi_session("old", at=NOW - timedelta(days=40))
    machine.look()
    choose(machine.settings, machine.clock, machine.store)
    longer = machine.settings.extract.model_copy(update={"max_age_days": 60})
    settings = machine.settings.model_copy(update={"extract": longer})
    assert len(choose(settings, machine.clock, machine.store).chosen) == 1


def test_an_extracted_session_is_up_to_date_until_it_goes_on(machine: Machine) -> None:
    path = machine.pi_session("p1")
    machine.look()
    (row,) = choose(machine.settings, machine.clock, machine.store).chosen
    lease = machine.store.jobs.claim(
        "extract", str(row.id), boundary=boundary_of(row), owner="w", lease_seconds=60, max_failures=3
    )
    assert isinstance(lease, Lease)
    assert choose(machine.settings, machine.clock, machine.store).counts() == {Reason.CLAIMED: 1}
    machine.store.jobs.succeed(lease)
    assert choose(machine.settings, machine.clock, machine.store).counts() == {Reason.UP_TO_DATE: 1}
    assert choose(machine.settings, machine.clock, machine.store).counts() == {}
    assert machine.row("pi:p1").reason is Reason.UP_TO_DATE
    append(path, {"type": "label", "id": "l", "parentId": "00000000"})
    machine.look()
    assert len(choose(machine.settings, machine.clock, machine.store).chosen) == 1


@pytest.mark.req("Z022", "Z115")
def test_after_a_clear_nothing_comes_back_until_a_session_goes_on(machine: Machine) -> None:
    path = machine.pi_session("p1")
    os.utime(path, (IDLE.timestamp(), IDLE.timestamp()))
    machine.look()
    machine.store.meta.new_generation(NOW - timedelta(hours=1))
    store = Store.open(machine.settings, machine.clock)
    for _ in range(3):
        discover(machine.settings, machine.clock, store)
        assert choose(machine.settings, machine.clock, store).chosen == ()
        machine.clock.advance(24 * 3600)
    found = store.rollouts.get(RolloutId(Host.PI, "p1"))
    assert found is not None
    assert found.reason is Reason.BEFORE_WATERMARK
    line = json.loads(path.read_text().splitlines()[-1])
    append(path, {**line, "id": "ffffffff", "timestamp": machine.clock.now().isoformat()})
    os.utime(path, (machine.clock.now().timestamp(), machine.clock.now().timestamp()))
    machine.clock.advance(7 * 3600)
    discover(machine.settings, machine.clock, store)
    assert len(choose(machine.settings, machine.clock, store).chosen) == 1
    store.close()


def test_rows_of_thousands_are_bounded_and_counted(machine: Machine) -> None:
    machine.pi_session("p0")
    machine.look()
    base = machine.row("pi:p0")
    machine.store.rollouts.upsert_many(
        replace(base, id=RolloutId(Host.PI, f"q{number}"), last_event=IDLE - timedelta(minutes=number))
        for number in range(300)
    )
    small = machine.settings.extract.model_copy(update={"scan_limit": 100})
    settings = machine.settings.model_copy(update={"extract": small})
    found = choose(settings, machine.clock, machine.store)
    assert (len(found.verdicts), found.unscanned, found.waiting) == (100, 201, 98)
