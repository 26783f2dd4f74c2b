"""What the dashboard needs of its neighbours, and all it needs: who starts runs, and who sets hosts up.

`cli` hands the real ones in (`flows.remote`, `hosts.install`); `Nobody` stands in where there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory.errors import UsageError
from memory.wishes import Asked, ServiceState, Stage


@dataclass(frozen=True, slots=True)
class Planned:
    """What a run would read and may cost at most. `rollouts` are ids of sessions, `waiting` counts those beyond the
    batch, `skipped` is reason -> count; `money` is None where a price is unknown."""

    rollouts: tuple[str, ...]
    waiting: int
    skipped: Mapping[str, int]
    sources: int
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None


class Planner(Protocol):
    """The dry run. Blocks while the sessions on disk are looked at; calls no model. Raises SlowwaveError."""

    def __call__(self, *, stage: Stage, rollouts: Sequence[str]) -> Planned: ...


@dataclass(frozen=True, slots=True)
class HostState:
    """One coding agent of this machine: is it there, does it know of slowwave; `says` is a sentence for people.

    `files` are what setting it up changes or makes, or has changed, a line for each.
    """

    host: str
    found: bool
    version: str
    installed: bool
    says: str
    files: tuple[str, ...] = ()


class Runs(Protocol):
    """Starting and stopping runs. Methods block, and raise SlowwaveError when the service refuses."""

    def start(self, *, stage: Stage, rollouts: Sequence[str]) -> Asked:
        """Wants a run of a stage, of the given rollout ids or of what is due. Returns before it ends."""
        ...

    def cancel(self, run_id: str) -> str:
        """Asks a run to stop; a sentence saying what happens."""
        ...

    def link(self, run_id: str) -> str | None:
        """Where Prefect shows the run; None where it does not know it."""
        ...

    def service(self) -> ServiceState:
        """Never raises for a service that does not answer."""
        ...


class HostSetup(Protocol):
    """Connecting the hosts of this machine. Methods block and raise SlowwaveError."""

    def states(self) -> list[HostState]: ...

    def install(self, host: str) -> list[str]:
        """What was changed, a line for each."""
        ...

    def uninstall(self, host: str) -> list[str]:
        """What was taken back, a line for each."""
        ...


def no_planner(*, stage: Stage, rollouts: Sequence[str]) -> Planned:
    """Stands in where there is no dry run."""
    raise UsageError("A dry run cannot be made from here.", hint="Use: slowwave run --dry-run")


class Nobody:
    """Both ports where nothing stands behind them: looking works, asking is refused with the command to use."""

    def start(self, *, stage: Stage, rollouts: Sequence[str]) -> Asked:
        raise UsageError("The service is not running, so no run can be started from here.", hint="Use: slowwave run")

    def cancel(self, run_id: str) -> str:
        raise UsageError("The service is not running, so nothing can be stopped from here.", hint="Press Ctrl-C there.")

    def link(self, run_id: str) -> str | None:
        return None

    def service(self) -> ServiceState:
        return ServiceState(False, problems=("The service is not running; start it with: slowwave up",))

    def states(self) -> list[HostState]:
        return []

    def install(self, host: str) -> list[str]:
        raise UsageError("Hosts cannot be set up from here.", hint=f"Use: slowwave install {host}")

    def uninstall(self, host: str) -> list[str]:
        raise UsageError("Hosts cannot be set up from here.", hint=f"Use: slowwave uninstall {host}")
