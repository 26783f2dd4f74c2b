"""`python -m dashboard [PORT]`: the pages over the user's store without the service: looking, notes, forgetting."""

from __future__ import annotations

import sys

from dashboard.app import create_app
from dashboard.ports import Nobody
from dashboard.serve import config
from memory.clock import SystemClock
from memory.serving import QuietServer
from memory.settings import load


def main() -> None:
    """Serves on loopback until it is interrupted."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8_765
    nobody = Nobody()
    app = create_app(load, runs=nobody, hosts=nobody, clock=SystemClock())
    sys.stderr.write(f"http://127.0.0.1:{port}/\n")
    QuietServer(config(app, port=port)).run()


if __name__ == "__main__":
    main()
