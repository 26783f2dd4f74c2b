"""Costs: charts, ceilings, prices nobody knows."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from dashboard.costs import chart, shares
from memory.llm.base import CallContext, CallRecord, Usage
from memory.settings import load
from memory.state import Ledger, Spend, Store
from memory.state.spending import DaySpend
from memory.testing import FrozenClock
from tests.plugins.dashboard_site import Site

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _call(site: Site, model: str, *, stage: str = "extract", tokens: int = 100, money: float | None = None) -> None:
    clock = FrozenClock()
    settings = load(home=site.home)
    with Store.open(settings, clock) as store:
        context = CallContext(stage, "r-1", "job", "" if stage == "consolidate" else "aaaaaaaaaaaa")
        record = CallRecord(context, "openai", model, clock.now(), 1.0, Usage(tokens, 1), "ok", money)
        Ledger(store, settings.budget, clock, "r-1").record(record)


def test_every_day_has_its_place_and_the_highest_fills_the_chart() -> None:
    found = [DaySpend("2026-11-30", "extract", 1, 300, 0.0, 1), DaySpend("2026-11-28", "consolidate", 1, 600, 0.0, 1)]
    made = chart(found, now=NOW, days=7, unit="tokens")
    assert [day.day for day in made.days] == [f"2026-11-{day}" for day in range(24, 31)]
    assert made.top == 600
    (high,) = made.days[4].blocks
    assert (high.series, high.y, high.height) == (1, 0.0, 100.0)
    (half,) = made.days[6].blocks
    assert (half.series, half.y, half.height) == (0, 50.0, 50.0)
    assert all(not day.blocks for day in made.days[:4])


def test_stages_stand_on_each_other_and_strangers_share_a_colour() -> None:
    found = [DaySpend("2026-11-30", name, 1, 100, 0.0, 0) for name in ("consolidate", "extract", "test", "other")]
    blocks = chart(found, now=NOW, days=1, unit="tokens").days[0].blocks
    assert [(b.series, b.y, b.height) for b in blocks] == [(0, 75.0, 25.0), (1, 50.0, 25.0), (2, 0.0, 50.0)]


def test_nothing_spent_is_no_bar_and_no_division() -> None:
    assert chart([], now=NOW, days=30, unit="money").top == 0
    assert shares([], "tokens") == []
    assert shares([Spend("x", 0, 0, 0, 0, 0.0, 0, 0, 0, 0)], "tokens")[0].part == 0


def test_a_new_user_sees_ceilings_and_no_chart(still_site: Site) -> None:
    text = still_site.text("/costs")
    assert "Nothing was spent in this time" in text
    assert "tokens of a day" in text
    assert "0 of 10,000,000" in text
    assert "money of a day" in text  # not set, and said so
    assert "<svg" not in text


def test_spend_is_told_by_day_stage_model_and_project(still_site: Site) -> None:
    still_site.text("/costs")
    _call(still_site, "dear", tokens=1_000, money=1.5)
    _call(still_site, "cheap", stage="consolidate", tokens=500, money=0.25)
    text = still_site.text("/costs")
    for part in ("1,001", "501", "1.75", "dear", "cheap", "all projects (consolidation)", "Reading sessions"):
        assert part in text, part
    assert 'role="img" aria-labelledby="chart-title chart-desc"' in text
    assert len(re.findall(r'<rect class="bar', text)) == 2 + 6
    assert " style=" not in text
    assert "1.50" in still_site.text("/costs?unit=money&days=7")
    answer = still_site.get("/api/v1/costs?days=7").json()
    assert answer["total"]["requests"] == 2
    assert {one["name"] for one in answer["by_model"]} == {"dear", "cheap"}


def test_a_price_nobody_knows_is_said_and_never_shown_as_nothing(still_site: Site) -> None:
    still_site.text("/costs")
    _call(still_site, "mystery<b>", tokens=1_000)
    text = still_site.text("/costs")
    assert "There is no price for" in text
    assert "mystery&lt;b&gt;" in text
    assert "price unknown" in text
    assert "Nothing of it has a known price" in still_site.text("/costs?unit=money")
    assert still_site.get("/api/v1/costs").json()["unpriced_models"] == ["mystery<b>"]


def test_a_ceiling_that_is_used_up_says_that_it_allows_nothing_and_when_it_opens(still_site: Site) -> None:
    config = still_site.home / "config.toml"
    config.write_text(config.read_text() + "\n[budget]\nday_tokens = 100\n", encoding="utf-8")
    still_site.text("/costs")
    _call(still_site, "m", tokens=500, money=0.0)
    text = still_site.text("/costs")
    assert "allows no call now" in text
    assert "501 of 100" in text
    assert "2026-12-01T00:00:00+00:00" in text


@pytest.mark.fault("O30")
@pytest.mark.parametrize("query", ["unit=evil", "days=0", "days=9999", "days=x"])
def test_a_span_that_is_none_is_refused(empty_site: Site, query: str) -> None:
    assert empty_site.get(f"/costs?{query}").status_code == 422
