"""Prefect's background tasks by the event loop's own timers: the schedule of deployments, late and cancelled runs.

Prefect keeps them in docket, whose store in memory wakes an idle server some forty times a second to look for work, and
to clear what ran out. One server with one process needs no store: what is due is known here. Tasks are named by key as
docket names them, are repeated and tried again as their own parameters say, and are forgotten with the server, as with
docket's store in memory; the repeated ones find what was left undone in Prefect's database.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeAlias, cast

from flows.beat import until_beat
from memory.clock import Clock, SystemClock

_Function: TypeAlias = Callable[..., Awaitable[Any]]

AT_ONCE = 10
"""Tasks that run at the same time: docket's own measure."""
LISTENER_SECONDS = 60.0
SHORTEST_BEAT = 10.0

_log = logging.getLogger("prefect.server.background")


def install() -> bool:
    """Puts `BackgroundTasks` in the place of docket, before the application is made. False, and nothing is changed,
    with a Prefect whose tasks want more than is done here."""
    try:
        server = importlib.import_module("prefect.server.api.server")
        background = importlib.import_module("prefect.server.api.background_workers")
        services = importlib.import_module("prefect.server.services.perpetual_services")
        register = services.register_and_schedule_perpetual_services
        listed = [*background.task_functions, *(one.function for one in services.get_enabled_perpetual_services())]
        if not all(map(understood, listed)):
            return False
        _ = server.Docket, server.background_worker
    except (ImportError, AttributeError):
        return False

    @asynccontextmanager
    async def worker(tasks: BackgroundTasks, **modes: bool) -> AsyncIterator[None]:
        await register(tasks, **modes)
        yield

    server.__dict__.update(Docket=BackgroundTasks, background_worker=worker)
    return True


def patient_streams() -> bool:
    """Whoever listens to Prefect's events (each worker does) is looked after every minute, not every second. An
    event is passed on at once, as before; only a listener that went away without a word is noticed later."""
    try:
        stream = importlib.import_module("prefect.server.events.stream")
        subscribed = stream.subscribed
        _ = stream.events
    except (ImportError, AttributeError):
        return False

    @asynccontextmanager
    async def events(filter: Any) -> AsyncIterator[AsyncIterator[Any]]:
        async with subscribed(filter) as queue:

            async def consume() -> AsyncIterator[Any]:
                while True:
                    try:
                        async with asyncio.timeout(LISTENER_SECONDS):
                            event = await queue.get()
                    except TimeoutError:
                        event = None  # the caller looks whether its listener is still there
                    yield event

            yield consume()

    stream.__dict__["events"] = events
    return True


def understood(function: _Function) -> bool:
    """Whether all that a task's parameters ask for is done here."""
    import docket
    from uncalled_for import get_annotation_dependencies, get_dependency_parameters

    plain = (type(docket.CurrentDocket()), type(docket.Depends(understood)), docket.Perpetual, docket.Retry)
    return not get_annotation_dependencies(function) and all(
        type(wanted) in plain for wanted in get_dependency_parameters(function).values()
    )


@dataclass(eq=False)
class _Task:
    """One call that waits or runs. `args` and `attempt` are read by docket's own parameters."""

    function: _Function
    key: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    attempt: int = 1
    timer: asyncio.TimerHandle | None = None
    running: asyncio.Task[None] | None = None


@dataclass(eq=False)
class BackgroundTasks:
    """What Prefect's server asks of a docket: `add` and `replace`, each giving what takes the call's arguments."""

    name: str = ""
    url: str = ""
    execution_ttl: timedelta = timedelta(0)
    clock: Clock = field(default_factory=SystemClock)
    _tasks: dict[str, _Task] = field(default_factory=dict)
    """Key -> the newest call, which waits or runs."""
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _count: int = 0

    async def __aenter__(self) -> BackgroundTasks:
        self._slots = asyncio.Semaphore(AT_ONCE)
        # A call that is added while a request is answered shall not run in what that request has set.
        self._context = contextvars.copy_context()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks.values():
            if task.timer is not None:
                task.timer.cancel()
        self._tasks.clear()
        for one in list(self._running):
            one.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def register(self, function: _Function, names: Iterable[str] | None = None) -> None:
        """Nothing to do: tasks are called as they are."""

    def add(
        self, function: _Function, when: datetime | None = None, key: str | None = None
    ) -> Callable[..., Awaitable[None]]:
        """Nothing happens when a call of this key waits or runs already."""

        async def scheduled(*args: Any, **kwargs: Any) -> None:
            self._count += 1
            name = key or f"{self._count}"
            if name not in self._tasks:
                self._wait(_Task(function, name, args, kwargs), self._until(when) if when else 0.0)

        return scheduled

    def replace(self, function: _Function, when: datetime, key: str) -> Callable[..., Awaitable[None]]:
        """A waiting call of this key is dropped; a running one ends, and neither repeats nor tries itself again."""

        async def scheduled(*args: Any, **kwargs: Any) -> None:
            former = self._tasks.get(key)
            if former is not None and former.timer is not None:
                former.timer.cancel()
            self._wait(_Task(function, key, args, kwargs), self._until(when))

        return scheduled

    def _pause(self, every: float, began: float) -> float:
        """Until a repeated task's next turn: those that are not in a hurry keep to the beat of the service."""
        now = self.clock.monotonic()
        return until_beat(now, every) if every >= SHORTEST_BEAT else every - (now - began)

    def _until(self, when: datetime) -> float:
        return (when - self.clock.now()).total_seconds()

    def _wait(self, task: _Task, seconds: float) -> None:
        self._tasks[task.key] = task
        loop = asyncio.get_running_loop()
        task.timer = loop.call_later(max(0.0, seconds), self._start, task, context=self._context)

    def _start(self, task: _Task) -> None:
        task.timer = None
        running = asyncio.get_running_loop().create_task(self._run(task), context=self._context.copy())
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _run(self, task: _Task) -> None:
        async with self._slots:
            again = await self._next(task)
        if self._tasks.get(task.key) is task:
            del self._tasks[task.key]
            if again is not None:
                self._wait(*again)

    async def _next(self, task: _Task) -> tuple[_Task, float] | None:
        """Runs a call to its end; the call to wait for after it, and how many seconds."""
        import docket
        from docket.dependencies import current_docket, current_execution
        from uncalled_for import FailedDependency, resolved_dependencies

        current_docket.set(cast("docket.Docket", self))
        current_execution.set(cast("docket.Execution", task))
        began = self.clock.monotonic()
        given: Mapping[str, Any] = {}
        try:
            async with resolved_dependencies(task.function, task.kwargs) as given:
                for value in given.values():
                    if isinstance(value, FailedDependency):
                        raise value.error
                await task.function(*task.args, **{**task.kwargs, **given})
        except Exception as error:  # noqa: BLE001 - whatever a task of Prefect's raises; the next one is due all the same
            for retry in (value for value in given.values() if isinstance(value, docket.Retry)):
                if retry.attempts is None or task.attempt < retry.attempts:
                    return _again(task), retry.delay.total_seconds()
            _log.error("%s failed", task.function.__name__, exc_info=error)
        for every in (value for value in given.values() if isinstance(value, docket.Perpetual)):
            if not every.cancelled:
                return _repeated(task, every), self._pause(every.every.total_seconds(), began)
        return None


def _again(task: _Task) -> _Task:
    return _Task(task.function, task.key, task.args, task.kwargs, task.attempt + 1)


def _repeated(task: _Task, every: Any) -> _Task:
    return _Task(task.function, task.key, every.args, every.kwargs)
