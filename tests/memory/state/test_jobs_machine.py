"""Random lives of jobs against a model that fits on one screen."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from memory.errors import FencedError, TransientModelError
from memory.settings import Settings
from memory.state import Lease, Refused, Store
from memory.state.jobs import JobKind
from memory.testing import FrozenClock

MAX_FAILURES = 3
JOBS: tuple[tuple[JobKind, str], ...] = (("extract", "codex:a"), ("extract", "pi:b"), ("consolidate", "default"))


@dataclass
class Model:
    """What one job should be like. `holder` is the token that may write, 0 for nobody."""

    boundary: str = ""
    done: str | None = None
    attempts: int = 0
    token: int = 0
    holder: int = 0
    until: datetime | None = None
    retry_at: datetime | None = None

    def answer(self, kind: str, boundary: str, now: datetime) -> str:
        if self.holder and self.until is not None and self.until > now:
            return "running"
        if boundary == self.done:
            return "up_to_date"
        if boundary == self.boundary and self.attempts >= MAX_FAILURES:
            return "exhausted"
        backing_off = self.retry_at is not None and self.retry_at > now
        if backing_off and (boundary == self.boundary or kind == "consolidate"):
            return "backoff"
        return "granted"


class JobLives(RuleBasedStateMachine):
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix="slowwave-jobs-"))
        self.clock = FrozenClock()
        self.store = Store.open(Settings(home=self.home), self.clock)
        self.model = {job: Model() for job in JOBS}

    @rule(target=leases, job=st.sampled_from(JOBS), boundary=st.sampled_from(["b1", "b2"]), seconds=st.integers(1, 100))
    def claim(self, job: tuple[JobKind, str], boundary: str, seconds: int) -> object:
        model, now = self.model[job], self.clock.now()
        expected = model.answer(job[0], boundary, now)
        got = self.store.jobs.claim(
            *job, boundary=boundary, owner="o", lease_seconds=seconds, max_failures=MAX_FAILURES
        )
        if isinstance(got, Refused):
            assert got.reason == expected
            return multiple()
        assert expected == "granted"
        model.attempts = model.attempts + 1 if boundary == model.boundary else 1
        model.boundary, model.token = boundary, model.token + 1
        model.holder, model.until = model.token, now + timedelta(seconds=seconds)
        assert (got.token, got.attempt) == (model.token, model.attempts)
        return got

    def _end(self, lease: Lease, write: object) -> Model | None:
        """Does the write; None when the model and the store agree that it is fenced."""
        model = self.model[(lease.kind, lease.key)]
        assert callable(write)
        if model.holder == lease.token:
            write()
            return model
        with pytest.raises(FencedError):
            write()
        return None

    @rule(lease=consumes(leases))
    def succeed(self, lease: Lease) -> None:
        if model := self._end(lease, lambda: self.store.jobs.succeed(lease)):
            model.holder, model.attempts, model.done, model.retry_at = 0, 0, lease.boundary, None

    @rule(lease=consumes(leases), wait=st.none() | st.integers(0, 200))
    def fail(self, lease: Lease, wait: int | None) -> None:
        retry_at = None if wait is None else self.clock.now() + timedelta(seconds=wait)
        error = TransientModelError("503")
        if model := self._end(lease, lambda: self.store.jobs.fail(lease, error, retry_at)):
            model.holder, model.retry_at = 0, retry_at

    @rule(lease=consumes(leases))
    def release(self, lease: Lease) -> None:
        if model := self._end(lease, lambda: self.store.jobs.release(lease)):
            model.holder, model.attempts = 0, model.attempts - 1

    @rule(lease=leases, seconds=st.integers(1, 100))
    def heartbeat(self, lease: Lease, seconds: int) -> None:
        if model := self._end(lease, lambda: self.store.jobs.heartbeat(lease, seconds)):
            model.until = self.clock.now() + timedelta(seconds=seconds)

    @rule(seconds=st.sampled_from([1, 30, 101, 250]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule()
    def reap(self) -> None:
        now = self.clock.now()
        silent = {job for job, m in self.model.items() if m.holder and m.until is not None and m.until <= now}
        assert {(row.kind, row.key) for row in self.store.jobs.reap()} == silent
        for job in silent:
            self.model[job].holder = 0

    @invariant()
    def rows_agree_with_the_model(self) -> None:
        for job, model in self.model.items():
            row = self.store.jobs.get(*job)
            if row is not None:
                assert (row.token, row.attempts, row.done_boundary) == (model.token, model.attempts, model.done)
                assert (row.status == "running") == bool(model.holder)
                assert 0 <= row.attempts <= MAX_FAILURES

    def teardown(self) -> None:
        """Whatever happened: once the leases are over, every claimed job stands in a final state [M74]."""
        self.clock.advance(1_000)
        self.store.jobs.reap()
        rows = [row for kind in ("extract", "consolidate") for row in self.store.jobs.all(kind)]
        assert all(row.status in {"done", "failed", "released"} and row.finished is not None for row in rows)
        self.store.close()
        shutil.rmtree(self.home)


@pytest.mark.req("Z080", "Z082", "Z083")
@pytest.mark.fault("M74", "M72")
def test_every_life_of_a_job_agrees_with_the_model_and_ends() -> None:
    run_state_machine_as_test(
        JobLives,
        settings=settings(
            max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
