"""What Prefect is told by the environment, for the service's own server and for who talks to it.

Prefect's settings come from its environment, from a profile and from files of the folder it starts in. Ours come from
here alone: every `PREFECT_` variable of the user's is taken away first, and the processes start in an empty folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from flows.place import Place

RUNNER_SECONDS = 10
"""Between two looks of the runner at somebody else's server, which tells us of no run."""
OWN_RUNNER_SECONDS = 600
"""At our own, which does: the worker looks when it is told, when a run is due, and once a minute."""


def for_server(place: Place, port: int) -> dict[str, str]:
    """No word home, no open door: only who knows the auth string is answered, and no foreign page may read.

    Loops that serve what we have not (work pools, automations, pauses) are off, the others are slow: an idle server
    takes half as much so.
    """
    address = f"http://127.0.0.1:{port}"
    return {
        **for_client(place, f"{address}/api", place.make_auth()),
        "PREFECT_SERVER_API_AUTH_STRING": place.make_auth(),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": address,
        "PREFECT_UI_API_URL": f"{address}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_LOGGING_LEVEL": "WARNING",
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "60",
        "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "120",
        "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED": "false",
        "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED": "false",
        "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
        "PREFECT_SERVER_SERVICES_LATE_RUNS_LOOP_SECONDS": "300",
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "300",
        # Of a schedule of every minute there are runs until the scheduler's next turn.
        "PREFECT_SERVER_SERVICES_SCHEDULER_MIN_RUNS": "8",
        "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "120",
        "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_LOOP_SECONDS": "300",
        "PREFECT_SERVER_SERVICES_CLEANUP_RECONCILER_LOOP_SECONDS": "300",
        "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "15",
        "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "15",
        "PREFECT_SERVER_EVENTS_PROACTIVE_GRANULARITY": "PT300S",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 86_400),
    }


def for_client(place: Place, url: str, auth: str) -> dict[str, str]:
    """For the worker, the processes of its runs and whoever asks the API through Prefect's own client."""
    return {
        "PREFECT_HOME": str(place.prefect),
        "PREFECT_API_URL": url,
        **({"PREFECT_API_AUTH_STRING": auth} if auth else {}),
        "PREFECT_RUNNER_POLL_FREQUENCY": str(RUNNER_SECONDS),
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
        "DO_NOT_TRACK": "1",
        "PYTHONSAFEPATH": "1",
    }


def take(values: Mapping[str, str]) -> None:
    """Puts the values in the place of whatever this process was told about Prefect, for itself and what it starts."""
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]
    os.environ.update(values)


def add(values: Mapping[str, str]) -> None:
    """Adds values and keeps what is there: for somebody else's server, whose settings are the user's."""
    os.environ.update(values)


def shown(url: str) -> str:
    """An address fit for a message: a user and password in it are left out."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
