"""Ceilings hold before the call, every admitted call is one row, and no row holds content."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import BudgetExceeded
from memory.llm.base import CallContext, CallRecord, Meter, Usage
from memory.settings import BudgetSettings, Price, Settings
from memory.state import Ledger, Store
from memory.state.schema import ledger as table
from memory.testing import FrozenClock

DOLLAR = {"m": Price(input=1_000_000, output=0)}
"""One unit of money for one input token."""


def context(run: str = "r1", **values: Any) -> CallContext:
    return CallContext(**{"role": "extract", "run_id": run, "job": "codex:s1", "project": "p1", **values})


def ledger(store: Store, run: str = "r1", *, free: Collection[str] = (), **budget: Any) -> Ledger:
    known = {"run_tokens": None, "day_tokens": None, **budget}
    return Ledger(store, BudgetSettings(**known), store.clock, run, free=free)


def admit(meter: Ledger, read: int = 1, written: int = 0, *, model: str = "m", **values: Any) -> None:
    meter.admit(context(**values), model, input_tokens=read, output_tokens=written)


def record(
    meter: Ledger, read: int = 1, written: int = 0, *, model: str = "m", outcome: str = "ok", **values: Any
) -> None:
    usage = Usage(read, written, values.pop("cached", 0), values.pop("reported", True))
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    money = values.pop("money", None)
    meter.record(CallRecord(context(**values), "openai", model, at, 0.5, usage, outcome, money, {"round": 1}))


def refused(meter: Ledger, *args: Any, **values: Any) -> str:
    """The ceiling that refuses the call; nothing is written."""
    before = meter.rows()
    with pytest.raises(BudgetExceeded) as caught:
        admit(meter, *args, **values)
    assert meter.rows() == before
    assert caught.value.budget in str(caught.value)
    return caught.value.budget


def test_the_ledger_is_a_meter(store: Store) -> None:
    meter: Meter = ledger(store)
    assert meter is not None


@pytest.mark.fault("O2", "M65")
def test_the_call_that_would_pass_the_ceiling_is_refused_and_the_reason_is_visible(store: Store) -> None:
    meter = ledger(store, run_money=2.0, prices=DOLLAR)
    for _ in range(2):
        admit(meter)
        record(meter)
    assert refused(meter) == "budget.run_money"
    with pytest.raises(BudgetExceeded, match=r"budget\.run_money \(2\): 2 used or reserved, up to 1 more"):
        admit(meter)
    assert meter.run_total().money == 2.0


def assert_named(error: BudgetExceeded) -> None:
    """Message and advice both name the setting."""
    assert error.budget in error.message
    assert error.budget in error.hint


@pytest.mark.fault("O1", "X1")
def test_a_daily_cap_holds_across_runs_and_lifts_at_midnight_utc(store: Store, clock: FrozenClock) -> None:
    refusals = []
    for number in range(200):
        meter = ledger(store, f"r{number}", day_requests=3)
        try:
            admit(meter, run=f"r{number}")
            record(meter, run=f"r{number}")
        except BudgetExceeded as error:
            assert_named(error)
            refusals.append(error.budget)
    assert refusals == ["budget.day_requests"] * 197
    clock.set(datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC))
    late = ledger(store, "late", day_requests=3)
    refused(late)
    clock.advance(1)
    admit(late)


@pytest.mark.fault("O4", "X4")
@pytest.mark.parametrize("name", [name for name in BudgetSettings.model_fields if name != "prices"])
@pytest.mark.parametrize("free", [(), ("m",)])
def test_zero_allows_nothing_whatever_the_model_and_says_so(
    sqlite_store: Store, name: str, free: tuple[str, ...]
) -> None:
    meter = ledger(sqlite_store, "r1", free=free, **dict[str, Any]({name: 0}))
    assert refused(meter, 0) == f"budget.{name}"
    if not name.startswith("project"):
        assert meter.paused() == (f"budget.{name}",)


def test_each_ceiling_counts_its_own_scope(sqlite_store: Store, clock: FrozenClock) -> None:
    meter = ledger(sqlite_store, run_tokens=10, day_tokens=25, project_day_tokens=15)
    admit(meter, 5, 5)
    assert refused(meter) == "budget.run_tokens"
    admit(meter, 5, 0, run="r2")
    assert refused(meter, 5, 0, run="r2") == "budget.project_day_tokens"
    admit(meter, 5, 0, run="r2", project="p2")
    assert refused(meter, 6, 0, run="r3", project="p3") == "budget.day_tokens"
    admit(meter, 5, 0, run="r3", project="")
    assert meter.paused() == ("budget.run_tokens", "budget.day_tokens")
    clock.advance(86_400)
    assert meter.paused() == ("budget.run_tokens",)


@pytest.mark.fault("M65")
def test_calls_admitted_and_not_yet_recorded_count_with_their_upper_bound(store: Store) -> None:
    meter, other = ledger(store, day_tokens=100), ledger(store, "r2", day_tokens=100)
    admit(meter, 60, 30)
    assert refused(other, 11, run="r2") == "budget.day_tokens"
    record(meter, 20, 1)
    admit(other, 79, run="r2")
    assert refused(other, run="r2") == "budget.day_tokens"


@pytest.mark.fault("M68", "M65")
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_processes_that_ask_at_once_never_pass_a_ceiling_together(store: Store, tmp_path: Path) -> None:
    go = tmp_path / "go"
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            made = 0
            try:
                meter = ledger(store, f"r{number}", day_requests=10)
                meter.total()
                (tmp_path / f"ready{number}").touch()
                while not go.exists():
                    time.sleep(0.001)
                for _ in range(5):
                    try:
                        admit(meter, run=f"r{number}")
                        made += 1
                    except BudgetExceeded:
                        break
                os._exit(made)
            finally:
                os._exit(99)
        children.append(child)
    while len(list(tmp_path.glob("ready*"))) < 6:
        time.sleep(0.001)
    go.touch()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sum(codes) == 10
    assert ledger(store).total().requests == 10


def test_every_admitted_call_ends_as_exactly_one_row_with_what_it_really_took(store: Store) -> None:
    meter = ledger(store, prices={"m": Price(input=2, output=10, cached_input=0.5)})
    admit(meter, 1_000, 500)
    admit(meter, 1_000, 500)
    record(meter, 1_000_000, 100_000, cached=400_000)
    record(meter, 0, 0, outcome="timeout", reported=False)
    failed, settled = meter.rows()
    assert (settled.state, settled.outcome, settled.provider, settled.seconds) == ("settled", "ok", "openai", 0.5)
    assert (settled.input_tokens, settled.output_tokens, settled.cached_tokens) == (1_000_000, 100_000, 400_000)
    assert settled.money == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10)
    assert (failed.outcome, failed.reported, failed.money) == ("timeout", False, 0)
    assert settled.detail == {"round": 1}


def test_money_the_caller_knows_stands_above_our_own_sum(store: Store) -> None:
    meter = ledger(store, prices=DOLLAR)
    admit(meter)
    record(meter, money=0.125)
    assert meter.rows()[0].money == 0.125


def test_a_record_without_its_reservation_is_a_row_of_its_own(store: Store) -> None:
    meter = ledger(store)
    record(meter, 7, 3)
    assert [(row.state, row.input_tokens, row.output_tokens, row.day) for row in meter.rows()] == [
        ("settled", 7, 3, "2026-11-30")
    ]


def test_a_reservation_whose_process_died_is_lost_and_keeps_counting(store: Store, clock: FrozenClock) -> None:
    """The provider may well have answered and charged: fail closed."""
    admit(ledger(store, day_tokens=100), 60, 30)
    clock.advance(3_601)
    after = ledger(store, "r2", day_tokens=100)
    assert after.total().in_flight == 1
    admit(after, 10, run="r2")
    total = after.total()
    assert (total.lost, total.in_flight, total.tokens) == (1, 1, 100)
    assert refused(after, run="r2") == "budget.day_tokens"


def test_a_call_slower_than_its_reservation_is_still_one_row(store: Store, clock: FrozenClock) -> None:
    meter = ledger(store)
    admit(meter, 60)
    clock.advance(4_000)
    admit(meter, 5, job="other")
    assert meter.total().lost == 1
    record(meter, 50)
    assert (meter.total().requests, meter.total().lost, meter.total().input_tokens) == (2, 0, 55)


def test_a_model_without_a_price_is_held_by_tokens_alone_and_that_is_said(store: Store) -> None:
    meter = ledger(store, run_money=0.01, run_tokens=10, prices=DOLLAR)
    admit(meter, 10, model="nameless")
    assert refused(meter, 1, model="nameless") == "budget.run_tokens"
    assert meter.warnings() == (
        "budget.prices has no price for nameless: money ceilings cannot hold it, token and request ceilings do.",
    )
    record(meter, 10, model="nameless")
    assert meter.total().unpriced == 1
    assert ledger(store, prices=DOLLAR).warnings() == ()


def test_a_free_model_is_recorded_and_uses_up_no_tokens_or_money(store: Store) -> None:
    meter = ledger(store, free=("offline",), day_tokens=100, run_requests=3, prices=DOLLAR)
    for _ in range(2):
        admit(meter, 1_000_000, model="offline")
        record(meter, 1_000_000, model="offline")
    admit(meter, 100)
    assert refused(meter, 1, model="offline") == "budget.run_requests"
    assert [(spend.name, spend.money, spend.unpriced) for spend in meter.spend("model")] == [
        ("m", 100.0, 0),
        ("offline", 0.0, 0),
    ]
    assert meter.warnings() == ()


@pytest.mark.req("P049")
def test_spend_is_told_by_day_stage_model_project_and_run(store: Store, clock: FrozenClock) -> None:
    meter = ledger(store, prices=DOLLAR)
    for day, role, project, run, outcome in (
        (0, "extract", "p1", "r1", "ok"),
        (1, "extract", "p2", "r2", "timeout"),
        (2, "consolidate", "", "r2", "ok"),
    ):
        clock.set(datetime(2026, 11, 28 + day, 9, tzinfo=UTC))
        admit(meter, 10, role=role, project=project, run=run)
        record(meter, 10 + day, 1, role=role, project=project, run=run, outcome=outcome)

    def told(by: Any, **values: Any) -> list[tuple[str, int, int, int]]:
        return [(s.name, s.requests, s.input_tokens, s.failed) for s in meter.spend(by, **values)]

    assert told("day") == [("2026-11-28", 1, 10, 0), ("2026-11-29", 1, 11, 1), ("2026-11-30", 1, 12, 0)]
    assert told("day", days=2) == [("2026-11-29", 1, 11, 1), ("2026-11-30", 1, 12, 0)]
    assert told("stage") == [("consolidate", 1, 12, 0), ("extract", 2, 21, 1)]
    assert told("model") == [("m", 3, 33, 1)]
    assert told("project") == [("", 1, 12, 0), ("p1", 1, 10, 0), ("p2", 1, 11, 1)]
    assert told("run") == [("r1", 1, 10, 0), ("r2", 2, 23, 1)]
    assert told("stage", run_id="r1") == [("extract", 1, 10, 0)]
    assert meter.total(days=1).money == 12.0
    assert ledger(store, "none").run_total().requests == 0


@pytest.mark.req("C022", "C055", "C059")
def test_the_ledger_has_room_for_ids_counts_and_times_only(store: Store) -> None:
    kinds = {str(column.type) for column in table.c}
    assert kinds == {"TEXT", "INTEGER", "BIGINT", "FLOAT", "BOOLEAN"}
    texts = {column.name for column in table.c if str(column.type) == "TEXT"}
    assert texts == {
        "state", "day", "run_id", "role", "job", "project", "provider", "model", "admitted", "started", "outcome",
        "detail",
    }  # fmt: skip
    meter = ledger(store)
    record(meter)
    assert all(isinstance(value, int) for value in meter.rows()[0].detail.values())


@given(
    calls=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.booleans()), max_size=25),
    limit=st.integers(1, 120),
)
@settings(max_examples=20, deadline=None)
def test_whatever_is_asked_used_and_reserved_tokens_never_pass_the_ceiling(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int, bool]], limit: int
) -> None:
    home: Path = tmp_path_factory.mktemp("ledger")
    with Store.open(Settings(home=home), FrozenClock()) as store:
        meter = ledger(store, day_tokens=limit)
        admitted = 0
        for bound, real, settle in calls:
            if meter.total().tokens + bound > limit:
                assert refused(meter, bound) == "budget.day_tokens"
                continue
            admit(meter, bound)
            admitted += 1
            if settle:
                record(meter, min(bound, real))
            total = meter.total()
            assert total.tokens <= limit
            assert total.requests == admitted
