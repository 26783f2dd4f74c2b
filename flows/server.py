"""The service's own Prefect server: `python -m flows.server`, started by the supervisor.

Prefect's application in this very process: one process less than `prefect server start`, and settings from nowhere
but `prefect_environment`.
"""

from __future__ import annotations

import argparse
import functools
import importlib
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
    """Slows the background worker's looks. Where a later Prefect has another one it looks as often as it likes."""
    with suppress(ImportError, AttributeError, TypeError):
        background: Any = importlib.import_module("prefect.server.api.background_workers")
        look = timedelta(seconds=LOOK_SECONDS)
        background.Worker = functools.partial(
            background.Worker, minimum_check_interval=look, scheduling_resolution=look
        )


if __name__ == "__main__":
    main()
