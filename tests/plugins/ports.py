"""A port for a process that can be told a number and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved() -> Iterator[int]:
    """A port of loopback that the system gives to nobody who asks for any while the block lasts.

    It is bound here without being listened at, and may be listened at by whoever names it and, as servers do, takes
    an address that is bound already. A port that was found free and let go may be another process's a moment later.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
