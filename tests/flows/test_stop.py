"""`slowwave run` as a process of its own: how it is stopped, and what it does without."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest

from flows import pipeline
from memory.state import Ledger
from tests.flows.home import CANARY, Home, child
from tests.memory.llm.loopback import Provider, Say, completion
from tests.plugins.pace import within

SESSIONS = ("apples", "pears", "plums", "figs", "dates", "limes")
SOON = 5.0
"""Seconds within which a stop must have come to its end."""


@pytest.fixture
async def slow_provider() -> AsyncIterator[Provider]:
    """Takes every question and answers in an hour."""
    provider = Provider()
    provider.script = [Say(completion("{}"), wait=3600)]
    await provider.start()
    yield provider
    await provider.stop()


async def asked(provider: Provider, times: int) -> None:
    """Waits until so many questions lie with the provider."""
    async with asyncio.timeout(60):
        while len(provider.calls) < times:
            await asyncio.sleep(0.02)


@pytest.mark.req("Z083")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_a_run_within_seconds_and_every_attempt_is_given_back(
    home: Home, slow_provider: Provider, number: signal.Signals
) -> None:
    once = {"concurrency": 2, "max_failures": 1}
    home.configure(model={"base_url": slow_provider.url, "name": "slow"}, extract=once)
    names = home.write(*SESSIONS)
    async with child(home, "-m", "cli.main", "run") as process:
        await asked(slow_provider, 2)
        with home.store() as store:
            assert {job.attempts for job in store.jobs.all("extract")} == {1}
        sent = time.monotonic()
        process.send_signal(number)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        took = time.monotonic() - sent
    assert process.returncode == 130
    assert took < within(SOON)
    assert len(slow_provider.calls) == 2
    with home.store() as store:
        jobs, (row,) = store.jobs.all("extract"), store.runs.last(2)
        spend = Ledger(store, home.settings().budget, store.clock, row.run_id).run_total()
    assert {(job.status, job.attempts) for job in jobs} == {("released", 0)}
    assert len(jobs) == spend.requests == 2
    assert row.outcome == "cancelled"
    assert row.detail["extract"]["counts"] == {"cancelled": len(names)}
    assert row.detail["consolidate"] is None
    assert "stopped before it finished" in out.decode()
    for text in (out.decode(), err.decode()):
        assert CANARY not in text
        assert "Traceback" not in text
    # Not one of them was used up: with the built-in engine in its place all are taken.
    home.configure(extract=once)
    with home.runtime() as runtime:
        report = await pipeline.run(runtime)
    assert report.extracted is not None
    assert report.extracted.done == len(names)


async def test_neither_the_pipeline_nor_a_command_imports_prefect(home: Home) -> None:
    code = (
        "import sys\nimport flows.pipeline, flows.choices\nfrom cli.main import main\n"
        "try: main(['status', '--json'])\nexcept SystemExit as ended: assert not ended.code\n"
        "print([name for name in sys.modules if name.partition('.')[0] == 'prefect'], file=sys.stderr)"
    )
    async with child(home, "-c", code) as process:
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err
    assert out.startswith(b"{")
    assert err.decode().strip() == "[]"
