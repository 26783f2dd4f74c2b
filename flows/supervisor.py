"""`slowwave up`: one small process that starts the others, restarts what dies, writes the log, and ends them all.

    prefect    a Prefect server of our own, unless the environment names one
    worker     the deployments, the watch over wake-ups, unfinished runs
    dashboard  the page and its API

It imports neither Prefect nor the pipeline: the standard library and a few small modules of ours. Each process has a
group of its own, ends with this one whatever happens to it, and prints through a pipe into one rotated log. A line
that begins with the mark is a message to us and not for the log.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows import lifeline
from flows.beat import until_beat
from flows.children import Child, ended, group_lives, how, kill_group
from flows.logs import Log, stamp
from flows.place import Place, State
from flows.supervision import answers, free_port
from memory import locks, processes
from memory.errors import SlowwaveError, StateBusyError, UsageError

MARK = b"\x1e"
LOOPBACK = "127.0.0.1"
PROBE_SECONDS = 0.1
MOST_SILENT = 3
"""Health checks in a row without an answer: then the process hangs and is ended."""
STOP_SECONDS = 10.0
"""For a process to end in order: a run gives its attempt back and is recorded meanwhile."""
MANY_CORES = 4
PATIENCE_SECONDS = 6.0
"""The dashboard waits no longer for the worker than this."""
SAME_WISH_SECONDS = 0.5
SLOW_SECONDS = 90.0
"""A start that takes longer is said to be slow; it goes on."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line worked out: addresses and places, no secret."""

    home: Path
    host: str = LOOPBACK
    port: int = 0
    prefect_port: int = 0
    own: bool = True


class Supervisor:
    """One service. `say` prints a line for whoever started it; everything goes to the log, too."""

    def __init__(self, options: Options, *, say: Callable[[str], None] = print) -> None:
        self._options = options
        self._place = Place(options.home)
        self._say = say
        self._began = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._leaving: list[tuple[subprocess.Popen[bytes], float]] = []
        """Ended processes whose group gets a moment more, and when it is killed."""
        self._stopping = 0
        """Signals that asked for the end."""
        self._last_signal = float("-inf")
        self._failed = False
        self._next_health = 0.0
        self._problems: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        self._schedule = ""
        self._started = stamp()
        self._ready = False
        self._ports = {"prefect": 0, "dashboard": 0}
        self._log: Log | None = None
        self._children: list[Child] = []

    # -- life -----------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until SIGTERM or SIGINT; returns the exit code. Raises UsageError where one runs already."""
        try:
            self._place.make()
            with locks.hold(self._place.lock, owner="service", wait_seconds=1.0):
                return self._hold()
        except StateBusyError:
            raise UsageError(*already(self._place.running())) from None
        except OSError as error:
            raise UsageError(
                f"The service cannot use {self._place.root} ({error.strerror}).",
                hint="The folder must belong to this user and have room; or set SLOWWAVE_HOME to one that does.",
            ) from None

    def _hold(self) -> int:
        self._log = Log(self._place.log, hide=[self._place.make_auth().partition(":")[2]])
        self._heal()
        self._choose_ports()
        self._children = self._plan()
        self._listen_to_signals()
        try:
            for child in self._children:
                if child.name == "dashboard" and (os.cpu_count() or 1) < MANY_CORES:
                    # Two processes for two cores: it begins when the worker has nothing to do but wait.
                    child.state, child.due = "waiting", time.monotonic() + PATIENCE_SECONDS
                else:
                    self._start(child)
            self._publish()
            while not self._stopping:
                self._turn()
        finally:
            self._end_all()
            self._place.forget_state()
            self._log.close()
            self._selector.close()
        return 1 if self._failed else 0

    def _heal(self) -> None:
        """Ends what a killed supervisor's processes left running; forgets what is dead."""
        last = self._place.last()
        if last is None:
            return
        left = [one for one in last.processes if one.lives]
        if left:
            self._tell(f"ending what a service left that was killed: {', '.join(one.name for one in left)}")
        for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, 2.0)):
            for one in left:
                with suppress(OSError):
                    os.killpg(one.pid, number)
            deadline = time.monotonic() + seconds
            while (left := [one for one in left if one.lives]) and time.monotonic() < deadline:
                time.sleep(0.05)
        self._place.forget_state()

    def _choose_ports(self) -> None:
        options = self._options
        try:
            self._ports["dashboard"] = free_port(options.host, options.port)
            if options.own:
                self._ports["prefect"] = free_port(LOOPBACK, options.prefect_port)
        except OSError as error:
            raise UsageError(
                f"Nothing can listen on {options.host} ({error.strerror}).", hint="Check service.host and service.port."
            ) from None
        if options.port not in (0, self._ports["dashboard"]):
            self._tell(f"port {options.port} is in use; the dashboard takes {self._ports['dashboard']}")

    def _plan(self) -> list[Child]:
        home, ports, host = str(self._options.home), self._ports, self._options.host
        me = lifeline.name_of(os.getpid())
        common = ("--home", home, "--parent", me)

        def module(name: str, *more: str) -> list[str]:
            return ["-P", "-m", name, *common, *more]

        def port(name: str) -> tuple[str, str]:
            return ("--port", str(ports[name]))

        def prefect_answers() -> bool:
            return answers(LOOPBACK, ports["prefect"], "/api/health", within=b" 200 ")

        def dashboard_answers() -> bool:
            here = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host)
            return answers(here, ports["dashboard"], "/static/")

        children = [
            Child(
                "prefect", "about 10 s, some more with a fresh database",
                lambda: module("flows.server", *port("prefect")), prefect_answers,
            ),
            Child(
                "worker", "a second longer than Prefect",
                lambda: module("flows.worker", *(port("prefect") if self._options.own else ())),
            ),
            Child(
                "dashboard", "about 3 s",
                lambda: module("cli.web", "--host", host, *port("dashboard")), dashboard_answers,
            ),
        ]  # fmt: skip
        return children if self._options.own else children[1:]

    # -- one turn -------------------------------------------------------------------------------------

    def _turn(self) -> None:
        now = time.monotonic()
        for key, _ in self._selector.select(self._wait(now)):
            if key.data is None:
                with suppress(BlockingIOError):
                    os.read(key.fd, 512)
            else:
                self._read(key.data)
        now = time.monotonic()
        changed = self._bury(now)
        for child in self._children:
            changed |= self._tend(child, now)
        if now >= self._next_health:
            self._next_health = now + until_beat(now)
        if changed:
            self._publish()

    def _wait(self, now: float) -> float:
        due = [self._next_health, *(at for _, at in self._leaving)]
        for child in self._children:
            if child.state == "starting" and child.probe is not None:
                due.append(now + PROBE_SECONDS)
            if child.due is not None:
                due.append(child.due)
        return max(0.0, min(due) - now)

    def _tend(self, child: Child, now: float) -> bool:
        """Looks after one process; True where something is new."""
        if child.process is not None and ended(child.process):
            self._died(child, now)
            return True
        if child.due is not None and now >= child.due:
            self._start(child)
            return True
        if child.state == "starting" and child.process is not None:
            if child.probe is not None and child.probe():
                self._became_ready(child, "")
                return True
            if now - child.began > SLOW_SECONDS and child.name not in self._problems:
                self._problems[child.name] = f"{child.name} has been starting for {now - child.began:.0f} s."
                return True
        elif child.state == "ready" and child.probe is not None and now >= self._next_health:
            child.silent = 0 if child.probe() else child.silent + 1
            if child.silent >= MOST_SILENT and child.process is not None:
                self._tell(f"{child.name} does not answer any more; it is ended and started again")
                kill_group(child.process.pid)
        return False

    def _start(self, child: Child) -> None:
        command = [sys.executable, *child.arguments()]
        child.due, child.silent, child.rest = None, 0, b""
        child.began, child.since, child.state = time.monotonic(), stamp(), "starting"
        child.starts += 1
        process = child.process = subprocess.Popen(
            command, cwd=self._place.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            process_group=0,
        )  # fmt: skip
        child.born = processes.born(process.pid)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, child)
        self._tell(f"{child.name}: starting ({child.expects})")

    def _became_ready(self, child: Child, says: str) -> None:
        child.state, child.since, child.problem = "ready", stamp(), ""
        self._problems.pop(child.name, None)
        seconds = time.monotonic() - child.began
        if child.starts == 1:
            self._seconds[child.name] = round(time.monotonic() - self._began, 2)
        where = {
            "dashboard": f" at {self._address('dashboard')}",
            "prefect": f" at {self._address('prefect')}",
        }.get(child.name, "")
        self._tell(f"{child.name}: ready after {seconds:.1f} s{where}{f' ({says})' if says else ''}")
        if not self._ready and all(one.state == "ready" for one in self._children):
            self._ready = True
            whole = time.monotonic() - self._began
            self._seconds["all"] = round(whole, 2)
            self._tell(f"ready after {whole:.1f} s: open {self._address('dashboard')}")

    def _died(self, child: Child, now: float) -> None:
        process = child.process
        assert process is not None
        self._drain(child)
        child.process = None
        # What it started gets a moment to end in order; its number is not given away before we have asked for it.
        self._leaving.append((process, now + lifeline.GRACE_SECONDS))
        delay = child.restarts.delay(now - child.began)
        end = how(process) + (f" ({child.problem.rstrip('.')})" if child.problem else "")
        if delay is None:
            child.state = "given up"
            self._problems[child.name] = f"{child.name} {end}, {child.restarts.deaths} times in a row, and is given up."
            self._tell(f"{self._problems[child.name]} See: slowwave logs")
            if child.name != "dashboard":
                self._failed, self._stopping = True, max(self._stopping, 1)
            return
        child.state, child.due = "waiting", now + delay
        self._problems[child.name] = f"{child.name} {end} and is started again."
        self._tell(f"{child.name} {end}; it starts again in {delay:.1f} s")
        if child.name in self._ports:
            self._keep_port(child)

    def _keep_port(self, child: Child) -> None:
        """The same port where it can still be had; else what uses it has to learn of the new one."""
        host = LOOPBACK if child.name == "prefect" else self._options.host
        port = free_port(host, self._ports[child.name])
        if port == self._ports[child.name]:
            return
        self._ports[child.name] = port
        self._tell(f"{child.name} moves to port {port}")
        worker = next(one for one in self._children if one.name == "worker")
        if child.name == "prefect" and worker.process is not None:
            worker.process.terminate()

    def _bury(self, now: float) -> bool:
        """Kills what is left of the groups of ended processes once their moment is over."""
        for process, at in list(self._leaving):
            if now >= at or not group_lives(process.pid):
                kill_group(process.pid)
                process.wait()
                self._leaving.remove((process, at))
        return False

    # -- what they print ------------------------------------------------------------------------------

    def _read(self, child: Child) -> None:
        assert child.process is not None
        assert child.process.stdout is not None
        stream = child.process.stdout
        try:
            data = os.read(stream.fileno(), 65_536)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(stream)
            return
        *lines, child.rest = (child.rest + data).split(b"\n")
        if len(child.rest) > 65_536:
            lines.append(child.rest)
            child.rest = b""
        for line in lines:
            self._hear(child, line.rstrip(b"\r"))

    def _drain(self, child: Child) -> None:
        assert child.process is not None
        stream = child.process.stdout
        assert stream is not None
        for _ in range(64):
            if stream.fileno() not in {key.fd for key in self._selector.get_map().values()}:
                break
            with selectors.DefaultSelector() as ready:
                ready.register(stream, selectors.EVENT_READ)
                if not ready.select(0):
                    self._selector.unregister(stream)
                    break
            self._read(child)
        if child.rest:
            self._hear(child, child.rest)
        stream.close()

    def _hear(self, child: Child, line: bytes) -> None:
        if not line.startswith(MARK):
            if line.strip() and self._log is not None:
                self._log.write(child.name, line)
            return
        try:
            message: dict[str, Any] = json.loads(line[len(MARK) :])
            kind, says = str(message["kind"]), str(message.get("says", ""))
        except (ValueError, KeyError, TypeError):
            return
        if kind == "schedule":
            self._schedule = says
        elif kind == "waits":
            for other in self._children:
                if other.due is not None and other.starts == 0:
                    other.due = time.monotonic()
        elif kind == "ready" and child.state == "starting":
            self._became_ready(child, says)
        elif kind == "problem":
            self._problems[child.name] = child.problem = says
            self._tell(f"{child.name}: {says}")
        elif kind == "well":
            self._problems.pop(child.name, None)
            child.problem = ""
        elif kind == "note":
            self._tell(f"{child.name}: {says}")
        self._publish()

    def _tell(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._say(text)
        if self._log is not None:
            self._log.write("service", text.encode())

    def _address(self, name: str) -> str:
        host = LOOPBACK if name == "prefect" else self._options.host
        shown = {"0.0.0.0": LOOPBACK, "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{shown}:{self._ports[name]}"

    def _publish(self) -> None:
        state = State(
            pid=os.getpid(),
            born=processes.born(os.getpid()),
            started=self._started,
            ready=self._ready,
            own=self._options.own,
            prefect=f"{self._address('prefect')}/api" if self._options.own else "",
            dashboard=self._address("dashboard"),
            schedule=self._schedule,
            processes=tuple(child.shown() for child in self._children),
            problems=tuple(self._problems.values()),
            units=self._seconds,
        )
        with suppress(OSError):
            self._place.say(state)

    # -- the end --------------------------------------------------------------------------------------

    def _listen_to_signals(self) -> None:
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else _pipe()
        self._selector.register(reader, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def stop(number: int, _: object) -> None:
            # Whoever signals a process and then its group means one wish, not two.
            if time.monotonic() - self._last_signal > SAME_WISH_SECONDS:
                self._stopping += 1
            self._last_signal = time.monotonic()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, stop)
        # So that the end of a process wakes the loop.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def _end_all(self) -> None:
        """The worker first: its runs still have a server to report to. A second signal ends everything at once."""
        self._tell("stopping" if not self._failed else "stopping: without it the service is none")
        waves = [[one for one in self._children if one.name != "prefect"]]
        waves.append([one for one in self._children if one.name == "prefect"])
        for wave in waves:
            self._end([one for one in wave if one.process is not None])
        for process, _ in self._leaving:
            kill_group(process.pid)
            process.wait()
        self._tell("stopped")

    def _end(self, wave: list[Child]) -> None:
        asked = self._stopping
        for child in wave:
            assert child.process is not None
            with suppress(OSError):
                child.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        waiting = list(wave)
        while waiting and time.monotonic() < deadline and self._stopping <= asked:
            for key, _ in self._selector.select(0.1):
                if key.data is not None:
                    self._read(key.data)
            waiting = [one for one in waiting if one.process is not None and not ended(one.process)]
        for child in wave:
            assert child.process is not None
            kill_group(child.process.pid)
            self._drain(child)
            child.process.wait()
            if child in waiting:
                why = "at once" if self._stopping > asked else f"after {STOP_SECONDS:.0f} s"
                self._tell(f"{child.name} was killed {why}")
            child.process, child.state = None, "stopped"


def already(state: State | None) -> tuple[str]:
    """What to tell who starts a second one."""
    if state is None:
        return ("The service of this home is just starting or stopping; look again in a moment.",)
    where = f" Dashboard: {state.dashboard}." if state.dashboard else ""
    return (f"The service runs already, process {state.pid}, since {state.started}.{where} Stop it: slowwave down",)


def _pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="slowwave up", add_help=False)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--host", default=LOOPBACK)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--prefect-port", type=int, default=0)
    parser.add_argument("--external", action="store_true")
    given = parser.parse_args(arguments)
    options = Options(given.home, given.host, given.port, given.prefect_port, own=not given.external)
    try:
        sys.exit(Supervisor(options, say=_print).run())
    except SlowwaveError as error:
        sys.stderr.write(f"slowwave: {error}\n")
        sys.exit(error.exit_code)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
