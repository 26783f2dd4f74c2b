"""Status tells a failure from an empty corpus, a damaged summary from a good one, and what everything cost."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from consolidate.run import run as consolidate
from memory.clock import iso
from memory.llm.base import CallContext, CallRecord, Usage
from memory.model import Host, Reason, RolloutId
from memory.state import Lease, Ledger, RolloutRow
from memory.testing import StoreBench
from recall.status import Status, as_json, read_status
from tests.recall.desk import Desk

BODY = "## What happened\n- The user prefers vitest. [e1]\n"


def status(bench: StoreBench) -> Status:
    return read_status(bench.settings, bench.store, bench.clock, provider="scripted", workspace=bench.workspace)


def row(bench: StoreBench, name: str, reason: Reason, hours: float = 1) -> RolloutRow:
    at = bench.clock.now() - timedelta(hours=hours)
    path = bench.settings.home / f"{name}.jsonl"
    return RolloutRow(RolloutId(Host.CODEX, name), path, 10, 1, 1, last_event=at, reason=reason)


@pytest.mark.fault("X23")
def test_never_ran_empty_failed_and_ok_are_four_words(bench: StoreBench) -> None:
    assert (status(bench).state, status(bench).last_run) == ("never_ran", None)
    lease = bench.store.jobs.claim("consolidate", "default", boundary="", owner="o", lease_seconds=60, max_failures=3)
    assert isinstance(lease, Lease)
    bench.store.jobs.succeed(lease)
    assert status(bench).state == "empty"
    bench.add("one", BODY)
    bench.model.answers = ["done"] * 100
    asyncio.run(consolidate(bench.runtime(consolidate={"max_requests": 2})))
    found = status(bench)
    assert (found.state, found.health.error_code) == ("failed", "gate_rejected")


@pytest.mark.fault("X23", "M7")
def test_ok_has_an_age_and_a_broken_summary_is_no_ok(desk: Desk) -> None:
    def read() -> Status:
        with desk.runtime() as runtime:
            return read_status(
                runtime.settings, runtime.store, runtime.clock, provider="offline", workspace=runtime.workspace
            )

    found = read()
    assert found.state == "ok"
    assert found.health.age is not None
    assert found.broken == ()
    text = desk.summary.read_bytes()
    for damage in (b"", b"hello\n", b"v2\n" + text[3:], b"v1\n\xff\n", None):
        if damage is None:
            desk.summary.unlink()
        else:
            desk.summary.write_bytes(damage)
        found = read()
        assert found.state == "broken", damage
        assert str(desk.summary) in found.broken[0]
        assert as_json(found)["memory"]["state"] == "broken"
    desk.summary.write_bytes(text + b"\n")
    assert read().state == "broken", "an unverified text is given to no session"
    desk.summary.write_bytes(text)
    assert read().state == "ok"


@pytest.mark.fault("M4", "X11")
def test_outputs_that_no_version_took_are_counted(bench: StoreBench) -> None:
    for name in ("one", "two", "three"):
        bench.add(name, BODY)
    assert "3 outputs not in the published set." in status(bench).health.problems


def test_every_session_is_counted_once_by_what_became_of_it(bench: StoreBench) -> None:
    bench.add("done", BODY)
    reasons = {
        "done": Reason.UP_TO_DATE,
        "new": Reason.ELIGIBLE,
        "gone": Reason.MISSING,
        "sub": Reason.SUBAGENT,
        "tired": Reason.EXHAUSTED,
        "live": Reason.NOT_IDLE,
        "later": Reason.BACKOFF,
    }
    bench.store.rollouts.upsert_many(row(bench, name, reason) for name, reason in reasons.items())
    lease = bench.store.jobs.claim("extract", "codex:later", boundary="b", owner="o", lease_seconds=60, max_failures=3)
    assert isinstance(lease, Lease)
    retry = bench.clock.now() + timedelta(minutes=30)
    from memory.errors import TransientModelError

    bench.store.jobs.fail(lease, TransientModelError("The provider was busy."), retry)
    found = status(bench)
    coverage = found.coverage
    assert (coverage.seen, coverage.extracted, coverage.eligible, coverage.exhausted) == (7, 1, 1, 1)
    assert coverage.skipped == {"missing": 1, "not_idle": 1, "subagent": 1}
    assert coverage.failed == {"transient": 1}
    assert found.next_eligible == retry, "the back-off ends before the live session has idled"
    assert iso(found.next_eligible) is not None


def test_spend_ceilings_and_unpriced_models_are_plain_values(bench: StoreBench) -> None:
    budget = bench.settings.budget.model_copy(update={"day_requests": 1, "project_day_tokens": 150})
    settings = bench.settings.model_copy(update={"budget": budget})
    meter = Ledger(bench.store, budget, bench.clock, "r1")
    context = CallContext("extract", "r1", "codex:one", "shop")
    meter.admit(context, "m", input_tokens=100, output_tokens=50)
    meter.record(CallRecord(context, "openai", "m", bench.clock.now(), 0.1, Usage(100, 50), "ok"))
    found = read_status(settings, bench.store, bench.clock, provider="m")
    values = as_json(found)
    assert values["spend"]["today"] == {
        "requests": 1, "input_tokens": 100, "output_tokens": 50, "money": None, "unpriced_calls": 1, "failed_calls": 0,
    }  # fmt: skip
    assert values["unpriced_models"] == ["m"]
    assert values["paused_by"] == ["budget.day_requests", "budget.project_day_tokens"]
    shut = [one for one in values["ceilings"] if one["shut"]]
    assert [(one["name"], one["project"], one["used"], one["limit"]) for one in shut] == [
        ("budget.day_requests", None, 1, 1),
        ("budget.project_day_tokens", "shop", 150, 150),
    ]
    assert {one["frees"] for one in shut} == {"2026-12-01T00:00:00.000000Z"}
