"""`slowwave up`, `down`, `logs`, `cancel`, and the process of the dashboard."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from flows import lifeline


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m cli.service`: the dashboard, started by the supervisor."""
    parser = argparse.ArgumentParser(prog="python -m cli.service")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parent", required=True)
    given = parser.parse_args(arguments)
    lifeline.tie_to_parent(given.parent)
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()
    uvicorn.run(app, host=given.host, port=given.port, log_level="warning", access_log=False, timeout_graceful_shutdown=2)


if __name__ == "__main__":
    main()
