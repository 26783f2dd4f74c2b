"""What a run says of itself while it runs, and how anybody asks it to stop. Ids and numbers, never content.

    live/<run_id>.json      replaced at each change of stage and at most four times a second; deleted at the end
    live/<run_id>.cancel    somebody wants the run to stop; looked for four times a second

Files, so that a command, the dashboard and the service see every run of this home, whoever started it. They are a
convenience: a run that cannot write them goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory import processes
from memory.clock import SystemClock, iso, parse_iso
from memory.progress import Step

if TYPE_CHECKING:
    from memory.runtime import Runtime

FOLDER = "live"
TICK_SECONDS = 0.25
HEARTBEAT_SECONDS = 2.0
"""A run with nothing new to say writes its file this often all the same."""
SILENT_SECONDS = 300.0
"""A run on another machine (a shared home) that has not written for so long is taken for dead."""
MAX_BYTES = 65_536
MAX_WHAT = 200
"""Code points of the one line."""
JOIN_SECONDS = 5.0
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,79}")
_TIMES = ("started", "updated", "deadline")
_PART_OF = {"publish": "consolidate"}
"""Stages that are the end of another one: its requests and its deadline go on."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run took so far; `money` is None where a price is unknown."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one stage: model requests, and seconds from its first step. None is no limit."""

    requests: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One run that is going on.

    `stage` is a stage of `Step`, or `start`; `done` of `total` (0: unknown) count its sessions, or its requests in
    `consolidate`. `requests` are the stage's model calls, `request_limit` the most it may make; tokens and money are
    the whole run's, with upper bounds for calls in flight. `deadline` is when the stage is stopped. `owner` is
    `<machine>:<pid>:<run>` and `process` says when that pid began (`processes.born`).
    """

    run_id: str
    trigger: str
    owner: str
    started: datetime
    updated: datetime
    stage: str = "start"
    what: str = ""
    done: int = 0
    total: int = 0
    requests: int = 0
    request_limit: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = 0.0
    deadline: datetime | None = None
    prefect_run: str | None = None
    process: str = ""

    @property
    def pid(self) -> int:
        """0 where the owner names none."""
        digits = self.owner.split(":")[1:2]
        return int(digits[0]) if digits and digits[0].isascii() and digits[0].isdigit() else 0


# -- reading ------------------------------------------------------------------------------------------


def running(home: Path, *, now: datetime | None = None) -> list[LiveRun]:
    """Runs of this home that are going on, the oldest first; what a killed process left is not among them."""
    moment = now or SystemClock().now()
    return sorted((run for run in _all(home) if not is_dead(run, moment)), key=lambda run: (run.started, run.run_id))


def dead(home: Path, *, now: datetime | None = None) -> list[LiveRun]:
    """Runs whose process ended without taking its file away: killed, or the machine went down."""
    moment = now or SystemClock().now()
    return [run for run in _all(home) if is_dead(run, moment)]


def is_dead(run: LiveRun, now: datetime) -> bool:
    """By its process where that is one of this machine, else by its silence."""
    if run.owner.partition(":")[0] == socket.gethostname():
        return not processes.alive(run.pid, run.process)
    return now - run.updated > timedelta(seconds=SILENT_SECONDS)


def request_cancel(home: Path, run_id: str) -> bool:
    """Asks a run to stop; it does within a second. False when no such run is going on."""
    if all(run.run_id != run_id for run in running(home)):
        return False
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(home / FOLDER / f"{run_id}.cancel", flags, 0o600))
        return True
    return False


def sweep(home: Path, *, now: datetime | None = None) -> list[LiveRun]:
    """Deletes what dead runs and interrupted writes left. Returns those runs."""
    moment = now or SystemClock().now()
    gone = dead(home, now=moment)
    for run in gone:
        _remove(home, run.run_id)
    alive = {run.run_id for run in _all(home)}
    for path in _paths(home):
        left = path.suffix == ".cancel" and path.stem not in alive
        if left or (path.name.startswith(".") and moment.timestamp() - _modified(path) > SILENT_SECONDS):
            with suppress(OSError):
                path.unlink()
    return gone


def _all(home: Path) -> list[LiveRun]:
    found = (_read(path) for path in _paths(home) if path.suffix == ".json" and not path.name.startswith("."))
    return [run for run in found if run is not None]


def _paths(home: Path) -> list[Path]:
    try:
        return sorted((home / FOLDER).iterdir())
    except OSError:
        return []


def _modified(path: Path) -> float:
    try:
        return path.stat(follow_symlinks=False).st_mtime
    except OSError:
        return float("inf")


def _read(path: Path) -> LiveRun | None:
    """None for a file that vanished, is none of ours or of another form."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            values: Any = json.loads(os.read(descriptor, MAX_BYTES))
        finally:
            os.close(descriptor)
        times = {name: parse_iso(values.pop(name)) for name in _TIMES}
        run = LiveRun(**values, **times)  # type: ignore[arg-type] # a file of another form fails here or just below
        if run.started is None or run.updated is None or run.run_id != path.stem or not _RUN_ID.fullmatch(run.run_id):
            return None
        return run
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _remove(home: Path, run_id: str) -> None:
    for suffix in (".json", ".cancel"):
        with suppress(OSError):
            (home / FOLDER / f"{run_id}{suffix}").unlink()


# -- writing ------------------------------------------------------------------------------------------


@contextmanager
def reporting(
    runtime: Runtime,
    *,
    spent: Callable[[], Spent] = Spent,
    limits: Mapping[str, Limits] | None = None,
    prefect_run: str | None = None,
) -> Iterator[None]:
    """Keeps the run's file while the block runs, and sets the run's stop flag when somebody asks for it.

    `spent` is called from another thread; what it raises is no matter. The run's own progress is drawn as before.
    """
    former = runtime.progress
    reporter = _Reporter(runtime, spent, limits or {}, prefect_run)

    def draw(step: Step) -> None:
        reporter.step(step)
        former(step)

    runtime.progress = draw
    reporter.start()
    try:
        yield
    finally:
        runtime.progress = former
        reporter.stop()


class _Reporter:
    """A thread of its own: the file is fresh and a stop is heard while the stages compute."""

    def __init__(
        self, runtime: Runtime, spent: Callable[[], Spent], limits: Mapping[str, Limits], prefect_run: str | None
    ) -> None:
        now = runtime.clock.now()
        self._home, self._clock, self._cancel = runtime.settings.home, runtime.clock, runtime.cancel
        self._spent, self._limits = spent, limits
        process = processes.born(os.getpid())
        self._run = LiveRun(
            runtime.run_id, runtime.trigger, runtime.owner, now, now, prefect_run=prefect_run, process=process
        )
        self._before = 0
        """Requests made before the present stage."""
        self._lock = threading.Lock()
        self._changed = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"live-{runtime.run_id}", daemon=True)
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def start(self) -> None:
        self._write()
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(JOIN_SECONDS)
        _remove(self._home, self._run.run_id)

    def step(self, one: Step) -> None:
        """Called by the stages, from whichever thread."""
        new = one.stage != self._run.stage
        if new:
            self._count()
        with self._lock:
            self._changed = True
            self._run = replace(
                self._run, stage=one.stage, what=one.what[:MAX_WHAT], done=one.done, total=one.total, **self._of(one)
            )
        if new:
            self._write()

    def _of(self, one: Step) -> dict[str, Any]:
        """What begins anew with a stage."""
        stage, was = (_PART_OF.get(name, name) for name in (one.stage, self._run.stage))
        if stage == was:
            return {}
        limits = self._limits.get(stage, Limits())
        self._before += self._run.requests
        end = None if limits.seconds is None else self._clock.now() + timedelta(seconds=limits.seconds)
        return {"requests": 0, "request_limit": limits.requests, "deadline": end}

    def _watch(self) -> None:
        silent = 0.0
        stop = self._home / FOLDER / f"{self._run.run_id}.cancel"
        while not self._over.wait(TICK_SECONDS):
            silent += TICK_SECONDS
            if stop.exists():
                self._set_cancel()
            if self._changed or silent >= HEARTBEAT_SECONDS:
                self._count()
                self._write()
                silent = 0.0

    def _set_cancel(self) -> None:
        if self._loop is None:
            self._cancel.set()
            return
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel.set)

    def _count(self) -> None:
        try:
            total = self._spent()
        except Exception:  # noqa: BLE001 - numbers for the eye: a busy state must not end the thread
            return
        with self._lock:
            self._run = replace(
                self._run,
                requests=max(0, total.requests - self._before),
                input_tokens=total.input_tokens,
                output_tokens=total.output_tokens,
                money=total.money,
            )

    def _write(self) -> None:
        with self._lock:
            self._changed = False
            run = self._run = replace(self._run, updated=self._clock.now())
            with suppress(OSError):
                _put(self._home / FOLDER, run)


def _put(folder: Path, run: LiveRun) -> None:
    values = asdict(run) | {name: iso(getattr(run, name)) for name in _TIMES}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f".{run.run_id}-{secrets.token_hex(4)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            os.write(descriptor, json.dumps(values).encode())
        finally:
            os.close(descriptor)
        temporary.replace(folder / f"{run.run_id}.json")
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
