"""Named points before and after every durable step, so that tests can kill the process exactly there.

Always compiled, off unless a test names a point: `hit` is one dictionary look-up. A point is armed with `arm`, or with
`arm_from_text` by the program a test gives a child process; nothing in the environment arms one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_armed: dict[str, Callable[[], None]] = {}
_known: set[str] = set()
_recorders: list[list[str]] = []


def declare(*names: str) -> None:
    """Registers the points a module owns, so that a test can enumerate them all."""
    _known.update(names)


def known() -> frozenset[str]:
    """Every declared point of the modules imported so far."""
    return frozenset(_known)


def hit(name: str) -> None:
    """Does nothing unless `name` is armed or somebody records."""
    if _recorders:
        for seen in _recorders:
            seen.append(name)
    action = _armed.get(name)
    if action is not None:
        action()


@contextmanager
def step(name: str) -> Iterator[None]:
    """A durable step: `<name>.before`, the body, `<name>.after` (not reached when the body raises)."""
    hit(f"{name}.before")
    yield
    hit(f"{name}.after")


@contextmanager
def recorded() -> Iterator[list[str]]:
    """Collects the points passed in the block, in order, armed or not: which ones does an operation have?"""
    seen: list[str] = []
    _recorders.append(seen)
    try:
        yield seen
    finally:
        _recorders[:] = [other for other in _recorders if other is not seen]


def arm(name: str, action: Callable[[], None], *, at: int = 1) -> None:
    """Runs `action` from the `at`-th time on that the point is passed; it may raise or kill."""
    passed = 0

    def count() -> None:
        nonlocal passed
        passed += 1
        if passed >= at:
            action()

    _armed[name] = count


def disarm(name: str | None = None) -> None:
    """Removes one point, or all."""
    if name is None:
        _armed.clear()
    else:
        _armed.pop(name, None)


def arm_from_text(text: str) -> None:
    """`name`, `name=kill` or `name=kill@3`: kill -9 at the point, the third time. Anything else is ignored."""
    name, _, action = text.partition("=")
    action, _, times = action.partition("@")
    if name and action in {"", "kill"} and (times.isdigit() or not times):
        arm(name, lambda: os.kill(os.getpid(), signal.SIGKILL), at=int(times or "1"))
