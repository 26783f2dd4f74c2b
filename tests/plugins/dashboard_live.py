"""A run that goes on, as far as its live file says: this very process, doing nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from memory import live
from memory.clock import Clock, SystemClock
from memory.live import LiveRun
from memory.processes import born


@contextmanager
def going_on(home: Path, run_id: str = "r-live", *, clock: Clock | None = None, **values: Any) -> Iterator[LiveRun]:
    """Begun 70 seconds ago; `values` are further fields of the live file."""
    now = (clock or SystemClock()).now()
    owner = f"{socket.gethostname()}:{os.getpid()}:{run_id}"
    run = LiveRun(run_id, "manual", owner, now - timedelta(seconds=70), now, process=born(os.getpid()), **values)
    live._put(home / live.FOLDER, run)
    try:
        yield run
    finally:
        live._remove(home, run_id)
