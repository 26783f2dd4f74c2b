"""The claim of a consolidation, kept alive while its agent works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from memory.errors import FencedError, StateError
from memory.runtime import Runtime
from memory.state import Lease

HEARTBEATS = 3
"""Heartbeats in the length of one lease."""


def prolong(runtime: Runtime, lease: Lease) -> None:
    """Raises FencedError when the claim is no longer ours."""
    try:
        runtime.store.jobs.heartbeat(lease, runtime.settings.consolidate.lease_minutes * 60)
    except FencedError:
        raise
    except StateError:  # busy, or its server is away: the next beat will do, and the publish will say
        return


@asynccontextmanager
async def heartbeat(runtime: Runtime, lease: Lease) -> AsyncIterator[None]:
    """Keeps the lease alive while the agent works. When it is lost, the work is cancelled and FencedError raised: what
    cannot be published any more must not be paid for."""
    seconds = runtime.settings.consolidate.lease_minutes * 60
    owner = asyncio.current_task()
    assert owner is not None
    lost: list[FencedError] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(seconds / HEARTBEATS)
            try:
                prolong(runtime, lease)
            except FencedError as error:
                lost.append(error)
                owner.cancel()
                return

    task = asyncio.create_task(beat())
    try:
        yield
    except asyncio.CancelledError:
        if lost and owner.uncancel() == 0:
            raise lost[0] from None
        raise
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
