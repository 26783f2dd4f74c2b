"""Runs for programs: what goes on, what there was, what one would cost; starting and stopping."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from dashboard.api import CHANGING
from dashboard.api.models import Answer
from dashboard.desk import AnyLook, AnyVisitor
from dashboard.pages.runs import PER_PAGE, RUN_ID, Outcome
from dashboard.running import Past, past, watch_of
from dashboard.shown import plain
from memory.errors import UnknownReference
from memory.model import RolloutId
from memory.state import Ledger
from memory.state.run_pages import run_page
from memory.wishes import Stage

router = APIRouter(tags=["runs"])
RunId = Annotated[str, Path(pattern=RUN_ID)]
ROLLOUT = r"^(codex|claude|pi|generic):[^\x00-\x1f\x7f]{1,300}$"


class Live(Answer):
    """A run that goes on. `done` of `total` (0: unknown) count sessions, or requests of the consolidation; `money` is
    null where a price is unknown; `deadline` is when the stage is stopped."""

    run: str
    trigger: str
    stage: str
    what: str
    done: int
    total: int
    requests: int
    request_limit: int | None
    input_tokens: int
    output_tokens: int
    money: float | None
    started: datetime
    updated: datetime
    deadline: datetime | None


class Run(Answer):
    """A run. `state` is `ok`, `nothing`, `deferred`, `failed`, `cancelled`, `running`, or `never` for one that was
    killed; `version` is the summary it published."""

    run: str
    trigger: str
    state: str
    started: datetime
    finished: datetime | None
    kept: int
    failed: int
    version: int | None
    requests: int
    tokens: int
    money: float | None


class RunList(Answer):
    """A page of runs, newest first, and how many there are."""

    total: int
    page: int
    runs: list[Run]


class RunReport(Answer):
    """A run with its report (ids, counts and times, no content), its models by stage and its spend."""

    run: Run
    models: dict[str, str]
    report: dict[str, Any]
    requests: int
    input_tokens: int
    output_tokens: int
    money: float
    unpriced: int
    prefect: str | None


class Wish(BaseModel):
    """What a run is to do: a stage, and the ids of sessions, none for those that are due."""

    model_config = ConfigDict(extra="forbid")

    stage: Stage = "all"
    rollouts: list[Annotated[str, Field(pattern=ROLLOUT)]] = Field(default_factory=list, max_length=200)


class Wished(Answer):
    """`run` where it is known; `coalesced` when one that goes on takes the wish along."""

    run: str | None
    coalesced: bool
    says: str


class Plan(Answer):
    """What a run would read and may cost at most."""

    rollouts: list[str]
    waiting: int
    skipped: dict[str, int]
    sources: int
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None


class Said(Answer):
    """A sentence."""

    says: str


@router.get("/runs")
def read_runs(
    look: AnyLook,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    trigger: Annotated[str, Query(pattern=r"^[a-z]{0,20}$")] = "",
    outcome: Annotated[Outcome, Query()] = "",
) -> RunList:
    """Every run there was, a page at a time."""
    alive = {run.run_id: run for run in watch_of(look.request).running()}
    rows, total = run_page(look.store, limit=PER_PAGE, offset=(page - 1) * PER_PAGE, trigger=trigger, outcome=outcome)
    return RunList(total=total, page=page, runs=[_run(past(row, alive)) for row in rows])


@router.get("/runs/live")
def read_live(visitor: AnyVisitor) -> list[Live]:
    """What goes on now, whoever started it; no older than half a second."""
    return [
        Live.filled(run, run=run.run_id, what=plain(run.what, visitor.redactor))
        for run in watch_of(visitor.request).running()
    ]


@router.get("/runs/{run_id}")
def read_run(look: AnyLook, run_id: RunId) -> RunReport:
    """One run with all it told."""
    row = look.store.runs.get(run_id)
    if row is None:
        raise UnknownReference("There is no such run.", hint="GET /api/v1/runs lists them.")
    alive = {run.run_id: run for run in watch_of(look.request).running()}
    spend = Ledger(look.store, look.settings.budget, look.desk.clock, run_id).total(run_id=run_id)
    return RunReport(
        run=_run(past(row, alive)),
        models=row.models,
        report=_plain(row.detail, look),
        requests=spend.requests,
        input_tokens=spend.input_tokens,
        output_tokens=spend.output_tokens,
        money=spend.money,
        unpriced=spend.unpriced,
        prefect=look.desk.runs.link(run_id),
    )


@router.post("/runs", dependencies=CHANGING)
def start_run(look: AnyLook, wish: Wish) -> Wished:
    """Wants a run; returns before it ends."""
    _check(look, wish)
    asked = look.desk.runs.start(stage=wish.stage, rollouts=wish.rollouts)
    return Wished(run=asked.run, coalesced=asked.coalesced, says=asked.says)


@router.post("/runs/plan", dependencies=CHANGING)
def plan_run(look: AnyLook, wish: Wish) -> Plan:
    """Looks at the sessions on disk and bounds the cost of a run; calls no model."""
    _check(look, wish)
    found = look.desk.planner(stage=wish.stage, rollouts=wish.rollouts)
    return Plan.filled(found)


@router.post("/runs/{run_id}/cancel", dependencies=CHANGING)
def cancel_run(visitor: AnyVisitor, run_id: RunId) -> Said:
    """Asks a run to stop; it does within seconds."""
    return Said(says=visitor.desk.runs.cancel(run_id))


def _check(look: AnyLook, wish: Wish) -> None:
    """Raises UnknownReference for a session nobody knows of."""
    if any(look.store.rollouts.get(RolloutId.parse(name)) is None for name in wish.rollouts):
        raise UnknownReference("One of these sessions is not known.", hint="GET /api/v1/sessions lists them.")


def _plain(value: Any, look: AnyLook) -> Any:
    """Every text of a report redacted, whatever its form."""
    if isinstance(value, str):
        return plain(value, look.redactor)
    if isinstance(value, dict):
        return {str(name): _plain(one, look) for name, one in value.items()}
    return [_plain(one, look) for one in value] if isinstance(value, list) else value


def _run(one: Past) -> Run:
    row = one.row
    return Run.filled(
        one,
        run=row.run_id,
        trigger=row.trigger,
        started=row.started,
        finished=row.finished,
    )
