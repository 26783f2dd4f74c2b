"""The plain pipeline on real session files, with the built-in engine in front."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import extract
from consolidate.gate import Change
from consolidate.outcomes import ConsolidateOutcome, Deferred, Empty, Failed, Published, Stopped, Unchanged
from extract.outcomes import Cancelled as ExtractCancelled
from extract.outcomes import Deferred as ExtractDeferred
from extract.outcomes import ExtractReport, NothingKept, Skipped
from extract.outcomes import Failed as ExtractFailed
from extract.outcomes import Stopped as ExtractStopped
from flows import pipeline
from memory import failpoints
from memory.errors import QuotaModelError, StateBusyError
from memory.model import LeftOut, RolloutId, Violation
from memory.runtime import Runtime
from memory.state import Lease
from rollouts.eligibility import Picks
from tests.flows.home import CANARY, Home

A = RolloutId.parse("generic:a")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


# -- one word for a run ---------------------------------------------------------------------------------

DONE = ExtractReport((NothingKept(A),))
FAILED = ExtractReport((NothingKept(A), ExtractFailed(A, "timeout", "", 1, None)))
STOPPED = ExtractReport((ExtractStopped(A, "permanent", ""),))
WAITS = ExtractReport((ExtractDeferred(A, "quota", ""),))
TAKEN = ExtractReport((Skipped(A, "running"),))
CANCELLED = ExtractReport((NothingKept(A), ExtractCancelled(A)))
PUBLISHED = Published(1, 1, 100, 3)


@pytest.mark.parametrize(
    ("extracted", "consolidated", "cancelled", "word"),
    [
        (None, None, False, "nothing"),
        (ExtractReport(), Empty(), False, "nothing"),
        (ExtractReport(), Unchanged(3), False, "nothing"),
        (ExtractReport(off="off"), Deferred("off"), False, "nothing"),
        (TAKEN, Unchanged(1), False, "nothing"),
        (DONE, Unchanged(1), False, "ok"),
        (ExtractReport(), PUBLISHED, False, "ok"),
        (DONE, Deferred("cooldown"), False, "deferred"),
        (WAITS, Unchanged(1), False, "deferred"),
        (WAITS, PUBLISHED, False, "deferred"),
        (FAILED, PUBLISHED, False, "failed"),
        (STOPPED, Unchanged(1), False, "failed"),
        (DONE, Failed("gate_rejected", ""), False, "failed"),
        (FAILED, Deferred("cooldown"), False, "failed"),
        (DONE, Stopped(), False, "cancelled"),
        (CANCELLED, None, False, "cancelled"),
        (FAILED, None, True, "cancelled"),
        (DONE, PUBLISHED, True, "cancelled"),
    ],
)
def test_a_run_has_one_word_and_a_failure_outweighs_what_went_well(
    extracted: ExtractReport | None, consolidated: ConsolidateOutcome | None, cancelled: bool, word: str
) -> None:
    assert pipeline.word_for(extracted, consolidated, cancelled=cancelled) == word


# -- what a report tells --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "plain"),
    [
        (
            Published(
                2, 3, 100, 5, (Change("added", CANARY, ""), Change("added", CANARY, ""), Change("merged", CANARY, "")),
                (LeftOut("note:x", "p", "secret"),), "max_sources", 1,
            ),
            {
                "code": "published", "version": 2, "sources": 3, "bytes": 100, "requests": 5, "repairs": 1,
                "changes": {"added": 2, "merged": 1}, "cap": "max_sources",
                "left_out": [{"citation": "note:x", "reason": "secret"}],
            },
        ),
        (
            Failed("gate_rejected", "M", (Violation("shrink", CANARY, 7),), 4, NEW_YEAR, ("request 1: gate passed",)),
            {
                "code": "failed", "error": "gate_rejected", "message": "M", "requests": 4,
                "retry_at": "2026-01-01T00:00:00.000000Z", "violations": [{"rule": "shrink", "line": 7}],
                "transcript": ["request 1: gate passed"],
            },
        ),
        (Deferred("cooldown", "D"), {"code": "deferred", "reason": "cooldown", "detail": "D", "until": None}),
        (Unchanged(3), {"code": "unchanged", "sources": 3}),
        (Empty(), {"code": "empty"}),
        (Stopped(2), {"code": "cancelled"}),
    ],
)  # fmt: skip
def test_an_outcome_is_told_in_codes_and_numbers_without_a_line_of_the_summary(
    outcome: ConsolidateOutcome, plain: dict[str, Any]
) -> None:
    assert pipeline.outcome_detail(outcome) == plain


async def test_a_run_extracts_consolidates_and_leaves_its_row_without_content(home: Home) -> None:
    home.write("apples", "pears")
    with home.runtime() as runtime:
        report = await pipeline.run(runtime)
        summary = runtime.workspace.summary() or ""
        row = runtime.store.runs.last()[0]
    assert report.outcome == "ok"
    assert (report.extracted.kept if report.extracted else 0) == 2
    assert isinstance(report.consolidated, Published)
    assert "vitest" in summary
    assert (row.run_id, row.trigger, row.outcome) == (report.run_id, "manual", "ok")
    assert row.models == {"extract": "offline-extractive-1", "consolidate": "offline-extractive-1"}
    assert row.finished is not None
    told = json.dumps(pipeline.detail(report))
    whose = {"owner": runtime.owner, "prefect_run": None}
    assert row.detail == json.loads(told) | whose
    assert row.detail["discover"]["new"] == 2
    assert row.detail["spend"]["requests"] == report.spend.requests if report.spend else False
    for word in (CANARY, "vitest", "pnpm"):
        assert word not in told


async def test_a_run_with_nothing_new_makes_no_model_call(home: Home) -> None:
    home.write("apples")
    with home.runtime() as runtime:
        await pipeline.run(runtime)
    with home.runtime() as runtime:
        report = await pipeline.run(runtime)
    assert report.outcome == "nothing"
    assert report.consolidated == Unchanged(1)
    assert report.spend is not None
    assert report.spend.requests == 0


@pytest.mark.parametrize(
    ("options", "extracts", "consolidates"),
    [
        (pipeline.Options(consolidate=False), True, False),
        (pipeline.Options(extract=False), False, True),
    ],
)
async def test_either_stage_runs_alone(
    home: Home, options: pipeline.Options, extracts: bool, consolidates: bool
) -> None:
    home.write("apples")
    with home.runtime() as runtime:
        report = await pipeline.run(runtime, options)
    assert (report.discovered is not None) == (report.extracted is not None) == extracts
    assert (report.consolidated is not None) == consolidates


async def test_a_schedule_does_nothing_in_short_memory_and_a_person_does(home: Home) -> None:
    home.configure(memory={"mode": "short"})
    home.write("apples")
    with home.runtime("schedule") as runtime:
        report = await pipeline.run(runtime)
    assert report.outcome == "nothing"
    assert report.spend is not None
    assert report.spend.requests == 0
    with home.runtime() as runtime:
        assert (await pipeline.run(runtime)).outcome == "ok"


# -- runs that end badly --------------------------------------------------------------------------------


async def test_an_error_ends_the_run_s_row_with_its_code_and_place_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(runtime: Runtime) -> None:
        raise KeyError(CANARY)

    monkeypatch.setattr(pipeline, "look_around", broken)
    with home.runtime() as runtime:
        with pytest.raises(KeyError):
            await pipeline.run(runtime)
        row = runtime.store.runs.last()[0]
    assert row.outcome == "failed"
    assert row.detail["error"].startswith("internal: KeyError at test_pipeline.py:")
    assert CANARY not in json.dumps(row.detail)


async def test_an_unusable_state_is_raised_as_it_is_and_named_in_the_row(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(runtime: Runtime) -> None:
        raise StateBusyError("The state is locked.", hint="Wait.")

    monkeypatch.setattr(pipeline, "look_around", busy)
    with home.runtime() as runtime:
        with pytest.raises(StateBusyError):
            await pipeline.run(runtime)
        assert runtime.store.runs.last()[0].detail["error"] == "state_busy: The state is locked. Wait."


async def test_a_run_cancelled_from_outside_is_recorded_as_cancelled(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def for_ever(*_: object, **__: object) -> None:
        begun.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(extract, "run", for_ever)
    with home.runtime() as runtime:
        running = asyncio.create_task(pipeline.run(runtime))
        await asyncio.wait_for(begun.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert runtime.store.runs.last()[0].outcome == "cancelled"


def test_an_error_of_ours_is_described_by_its_message_and_another_by_class_and_place() -> None:
    with pytest.raises(ValueError, match="Expecting value") as caught:
        json.loads(CANARY)
    foreign = caught.value
    assert pipeline.described(QuotaModelError("No credit.", hint="Pay.")) == "quota: No credit. Pay."
    assert pipeline.described(foreign).startswith("internal: JSONDecodeError at decoder.py:")
    assert pipeline.described(ValueError(CANARY)) == "internal: ValueError. This is a mistake of slowwave's."


# -- recovery -------------------------------------------------------------------------------------------


@pytest.mark.req("Z106")
async def test_a_run_first_ends_the_claims_of_dead_processes_and_says_so(home: Home) -> None:
    (name,) = home.write("apples")
    with home.runtime() as runtime:
        pipeline.look_around(runtime)
        claim = runtime.store.jobs.claim(
            "extract", str(name), boundary="1:0", owner="dead", lease_seconds=0.01, max_failures=3
        )
        assert isinstance(claim, Lease)
        await asyncio.sleep(0.05)
        report = await pipeline.run(runtime)
        job = runtime.store.jobs.get("extract", str(name))
    assert report.recovered == (f"extract {name}: its process ended without a word",)
    assert job is not None
    assert job.status == "done"


@pytest.mark.req("Z103", "Z106")
@pytest.mark.parametrize("point", ["publish.after_intent", "publish.after_version", "publish.after_install"])
async def test_a_publish_that_broke_off_is_settled_by_the_next_run_before_anything_else(home: Home, point: str) -> None:
    class Killed(BaseException):
        """As if the process had ended here."""

    def kill() -> None:
        raise Killed

    home.write("apples")
    with home.runtime() as runtime:
        failpoints.arm(point, kill)
        try:
            with pytest.raises(Killed):
                await pipeline.run(runtime)
        finally:
            failpoints.disarm(point)
    steps: list[str] = []
    with home.runtime() as runtime:
        runtime.progress = lambda step: steps.append(step.stage)
        report = await pipeline.run(runtime)
        pending = runtime.store.intents.pending()
        version = runtime.store.versions.latest()
        sha = runtime.workspace.summary_sha()
    assert report.recovered
    assert steps[: len(report.recovered)] == ["recover"] * len(report.recovered)
    assert not pending
    assert sha == (version.sha256 if version is not None else None)


# -- dry run --------------------------------------------------------------------------------------------

_watched: list[tuple[Path, set[Path]]] = []


def _see(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _watched or not isinstance(arguments[0], str | bytes):
        return
    path = Path(os.fsdecode(arguments[0]))
    for folder, opened in _watched:
        if path.is_relative_to(folder) and path.is_file():
            opened.add(path)


sys.addaudithook(_see)


@contextmanager
def opened_below(folder: Path) -> Iterator[set[Path]]:
    """The files below a folder that this process opens in the block, by whatever way Python has."""
    opened: set[Path] = set()
    _watched.append((folder, opened))
    try:
        yield opened
    finally:
        _watched.remove((folder, opened))


@pytest.mark.fault("X41")
@pytest.mark.parametrize(
    ("sections", "options", "names"),
    [
        ({}, pipeline.Options(), {"a1", "b2", "c3", "d4"}),
        ({"extract": {"batch": 2}}, pipeline.Options(), {"a1", "b2"}),
        ({}, pipeline.Options(picks=Picks(limit=3)), {"a1", "b2", "c3"}),
        ({}, pipeline.Options(picks=Picks(rollouts=frozenset({RolloutId.parse("generic:c3")}))), {"c3"}),
        ({}, pipeline.Options(extract=False), set()),
        ({"memory": {"enabled": False}}, pipeline.Options(), set()),
        ({"extract": {"max_age_days": 1}}, pipeline.Options(), set()),
    ],
    ids=["all", "batch", "limit", "picked", "consolidate only", "off", "too old"],
)
async def test_a_dry_run_lists_exactly_the_session_files_that_a_run_opens(
    home: Home, sections: dict[str, dict[str, Any]], options: pipeline.Options, names: set[str]
) -> None:
    home.write("a1", "b2", "c3", "d4")
    with home.runtime(**sections) as runtime:
        plan = await pipeline.plan(runtime, options)
        assert not runtime.store.outputs.all()
    with home.runtime(**sections) as runtime, opened_below(home.sessions) as opened:
        await pipeline.run(runtime, options)
    assert {row.path for row in plan.rollouts} == opened == {home.sessions / f"{name}.jsonl" for name in names}


async def test_a_dry_run_calls_no_model_and_bounds_what_the_run_then_costs(home: Home) -> None:
    home.write("a1", "b2", "c3")
    with home.runtime() as runtime:
        plan = await pipeline.plan(runtime, pipeline.Options())
        report = await pipeline.run(runtime)
    assert report.spend is not None
    assert 0 < report.spend.requests <= plan.requests
    assert report.spend.input_tokens <= plan.input_tokens
    assert report.spend.output_tokens <= plan.output_tokens
    assert plan.money == 0.0
    assert plan.model == "offline-extractive-1"
    assert plan.as_json()["rollouts"][0]["path"] == str(home.sessions / "a1.jsonl")


async def test_the_bound_of_a_named_model_follows_its_price_and_the_run_s_ceilings(home: Home) -> None:
    home.write("a1")
    model = {"base_url": "http://127.0.0.1:9/v1", "name": "m", "window": 10_000}
    limits = {"repairs": 1, "max_output_tokens": 100, "window_share": 0.5}

    async def bound(**budget: Any) -> pipeline.Plan:
        with home.runtime(
            model=model, extract=limits, consolidate={"max_requests": 2, "max_output_tokens": 200}, budget=budget
        ) as runtime:
            return await pipeline.plan(runtime, pipeline.Options())

    plain = await bound()
    assert (plain.requests, plain.input_tokens, plain.output_tokens) == (2 + 2, 15_000 + 20_000, 200 + 400)
    assert plain.money is None
    priced = await bound(prices={"m": {"input": 1.0, "output": 10.0}})
    assert priced.money == pytest.approx(0.035 + 0.006)
    capped = await bound(
        prices={"m": {"input": 1.0, "output": 10.0}}, run_tokens=1_000, run_requests=3, run_money=0.001
    )
    assert (capped.requests, capped.input_tokens, capped.output_tokens) == (3, 1_000, 600)
    assert capped.money == pytest.approx(0.001)


# -- the stop button --------------------------------------------------------------------------------------


@pytest.mark.req("Z083")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_sets_the_flag_and_gives_the_next_one_back(home: Home, number: signal.Signals) -> None:
    heard: list[int] = []
    former = signal.signal(number, lambda received, frame: heard.append(received))
    try:
        with home.runtime() as runtime:
            with pipeline.stop_signals(runtime):
                os.kill(os.getpid(), number)
                await asyncio.wait_for(runtime.cancel.wait(), 60)
                assert heard == []
                os.kill(os.getpid(), number)
                await asyncio.sleep(0)
                assert heard == [number]
            os.kill(os.getpid(), number)
            await asyncio.sleep(0)
            assert heard == [number, number]
    finally:
        signal.signal(number, former)


async def test_a_block_without_a_signal_leaves_the_handlers_as_they_were(home: Home) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with home.runtime() as runtime, pipeline.stop_signals(runtime):
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
