"""A process is known by its number and when it began."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from memory import processes


def test_a_process_keeps_its_mark_and_another_one_has_its_own() -> None:
    mark = processes.born(os.getpid())
    assert mark
    assert processes.born(os.getpid()) == mark
    assert processes.alive(os.getpid(), mark)
    assert processes.alive(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert processes.born(child.pid) not in {"", mark}
        assert not processes.alive(child.pid, mark)
        child.communicate(b"\n")


@pytest.mark.fault("O37")
def test_a_process_that_ended_is_not_alive_even_before_its_parent_asks() -> None:
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as child:
        mark = processes.born(child.pid)
        assert child.stdout is not None
        child.stdout.read()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not processes.alive(child.pid, mark)
        assert not processes.alive(child.pid)
    assert not processes.alive(child.pid, mark)


@pytest.mark.parametrize("number", [0, -1, 2**70])
def test_no_number_of_a_process_is_alive(number: int) -> None:
    assert not processes.alive(number)
