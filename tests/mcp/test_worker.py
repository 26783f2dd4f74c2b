"""The one thread that works on memory: in order, never for nothing, and the protocol goes on beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from mcp import Client

from hosts import mcp_server
from hosts.mcp_desk import Desk
from hosts.mcp_life import Worker
from memory import settings
from tests.mcp.conftest import Home, inside, refused


def test_settings_that_change_while_they_are_read_are_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that was switched off in that moment must not stay on for as long as the server runs."""
    config = home.bench.settings.home / "config.toml"
    config.write_text('[memory]\nmode = "long"\n', "utf-8")
    load = settings.load

    def slowly() -> settings.Settings:
        found = load()
        config.write_text("[memory]\nenabled = false\n", "utf-8")
        monkeypatch.setattr(settings, "load", load)
        return found

    monkeypatch.setattr(settings, "load", slowly)
    desk = Desk()
    assert desk.settings().memory.enabled
    assert not desk.settings().memory.enabled


def test_what_is_cancelled_before_its_turn_is_never_begun() -> None:
    done: list[str] = []
    gate = threading.Event()

    async def steps() -> None:
        worker = Worker()
        first = asyncio.create_task(worker.run(lambda: gate.wait(60)))
        second = asyncio.create_task(worker.run(lambda: done.append("second")))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.sleep(0.05)
        gate.set()
        assert await first
        await worker.run(lambda: done.append("third"))

    asyncio.run(steps())
    assert done == ["third"]


def test_what_was_begun_is_finished_before_the_end_and_nothing_is_begun_after() -> None:
    done: list[str] = []
    begun = threading.Event()
    before = set(threading.enumerate())
    worker = Worker()
    (thread,) = set(threading.enumerate()) - before

    def slow() -> None:
        begun.set()
        time.sleep(0.2)
        done.append("begun")

    worker.start(slow)
    worker.start(lambda: done.append("later"))
    assert begun.wait(60)
    worker.finish(60)
    assert done == ["begun"]
    worker._busy.release()  # as the end of the process would
    thread.join(60)
    assert not thread.is_alive()
    assert done == ["begun"]


def test_a_failure_reaches_whoever_waits_and_the_next_work_is_done() -> None:
    async def steps() -> int:
        worker = Worker()
        with pytest.raises(ZeroDivisionError):
            await worker.run(lambda: 1 // 0)
        return await worker.run(lambda: 7)

    assert asyncio.run(steps()) == 7


def test_a_call_that_takes_too_long_is_a_sentence_and_the_protocol_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recall.tools import MemoryTools

    over = threading.Event()
    monkeypatch.setattr(mcp_server, "CALL_SECONDS", 2.0)
    monkeypatch.setattr(MemoryTools, "search", lambda *_, **__: over.wait(60))

    async def steps(client: Client) -> tuple[str, list[Any]]:
        slow = asyncio.create_task(refused(client, "memory_search", query="x"))
        await asyncio.sleep(0.1)
        tools = list((await client.list_tools()).tools)
        assert not slow.done(), "the list waits for no call"
        said = await slow
        over.set()
        return said, tools

    said, tools = inside(home.shop, steps)
    assert "did not answer" in said
    assert tools
