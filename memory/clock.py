"""Injected time. All times are aware UTC datetimes; durations are seconds."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the pipeline may know about time."""

    def now(self) -> datetime:
        """Wall clock, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. For deadlines and durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait, cancellable."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def iso(moment: datetime | None) -> str | None:
    """UTC in storage and for programs: `2026-11-28T08:14:00.000000Z`; sorts as text. None stays None."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def minutes(moment: datetime | None) -> str:
    """UTC for people: `2026-11-28T08:14Z`; a dash for None."""
    return "–" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def parse_iso(text: str | None) -> datetime | None:
    """The inverse of `iso`, lenient about precision and offset; a naive time is taken as UTC.

    Returns None for None, empty and malformed text: a bad time stamp never stops a reader.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        return None
