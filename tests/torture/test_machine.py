"""Random histories: sessions begin and grow, memory is consolidated, cleared, forgotten in and restored, processes die,
clocks jump. After every step the summary says exactly what the reference model says."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.torture.machine import Machine

pytestmark = pytest.mark.deep

SEEDS = st.integers(min_value=0, max_value=2**32)


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="slowwave-machine-"))
        self.machine = Machine(self.folder)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule()
    def new_session(self) -> None:
        self.machine.new_session()

    @rule(seed=SEEDS)
    def grow(self, seed: int) -> None:
        self.machine.grow(random.Random(seed))

    @rule()
    def note(self) -> None:
        self.machine.note()

    @rule()
    def run(self) -> None:
        self.machine.run()

    @rule()
    def clear(self) -> None:
        self.machine.clear()

    @rule(seed=SEEDS)
    def forget_session(self, seed: int) -> None:
        self.machine.forget_session(random.Random(seed))

    @rule(seed=SEEDS)
    def forget_text(self, seed: int) -> None:
        self.machine.forget_text(random.Random(seed))

    @rule(seed=SEEDS)
    def restore(self, seed: int) -> None:
        self.machine.restore(random.Random(seed))

    @rule(seed=SEEDS)
    def jump(self, seed: int) -> None:
        self.machine.jump(random.Random(seed))

    @rule(seed=SEEDS)
    def crash(self, seed: int) -> None:
        self.machine.crash(random.Random(seed))

    @invariant()
    def holds(self) -> None:
        self.machine.check()


@pytest.mark.req("Z022", "Z024", "Z103", "Z104", "Z105", "Z106", "Z111", "Z112", "Z113", "Z115", "Z117")
@pytest.mark.fault("M48", "M49", "M50", "M55", "M72", "M74", "M82", "M83", "X47")
def test_whatever_happens_the_summary_says_what_it_must() -> None:
    Histories.TestCase.settings = settings(
        max_examples=5,
        stateful_step_count=12,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    Histories.TestCase().runTest()


@pytest.mark.req("Z022", "Z115", "Z117")
@pytest.mark.fault("M55", "M83")
@pytest.mark.parametrize("seed", [11, 23])
def test_a_long_history_ends_as_the_model_says(tmp_path: Path, seed: int) -> None:
    """Seed 11 clears with a clock that was set back: what had been said later by that clock must not come back."""
    from tests.torture.long import history

    history(tmp_path, f"{seed}/0")
