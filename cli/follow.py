"""A run of the service, watched from the terminal to its end; and stopping runs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cli.output import err, line, print_json, progress
from cli.run import EXIT_CODES, print_detail
from flows.remote import Api, FlowRun, Remote, ServiceDown, covers
from memory import live
from memory.clock import SystemClock
from memory.errors import UnknownReference
from memory.progress import Progress, Step
from memory.settings import Settings
from memory.state import RunRow, Store

LOOK_SECONDS = 0.25
ASK_SECONDS = 1.0
"""Between two questions to Prefect; the run's own file is looked at more often."""


def run_there(settings: Settings, wish: Mapping[str, Any], *, as_json: bool) -> int | None:
    """Has the service do the run and prints what a run here would print. Returns its exit code; None where the service
    does not answer: then the caller does it himself."""
    remote = Remote(lambda: settings)
    try:
        with remote.api() as api:
            while True:
                with progress(quiet=as_json) as draw:
                    run, ours = _begin(remote, api, wish)
                    if run is not None:
                        run = _Watch(settings, api, run, draw, ours=ours).to_its_end()
                if run is not None and not run.refused:
                    return _print_end(settings, run, as_json=as_json)
    except ServiceDown as down:
        _say(f"{down} The run is done here.")
        return None
    except KeyboardInterrupt:
        return EXIT_CODES["cancelled"]


def cancel(run_id: str, settings: Settings) -> str:
    """Stops the named run, or the one that is going on. Raises UnknownReference where it is not clear which."""
    if not run_id:
        going = live.running(settings.home)
        if not going:
            raise UnknownReference("No run is going on.", hint="See: slowwave status")
        if len(going) > 1:
            names = ", ".join(f"{run.run_id} ({run.trigger})" for run in going)
            raise UnknownReference(f"{len(going)} runs are going on: {names}.", hint="Name the one to stop.")
        run_id = going[0].run_id
    return Remote(lambda: settings).cancel(run_id)


def _begin(remote: Remote, api: Api, wish: Mapping[str, Any]) -> tuple[FlowRun | None, bool]:
    """The run that does what is wanted, and whether it was made for us. None after waiting for one that does not."""
    other = remote.active(api)
    if other is None:
        asked = {name: value for name, value in wish.items() if value not in (None, "", False)}
        return remote.create(api, {"trigger": "manual", **asked}), True
    if covers(other.parameters, wish):
        _say(f"The run {other.name} is going on and takes this along; it is shown here.")
        return other, False
    _say(f"The run {other.name} is going on and does something else; yours begins when it has ended.")
    while not api.flow_run(other.id).ended:
        time.sleep(ASK_SECONDS)
    return None, False


class _Watch:
    """Draws the steps of a run. Ctrl-C stops a run that was made for us; of another one only the watching."""

    def __init__(self, settings: Settings, api: Api, run: FlowRun, draw: Progress, *, ours: bool) -> None:
        self._home, self._api, self._run, self._draw, self._ours = settings.home, api, run, draw, ours
        self._wishes = 0
        self._drawn: Step | None = None

    def to_its_end(self) -> FlowRun:
        """Raises KeyboardInterrupt where only the watching ends."""
        asked, stopped = 0.0, 0
        with _interrupts(self._count):
            while True:
                now = time.monotonic()
                if now - asked >= ASK_SECONDS:
                    asked = now
                    self._run = self._api.flow_run(self._run.id)
                    if self._run.ended:
                        return self._run
                if self._wishes > stopped:
                    stopped = self._wishes
                    self._stop(stopped)
                self._show()
                time.sleep(LOOK_SECONDS)

    def _count(self) -> None:
        self._wishes += 1

    def _stop(self, wishes: int) -> None:
        if not self._ours or wishes > 1:
            _say(f"The run goes on without being watched. Stop it: slowwave cancel {self._live_id() or self._run.name}")
            raise KeyboardInterrupt
        _say("stopping")
        run_id = self._live_id()
        if run_id is None or not live.request_cancel(self._home, run_id):
            self._api.end(self._run.id, "CANCELLING", "Stopped by who asked for it.")

    def _live_id(self) -> str | None:
        return next((run.run_id for run in live.running(self._home) if run.prefect_run == self._run.id), None)

    def _show(self) -> None:
        for run in live.running(self._home):
            step = Step(run.stage, run.what, run.done, run.total)
            if run.prefect_run == self._run.id and run.stage != "start" and step != self._drawn:
                self._drawn = step
                self._draw(step)


@contextmanager
def _interrupts(heard: Callable[[], None]) -> Iterator[None]:
    former = signal.signal(signal.SIGINT, lambda number, frame: heard())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def _print_end(settings: Settings, run: FlowRun, *, as_json: bool) -> int:
    row = _row(settings, run)
    if row is None or row.outcome is None:
        # It ended before it had a row, or without a word: Prefect's message is all there is.
        _say(f"The run {run.name} ended as {run.state.lower()}: {run.message or 'no word why'}")
        return 130 if run.state == "CANCELLED" else int(run.state != "COMPLETED")
    if as_json:
        print_json(row.detail)
    elif "recovered" in row.detail:
        print_detail(row.detail)
    else:
        line(f"{row.outcome}    {row.detail.get('error', 'it was stopped')}")
    return EXIT_CODES.get(row.outcome, 0)


def _row(settings: Settings, run: FlowRun) -> RunRow | None:
    with Store.open(settings, SystemClock()) as store:
        if run.run_id is not None:
            return store.runs.get(run.run_id)
        return next((row for row in store.runs.last(20) if row.detail.get("prefect_run") == run.id), None)


def _say(text: str) -> None:
    err.print(text, markup=False)
