"""What a browser visits: a dashboard in a thread, runs in child processes of its own, Debian's Chromium."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from cli.planning import planner
from cli.web import Installers
from dashboard.app import create_app
from dashboard.ports import HostSetup, Runs
from flows import pipeline
from memory import live
from memory.clock import SystemClock
from memory.errors import UnknownReference
from memory.runtime import open_runtime
from memory.settings import Settings, load
from memory.wishes import Asked, ServiceState, Stage
from tests.plugins.command_line import CONFIG, SAMPLES
from tests.plugins.dashboard_site import Site, serving_app

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    *(
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync"
    ).split(),
    "--host-resolver-rules=MAP evil.example 127.0.0.1",  # a foreign name that points here
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; downloads nothing."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class ShiftedClock(SystemClock):
    """The machine's clock some days on."""

    def __init__(self, days: float = 0) -> None:
        self.days = days

    def now(self) -> datetime:
        return super().now() + timedelta(days=self.days)


class ChildRuns:
    """The port of runs without the service: each run is a process of its own, as `slowwave run` is."""

    def __init__(self, home: Path, environ: dict[str, str], clock: SystemClock) -> None:
        self.home, self.environ, self.clock = home, environ, clock
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, *, stage: Stage, rollouts: Sequence[str]) -> Asked:
        going = live.running(self.home)
        if going:
            return Asked(going[0].run_id, True, f"The run {going[0].run_id} is going on.")
        command = [
            sys.executable,
            "-m",
            "cli.main",
            "run",
            "--json",
            *(part for r in rollouts for part in ("--rollout", r)),
        ]
        command += {"all": [], "extract": ["--extract-only"], "consolidate": ["--consolidate-only"]}[stage]
        quiet = subprocess.DEVNULL
        self.children.append(subprocess.Popen(command, env=self.environ, stdout=quiet, stderr=quiet))
        return Asked(None, False, "The run starts in a few seconds.")

    def cancel(self, run_id: str) -> str:
        if not live.request_cancel(self.home, run_id):
            raise UnknownReference(f"No run {run_id} is going on.")
        return f"Run {run_id} is stopping."

    def link(self, run_id: str) -> str | None:
        return None

    def service(self) -> ServiceState:
        return ServiceState(True, schedule="every 30 minutes", next_run=self.clock.now() + timedelta(minutes=12))

    def end(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.terminate()
            child.wait(20)


@dataclass
class Stand:
    """A site with its settings and its runs."""

    site: Site
    runs: ChildRuns
    load: Callable[[], Settings]

    def url(self, path: str) -> str:
        return self.site.origin + path


@contextmanager
def standing(
    home: Path,
    *,
    config: str = CONFIG,
    clock: SystemClock | None = None,
    runs: Runs | None = None,
    hosts: HostSetup | None = None,
    person: Path | None = None,
) -> Iterator[Stand]:
    """A dashboard over `home` of somebody whose folder is `person`, else the one above it."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (home / "config.toml").exists():
        (home / "config.toml").write_text(config.format(samples=SAMPLES), encoding="utf-8")
        (home / "config.toml").chmod(0o600)
    environ = {"SLOWWAVE_HOME": str(home), "HOME": str(person or home.parent), "PATH": os.environ["PATH"]}

    def fresh() -> Settings:
        return load(environ=environ)

    children = ChildRuns(home, environ, clock or SystemClock())
    app = create_app(
        fresh,
        runs=runs or children,
        hosts=hosts or Installers(fresh),
        clock=clock or SystemClock(),
        planner=planner(fresh),
    )
    try:
        with serving_app(app, home) as site:
            yield Stand(site, children, fresh)
    finally:
        children.end()


def run_here(settings: Settings, clock: SystemClock, *, trigger: str = "manual") -> None:
    """A whole run in this process, at the time of the clock; in a thread of its own, for in the one that drives the
    browser Playwright's event loop runs."""

    def work() -> None:
        with open_runtime(settings, clock=clock, trigger=trigger) as runtime:
            asyncio.run(pipeline.run(runtime))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
