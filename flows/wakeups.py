"""When hooks' wake-ups become a run: as soon as they are quiet, not while one runs, and not too often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

QUIET_SECONDS = 0.2
"""The last wake-up is so old: hooks of one turn come together."""
MOST_SECONDS = 3.0
"""However many more come, the first one waits no longer."""
RUNNING_SECONDS = 3.0
"""How often to look again while a run is going on."""
SHORTEST_GAP = 10.0
"""Between two runs, whatever the setting: a run that fails at its start leaves the wake-ups where they are."""


@dataclass(frozen=True, slots=True)
class Decision:
    """`go`: make a run. Else look again in `again` seconds, or with the next change where it is None. `why` is a
    word: `none`, `running`, `gap`, `quiet`, `due`."""

    go: bool
    again: float | None
    why: str


def decide(wakes: Sequence[float], now: float, *, running: bool, last: float | None, gap: float) -> Decision:
    """`wakes` are the times at which the wake-up files were written, `last` when the last run for them was made.

    All in seconds of one clock; a wake-up from the future is one of now.
    """
    if not wakes:
        return Decision(False, None, "none")
    if running:
        # It answers those that were there when it began; those that came later are seen when it has ended.
        return Decision(False, RUNNING_SECONDS, "running")
    wait = max(gap, SHORTEST_GAP)
    if last is not None and 0 <= now - last < wait:
        return Decision(False, wait - (now - last), "gap")
    quiet, waited = now - min(max(wakes), now), now - min(*wakes, now)
    if quiet < QUIET_SECONDS and waited < MOST_SECONDS:
        return Decision(False, min(QUIET_SECONDS - quiet, MOST_SECONDS - waited), "quiet")
    return Decision(True, None, "due")


def waiting(spool: Path) -> list[float]:
    """When the wake-ups that lie there were written."""
    found = []
    for path in spool.glob("wake-*.json"):
        try:
            found.append(path.stat(follow_symlinks=False).st_mtime)
        except OSError:
            continue
    return found
