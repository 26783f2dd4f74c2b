"""The dashboard's process: `python -m cli.web`, started by the supervisor. Puts the dashboard's two ports on what is
behind them: the service and the installers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from cli import hosts
from cli.planning import planner
from dashboard.app import create_app
from dashboard.ports import HostState
from dashboard.security import LOOPBACK
from dashboard.serve import config
from flows import lifeline
from flows.remote import Remote
from hosts.catalog import HOSTS
from hosts.install import Status
from memory.clock import SystemClock
from memory.serving import QuietServer
from memory.settings import Settings, load


class Installers:
    """`dashboard.ports.HostSetup` over `hosts.install`."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def states(self) -> list[HostState]:
        settings = self._settings()
        return [self._state(name, hosts.state_of(name, settings), settings) for name in HOSTS]

    @staticmethod
    def _state(name: str, found: Status, settings: Settings) -> HostState:
        version = (found.program.version or "") if found.program else ""
        told = [hosts.WORDS[found.state], *(one.text for one in found.findings)]
        says = " ".join(one if one.endswith(".") else f"{one}." for one in told)
        files = tuple(str(path) for path in found.files) or hosts.files_of(name, settings)
        return HostState(name, found.state != "absent", version, found.state not in _NOT_THERE, says, files)

    def install(self, host: str) -> list[str]:
        return hosts.install_one(host, self._settings())

    def uninstall(self, host: str) -> list[str]:
        return hosts.uninstall_one(host, self._settings())


_NOT_THERE = frozenset({"absent", "not_installed"})


def allowed(settings: Settings) -> tuple[str, ...]:
    """Names the dashboard is called by: those of loopback, the host it listens on, and what the settings add."""
    own = settings.service.host
    return (*LOOPBACK, *((own,) if own not in ("0.0.0.0", "::") else ()), *settings.service.names)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m cli.web")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--parent", required=True)
    given = parser.parse_args(arguments)
    lifeline.tie_to_parent(given.parent)

    settings = load()
    app = create_app(
        load,
        runs=Remote(load),
        hosts=Installers(load),
        clock=SystemClock(),
        token=settings.service.token.get_secret_value() or None,
        allowed_hosts=allowed(settings),
        planner=planner(load),
    )
    QuietServer(config(app, host=given.host, port=given.port)).run()


if __name__ == "__main__":
    main()
