"""The service's own Prefect server: `python -m flows.server`, started by the supervisor.

Prefect's application in this very process: one process less than `prefect server start`, and settings from nowhere
but `prefect_environment`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from flows import background, lifeline, prefect_environment
from flows.place import Place


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

    from memory.serving import QuietServer

    background.install()
    background.patient_streams()
    config = uvicorn.Config(
        create_app(final=True),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    QuietServer(config).run()


if __name__ == "__main__":
    main()
