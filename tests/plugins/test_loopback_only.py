from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests.plugins.loopback_only import LeftTheMachineError, is_local

FAR = ("203.0.113.7", 443)  # an address reserved for documentation: nobody answers


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "", None, b"localhost"])
def test_this_machine_is_local(host: object) -> None:
    assert is_local(host)


@pytest.mark.parametrize("host", ["203.0.113.7", "10.0.0.1", "0.0.0.0", "fe80::1%eth0", "example.org", "::"])
def test_everything_else_is_not(host: object) -> None:
    assert not is_local(host)


def test_a_connection_beyond_loopback_is_refused_and_noted(attempts_to_leave: list[str]) -> None:
    with socket.socket() as opened, pytest.raises(LeftTheMachineError, match="loopback"):
        opened.connect(FAR)
    assert attempts_to_leave == ["connect to 203.0.113.7 port 443"]
    attempts_to_leave.clear()


def test_code_that_swallows_the_refusal_is_still_noted(attempts_to_leave: list[str]) -> None:
    with contextlib.suppress(OSError):
        socket.create_connection(FAR, timeout=1)
    with socket.socket(type=socket.SOCK_DGRAM) as opened, contextlib.suppress(OSError):
        opened.sendto(b"x", FAR)
    with contextlib.suppress(OSError):
        socket.getaddrinfo("example.org", 443)
    assert len(attempts_to_leave) == 3
    attempts_to_leave.clear()


async def test_connections_of_an_event_loop_are_watched_too(attempts_to_leave: list[str]) -> None:
    with pytest.raises(LeftTheMachineError):
        await asyncio.open_connection(*FAR)
    assert attempts_to_leave
    attempts_to_leave.clear()


async def test_loopback_is_open() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
        writer.close()
        await writer.wait_closed()
