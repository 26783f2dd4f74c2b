"""One real model server for all smoke tests of a process, and a tap on the wire to it for each test."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from tests.smoke import local_server
from tests.smoke.wire import Wire, tapped

START_SECONDS = 60
STOP_SECONDS = 3


@pytest.fixture(scope="session")
def model_server() -> Iterator[str]:
    """The server's address; skips where the optional packages are absent."""
    if not local_server.available():
        pytest.skip("the optional smoke group is not installed: deploy/install_smoke.sh")
    child = subprocess.Popen(
        [sys.executable, local_server.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = _first_line(child)
        _warm(address)
        yield address
    finally:
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(STOP_SECONDS)
        if child.stdout is not None:
            child.stdout.close()


@pytest.fixture
def wire(model_server: str) -> Iterator[Wire]:
    """Every request of this test on its way to the server."""
    with tapped(model_server) as opened:
        yield opened


def _first_line(child: subprocess.Popen[str]) -> str:
    said: queue.Queue[str] = queue.Queue()
    assert child.stdout is not None
    threading.Thread(target=lambda out: said.put(out.readline()), args=(child.stdout,), daemon=True).start()
    try:
        address = said.get(timeout=START_SECONDS).strip()
    except queue.Empty:
        address = ""
    if not address:
        pytest.fail(f"the local model server did not start within {START_SECONDS} s (exit code {child.poll()})")
    return address


def _warm(address: str) -> None:
    """One token, so that the first test does not pay for reading the weights from disk."""
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{address}/v1/chat/completions", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=START_SECONDS) as reply:
        reply.read()
