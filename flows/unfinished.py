"""Runs that Prefect believes to be going on and whose process ended without a word; and those that nobody needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from flows.killed import LOST
from flows.remote import ACTIVE, SCHEDULED, Api, FlowRun
from memory import live
from memory.settings import Settings

SURE_SECONDS = 60.0
"""A run Prefect has begun shows itself in the home within seconds; after so many without, its process is gone."""
LATE_SECONDS = 60.0


def lost(
    runs: Collection[FlowRun],
    *,
    alive: Collection[str],
    mine: Collection[str],
    now: datetime,
    sure_seconds: float = SURE_SECONDS,
) -> list[FlowRun]:
    """Of runs that Prefect believes to be going on, those with no process: neither the worker's (`mine`) nor one that
    says so in the home (`alive`, by Prefect's ids)."""
    limit = now - timedelta(seconds=sure_seconds)
    known = {*alive, *mine}
    return [run for run in runs if run.id not in known and (run.since is None or run.since < limit)]


def superfluous(runs: Collection[FlowRun], *, now: datetime) -> list[FlowRun]:
    """Of scheduled runs that are overdue, all but the last: one run sees what all of them would have seen."""
    limit = now - timedelta(seconds=LATE_SECONDS)
    late = sorted((run for run in runs if run.due is not None and run.due < limit), key=lambda run: run.due or limit)
    return late[:-1]


@dataclass(frozen=True, slots=True)
class Believed:
    """What Prefect is asked with: `deployments` are ids by name, `mine` the runs whose processes the worker has."""

    api: Api
    deployments: Mapping[str, str]
    mine: Collection[str]
    sure_seconds: float = SURE_SECONDS


def close_flow_runs(believed: Believed, settings: Settings, *, now: datetime) -> list[FlowRun]:
    """Ends in Prefect what is lost or superfluous. Returns what was ended."""
    api, ended = believed.api, []
    alive = {run.prefect_run for run in live.running(settings.home, now=now) if run.prefect_run}
    going = api.flow_runs(believed.deployments.values(), ACTIVE)
    for run in lost(going, alive=alive, mine=believed.mine, now=now, sure_seconds=believed.sure_seconds):
        api.end(run.id, "CANCELLED" if run.state == "CANCELLING" else "CRASHED", LOST)
        ended.append(run)
    for run in superfluous(api.flow_runs([believed.deployments[SCHEDULED]], ("SCHEDULED",)), now=now):
        api.end(run.id, "CANCELLED", "Superseded: a later one sees the same sessions.")
        ended.append(run)
    return ended
