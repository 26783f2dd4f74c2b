"""No test leaves this machine: connecting, sending or resolving a name elsewhere is refused and fails the test.

The interpreter's audit events see every socket made in Python, whichever library asks. A refusal looks like a broken
network to the code under test, so code that swallows it cannot hide it: the attempt is noted and the test fails by
name when it ends. Child processes are not watched; they get a clean environment without keys or addresses.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest

NAMES = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})

_attempts: list[str] = []
_lock = threading.Lock()
_watching = threading.Event()


class LeftTheMachineError(ConnectionRefusedError):
    """Raised in place of a connection beyond loopback."""


def is_local(host: object) -> bool:
    """Whether reaching `host` stays on this machine."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii", "replace")
    if host is None or (isinstance(host, str) and host.lower() in NAMES):
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return str(host) == socket.gethostname()


def _is_numeric(host: object) -> bool:
    try:
        ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return True


def _refused(event: str, args: tuple[Any, ...]) -> str | None:
    """What is wrong with an audited event, None when nothing is."""
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        opened, address = args[0], args[1]
        if opened.family in {socket.AF_INET, socket.AF_INET6} and address and not is_local(address[0]):
            return f"{event.removeprefix('socket.')} to {address[0]} port {address[1]}"
    if event in {"socket.getaddrinfo", "socket.gethostbyname"} and not is_local(args[0]) and not _is_numeric(args[0]):
        return f"resolve {args[0]!r}"
    return None


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not event.startswith("socket.") or not _watching.is_set():
        return
    attempt = _refused(event, args)
    if attempt is not None:
        with _lock:
            _attempts.append(attempt)
        raise LeftTheMachineError(f"Tests may only reach loopback addresses; this one tried to {attempt}.")


def pytest_configure(config: pytest.Config) -> None:
    # An audit hook cannot be removed; it only looks while a session runs.
    sys.addaudithook(_audit)
    _watching.set()
    config.add_cleanup(_watching.clear)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with _lock:
        _attempts.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    _fail_for_attempts()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    _fail_for_attempts()
    return result


@pytest.fixture
def attempts_to_leave() -> list[str]:
    """What this test tried so far. A test of the guard itself empties the list to pass."""
    return _attempts


def _fail_for_attempts() -> None:
    with _lock:
        attempts, _attempts[:] = list(dict.fromkeys(_attempts)), []
    if attempts:
        pytest.fail(f"Tests may only reach loopback addresses; this one tried to {'; '.join(attempts)}.", pytrace=False)
