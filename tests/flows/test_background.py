"""Prefect's background tasks by the event loop's timers, with docket's own parameters on the tasks."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from docket import CurrentDocket, CurrentWorker, Depends, Docket, Perpetual, Retry, Timeout, Worker

from flows.background import AT_ONCE, BackgroundTasks, patient_streams, understood
from flows.place import Place
from flows.prefect_environment import for_server

SOON = timedelta(milliseconds=1)
LATER = timedelta(hours=1)


def now() -> datetime:
    return datetime.now(UTC)


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not done():
            await asyncio.sleep(0.001)


async def test_a_task_is_given_its_arguments_and_what_its_parameters_ask_for() -> None:
    seen: list[object] = []

    async def task(word: str, *, tasks: Docket = CurrentDocket(), base: str = Depends(lambda: "db")) -> None:
        seen.extend([word, tasks, base])

    async with BackgroundTasks() as tasks:
        await tasks.add(task)(word="hello")
        await until(lambda: len(seen) == 3)
        assert seen == ["hello", tasks, "db"]


async def test_a_key_that_waits_or_runs_is_not_added_again_and_later_it_is() -> None:
    began, go = [], asyncio.Event()

    async def task() -> None:
        began.append(1)
        await go.wait()

    async with BackgroundTasks() as tasks:
        await tasks.add(task, key="one")()
        await tasks.add(task, key="one")()
        await until(lambda: bool(began))
        await tasks.add(task, key="one")()
        await tasks.add(task, key="other")()
        await until(lambda: len(began) == 2)
        go.set()
        await until(lambda: not tasks._tasks)
        await tasks.add(task, key="one")()
        await until(lambda: len(began) == 3)


async def test_a_task_waits_for_its_time_and_is_replaced_meanwhile() -> None:
    seen: list[str] = []

    async def task(word: str) -> None:
        seen.append(word)

    async with BackgroundTasks() as tasks:
        await tasks.add(task, when=now() + LATER, key="k")("never")
        await tasks.add(task, when=now() - LATER)("past")
        await tasks.replace(task, now() + SOON, "k")("soon")
        await until(lambda: sorted(seen) == ["past", "soon"])


async def test_a_repeated_task_goes_on_after_a_failure_and_stops_when_it_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    turns: list[int] = []

    async def task(number: int = 1, perpetual: Perpetual = Perpetual(every=SOON)) -> None:
        turns.append(number)
        perpetual.perpetuate(number=number + 1)
        if number == 2:
            raise OSError("disk")
        if number == 4:
            perpetual.cancel()

    async with BackgroundTasks() as tasks:
        await tasks.add(task, key="task")()
        await until(lambda: len(turns) == 4 and not tasks._tasks)
    assert turns == [1, 2, 3, 4]
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR] == ["task failed"]


async def test_a_replaced_run_does_not_repeat_itself_any_more() -> None:
    turns: list[str] = []
    go = asyncio.Event()

    async def task(word: str, perpetual: Perpetual = Perpetual(every=SOON)) -> None:
        turns.append(word)
        if word == "old":
            await go.wait()

    async with BackgroundTasks() as tasks:
        await tasks.add(task, key="k")(word="old")
        await until(lambda: turns == ["old"])
        await tasks.replace(task, now(), "k")(word="new")
        go.set()
        await until(lambda: turns.count("new") >= 3)
    assert turns.count("old") == 1


@pytest.mark.parametrize(("retry", "tries"), [(Retry(attempts=3, delay=SOON), 3), (Retry.forever(delay=SOON), 7)])
async def test_a_failed_task_is_tried_as_often_as_it_says(
    retry: Retry, tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []

    async def task(retry: Retry = retry) -> None:
        attempts.append(retry.attempt)
        if len(attempts) < 7:
            raise OSError("busy")

    async with BackgroundTasks() as tasks:
        await tasks.add(task)()
        await until(lambda: len(attempts) == tries and not tasks._tasks)
    assert attempts == list(range(1, tries + 1))
    assert len([one for one in caplog.records if one.levelno == logging.ERROR]) == (1 if tries == 3 else 0)


async def test_a_task_that_asks_for_a_later_time_is_tried_then() -> None:
    attempts: list[int] = []

    async def task(retry: Retry = Retry(attempts=2, delay=LATER)) -> None:
        attempts.append(retry.attempt)
        if retry.attempt == 1:
            retry.at(now() + SOON)

    async with BackgroundTasks() as tasks:
        await tasks.add(task)()
        await until(lambda: attempts == [1, 2])


async def test_a_parameter_that_cannot_be_had_fails_the_task_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def broken() -> str:
        raise OSError("no database")

    async def task(base: str = Depends(broken)) -> None:
        ran.append(base)

    async def other() -> None:
        ran.append("other")

    async with BackgroundTasks() as tasks:
        await tasks.add(task)()
        await tasks.add(other)()
        await until(lambda: not tasks._tasks)
    assert ran == ["other"]
    assert "no database" in caplog.text


async def test_the_end_cancels_what_waits_and_what_runs() -> None:
    ends: list[str] = []

    async def task() -> None:
        try:
            ends.append("began")
            await asyncio.sleep(3600)
        finally:
            ends.append("over")

    async with BackgroundTasks() as tasks:
        await tasks.add(task, when=now() + LATER)()
        await tasks.add(task)()
        await until(lambda: ends == ["began"])
    assert ends == ["began", "over"]
    assert {one for one in asyncio.all_tasks() if one is not asyncio.current_task()} == set()


async def test_so_many_run_at_once_and_the_rest_follow() -> None:
    running, most, done = 0, 0, 0

    async def task() -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        done += 1

    async with BackgroundTasks() as tasks:
        for _ in range(3 * AT_ONCE):
            await tasks.add(task)()
        await until(lambda: done == 3 * AT_ONCE)
    assert most == AT_ONCE


async def test_a_task_does_not_run_in_what_the_request_that_added_it_has_set() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    seen: list[str] = []

    async def task() -> None:
        seen.append(user.get())

    async with BackgroundTasks() as tasks:
        user.set("somebody")
        await tasks.add(task)()
        await until(lambda: bool(seen))
    assert seen == ["nobody"]


def test_what_a_task_may_ask_for_is_known_beforehand() -> None:
    async def plain(a: int, tasks: Docket = CurrentDocket(), retry: Retry = Retry()) -> None: ...

    async def other(worker: Worker = CurrentWorker()) -> None: ...

    async def bounded(limit: Timeout = Timeout(SOON)) -> None: ...

    assert understood(plain)
    assert not understood(other)
    assert not understood(bounded)


async def test_an_event_reaches_its_listener_at_once_and_a_silent_one_is_looked_after_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()
    left: list[str] = []

    @asynccontextmanager
    async def subscribed(what: str) -> AsyncIterator[asyncio.Queue[str]]:
        yield queue
        left.append(what)

    stream: Any = ModuleType("prefect.server.events.stream")
    stream.subscribed, stream.events = subscribed, None
    monkeypatch.setitem(sys.modules, stream.__name__, stream)
    assert patient_streams()
    async with stream.events("mine") as listened:
        queue.put_nowait("event")
        assert await anext(listened) == "event"
        monkeypatch.setattr("flows.background.LISTENER_SECONDS", 0.01)
        assert await anext(listened) is None
        assert await anext(listened) is None
    assert left == ["mine"]


def test_a_prefect_without_such_streams_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stream: Any = ModuleType("prefect.server.events.stream")
    monkeypatch.setitem(sys.modules, stream.__name__, stream)
    assert not patient_streams()
    assert not hasattr(stream, "events")


PROGRAM = """
from flows import background
assert background.install()
import prefect.server.api.server as server, prefect.server.api.background_workers as workers
assert background.patient_streams()
assert server.Docket is background.BackgroundTasks
from prefect.server.services import perpetual_services
kept = perpetual_services.get_enabled_perpetual_services
server.Docket = before = object()
from docket import Timeout
from datetime import timedelta
async def new(limit=Timeout(timedelta(seconds=1))): ...
workers.task_functions.append(new)
assert not background.install()
assert server.Docket is before
print("both")
"""


@pytest.mark.deep
def test_the_installed_prefect_is_understood_and_one_that_wants_more_keeps_its_docket(tmp_path: Path) -> None:
    """In a process of its own: Prefect reads its settings once."""
    place = Place(tmp_path / "home")
    place.make()
    variables = for_server(place, 1)
    here = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    where = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=where, env=here | variables, capture_output=True, text=True
    )
    assert done.stdout.strip() == "both", done.stderr
