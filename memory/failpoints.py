"""Named points before and after every durable step, so that tests can kill the process exactly there.

Always compiled, off unless a test names a point: `hit` is one dictionary look-up. A point is armed in process
with `arm` or, for a child process, by the variable that `memory.settings` hands over (`SLOWWAVE_FAILPOINT`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

_armed: dict[str, Callable[[], None]] = {}
_known: set[str] = set()


def declare(*names: str) -> None:
    """Registers the points a module owns, so that a test can enumerate them all."""
    _known.update(names)


def known() -> frozenset[str]:
    """Every declared point of the modules imported so far."""
    return frozenset(_known)


def hit(name: str) -> None:
    """Does nothing unless `name` is armed."""
    action = _armed.get(name)
    if action is not None:
        action()


def arm(name: str, action: Callable[[], None]) -> None:
    """Runs `action` at the point; it may raise or kill."""
    _armed[name] = action


def disarm(name: str | None = None) -> None:
    """Removes one point, or all."""
    if name is None:
        _armed.clear()
    else:
        _armed.pop(name, None)


def arm_from_text(text: str) -> None:
    """`name` or `name=kill`: kill -9 at the point. Anything else is ignored."""
    name, _, action = text.partition("=")
    if name and action in {"", "kill"}:
        arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL))
