"""The deployments: the same flow, woken by the schedule of the settings or by hand.

Entry points are module paths: a file path would put `flows/` first on the module search path of the run's process.
`python -m flows.deployments` serves them against the Prefect API of the environment until it is stopped.
"""

from __future__ import annotations

from datetime import timedelta

from prefect import serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Cron, Interval, Schedule
from prefect.types.entrypoint import EntrypointType

from flows.slow_wave import slow_wave
from memory.settings import ScheduleSettings, load

SCHEDULED = "scheduled"
ON_DEMAND = "on-demand"


def schedule_of(settings: ScheduleSettings) -> Schedule | None:
    """The cron line where there is one, else the interval; None where the schedule is switched off."""
    if not settings.enabled:
        return None
    if settings.cron:
        return Cron(settings.cron)
    return Interval(timedelta(minutes=settings.every_minutes))


def deployments(settings: ScheduleSettings) -> list[RunnerDeployment]:
    """Both deployments. A run that comes while one is running is cancelled as superfluous, never queued up."""
    one_at_a_time = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.CANCEL_NEW)
    schedule = schedule_of(settings)
    found = [
        slow_wave.to_deployment(
            ON_DEMAND,
            parameters={"trigger": "manual"},
            concurrency_limit=one_at_a_time,
            description="The pipeline, run by hand.",
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
    ]
    if schedule is not None:
        found.append(
            slow_wave.to_deployment(
                SCHEDULED,
                schedule=schedule,
                parameters={"trigger": "schedule"},
                concurrency_limit=one_at_a_time,
                description="The pipeline, woken by the schedule; it does nothing unless a session is idle.",
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
        )
    return found


def main() -> None:
    """Serves both until SIGTERM or SIGINT."""
    serve(*deployments(load().schedule), limit=1)


if __name__ == "__main__":
    main()
