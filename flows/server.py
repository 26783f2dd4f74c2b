"""The service's own Prefect server: `python -m flows.server`, started by the supervisor.

Prefect's application in this very process: one process less than `prefect server start`, and settings from nowhere
but `prefect_environment`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flows import background, lifeline, prefect_environment
from flows.place import Place

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CHANGES = ("/create_flow_run", "/flow_runs/", "/set_state", "/resume")
"""Requests after which a run may have to begin."""


class Telling:
    """Prefect's application; whenever a run was made or changed the worker is told, so that it need not ask."""

    def __init__(self, app: ASGIApp, tell: Callable[[], None]) -> None:
        self._app, self._tell = app, tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith(CHANGES):
            with suppress(OSError):  # the worker looks once a minute all the same
                self._tell()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m flows.server")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parent", required=True)
    given = parser.parse_args(arguments)
    lifeline.tie_to_parent(given.parent)
    place = Place(given.home)
    prefect_environment.take(prefect_environment.for_server(place, given.port))
    # Only now: Prefect reads its settings when it is imported.
    import uvicorn
    from prefect.server.api.server import create_app

    from memory.serving import QuietServer

    background.install()
    background.patient_streams()
    config = uvicorn.Config(
        Telling(create_app(final=True), place.poke),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
        ws_ping_interval=None,  # on loopback a connection that is gone says so
    )
    QuietServer(config).run()


if __name__ == "__main__":
    main()
