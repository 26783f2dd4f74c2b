"""What a run knows about the processes that ran before it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from memory.clock import SystemClock
from memory.runtime import new_run_id, owner_is_gone


def test_a_process_that_ended_is_gone_and_a_living_one_is_not() -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    here = socket.gethostname()
    assert owner_is_gone(f"{here}:{ended.pid}:run-1")
    assert not owner_is_gone(f"{here}:{os.getpid()}:run-1")


@pytest.mark.parametrize(
    "owner", ["", "elsewhere:1:run", "HOST:x:run", "HOST", "HOST::", "HOST:99999999999999999999:r"]
)
def test_an_owner_of_whom_nothing_is_sure_is_not_gone(owner: str) -> None:
    assert not owner_is_gone(owner.replace("HOST", socket.gethostname()))


def test_run_ids_sort_by_time_and_differ() -> None:
    clock = SystemClock()
    first, second = new_run_id(clock), new_run_id(clock)
    assert first != second
    assert first[:8] <= second[:8]
