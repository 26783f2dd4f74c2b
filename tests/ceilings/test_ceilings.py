"""Every call is held by every ceiling before it is made; what is put off goes on by itself when the ceiling opens."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from consolidate.outcomes import Deferred as ConsolidationDeferred
from consolidate.outcomes import Failed, Published
from extract.outcomes import Deferred, Kept
from flows import pipeline
from memory.errors import StateError
from memory.model import Reason
from memory.state import Ledger
from tests.ceilings.conftest import Purse
from tests.plugins.command_line import SAMPLES

ONLY_EXTRACT = pipeline.Options(consolidate=False)
MIDNIGHT = datetime(2026, 12, 1, tzinfo=UTC)
CEILINGS = [f"{scope}_{unit}" for scope in ("run", "day", "project_day") for unit in ("requests", "tokens", "money")]
PRICES = {"m": {"input": 2.5, "output": 10.0}}


@pytest.mark.fault("M65", "X4")
async def test_the_default_budget_lets_real_sessions_through_and_the_bill_is_the_providers(purse: Purse) -> None:
    roots = {f"{host}_roots": [str(SAMPLES / host)] for host in ("codex", "claude", "pi")}
    sections: dict[str, Any] = {"rollouts": {"hosts": ["codex", "claude", "pi"], **roots}, "budget": {"prices": PRICES}}
    report = await purse.run(**sections)
    assert report.outcome == "ok", pipeline.detail(report)
    assert isinstance(report.consolidated, Published)
    assert report.extracted is not None
    assert (report.extracted.done, report.extracted.deferred) == (len(report.extracted.outcomes), 0)
    read, written = (sum(column) for column in zip(*purse.scribe.billed, strict=True))
    cost = sum((r * 2.5 + w * 10.0) / 1e6 for r, w in purse.scribe.billed)
    with purse.store(**sections) as store:
        ledger = purse.ledger(store)
        total, by_project = ledger.total(), ledger.spend("project")
        rows = ledger.rows()
    assert report.spend is not None
    assert len(purse.provider.calls) == len(rows) == total.requests == report.spend.requests
    assert (total.input_tokens, total.output_tokens) == (read, written)
    shown = (total.money, report.spend.money, purse.status(**sections).today.money)
    assert shown == pytest.approx((cost, cost, cost))
    assert sum(one.money for one in by_project) == pytest.approx(cost)
    assert {row.state for row in rows} == {"settled"}
    # Whoever is suspected can be looked up: each call names its job, and a consolidation no project.
    assert all(row.job and (row.project != "") == (row.role == "extract") for row in rows)


@pytest.mark.fault("O1", "M65")
async def test_a_backlog_stops_at_the_daily_cap_and_goes_on_by_itself_after_midnight_utc(purse: Purse) -> None:
    for number in range(200):
        purse.session(f"s{number:03d}", began=purse.clock.now() - timedelta(hours=30, minutes=number))
    budget: dict[str, Any] = {"budget": {"day_requests": 3}}
    first = await purse.run(trigger="schedule", **budget)
    assert first.outcome == "deferred"
    assert len(purse.provider.calls) == 3
    assert first.extracted is not None
    assert [type(one) for one in first.extracted.outcomes] == [Kept] * 3 + [Deferred] * 47
    status = purse.status(**budget)
    assert (status.coverage.eligible, status.coverage.extracted, status.coverage.failed) == (197, 3, {})
    (ceiling,) = [one for one in status.ceilings if one.shut]
    assert (ceiling.name, ceiling.used, ceiling.limit, ceiling.frees) == ("budget.day_requests", 3, 3, MIDNIGHT)
    assert any("47 sessions (budget: " in text and "2026-12-01T00:00Z" in text for text in status.deferred)
    with purse.store() as store:
        assert {job.attempts for job in store.jobs.all("extract")} == {0}
    purse.clock.advance(3_600)
    await purse.run(trigger="schedule", **budget)
    assert len(purse.provider.calls) == 3
    purse.clock.set(MIDNIGHT + timedelta(seconds=1))
    await purse.run(ONLY_EXTRACT, trigger="schedule", **budget)
    assert len(purse.provider.calls) == 6
    assert purse.status(**budget).coverage.extracted == 6


@pytest.mark.fault("O2", "M65")
async def test_the_third_call_at_one_unit_of_money_passes_a_cap_of_two_and_is_not_made(purse: Purse) -> None:
    purse.scribe.usage = (10, 64)
    for name in ("one", "two", "three"):
        purse.session(name)
    sections: dict[str, Any] = {
        "budget": {"run_money": 2.0, "prices": {"m": {"input": 0, "output": 1e6 / 64}}},
        "extract": {"max_output_tokens": 64},
    }
    report = await purse.run(ONLY_EXTRACT, **sections)
    assert len(purse.provider.calls) == 2
    assert report.extracted is not None
    last = report.extracted.outcomes[-1]
    assert isinstance(last, Deferred)
    assert "budget.run_money (2): 2 used or reserved, up to 1 more for this call" in last.message
    assert report.spend is not None
    assert report.spend.money == pytest.approx(2.0)
    assert any("budget.run_money" in text for text in purse.status(**sections).deferred)
    # A new run has a purse of its own.
    assert (await purse.run(ONLY_EXTRACT, **sections)).outcome == "ok"


@pytest.mark.fault("O4", "M11")
@pytest.mark.parametrize("name", CEILINGS)
async def test_a_ceiling_of_zero_allows_no_call_and_status_says_paused(purse: Purse, name: str) -> None:
    purse.session("one")
    budget: dict[str, Any] = {"budget": {name: 0}}
    report = await purse.run(**budget)
    assert report.outcome == "deferred"
    assert purse.provider.calls == []
    status = purse.status(**budget)
    assert f"budget.{name}" in status.deferred[0]
    assert "allows nothing" in status.deferred[0]
    if not name.startswith("project"):
        assert status.paused == (f"budget.{name}",)
        assert [one.frees for one in status.ceilings if one.shut] == [None]


@pytest.mark.fault("O4")
async def test_zero_holds_the_built_in_engine_too(purse: Purse) -> None:
    purse.session("one")
    report = await purse.run(budget={"day_requests": 0}, model={"provider": "offline", "base_url": "", "api_key": ""})
    assert report.outcome == "deferred"
    with purse.store() as store:
        assert purse.ledger(store).rows() == []


@pytest.mark.fault("X1")
async def test_twenty_tiny_sessions_cost_one_consolidation_and_the_next_one_is_put_off(purse: Purse) -> None:
    budget: dict[str, Any] = {"budget": {"project_day_requests": 20}}
    published = 0
    reports = []
    for number in range(21):
        purse.session(f"s{number:02d}", began=purse.clock.now())
        purse.clock.advance(60)
        reports.append(await purse.run(trigger="schedule", **budget))
        published += isinstance(reports[-1].consolidated, Published)
    cooldown = purse.settings().consolidate.cooldown_minutes
    assert 1 <= published <= math.ceil(21 / cooldown)
    last = reports[-1].extracted
    assert last is not None
    assert [(type(one), one.reason) for one in last.outcomes if isinstance(one, Deferred)] == [(Deferred, "budget")]
    assert (
        sum(isinstance(one, Kept) for report in reports if report.extracted for one in report.extracted.outcomes) == 20
    )
    with purse.store(**budget) as store:
        by_stage = {one.name: one.requests for one in purse.ledger(store).spend("stage")}
    assert by_stage["extract"] == 20
    assert sum(by_stage.values()) == len(purse.provider.calls)


@pytest.mark.fault("X4")
async def test_where_the_ledger_cannot_be_read_no_call_is_made_and_the_run_says_why(
    purse: Purse, monkeypatch: pytest.MonkeyPatch
) -> None:
    purse.session("one")

    def unreadable(*_: object) -> float:
        raise StateError("The ledger cannot be read.")

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "_used", unreadable)
        with pytest.raises(StateError):
            await purse.run()
    assert purse.provider.calls == []
    with purse.store() as store:
        (row,) = store.runs.last(1)
    assert (row.outcome, row.detail["error"]) == ("failed", "state: The ledger cannot be read.")


@pytest.mark.fault("O1", "M65")
async def test_a_project_that_used_up_its_day_holds_up_no_other(purse: Purse) -> None:
    for number in range(3):
        purse.session(f"shop{number}", cwd="/home/dev/shop", began=purse.clock.now() - timedelta(hours=2))
        purse.session(f"api{number}", cwd="/home/dev/api", began=purse.clock.now() - timedelta(hours=9))
    sections: dict[str, Any] = {"budget": {"project_day_requests": 2}, "extract": {"batch": 3}}
    report = await purse.run(trigger="schedule", **sections)
    assert report.extracted is not None
    kept = sorted(one.rollout.session for one in report.extracted.outcomes if isinstance(one, Kept))
    assert [name[:3] for name in kept] == ["api", "sho", "sho"]
    assert isinstance(report.consolidated, Published), "a consolidation is for all projects and booked on none"
    with purse.store(**sections) as store:
        rows = purse.ledger(store).rows()
        ceilings = purse.ledger(store).ceilings()
    assert {row.project for row in rows if row.role == "consolidate"} == {""}
    assert [(one.name, one.used, one.frees) for one in ceilings if one.shut] == [
        ("budget.project_day_requests", 2, MIDNIGHT)
    ]
    assert next(one for one in ceilings if one.shut).project


@pytest.mark.fault("M65")
async def test_without_a_price_tokens_hold_the_model_and_run_and_status_say_so(purse: Purse) -> None:
    purse.session("one")
    budget: dict[str, Any] = {"budget": {"run_money": 0.000001, "day_money": 0.000001}}
    report = await purse.run(**budget)
    assert report.outcome == "ok"
    assert any("No price is set for m" in text for text in report.notices)
    status = purse.status(**budget)
    assert status.unpriced == ("m",)
    assert (status.today.money, status.today.unpriced) == (0, status.today.requests)
    purse.session("two")
    assert (await purse.run(budget={"run_tokens": 10})).outcome == "failed"


async def test_a_call_larger_than_a_whole_ceiling_is_a_failure_and_holds_up_no_smaller_one(purse: Purse) -> None:
    purse.session("large", padding=6)
    purse.session("small", began=purse.clock.now() - timedelta(days=2))
    calls = len(purse.provider.calls)
    report = await purse.run(ONLY_EXTRACT, budget={"run_tokens": 24_000}, extract={"batch": 2})
    assert report.extracted is not None
    outcomes = {one.rollout.session: one for one in report.extracted.outcomes}
    assert type(outcomes["small"]) is Kept
    assert (outcomes["large"].code, len(purse.provider.calls) - calls) == ("failed", 1)
    assert "This call alone is larger than the ceiling" in getattr(outcomes["large"], "message", "")


async def test_a_ceiling_that_one_consolidation_uses_up_is_not_spent_again_and_again(purse: Purse) -> None:
    for number in range(6):
        purse.session(f"s{number}")
    await purse.run(ONLY_EXTRACT)
    calls = len(purse.provider.calls)
    only = pipeline.Options(extract=False)
    first = await purse.run(only, budget={"run_requests": 2})
    assert isinstance(first.consolidated, Failed)
    assert (first.consolidated.error, len(purse.provider.calls) - calls) == ("budget", 2)
    second = await purse.run(only, budget={"run_requests": 2})
    assert isinstance(second.consolidated, ConsolidationDeferred)
    assert (second.consolidated.reason, len(purse.provider.calls) - calls) == ("backoff", 2)
    purse.clock.advance(3_601)
    assert isinstance((await purse.run(only)).consolidated, Published)


async def test_a_consolidation_met_by_the_days_ceiling_waits_for_midnight_without_losing_an_attempt(
    purse: Purse,
) -> None:
    for number in range(12):
        purse.session(f"s{number:02d}")
    budget: dict[str, Any] = {"budget": {"day_requests": 13}}
    first = await purse.run(**budget)
    assert isinstance(first.consolidated, ConsolidationDeferred)
    assert (first.consolidated.reason, first.consolidated.until) == ("budget", MIDNIGHT)
    with purse.store() as store:
        job = store.jobs.get("consolidate", "default")
        assert job is not None
        assert (job.status, job.attempts) == ("released", 0)
        assert store.rollouts.counts() == {Reason.UP_TO_DATE: 12}
    assert "not before 2026-12-01" in purse.status(**budget).deferred[0]
    purse.clock.set(MIDNIGHT + timedelta(minutes=1))
    assert isinstance((await purse.run(trigger="schedule", **budget)).consolidated, Published)
