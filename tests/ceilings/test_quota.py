"""The provider's own "no more": in whatever form it comes, the batch pauses and nobody's attempt is spent."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from consolidate.outcomes import Deferred as ConsolidationDeferred
from consolidate.outcomes import Published
from extract.outcomes import Deferred
from flows import pipeline
from memory.model import Reason
from tests.ceilings.conftest import EVENING, Purse
from tests.ceilings.scribe import Say, completion, failure

ONLY_EXTRACT = pipeline.Options(consolidate=False)
SAID = {
    "402": Say(failure("Insufficient credits.", code="402"), status=402),
    "403": Say(failure("You exceeded your current quota.", code="insufficient_quota"), status=403),
    "429 that names the quota": Say(failure("You exceeded your current quota, check your plan."), status=429),
    "429 with hours to wait": Say(failure("Rate limited."), status=429, headers={"retry-after": "7200"}),
    "503 with hours to wait": Say(failure("Overloaded."), status=503, headers={"retry-after": "7200"}),
    "prose in place of an answer": Say(completion("You've hit your weekly limit. It resets on Monday.")),
    "an error in a good answer": Say({"error": {"message": "Your credit balance is too low.", "code": 402}}),
}


@pytest.mark.fault("M65", "X4", "X3")
@pytest.mark.parametrize("how", SAID)
async def test_a_used_up_quota_pauses_the_batch_and_gives_the_attempts_back(purse: Purse, how: str) -> None:
    for name in ("one", "two", "three"):
        purse.session(name)
    purse.scribe.instead = [SAID[how]]
    report = await purse.run(ONLY_EXTRACT, trigger="schedule")
    assert len(purse.provider.calls) == 1, "the sessions not begun are not tried"
    assert report.outcome == "deferred"
    assert report.extracted is not None
    assert [(type(one), getattr(one, "reason", "")) for one in report.extracted.outcomes] == [(Deferred, "quota")] * 3
    status = purse.status()
    assert (status.coverage.eligible, status.coverage.failed, status.coverage.exhausted) == (3, {}, 0)
    assert status.deferred[0].startswith("3 sessions (quota: ")
    with purse.store() as store:
        assert {(job.status, job.attempts) for job in store.jobs.all("extract")} == {("released", 0)}
        (row,) = purse.ledger(store).rows()
        assert row.outcome in {"quota", "transient"}
        stored = json.dumps(store.runs.last(1)[0].detail)
    assert "weekly limit. It" not in stored, "a provider's words are not kept"
    again = await purse.run(trigger="schedule")
    assert isinstance(again.consolidated, Published)
    with purse.store() as store:
        assert store.rollouts.counts() == {Reason.UP_TO_DATE: 3}


@pytest.mark.fault("M65", "X3")
async def test_a_quota_met_by_the_consolidation_pauses_it_until_the_provider_says(purse: Purse) -> None:
    purse.session("one")
    await purse.run(ONLY_EXTRACT)
    only = pipeline.Options(extract=False)
    purse.clock.advance(60)
    purse.scribe.instead = [SAID["429 with hours to wait"]]
    paused = (await purse.run(only)).consolidated
    assert isinstance(paused, ConsolidationDeferred)
    assert (paused.reason, paused.until) == ("quota", EVENING + timedelta(hours=2, minutes=1))
    with purse.store() as store:
        job = store.jobs.get("consolidate", "default")
        assert job is not None
        assert (job.status, job.attempts, job.retry_at) == ("released", 0, None)
    assert "not before 2026-12-01T00:01" in purse.status().deferred[0]
    assert isinstance((await purse.run(only)).consolidated, Published)


async def test_a_short_wait_is_waited_for_within_the_attempt(purse: Purse) -> None:
    purse.session("one")
    purse.scribe.instead = [Say(failure("Rate limited."), status=429, headers={"retry-after": "20"})]
    report = await purse.run(ONLY_EXTRACT)
    assert (report.outcome, len(purse.provider.calls)) == ("ok", 2)
    assert purse.clock.slept == [20.0]
    assert report.spend is not None
    assert (report.spend.requests, report.spend.failed) == (2, 1)


async def test_no_call_is_admitted_for_more_than_the_models_window(purse: Purse) -> None:
    """A bound in bytes is several times what a call can take: a purse that holds the real cost must be enough."""
    purse.session("one", padding=4)
    window = 8_000
    model = {"base_url": purse.provider.url, "api_key": "k", "name": "m", "window": window}
    output = purse.settings().extract.max_output_tokens
    report = await purse.run(ONLY_EXTRACT, model=model, budget={"run_tokens": window + output})
    assert report.outcome == "ok"
    assert len(json.dumps(purse.provider.calls[0].body)) > window + output
