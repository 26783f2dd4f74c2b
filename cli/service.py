"""`slowwave up`, `down` and `logs`: the service of this home."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from cli import readers
from cli.output import line
from flows import units
from flows.place import Place, State
from memory import locks, processes
from memory.errors import SlowwaveError, UnknownReference, UsageError
from memory.settings import Settings, load

START_SECONDS = 120.0
END_SECONDS = 30.0
"""Longer than the service's own patience with what it ends."""
LOOK_SECONDS = 0.1
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def up(*, detach: bool, print_unit: str) -> None:
    """Starts the service, in the foreground until it is stopped; says where it runs when it does already."""
    if print_unit:
        sys.stdout.write(units.unit(print_unit, sys.executable, _environment(load())))
        return
    settings = load()
    place = Place(settings.home)
    state = place.running()
    if state is not None:
        _say_where(state)
        return
    command = _command(settings)
    if detach:
        _start_behind(command, place)
        return
    # In the place of this process: what stays in memory is the supervisor alone.
    sys.stdout.flush()
    os.execv(command[0], command)


def _command(settings: Settings) -> list[str]:
    """Raises UsageError for a dashboard that anybody could reach without a token."""
    service = settings.service
    if service.host not in _LOOPBACK and not service.token.get_secret_value():
        raise UsageError(
            f"The dashboard would listen on {service.host}, where others reach it, and has no token.",
            hint="Set SLOWWAVE_SERVICE_TOKEN, or leave service.host at 127.0.0.1.",
        )
    command = [sys.executable, "-P", "-m", "flows.supervisor", "--home", str(settings.home)]
    command += ["--host", service.host, "--port", str(service.port), "--prefect-port", str(service.prefect_port)]
    return [*command, *(("--external",) if settings.prefect_url else ())]


def _start_behind(command: Sequence[str], place: Place) -> None:
    place.make()
    reader = _Lines(place.log)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for text in reader.new():
            _, _, rest = text.partition(" ")
            who, _, said = rest.partition(" ")
            if who == "service":
                line(said.strip())
        state = place.running()
        if state is not None and state.ready:
            return
        if process.poll() is not None:
            assert process.stderr is not None
            said = process.stderr.read().decode("utf-8", "replace").strip()
            raise SlowwaveError(
                said.removeprefix("slowwave: ") or "The service ended at once.", hint="See: slowwave logs"
            )
        time.sleep(LOOK_SECONDS)
    line(f"It is still starting after {START_SECONDS:.0f} s; see: slowwave logs -f", style="yellow")


def _say_where(state: State) -> None:
    line(f"The service runs already: process {state.pid}, since {state.started}.")
    line(f"dashboard  {state.dashboard}")
    if state.prefect:
        line(f"prefect    {state.prefect.removesuffix('/api')}")
    for problem in state.problems:
        line(f"problem    {problem}", style="red")
    line("Stop it with: slowwave down")


def down() -> None:
    """Ends the service in order; what does not end in time is killed."""
    place = Place(load().home)
    state = place.running()
    if state is None:
        if locks.holder(place.lock):
            raise UsageError("The service is just starting or ending.", hint="Try again in a moment.")
        line("The service is not running.")
        return
    with suppress(ProcessLookupError):
        os.kill(state.pid, signal.SIGTERM)
    if not _gone(state, END_SECONDS):
        line("It does not end; it is killed.", style="yellow")
        for group in (state.pid, *(one.pid for one in state.processes if one.lives)):
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGKILL)
        if not _gone(state, 5):
            raise SlowwaveError(f"Process {state.pid} cannot be ended.", hint="It waits for a disk, perhaps.")
    line("The service is stopped.")


def _gone(state: State, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while processes.alive(state.pid, state.born):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def logs(*, follow: bool, last: int) -> None:
    """The last lines of the service's log, and what comes when `follow`, until nobody reads it."""
    place = Place(load().home)
    if not place.log.exists():
        raise UnknownReference("There is no log yet.", hint="Start the service: slowwave up")
    former = place.log.with_name(f"{place.log.name}.1")
    lines = [text for path in (former, place.log) for text in _read(path)]
    reader = _Lines(place.log)
    for text in lines[-last:] if last else []:
        line(text)
    with suppress(KeyboardInterrupt):
        while follow and not readers.gone():
            for text in reader.new():
                line(text)
            time.sleep(LOOK_SECONDS)


def _read(path: Path) -> list[str]:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    return []


class _Lines:
    """New lines of a file that is turned over now and then; what stands there already is not new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode, self._place = self._now()
        self._rest = b""

    def _now(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError:
            return 0, 0
        return status.st_ino, status.st_size

    def new(self) -> Iterator[str]:
        inode, size = self._now()
        if inode != self._inode or size < self._place:
            self._inode, self._place = inode, 0
        with suppress(OSError), self._path.open("rb") as file:
            file.seek(self._place)
            data = file.read()
            self._place += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for one in lines:
                yield one.decode("utf-8", "replace")


def _environment(settings: Settings) -> dict[str, str]:
    """What a unit must say for its service to be this home's."""
    named = {"SLOWWAVE_HOME": str(settings.home)} if settings.store == "default" else {}
    return named or {"SLOWWAVE_HOME": str(settings.home.parents[1]), "SLOWWAVE_STORE": settings.store}
