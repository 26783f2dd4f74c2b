"""A real Prefect server and the served deployments, as child processes on loopback, in a home of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tests.flows.home import ROOT, Home
from tests.plugins.ports import reserved

START_SECONDS = 120
"""A fresh server creates its database first: about 15 s on two idle cores."""

SERVE = ("-m", "flows.deployments")


def server(port: int) -> tuple[str, ...]:
    """Arguments of `python` that start a server."""
    return ("-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port))


@dataclass(frozen=True)
class Service:
    """`logs` holds what the processes printed."""

    home: Home
    port: int
    prefect_home: Path
    logs: Path
    environment: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request to Prefect's API; a server that is busy is asked again, as its clients do."""
        deadline = time.monotonic() + 30
        while True:
            reply = httpx.request(method, f"{self.url}{path}", json=body, timeout=30, trust_env=False)
            if reply.status_code != 503 or time.monotonic() > deadline:
                reply.raise_for_status()
                return reply.json() if reply.content else None
            time.sleep(0.2)

    def deployment(self, name: str) -> Any:
        return self.call("GET", f"/deployments/name/slow-wave/{name}")

    def trigger(self, **parameters: Any) -> str:
        """A run of `slow-wave/on-demand`; returns its id."""
        identity = self.deployment("on-demand")["id"]
        made = self.call("POST", f"/deployments/{identity}/create_flow_run", {"parameters": parameters})
        return str(made["id"])

    async def until(self, run: str, *kinds: str, seconds: float) -> Any:
        """The flow run once its state is one of the kinds."""
        async with asyncio.timeout(seconds):
            while True:
                found = await asyncio.to_thread(self.call, "GET", f"/flow_runs/{run}")
                if found["state_type"] in kinds:
                    return found
                await asyncio.sleep(0.1)

    async def task_runs(self, run: str, *, count: int) -> list[Any]:
        """The flow run's task runs once so many have ended; the server hears of them a moment later."""
        wanted = {"flow_runs": {"id": {"any_": [run]}}}
        async with asyncio.timeout(60):
            while True:
                found: list[Any] = await asyncio.to_thread(self.call, "POST", "/task_runs/filter", wanted)
                ended = [one for one in found if one["state_type"] in {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}]
                if len(ended) >= count:
                    return ended
                await asyncio.sleep(0.2)

    def seconds_between(self, run: str, first: str, then: str) -> float:
        """By the server's own record of the run's states."""
        moments = {
            one["type"]: datetime.fromisoformat(one["timestamp"])
            for one in self.call("GET", f"/flow_run_states/?flow_run_id={run}")
        }
        return (moments[then] - moments[first]).total_seconds()

    def artifacts(self, run: str) -> list[Any]:
        found: list[Any] = self.call("POST", "/artifacts/filter", {"flow_runs": {"id": {"any_": [run]}}})
        return found

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`python ARGUMENTS`, as a user would type it."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    def holding(self, word: str) -> list[Path]:
        """Files of Prefect and logs of its processes that hold the word: database, journal, storage, all of it."""
        files = [path for folder in (self.prefect_home, self.logs) for path in folder.rglob("*") if path.is_file()]
        assert any(path.name == "prefect.db" for path in files)
        return [path for path in files if word.encode() in path.read_bytes()]


@contextmanager
def running(home: Home, **settings: str) -> Iterator[Service]:
    """Starts the server and the service; ends both, and whatever they started, by their ids."""
    with reserved() as port:
        yield from _running(home, port, settings)


def _running(home: Home, port: int, settings: dict[str, str]) -> Iterator[Service]:
    prefect_home, logs = home.folder / "prefect", home.folder / "logs"
    logs.mkdir()
    environment = home.environment(
        PREFECT_HOME=str(prefect_home),
        PREFECT_API_URL=f"http://127.0.0.1:{port}/api",
        PREFECT_SERVER_UI_ENABLED="false",
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        DO_NOT_TRACK="1",
        PREFECT_RUNNER_POLL_FREQUENCY="1",
        PYTHONSAFEPATH="1",
        **settings,
    )
    service = Service(home, port, prefect_home, logs, environment)
    with _process(service, "server", *server(port)) as started:
        _wait(started, service, "/health")
        with _process(service, "serve", *SERVE) as served:
            _wait(served, service, "/deployments/name/slow-wave/scheduled")
            yield service


@contextmanager
def _process(service: Service, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with (service.logs / name).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT, env=service.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            # Its own session: nothing but what it started is in the group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[bytes], service: Service, path: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, f"it ended at once; see {service.logs}"
        with suppress(httpx.TransportError):
            if httpx.get(f"{service.url}{path}", timeout=5, trust_env=False).is_success:
                return
        time.sleep(0.1)
    raise AssertionError(f"{path} did not answer within {START_SECONDS} s; see {service.logs}")
