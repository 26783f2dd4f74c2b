"""A claim that is kept alive while the work on it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory.errors import FencedError, StateError
from memory.runtime import Runtime
from memory.state import Lease

BEATS = 3
"""Heartbeats in the length of one lease."""


@asynccontextmanager
async def kept_alive(runtime: Runtime, lease: Lease, seconds: float) -> AsyncIterator[None]:
    """Prolongs the lease while the block runs. When it is lost, the block is cancelled and FencedError raised.

    The beat is in real seconds whatever the injected clock says: a call in flight waits in real time, too.
    """
    owner = asyncio.current_task()
    assert owner is not None
    lost: list[FencedError] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(seconds / BEATS)
            try:
                runtime.store.jobs.heartbeat(lease, seconds)
            except FencedError as error:
                lost.append(error)
                owner.cancel()
                return
            except StateError:  # busy, or its server is away: the next beat will do, and what stores a result will say
                continue

    beating = asyncio.create_task(beat())
    try:
        yield
    except asyncio.CancelledError:
        if lost and owner.uncancel() == 0:
            raise lost[0] from None
        raise
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
