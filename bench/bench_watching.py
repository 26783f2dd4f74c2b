"""Watching runs: how late a page hears of a change, and whether 50 open pages slow a run down.

The dashboard is a process of its own, the pages are another one that holds its streams open as browsers do.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx

from bench import bench_pipeline, timing
from bench.bench_dashboard import server
from bench.timing import Pair, Row
from memory import live
from memory.live import LiveRun
from memory.processes import born

CHANGES = 40
LAG_SECONDS = 1.0
PAGES = 50
SLOWER = 1.10
ROUNDS = 9
SAMPLES = Path(__file__).resolve().parents[1] / "examples" / "sessions"
WATCHER = """
import asyncio, sys, httpx

async def watch(client):
    async with client.stream("GET", "/runs/stream") as answer:
        print("open", flush=True)
        async for _ in answer.aiter_lines():
            pass

async def main():
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=sys.argv[1], timeout=None, trust_env=False, limits=limits) as client:
        await asyncio.gather(*(watch(client) for _ in range(int(sys.argv[2]))))

asyncio.run(main())
"""


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as name:
        folder = Path(name)
        (folder / "watched").mkdir(mode=0o700)
        (folder / "watched" / "config.toml").write_text('[memory]\nmode = "long"\n', encoding="utf-8")
        with server(folder / "watched") as client:
            return [_lag(client, folder / "watched"), _slower(client, folder)]


def _lag(client: httpx.Client, home: Path) -> Row:
    """From a change of the live file to its arrival at one of 50 pages."""
    heard: dict[int, float] = {}
    over = threading.Event()

    def listen() -> None:
        with httpx.stream("GET", f"{client.base_url}/runs/stream", timeout=None, trust_env=False) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    for one in json.loads(line.removeprefix("data: "))["runs"]:
                        heard.setdefault(one["done"], time.perf_counter())
                if over.is_set():
                    return

    thread = threading.Thread(target=listen, daemon=True)
    with _pages(client, PAGES - 1):
        thread.start()
        time.sleep(1)
        lags = []
        for number in range(1, CHANGES + 1):
            now = datetime.now(UTC)
            owner = f"{socket.gethostname()}:{os.getpid()}:bench"
            one = LiveRun("bench", "manual", owner, now, now, "extract", "", number, CHANGES, process=born(os.getpid()))
            began = time.perf_counter()
            live._put(home / live.FOLDER, one)
            while number not in heard and time.perf_counter() - began < 5:
                time.sleep(0.002)
            lags.append(heard.get(number, began + 5) - began)
            time.sleep(random.Random(number).uniform(0.05, 0.4))
        over.set()
        live._remove(home, "bench")
        thread.join(5)
    name = f"the latest of {CHANGES} changes to reach a page, {PAGES} open"
    return Row(name, max(lags), LAG_SECONDS, "s", timing.seconds(lags), "the change of the run's file")


def _slower(client: httpx.Client, folder: Path) -> Row:
    """The same run over the sample sessions, with 50 pages open and with none, in turns."""

    def once(home: Path) -> None:
        for entry in home.iterdir():
            if entry.name == "config.toml":
                continue
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        bench_pipeline.run_once(bench_pipeline.settings(home, SAMPLES))

    work: list[float] = []
    base: list[float] = []
    for number in range(ROUNDS):
        for watched in (True, False) if number % 2 else (False, True):
            with _pages(client, PAGES if watched else 0):
                took = timing.timed(lambda: once(folder / "watched"))
            (work if watched else base).append(took)
    pair = Pair(tuple(work[1:]), tuple(base[1:]))  # the first of each compiles rules and prompts
    return pair.row(f"a run that {PAGES} pages watch, beside the same without a page", SLOWER)


@contextmanager
def _pages(client: httpx.Client, number: int) -> Iterator[None]:
    """So many streams, all of them open."""
    child = subprocess.Popen(
        [sys.executable, "-c", WATCHER, str(client.base_url), str(number)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        for _ in range(number):
            if child.stdout.readline() != "open\n":
                raise SystemExit("a page could not be opened")
        yield
    finally:
        child.terminate()
        child.wait(10)
