"""Stage 1 when things go wrong: failures and strikes, stops, lost claims, deaths at every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

import extract
from extract.outcomes import (
    Cancelled,
    Deferred,
    Exhausted,
    Failed,
    Kept,
    Skipped,
    Stopped,
)
from memory import failpoints
from memory.documents import parse_rollout_summary
from memory.errors import (
    PermanentModelError,
    QuotaModelError,
    StorageError,
    TransientModelError,
)
from memory.llm.base import Message, StructuredReply, T
from memory.model import Reason
from memory.state import Lease
from memory.testing import ScriptedModel
from rollouts.discover import discover
from rollouts.eligibility import boundary_of
from tests.extract.conftest import Bench
from tests.extract.samples import BODY, GOOD, TALK

# -- failures and strikes ---------------------------------------------------------------


@pytest.mark.req("Z080", "Z081", "Z082")
@pytest.mark.fault("M71", "M72", "M74", "X10", "X13")
async def test_three_failures_an_hour_apart_exhaust_a_boundary_and_new_content_re_arms_it(bench: Bench) -> None:
    rollout = bench.write("a", *TALK)
    model = ScriptedModel([TransientModelError("busy", status=503)], repeat_last=True)
    quick: dict[str, Any] = {"model": {"retries": 0}}
    first = await bench.one(model, **quick)
    assert isinstance(first, Failed)
    assert (first.attempt, first.retry_at) == (1, bench.clock.now() + timedelta(hours=1))
    bench.clock.advance(3599)
    assert (await bench.run(model, **quick)).outcomes == ()
    bench.clock.advance(1)
    second = await bench.one(model, **quick)
    assert isinstance(second, Failed)
    bench.clock.advance(3600)
    third = await bench.one(model, **quick)
    assert third == Exhausted(rollout, "transient", "busy", 3)
    bench.clock.advance(7200)
    assert (await bench.run(model, **quick)).outcomes == ()
    assert len(model.requests) == 3
    stored = bench.store.rollouts.get(rollout)
    assert stored is not None
    assert stored.reason is Reason.EXHAUSTED
    bench.write("a", ("user", "let us go on"), ago_hours=7)
    assert isinstance(await bench.one(ScriptedModel([GOOD])), Kept)


@pytest.mark.fault("M70", "M73")
async def test_a_blip_is_survived_inside_the_attempt(bench: Bench) -> None:
    bench.write("a", *TALK)
    model = ScriptedModel([TransientModelError("busy", status=429), GOOD])
    assert isinstance(await bench.one(model), Kept)
    assert sum(bench.clock.slept) < 60


@pytest.mark.fault("X7", "X13")
async def test_a_permanent_error_stops_the_batch_and_spends_no_attempt(bench: Bench) -> None:
    rollouts = [bench.write(name, *TALK) for name in "abcd"]
    model = ScriptedModel(
        [PermanentModelError("no such model", hint="Check model.name.", status=404)], repeat_last=True
    )
    report = await bench.run(model, extract={"concurrency": 1})
    assert len(model.requests) == 1
    assert all(isinstance(outcome, Stopped) and "model.name" in outcome.message for outcome in report.outcomes)
    assert len(report.outcomes) == 4
    assert report.failed == 4
    assert all((job := bench.store.jobs.get("extract", str(r))) is None or job.attempts == 0 for r in rollouts)
    assert all(isinstance(o, Kept) for o in (await bench.run(ScriptedModel([GOOD], repeat_last=True))).outcomes)


@pytest.mark.fault("M11", "M65", "X1", "X4")
@pytest.mark.parametrize(
    ("model", "sections", "reason"),
    [
        (ScriptedModel([QuotaModelError("used up", status=429, retry_after=900)], repeat_last=True), {}, "quota"),
        (ScriptedModel([GOOD], repeat_last=True), {"budget": {"run_tokens": 0}}, "budget"),
        (ScriptedModel([GOOD], repeat_last=True), {"budget": {"run_requests": 0}}, "budget"),
    ],
    ids=["quota", "tokens", "requests"],
)
async def test_a_used_up_quota_or_budget_pauses_the_batch_and_refunds(
    bench: Bench, model: ScriptedModel, sections: dict[str, Any], reason: str
) -> None:
    rollouts = [bench.write(name, *TALK) for name in "abc"]
    report = await bench.run(model, **sections, extract={"concurrency": 1})
    assert [type(outcome) for outcome in report.outcomes] == [Deferred] * 3
    assert {outcome.reason for outcome in report.outcomes if isinstance(outcome, Deferred)} == {reason}
    assert len(model.requests) == (1 if reason == "quota" else 0)
    assert all((job := bench.store.jobs.get("extract", str(r))) is None or job.attempts == 0 for r in rollouts)
    assert (report.failed, report.deferred) == (0, 3)


@pytest.mark.fault("X1")
async def test_a_budget_for_one_call_lets_one_through_and_defers_the_rest(bench: Bench) -> None:
    for name in "abc":
        bench.write(name, *TALK)
    report = await bench.run(
        ScriptedModel([GOOD], repeat_last=True), budget={"run_requests": 1}, extract={"concurrency": 1}
    )
    assert report.counts() == {"kept": 1, "deferred": 2}


@pytest.mark.fault("M74", "M76")
async def test_a_mistake_of_ours_is_a_failure_of_its_own_without_content(bench: Bench) -> None:
    bench.write("a", *TALK)
    outcome = await bench.one(ScriptedModel([RuntimeError("CANARY")]))
    assert isinstance(outcome, Failed)
    assert outcome.error == "internal"
    assert "RuntimeError" in outcome.message
    assert "CANARY" not in outcome.message


async def test_a_full_disk_stops_the_batch_and_spends_no_attempt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = bench.write("a", *TALK)

    def full(*_: object) -> str:
        raise StorageError("The disk is full.")

    monkeypatch.setattr(bench.workspace.__class__, "write_rollout_summary", full)
    outcome = await bench.one(ScriptedModel([GOOD]))
    assert isinstance(outcome, Stopped)
    assert bench.output(rollout) is None
    job = bench.store.jobs.get("extract", str(rollout))
    assert job is not None
    assert (job.status, job.attempts) == ("released", 0)


async def test_a_file_that_vanished_after_discovery_is_a_failure_that_names_it(bench: Bench) -> None:
    bench.write("a", *TALK)
    runtime = bench.runtime(ScriptedModel([]))
    discover(runtime.settings, bench.clock, bench.store)
    (bench.folder / "a.jsonl").unlink()
    (outcome,) = (await extract.run(runtime)).outcomes
    assert isinstance(outcome, Failed)
    assert "a.jsonl" in outcome.message


# -- stopping, fencing, crashing ---------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


class Hanging(ScriptedModel):
    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        self.requests.append(tuple(messages))
        await asyncio.sleep(3600)
        raise AssertionError


@pytest.mark.req("Z083", "P048")
async def test_a_stop_ends_every_session_within_seconds_and_refunds_all(bench: Bench) -> None:
    rollouts = [bench.write(name, *TALK) for name in "abcd"]
    model = Hanging()
    for _ in range(5):
        model.requests.clear()
        runtime = bench.runtime(model)
        discover(runtime.settings, bench.clock, bench.store)
        task = asyncio.create_task(extract.run(runtime))
        await until(lambda: len(model.requests) == 2)
        runtime.cancel.set()
        report = await asyncio.wait_for(task, 60)
        assert [type(outcome) for outcome in report.outcomes] == [Cancelled] * 4
        assert (report.cancelled, report.failed) == (4, 0)
    for rollout in rollouts:
        job = bench.store.jobs.get("extract", str(rollout))
        assert job is None or (job.attempts == 0 and job.status == "released")
    good = await bench.run(ScriptedModel([GOOD], repeat_last=True))
    assert good.kept == 4


@pytest.mark.req("Z083")
async def test_a_cancelled_task_gives_its_claims_back_and_stays_cancelled(bench: Bench) -> None:
    rollout = bench.write("a", *TALK)
    model = Hanging()
    task = asyncio.create_task(bench.run(model))
    await until(lambda: len(model.requests) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    job = bench.store.jobs.get("extract", str(rollout))
    assert job is not None
    assert (job.status, job.attempts) == ("released", 0)


async def test_a_long_call_keeps_its_claim_alive(bench: Bench) -> None:
    rollout = bench.write("a", *TALK)

    class Slow(ScriptedModel):
        async def complete_structured(
            self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
        ) -> StructuredReply[T]:
            for _ in range(4):
                bench.clock.advance(0.04)
                await asyncio.sleep(0.05)
            return await super().complete_structured(messages, schema, max_output_tokens=max_output_tokens)

    outcome = await bench.one(Slow([GOOD]), extract={"lease_minutes": 0.1 / 60})
    assert isinstance(outcome, Kept)
    assert bench.output(rollout) is not None


@pytest.mark.fault("M72", "M74")
async def test_a_worker_that_lost_its_claim_writes_nothing(bench: Bench) -> None:
    rollout = bench.write("a", *TALK)

    def overtaken(_: Sequence[Message]) -> dict[str, str]:
        bench.clock.advance(3600)
        row = bench.store.rollouts.get(rollout)
        assert row is not None
        other = bench.store.jobs.claim(
            "extract", str(rollout), boundary=boundary_of(row), owner="other", lease_seconds=60, max_failures=3
        )
        assert isinstance(other, Lease)
        return GOOD

    outcome = await bench.one(ScriptedModel([overtaken]))
    assert outcome == Skipped(rollout, "fenced")
    assert bench.text(rollout) is None
    assert bench.output(rollout) is None


async def test_a_lost_claim_ends_the_call_in_flight(bench: Bench) -> None:
    rollout = bench.write("a", *TALK)
    model = Hanging()
    task = asyncio.create_task(bench.one(model, extract={"lease_minutes": 0.06 / 60}))
    await until(lambda: len(model.requests) == 1)
    job = bench.store.jobs.get("extract", str(rollout))
    assert job is not None
    bench.clock.advance(600)
    other = bench.store.jobs.claim(
        "extract", str(rollout), boundary=job.boundary, owner="other", lease_seconds=600, max_failures=3
    )
    assert isinstance(other, Lease)
    assert await asyncio.wait_for(task, 60) == Skipped(rollout, "fenced")


async def test_a_session_forgotten_meanwhile_is_not_stored(bench: Bench) -> None:
    rollout = bench.write("a", *TALK)

    def forget(_: Sequence[Message]) -> dict[str, str]:
        bench.store.tombstones.add("rollout", str(rollout))
        return GOOD

    assert await bench.one(ScriptedModel([forget])) == Skipped(rollout, "fenced")
    assert bench.text(rollout) is None


@pytest.mark.fault("M72", "M74")
@pytest.mark.parametrize(
    "point", ["extract.claimed", "extract.asked", "extract.before_file", "extract.after_file", "extract.stored"]
)
async def test_a_death_at_any_step_leaves_a_state_from_which_the_next_run_finishes(bench: Bench, point: str) -> None:
    class Death(BaseException):
        pass

    def die() -> None:
        raise Death

    rollout = bench.write("a", *TALK)
    failpoints.arm(point, die)
    try:
        with pytest.raises(Death):
            await bench.run(ScriptedModel([GOOD]))
    finally:
        failpoints.disarm()
    row = bench.output(rollout)
    assert (row is not None) == (point == "extract.stored")
    bench.clock.advance(1200)
    bench.store.jobs.reap()
    bench.clock.advance(3600)
    report = await bench.run(ScriptedModel([GOOD], repeat_last=True))
    assert len(report.outcomes) == (0 if point == "extract.stored" else 1)
    row = bench.output(rollout)
    assert row is not None
    assert row.kept
    assert parse_rollout_summary(bench.text(rollout) or "")[1] == BODY


async def test_two_runs_at_once_extract_each_session_once(bench: Bench) -> None:
    for name in "abcd":
        bench.write(name, *TALK)
    model = ScriptedModel([GOOD], repeat_last=True)
    reports = await asyncio.gather(bench.run(model), bench.run(model))
    assert sum(report.kept for report in reports) == 4
    assert len(model.requests) == 4
