"""The deployments: the same flow, woken by the schedule of the settings or by hand.

Entry points are module paths: a file path would put `flows/` first on the module search path of the run's process.
`python -m flows.deployments` serves them against the Prefect API of the environment until it is stopped.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from prefect import serve
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron, Interval, Schedule
from prefect.settings import get_current_settings
from prefect.types.entrypoint import EntrypointType

from flows.slow_wave import slow_wave
from memory.errors import SettingsError, SlowwaveError, UsageError
from memory.settings import DEFAULT_STORE, ScheduleSettings, load

SCHEDULED = "scheduled"
ON_DEMAND = "on-demand"
ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
"""Intervals count from here: from the start of the service, one that restarts often would never come to a run."""
YEAR = 525_600
"""Minutes."""
RUNNER_SLOTS = 8
"""Runs the runner takes up at once. One per deployment gets to work; the others are there to be refused at once
instead of waiting for a place and running later."""
OURS = (
    "cli", "consolidate", "dashboard", "extract", "flows", "hosts", "memory", "prompts", "recall", "rollouts",
)  # fmt: skip


def schedule_of(settings: ScheduleSettings) -> Schedule:
    """The cron line where there is one, else the interval. Raises SettingsError for what is neither."""
    if settings.cron:
        try:
            return Cron(settings.cron)
        except ValueError:
            raise SettingsError(
                f"Setting schedule.cron is not valid: {settings.cron!r}.", hint="Five fields, as in 0 */2 * * *."
            ) from None
    if not 1 <= settings.every_minutes <= YEAR:
        raise SettingsError(
            f"Setting schedule.every_minutes is {settings.every_minutes:g}, which is no schedule.",
            hint=f"From 1 to {YEAR:,} minutes.",
        )
    return Interval(timedelta(minutes=settings.every_minutes), anchor_date=ANCHOR)


def deployments(settings: ScheduleSettings, store: str = DEFAULT_STORE) -> list[RunnerDeployment]:
    """Both deployments of a store; `scheduled` is paused where the schedule is switched off.

    A run that comes while one of its deployment is running is cancelled as superfluous, never queued up: the next
    one finds the same sessions. Stores other than the default one carry their name, so that one Prefect server can
    show several and no runner takes another's runs.
    """
    suffix = "" if store == DEFAULT_STORE else f"-{store}"
    return [
        _deployment(f"{ON_DEMAND}{suffix}", "manual", "The pipeline, run by hand."),
        _deployment(
            f"{SCHEDULED}{suffix}",
            "schedule",
            "The pipeline, woken by the schedule; it does nothing unless a session is idle.",
            schedule=schedule_of(settings),
            paused=not settings.enabled,
        ),
    ]


def _deployment(
    name: str, trigger: str, description: str, *, schedule: Schedule | None = None, paused: bool = False
) -> RunnerDeployment:
    return RunnerDeployment.from_flow(
        slow_wave,
        name,
        schedule=schedule,
        paused=paused,
        parameters={"trigger": trigger},
        concurrency_limit=ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW),
        description=description,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


def shadows(folder: Path) -> list[str]:
    """Packages in `folder` that a run's process would take for ours: it starts there, with the folder first."""
    ours = Path(__file__).resolve().parents[1]
    if sys.flags.safe_path or folder.resolve() == ours:
        return []
    return [name for name in OURS if (folder / name / "__init__.py").is_file()]


def check_place_for_imports(folder: Path) -> None:
    """Raises UsageError for a folder whose packages hide ours from the runs."""
    taken = shadows(folder)
    if taken:
        raise UsageError(
            f"{folder} has packages of its own named {', '.join(taken)}: runs would import those.",
            hint="Start elsewhere, or with PYTHONSAFEPATH=1.",
        )


def check_server() -> None:
    """Raises UsageError where no server is named (Prefect would start one that shows and keeps nothing) or where the
    named one does not answer."""
    url = get_current_settings().api.url
    if url is None:
        raise UsageError(
            "No Prefect server is named.",
            hint="Start one (python -m prefect server start) and set PREFECT_API_URL to its address.",
        )
    with get_client(sync_client=True) as client:
        problem = client.api_healthcheck()
    if problem is not None:
        place = urlsplit(url)
        raise UsageError(
            f"The Prefect server at {place.hostname}:{place.port} does not answer ({type(problem).__name__}).",
            hint="Start it, or set PREFECT_API_URL to where it is.",
        )


def main() -> None:
    """Serves both until SIGTERM or SIGINT. One clear sentence and a code for what we know how to name."""
    try:
        check_place_for_imports(Path.cwd())
        check_server()
        settings = load()
        serve(*deployments(settings.schedule, settings.store), limit=RUNNER_SLOTS)
    except SlowwaveError as error:
        sys.stderr.write(f"slowwave: {error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
