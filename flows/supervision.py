"""What a supervisor decides, without clocks and processes: when to restart, when to give up, where to listen."""

from __future__ import annotations

import socket
from dataclasses import dataclass

FIRST_DELAY = 0.5
LONGEST_DELAY = 60.0
STEADY_SECONDS = 60.0
"""A process that lived so long had started well: what ends it afterwards is counted from one again."""
MOST_DEATHS = 6
"""So many deaths in a row, none of them after a steady time, and it is given up: half a minute of trying."""


@dataclass(slots=True)
class Restarts:
    """The deaths of one process in a row."""

    deaths: int = 0

    def delay(self, lived: float) -> float | None:
        """It died after `lived` seconds: start it again after so many, or None: give it up."""
        self.deaths = 1 if lived >= STEADY_SECONDS else self.deaths + 1
        if self.deaths >= MOST_DEATHS:
            return None
        return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (self.deaths - 1))


def free_port(host: str, wanted: int, *, strict: bool = False) -> int:
    """`wanted` where it can be had, else a free one. Raises OSError where the host is no address of this machine, or
    the port is taken and `strict`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (wanted, 0) if wanted and not strict else (wanted,):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
                # Bound by another without listening is free to bind on some systems: listening is not.
                probe.listen(1)
            except OSError:
                if port == 0 or strict:
                    raise
                continue
            return int(probe.getsockname()[1])
    raise AssertionError("unreachable")


def answers(host: str, port: int, path: str, *, seconds: float = 1.0, within: bytes = b"HTTP/1.") -> bool:
    """Whether an HTTP server answers a GET there with a first line that holds `within`."""
    try:
        with socket.create_connection((host, port), timeout=seconds) as connection:
            connection.sendall(
                f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode("ascii")
            )
            return within in connection.recv(64)
    except OSError:
        return False
