"""Failpoints: nothing unless armed, exactly there when armed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory import failpoints


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


def boom() -> None:
    raise OSError("boom")


def test_an_unarmed_point_does_nothing() -> None:
    failpoints.hit("d.nothing")


def test_an_armed_point_acts_each_time_until_it_is_disarmed() -> None:
    failpoints.arm("d.point", boom)
    failpoints.hit("d.other")
    for _ in range(2):
        with pytest.raises(OSError, match="boom"):
            failpoints.hit("d.point")
    failpoints.disarm("d.point")
    failpoints.hit("d.point")
    failpoints.disarm("d.point")


def test_a_point_can_wait_for_a_later_time() -> None:
    failpoints.arm("d.point", boom, at=3)
    failpoints.hit("d.point")
    failpoints.hit("d.point")
    with pytest.raises(OSError, match="boom"):
        failpoints.hit("d.point")


def test_a_step_has_a_point_before_and_one_after_unless_it_failed() -> None:
    with failpoints.recorded() as seen, failpoints.step("d.save"):
        seen.append("body")
    assert seen == ["d.save.before", "body", "d.save.after"]
    with failpoints.recorded() as seen, pytest.raises(OSError, match="boom"), failpoints.step("d.save"):
        boom()
    assert seen == ["d.save.before"]


def test_two_recorders_each_hear_what_passes_in_their_own_block() -> None:
    with failpoints.recorded() as outer:
        failpoints.hit("a")
        with failpoints.recorded() as inner:
            failpoints.hit("b")
        failpoints.hit("c")
    failpoints.hit("d")
    assert (outer, inner) == (["a", "b", "c"], ["b"])


def test_declared_points_can_be_listed() -> None:
    failpoints.declare("d.one", "d.two")
    assert {"d.one", "d.two"} <= failpoints.known()


@pytest.mark.parametrize(("text", "times"), [("d.x", 1), ("d.x=kill", 1), ("d.x=kill@3", 3), ("d.x@2", 0)])
def test_a_child_process_dies_at_the_point_its_variable_names(text: str, times: int) -> None:
    code = (
        "import sys; from memory import failpoints\n"
        f"failpoints.arm_from_text({text!r})\n"
        "for n in range(5): print(n, flush=True); failpoints.hit('d.x')\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(n) for n in range(times or 5)]
    assert done.returncode == (-signal.SIGKILL if times else 0)


@pytest.mark.parametrize("text", ["", "=kill", "d.x=exit", "d.x=kill@x", "d.x=kill@-1"])
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_malformed_text_arms_nothing(text: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            failpoints.arm_from_text(text)
            failpoints.hit("d.x")
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
