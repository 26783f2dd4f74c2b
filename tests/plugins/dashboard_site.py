"""A dashboard on loopback in a thread of the test: a real server, a real client, and ports that note what was asked."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from fastapi import FastAPI

from dashboard.app import create_app
from dashboard.ports import HostState, Planned
from dashboard.serve import config
from memory.clock import Clock, SystemClock
from memory.serving import QuietServer
from memory.settings import Settings
from memory.settings import load as load_settings
from memory.wishes import Asked, ServiceState, Stage


@dataclass
class Recorder:
    """Both ports: notes what was asked, and is up."""

    asked: list[tuple[str, object]] = field(default_factory=list)
    coalesced: bool = False

    def start(self, *, stage: Stage, rollouts: Sequence[str]) -> Asked:
        self.asked.append((stage, tuple(rollouts)))
        return Asked("run-1", self.coalesced, "A run was started.")

    def plan(self, *, stage: Stage, rollouts: Sequence[str]) -> Planned:
        return Planned(tuple(rollouts), 3, {"too_old": 2}, 5, "openai: m", 40, 123_456, 7_890, None)

    def cancel(self, run_id: str) -> str:
        self.asked.append(("cancel", run_id))
        return f"{run_id} stops."

    def link(self, run_id: str) -> str | None:
        return None

    def service(self) -> ServiceState:
        return ServiceState(True, schedule="every 30 minutes")

    def states(self) -> list[HostState]:
        return [HostState("codex", True, "0.144.0", False, "Codex CLI is there.", ("~/.codex/hooks.json",))]

    def install(self, host: str) -> list[str]:
        self.asked.append(("install", host))
        return [f"{host} was set up."]

    def uninstall(self, host: str) -> list[str]:
        self.asked.append(("uninstall", host))
        return [f"{host} is as it was."]


@dataclass
class Site:
    """A running dashboard: its home, its ports, its address, and a browser that keeps cookies."""

    home: Path
    ports: Recorder
    origin: str
    browser: httpx.Client
    _tokens: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.browser.get(path, headers=headers)

    def text(self, path: str) -> str:
        """A page that must be there."""
        response = self.browser.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text[:2_000])
        return response.text

    def csrf(self) -> str:
        """The token of this browser, from a page it was shown; asked for once for each cookie."""
        cookie = self.browser.cookies.get("slowwave_csrf")
        if cookie is not None and cookie in self._tokens:
            return self._tokens[cookie]
        found = re.search(r'name="csrf-token" content="([0-9a-f]{64})"', self.browser.get("/login").text)
        assert found
        self._tokens[self.browser.cookies["slowwave_csrf"]] = found[1]
        return found[1]

    def post(self, path: str, fields: Mapping[str, str] | None = None, **headers: str) -> httpx.Response:
        """A form with its token, followed to the page it leads to."""
        data = {"csrf": self.csrf(), **(fields or {})}
        return self.browser.post(path, data=data, headers={"origin": self.origin, **headers}, follow_redirects=True)


@contextmanager
def serving(
    home: Path,
    *,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    clock: Clock | None = None,
    load: Callable[[], Settings] | None = None,
) -> Iterator[Site]:
    """Serves the store in `home` until the block ends; `load` for other settings than those of its file."""
    ports = Recorder()
    app = create_app(
        load or (lambda: load_settings(home=home)),
        runs=ports,
        hosts=ports,
        clock=clock or SystemClock(),
        token=token,
        allowed_hosts=allowed_hosts,
        planner=ports.plan,
    )
    with serving_app(app, home, ports) as site:
        yield site


@contextmanager
def serving_app(app: FastAPI, home: Path, ports: Recorder | None = None) -> Iterator[Site]:
    """Serves an application whose ports are made elsewhere."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = QuietServer(config(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        end = time.monotonic() + 60
        while not server.started and time.monotonic() < end:
            time.sleep(0.01)
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            # Loopback needs no certificates, and to read all the machine has takes longer than most pages.
            with httpx.Client(base_url=origin, timeout=60, trust_env=False, verify=False) as browser:
                yield Site(home, ports or Recorder(), origin, browser)
        finally:
            server.stop()
            thread.join(60)
