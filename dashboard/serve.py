"""The server as the service and the tests run it: no access log (addresses hold what was searched for), no banner."""

from __future__ import annotations

import uvicorn
from starlette.types import ASGIApp


def config(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 0, fd: int | None = None) -> uvicorn.Config:
    """For `QuietServer(config(...))`. A foreign `X-Forwarded-For` is not believed."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        fd=fd,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_level="warning",
        lifespan="off",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,  # pages that watch runs keep a connection open for minutes
        h11_max_incomplete_event_size=64_000,
    )
