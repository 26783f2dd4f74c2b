"""The lines `slowwave-hook` leaves, read: when a host called last, and what went wrong lately.

    2026-11-30T09:00:00Z claude UserPromptSubmit b9dd805a-a35b block 2048 12
    time                 host   event            session       outcome characters milliseconds

Outcomes are words of ours and may be several; a damaged line counts as none.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

NAME = "hook.log"
MAX_BYTES = 300_000
FAULTS = ("failed", "malformed", "deadline", "busy", "no reader")
NOT_KEPT = ", not kept"


class Entry(NamedTuple):
    """One run of the hook. `sent` counts characters."""

    time: datetime
    host: str
    event: str
    outcome: str
    sent: int

    @property
    def fault(self) -> str:
        """What went wrong, in the words of the log; empty for nothing."""
        return self.outcome if self.outcome.startswith(FAULTS) or NOT_KEPT in self.outcome else ""


def entries(log: Path) -> Iterator[Entry]:
    """Newest first, of the log and the one before it. Never raises."""
    for path in (log, log.with_name(log.name + ".1")):
        lines: list[bytes] = []
        with contextlib.suppress(OSError):
            lines = path.read_bytes()[-MAX_BYTES:].splitlines()
        for line in reversed(lines):
            entry = _entry(line.decode("utf-8", "replace").split())
            if entry is not None:
                yield entry


def last_hook(log: Path, host: str) -> datetime | None:
    """When the host last called our program; None for never, or no log."""
    return next((entry.time for entry in entries(log) if entry.host == host), None)


def faults(log: Path, now: datetime, *, hours: float = 24) -> dict[str, int]:
    """`host: outcome` -> how often it went wrong in the last hours."""
    found: Counter[str] = Counter()
    for entry in entries(log):
        if entry.fault and now - timedelta(hours=hours) <= entry.time:
            found[f"{entry.host}: {entry.fault}"] += 1
    return dict(sorted(found.items()))


def _entry(words: list[str]) -> Entry | None:
    """A line that was cut off still says who called."""
    if len(words) < 3:
        return None
    whole = len(words) > 6
    with contextlib.suppress(ValueError):
        time = datetime.fromisoformat(words[0])
        outcome, sent = (" ".join(words[4:-2]), int(words[-2])) if whole else ("", 0)
        return Entry(time if time.tzinfo else time.replace(tzinfo=UTC), words[1], words[2], outcome, sent)
    return None
