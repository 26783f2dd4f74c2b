"""How fast this machine is just now, for tests that hold a process to a number of seconds."""

from __future__ import annotations

import subprocess
import sys
import time

IDLE = 0.02
"""Seconds a bare interpreter takes to start on a machine that has nothing else to do."""


def within(seconds: float) -> float:
    """`seconds` of an idle machine in those of this one as it is now: a busy one starts an interpreter as much later as
    it does everything else later. Asked for after the event, so that what slowed it down is still there."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return seconds * max(1.0, (time.monotonic() - begun) / IDLE)
