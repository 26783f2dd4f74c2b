"""The service's own Prefect server: `python -m flows.server`, started by the supervisor.

Prefect's application in this very process: one process less than `prefect server start`, and settings from nowhere
but `prefect_environment`.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib
import inspect
import queue
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from flows import lifeline, prefect_environment
from flows.place import Place

LOOK_SECONDS = 1.0
"""How often the server's own background tasks look for work, instead of four and ten times a second."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m flows.server")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parent", required=True)
    given = parser.parse_args(arguments)
    lifeline.tie_to_parent(given.parent)
    prefect_environment.take(prefect_environment.for_server(Place(given.home), given.port))
    # Only now: Prefect reads its settings when it is imported.
    import uvicorn
    from prefect.server.api.server import create_app

    calm()
    uvicorn.run(
        create_app(final=True),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )


def calm() -> None:
    """Slows the loops of the server's background worker that look for work many times a second, a third of what an
    idle server takes. Where a later Prefect has others they look as often as they like."""
    with suppress(ImportError, AttributeError, TypeError):
        background: Any = importlib.import_module("prefect.server.api.background_workers")
        look = timedelta(seconds=LOOK_SECONDS)
        background.Worker = functools.partial(
            background.Worker, minimum_check_interval=look, scheduling_resolution=look
        )
    with suppress(ImportError, AttributeError):
        memory: Any = importlib.import_module("burner_redis.pubsub")
        if inspect.iscoroutinefunction(memory.PubSub._queue_get):
            memory.PubSub._queue_get = _patient_get


async def _patient_get(self: Any, timeout: float | None) -> Any:
    """One message of the in-memory queue, or None after `timeout` seconds; looks twice a second, without a thread."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        with suppress(queue.Empty):
            return self._queue.get_nowait()
        left = LOOK_SECONDS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return None
        await asyncio.sleep(min(left, LOOK_SECONDS / 2))


if __name__ == "__main__":
    main()
