"""Several processes on one state."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from memory.clock import SystemClock
from memory.errors import SlowwaveError
from memory.settings import Settings
from memory.state import Lease, Store
from memory.state.postgres import schema_of
from memory.testing import FrozenClock

pytestmark = pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")

Work = Callable[[Path], None]


def spawn(work: Work, report: Path) -> int:
    """Forks a child that writes what happened to `report`: lines of the work, and any error's class and text."""
    child = os.fork()
    if child:
        return child
    try:
        work(report)
        os._exit(0)
    except SlowwaveError as error:
        report.write_text(f"error {error.code} {error}\n")
        os._exit(1)
    except BaseException as error:  # noqa: BLE001 - a child must never return into pytest
        report.write_text(f"error {error!r}\n")
        os._exit(2)


def together(works: list[Work], folder: Path) -> list[str]:
    """Runs all at once and returns the lines they wrote."""
    reports = [folder / f"report{number}" for number in range(len(works))]
    children = [spawn(work, report) for work, report in zip(works, reports, strict=True)]
    codes = [os.waitpid(child, 0)[1] for child in children]
    lines = [line for report in reports if report.exists() for line in report.read_text().splitlines()]
    assert codes == [0] * len(works), lines
    return lines


def claim_all(settings: Settings, go: Path) -> Work:
    def work(report: Path) -> None:
        won = []
        while not go.exists():
            time.sleep(0.01)
        with Store.open(settings, SystemClock()) as store:
            for number in range(20):
                lease = store.jobs.claim(
                    "extract", f"codex:{number}", boundary="b", owner=str(os.getpid()), lease_seconds=60, max_failures=3
                )
                if isinstance(lease, Lease):
                    won.append(f"claimed {number}")
                    store.jobs.succeed(lease)
        report.write_text("\n".join(won))

    return work


@pytest.mark.fault("X19", "M43")
def test_eight_processes_claim_twenty_jobs_once_each_while_another_holds_the_lock_for_two_seconds(
    open_store: Any, settings: Settings, tmp_path: Path
) -> None:
    open_store()
    locked = tmp_path / "locked"
    seconds = 0.5 if settings.state.url.get_secret_value() else 2

    def hold(report: Path) -> None:
        with Store.open(settings, SystemClock()) as store, store.write() as tx:
            if tx.dialect.name != "sqlite":  # there a writer locks rows; this stops them all
                tx.execute(text(f"LOCK TABLE {schema_of(settings.store)}.jobs IN EXCLUSIVE MODE"))
            locked.touch()
            time.sleep(seconds)

    started = time.monotonic()
    lines = together([hold, *[claim_all(settings, locked)] * 8], tmp_path)
    assert time.monotonic() - started >= seconds
    assert sorted(lines) == sorted(f"claimed {number}" for number in range(20))


@pytest.mark.fault("X19")
def test_processes_that_open_a_new_home_at_once_agree_on_one_state(settings: Settings, tmp_path: Path) -> None:
    def work(report: Path) -> None:
        with Store.open(settings, SystemClock()) as store:
            store.runs.start(str(os.getpid()), "manual")
            report.write_text(store.generation)

    lines = together([work] * 8, tmp_path)
    assert len(lines) == 8
    assert len(set(lines)) == 1
    with Store.open(settings, SystemClock()) as store:
        assert len(store.runs.last(100)) == 8
    assert sorted(p.name for p in settings.home.iterdir() if p.name.startswith(".")) == []


@pytest.mark.req("Z106")
def test_a_process_killed_inside_a_transaction_leaves_nothing_of_it(
    open_store: Any, settings: Settings, rollout: Callable[..., Any], clock: FrozenClock
) -> None:
    open_store().rollouts.upsert_many([rollout("before")])
    child = os.fork()
    if child == 0:
        try:
            other = Store.open(settings, clock)
            with other.write():
                other.rollouts.upsert_many([rollout(f"half{n}") for n in range(500)])
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    fresh = open_store()
    assert [row.id.session for row in fresh.rollouts.all()] == ["before"]
    fresh.rollouts.upsert_many([rollout("after")])
