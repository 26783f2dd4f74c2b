"""The service's worker: `python -m flows.worker`, started by the supervisor.

It registers the deployments and carries their runs out, each in a process of its own; turns wake-ups of hooks into
runs; ends what other processes left unfinished. What it has to say to the supervisor are lines that begin with a mark.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows import killed, lifeline, prefect_environment, remote, unfinished, wakeups
from flows.beat import BEAT_SECONDS, until_beat
from flows.changes import Changes
from flows.place import Place
from memory import live
from memory.clock import Clock, SystemClock
from memory.errors import SettingsError, SlowwaveError, StateLostError
from memory.settings import DEFAULT_STORE, WORKER_VARIABLE, ScheduleSettings, load
from memory.state import Store
from memory.wording import counted

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment

MARK = "\x1e"
TIDY_SECONDS = 2 * BEAT_SECONDS
EAGER_SECONDS = 300.0
LONG_SECONDS = 5 * BEAT_SECONDS
FIRST_SURE_SECONDS = 10.0
"""At the start no run can be ours yet: one that has not shown itself by now has no process."""
SERVER_SECONDS = 120.0
START_POLL_SECONDS = 0.1


def tell(kind: str, says: str = "") -> None:
    """A message to the supervisor. `kind`: `waits` (for the server), `ready`, `schedule`, `problem`, `well`, `note`."""
    sys.stdout.write(f"{MARK}{json.dumps({'kind': kind, 'says': says})}\n")
    sys.stdout.flush()


def sentence(schedule: ScheduleSettings) -> str:
    """`every 30 minutes`, `0 8 * * 1`, `off`."""
    if not schedule.enabled:
        return "off"
    if schedule.cron:
        return f"cron {schedule.cron} (UTC)"
    return f"every {schedule.every_minutes:g} minutes"


class Worker:
    """What the three tasks share. `own` is False for somebody else's Prefect server."""

    def __init__(self, place: Place, api: Callable[[], remote.Api], *, own: bool, clock: Clock | None = None) -> None:
        self._place, self._api, self._own = place, api, own
        self._clock = clock or SystemClock()
        self._settings = load()
        self._deployments: dict[str, str] = {}
        """Ids by name, without the store's."""
        self._runner: Any = None
        self._last_wake: float | None = None
        self._next_look = 0.0
        """At the latest, on the clock that never goes back."""
        self._eager_until = 0.0
        self._settings_changed = asyncio.Event()

    async def run(self) -> None:
        # Here and not above: it takes seconds, in which the server is starting, too.
        from prefect.runner import Runner

        from flows.deployments import RUNNER_SLOTS, deployments

        made = deployments(self._settings.schedule, self._settings.store)
        await self._begin_in_order()
        tell("waits")
        await self._until_the_server_answers()
        if self._own:
            _no_pings()
        self._runner = Runner(
            name="slowwave",
            query_seconds=(prefect_environment.OWN_RUNNER_SECONDS if self._own else prefect_environment.RUNNER_SECONDS),
            limit=RUNNER_SLOTS,
            # Our own server goes with us; on another one the schedule waits for us to come back.
            pause_on_shutdown=not self._own,
        )
        await self._register(made)
        tell("schedule", sentence(self._settings.schedule))
        tell("ready", f"runs {sentence(self._settings.schedule)}, when hooks ask, and when you do")
        await asyncio.to_thread(self._close_flow_runs, FIRST_SURE_SECONDS)
        tasks = [asyncio.create_task(task) for task in (self._watch(), self._tidy_again(), self._follow_settings())]
        try:
            await self._runner.start()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin_in_order(self) -> None:
        """What killed processes left is closed. The state's server may start after us: then it is closed later, and
        runs say until then what is missing."""
        try:
            await asyncio.to_thread(self._close_rows)
        except StateLostError as error:
            tell("problem", str(error))

    async def _until_the_server_answers(self) -> None:
        deadline = self._clock.monotonic() + SERVER_SECONDS
        api = self._api()
        try:
            while True:
                with suppress(remote.ServiceDown):
                    await asyncio.to_thread(api.healthy)
                    return
                if self._clock.monotonic() > deadline:
                    where = prefect_environment.shown(api.url)
                    raise remote.ServiceDown(f"The Prefect server at {where} does not answer.", hint="Start it.")
                await asyncio.sleep(START_POLL_SECONDS)
        finally:
            api.close()

    async def _register(self, wanted: Sequence[RunnerDeployment]) -> None:
        """Both deployments; again when the schedule was changed. Prefect knows them by name."""
        self._eager_until = self._clock.monotonic() + EAGER_SECONDS
        self._next_look = 0.0
        store = self._settings.store
        for one in wanted:
            identity = await self._runner.aadd_deployment(one)
            plain = one.name.removesuffix(f"-{store}") if store != DEFAULT_STORE else one.name
            self._deployments[plain] = str(identity)

    # -- wake-ups -------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        again: float | None = 0.0
        async with Changes(self._place, self._settings.config_file, lambda says: tell("note", says)) as changes:
            while True:
                found: set[str] = set()
                wait = until_beat(self._clock.monotonic()) if again is None else again
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait, max(0.0, self._next_look - self._clock.monotonic()))):
                        found = await changes()
                if "settings" in found:
                    self._settings_changed.set()
                if "run" in found or self._clock.monotonic() >= self._next_look:
                    await self._look_at_runs()
                try:
                    again = await self._look_at_wakes()
                except SlowwaveError as error:
                    tell("note", f"wake-ups wait: {error}")
                    again = None

    async def _look_at_runs(self) -> None:
        """Begins those that are due. The next look is when the next one is, and every few minutes in case we are not
        told of all; soon after the schedule was set, for its runs are made a moment later. Somebody else's server is
        looked at by the runner alone."""
        now = self._clock.monotonic()
        self._next_look = now + until_beat(now, BEAT_SECONDS if now < self._eager_until else LONG_SECONDS)
        await self._poll()
        if self._own:
            with suppress(remote.ServiceDown):
                self._next_look = min(self._next_look, now + await asyncio.to_thread(self._until_due))

    def _until_due(self) -> float:
        """Seconds until the next run of the schedule is due; what is overdue is for the next look."""
        with self._api() as api:
            coming = api.flow_runs(self._deployments.values(), ("SCHEDULED",), limit=10)
        now = self._clock.now()
        waits = ((one.due - now).total_seconds() for one in coming if one.due is not None)
        return min((wait for wait in waits if wait > 0), default=math.inf)

    async def _look_at_wakes(self) -> float | None:
        wakes = wakeups.waiting(self._place.spool)
        if not wakes or not self._wanted():
            return None
        now = self._clock.now().timestamp()
        decision = wakeups.decide(
            wakes, now, running=self._busy(), last=self._last_wake, gap=self._settings.service.wake_minutes * 60
        )
        if decision.go:
            self._last_wake = now
            await asyncio.to_thread(self._make_run)
            await self._poll()
            tell("note", f"a run was woken by hooks ({counted(len(wakes), 'session')})")
            return wakeups.RUNNING_SECONDS
        return decision.again

    def _wanted(self) -> bool:
        """Hooks wake nothing outside the long memory mode, nor while memory is switched off [Z009 X8]."""
        with suppress(SettingsError):
            self._settings = load()
        return self._settings.memory.enabled and self._settings.memory.mode == "long"

    def _busy(self) -> bool:
        return bool(self._mine() or live.running(self._place.home))

    def _mine(self) -> set[str]:
        """Runs whose processes are ours, by Prefect's id."""
        manager = getattr(self._runner, "_process_manager", None)
        return {str(one) for one in manager.flow_run_ids()} if manager is not None else set()

    def _make_run(self) -> None:
        with self._api() as api:
            api.create(self._deployments[remote.SCHEDULED], {"trigger": "hook"})

    async def _poll(self) -> None:
        """The runner's look now instead of within ten seconds; where a later Prefect has no such way, it waits."""
        look = getattr(self._runner, "_get_and_submit_flow_runs", None)
        if look is None or not getattr(self._runner, "started", False):
            return
        try:
            await look()
        except Exception as error:  # noqa: BLE001 - whatever Prefect's client raises; its own look comes anyway
            tell("note", f"the runner could not look for runs at once ({type(error).__name__})")

    # -- order ----------------------------------------------------------------------------------------

    async def _tidy_again(self) -> None:
        while True:
            await asyncio.sleep(until_beat(self._clock.monotonic(), TIDY_SECONDS))
            try:
                await asyncio.to_thread(self._tidy)
                tell("well")
            except SlowwaveError as error:
                tell("problem", str(error))

    def _tidy(self) -> None:
        """Ends what has no process any more, in the home and in Prefect."""
        self._close_rows()
        self._close_flow_runs()

    def _close_rows(self) -> None:
        with Store.open(self._settings, self._clock) as store:
            for row in killed.close_rows(store, self._settings, now=self._clock.now()):
                tell("note", f"run {row.run_id} ({row.trigger}) was killed; it is recorded as failed")

    def _close_flow_runs(self, sure_seconds: float = unfinished.SURE_SECONDS) -> None:
        with self._api() as api:
            believed = unfinished.Believed(api, self._deployments, self._mine(), sure_seconds)
            ended = unfinished.close_flow_runs(believed, self._settings, now=self._clock.now())
        for run in ended:
            tell("note", f"Prefect run {run.name} is closed: its process is gone, or a later one does its work")

    async def _follow_settings(self) -> None:
        """A changed schedule holds at once, without a restart."""
        from flows.deployments import deployments

        known = self._settings.schedule
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(until_beat(self._clock.monotonic(), TIDY_SECONDS)):
                    await self._settings_changed.wait()
            self._settings_changed.clear()
            try:
                wanted = load().schedule
                if wanted == known:
                    continue
                await self._register(deployments(wanted, self._settings.store))
            except SlowwaveError as error:
                tell("problem", str(error))
                continue
            except Exception as error:  # noqa: BLE001 - Prefect's client; the former schedule stands
                tell("problem", f"The schedule could not be changed ({type(error).__name__}).")
                continue
            known = wanted
            tell("schedule", sentence(wanted))
            tell("note", f"the schedule is now: {sentence(wanted)}")


def _no_pings() -> None:
    """Prefect's client asks its server every twenty seconds whether it is there; on loopback a server that is gone says
    so. Where a later Prefect connects otherwise it goes on asking."""
    with suppress(ImportError, AttributeError):
        clients: Any = importlib.import_module("prefect.events.clients")
        clients.websocket_connect = functools.partial(clients.websocket_connect, ping_interval=None)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m flows.worker")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parent", required=True)
    given = parser.parse_args(arguments)
    lifeline.tie_to_parent(given.parent)
    try:
        asyncio.run(_made(Place(given.home), given.port).run())
    except SlowwaveError as error:
        tell("problem", str(error))
        sys.exit(error.exit_code)


def _made(place: Place, port: int) -> Worker:
    settings = load()
    mark = {WORKER_VARIABLE: lifeline.name_of(os.getpid())}
    if port:
        url, auth = f"http://127.0.0.1:{port}/api", place.make_auth()
        prefect_environment.take(prefect_environment.for_client(place, url, auth) | mark)
    else:
        url, auth = settings.prefect_url, settings.prefect_auth.get_secret_value()
        prefect_environment.add(mark | {"PYTHONSAFEPATH": "1"})
    return Worker(place, lambda: remote.Api(url, auth), own=bool(port))


if __name__ == "__main__":
    main()
