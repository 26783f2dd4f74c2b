"""The memory tools' server: its first answer with and without a greeting, and how long it outlives its client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.timing import Row, command, paired, seconds
from hosts.mcp_greeting import NAME
from hosts.mcp_learn import learn

ROUNDS = 7
WITH_GREETING, WITHOUT, GONE = 15.0, 100.0, 2.0
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
CLIENT = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
holder = subprocess.Popen(["sleep", "30"], pass_fds=[server.stdin.fileno()])
print(server.pid, holder.pid, flush=True)
time.sleep(30)
"""


def run() -> list[Row]:
    nothing = command(sys.executable, "-c", "pass")
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as folder:
        home = Path(folder)
        environment = {**os.environ, "SLOWWAVE_HOME": folder}
        cold = paired(
            _answered(environment, before=lambda: (home / NAME).unlink(missing_ok=True)), nothing, rounds=ROUNDS
        )
        learn(home)
        warm = paired(_answered(environment, before=lambda: None), nothing, rounds=ROUNDS)
        gone = [_outlived(environment) for _ in range(3)]
    return [
        warm.row("first answer / python -c pass", WITH_GREETING),
        cold.row("first answer without a greeting / python -c pass", WITHOUT),
        Row("client killed, its pipe held open, until the server is gone", max(gone), GONE, "s", seconds(gone)),
    ]


def _program() -> list[str]:
    return [sys.executable, "-I", str(Path(sys.executable).with_name("slowwave")), "mcp"]


def _answered(environment: dict[str, str], *, before: Callable[[], None]) -> Callable[[], object]:
    """From the start to the first answer; the rest of the server's life is not waited for in here."""
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode() + b"\n"

    def work() -> None:
        before()
        pipe = subprocess.PIPE
        server = subprocess.Popen(_program(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(message)
        server.stdin.flush()
        assert server.stdout.readline()
        server.kill()
        server.communicate()

    return work


def _outlived(environment: dict[str, str]) -> float:
    """Seconds a server goes on when its client was killed and something else holds its pipe."""
    words = [sys.executable, "-c", CLIENT, *_program()]
    client = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    assert client.stdout is not None
    server, holder = (int(word) for word in client.stdout.readline().split())
    time.sleep(1.5)
    client.kill()
    client.wait()
    began = time.perf_counter()
    while _runs(server) and time.perf_counter() - began < 10 * GONE:
        time.sleep(0.01)
    took = time.perf_counter() - began
    os.kill(holder, 9)
    client.stdout.close()
    return took


def _runs(process: int) -> bool:
    """Not even waiting to be collected by whoever took it over."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rsplit(") ", 1)[1][0] != "Z"
    except OSError:
        return False
