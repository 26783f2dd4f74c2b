"""A loopback proxy that forwards to the model server and keeps what passed: the test's own count of calls."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came of it; `status` 0 and no answer where the client went away first."""

    path: str
    request: Any
    status: int
    answer: Any


@dataclass(slots=True)
class Wire:
    """`url` is the base URL to give to a client."""

    url: str
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def calls(self) -> list[Exchange]:
        """The exchanges that cost tokens."""
        return [exchange for exchange in self.exchanges if exchange.path.endswith("/chat/completions")]

    def tokens(self) -> list[tuple[int, int]]:
        """Input and output tokens of each call as the server counted them, (0, 0) where no answer came."""
        found = [(exchange.answer or {}).get("usage", {}) for exchange in self.calls]
        return [(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)) for usage in found]


@contextmanager
def tapped(upstream: str) -> Iterator[Wire]:
    """Listens until the block ends; upstream is `http://host:port`."""
    target = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._forward()

        def do_POST(self) -> None:
            self._forward()

        def log_message(self, format: str, *args: Any) -> None:
            return

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            there = http.client.HTTPConnection(target, timeout=110)
            status, answer = 0, b""
            try:
                there.request(self.command, self.path, body, {"content-type": "application/json"})
                if _answers_before_client_leaves(there.sock, self.connection):
                    response = there.getresponse()
                    status, answer = response.status, response.read()
            except OSError:
                status = 0
            there.close()
            # Kept before the client hears of it: a test that looks at once sees its own call.
            wire.exchanges.append(Exchange(self.path, _json(body), status, _json(answer)))
            if status:
                self._reply(status, answer)
            else:
                self.close_connection = True

        def _reply(self, status: int, answer: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            with contextlib.suppress(OSError):
                self.end_headers()
                self.wfile.write(answer)

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    wire = Wire(f"http://127.0.0.1:{listener.server_address[1]}/v1")
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield wire
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join(10)


def _answers_before_client_leaves(server: socket.socket, client: socket.socket) -> bool:
    """Waits for the first byte of the answer; closing upstream then stops the server's generating too."""
    while True:
        readable, _, _ = select.select([server, client], [], [], 110)
        if server in readable or not readable:
            return True
        if client.recv(1, socket.MSG_PEEK) == b"":
            return False
        select.select([server], [], [], 0.1)  # a pipelined request: look again later


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
