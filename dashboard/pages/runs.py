"""Runs: what is going on, live; what a run would cost; starting and stopping; every run there was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from dashboard import confirmed
from dashboard.desk import AnyLook, AnyVisitor, Form, Look, Posted
from dashboard.pages.sessions import Page
from dashboard.running import did, listed, money, of, past, span, telling, watch_of
from memory.errors import SlowwaveError, UnknownReference, UsageError
from memory.model import RolloutId
from memory.state import Ledger
from memory.state.browse import Wanted, session, sessions, titles
from memory.state.run_pages import run_page
from memory.wishes import Stage

router = APIRouter()
PER_PAGE = 50
CHOICE = 20
MAX_CALLS = 200
RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9-]{0,79}$"
RunId = Annotated[str, Path(pattern=RUN_ID)]
Outcome = Literal["", "ok", "nothing", "deferred", "failed", "cancelled", "unfinished"]
Trigger = Annotated[str, Query(pattern=r"^[a-z]{0,20}$")]
STAGES: tuple[Stage, ...] = ("all", "extract", "consolidate")


@router.get("/runs")
def runs(look: AnyLook, trigger: Trigger = "", outcome: Annotated[Outcome, Query()] = "", page: Page = 1) -> Response:
    watch = watch_of(look.request)
    alive = {run.run_id: run for run in watch.running()}
    rows, total = run_page(look.store, limit=PER_PAGE, offset=(page - 1) * PER_PAGE, trigger=trigger, outcome=outcome)
    return look.page(
        "runs.html",
        service=watch.service(),
        live=[telling(look, run) for run in alive.values()],
        found=[past(row, alive) for row in rows],
        total=total,
        first=(page - 1) * PER_PAGE + 1,
        last=(page - 1) * PER_PAGE + len(rows),
        page=page,
        query={"trigger": trigger, "outcome": outcome},
        outcomes=("ok", "nothing", "deferred", "failed", "cancelled", "unfinished"),
        triggers=("manual", "schedule", "hook"),
        choice=_choice(look),
        stages=STAGES,
        mode=look.settings.memory.mode if look.settings.memory.enabled else "off",
        span=lambda seconds: span(look, seconds),
        money=lambda amount: money(look, amount),
        did=lambda one: did(look, one),
    )


@router.get("/runs/stream")
async def stream(visitor: AnyVisitor, request: Request) -> Response:
    """What runs, as server-sent events; the words are in the language of the page."""
    return StreamingResponse(watch_of(request).stream(visitor), media_type="text/event-stream")


@router.post("/runs/start")
def start(look: AnyLook, form: Form) -> Response:
    stage, rollouts = _wanted(look, form)
    try:
        asked = look.desk.runs.start(stage=stage, rollouts=rollouts)
    except SlowwaveError as error:
        return look.redirect("/runs", "runs.refused", says=str(error))
    return look.redirect("/runs", "runs.coalesced" if asked.coalesced else "runs.asked", says=asked.says)


@router.post("/runs/plan")
def plan(look: AnyLook, form: Form) -> Response:
    stage, rollouts = _wanted(look, form)
    planned = look.desk.planner(stage=stage, rollouts=rollouts)
    ids = [RolloutId.parse(name) for name in planned.rollouts]
    return look.page(
        "plan.html",
        planned=planned,
        stage=stage,
        ids=ids,
        chosen=[RolloutId.parse(name) for name in rollouts],
        titles=titles(look.store, ids),
        money=lambda amount: money(look, amount),
    )


@router.post("/runs/{run_id}/cancel")
def cancel(visitor: AnyVisitor, run_id: RunId, form: Form) -> Response:
    try:
        return visitor.redirect("/runs", "runs.cancelling", says=visitor.desk.runs.cancel(run_id))
    except SlowwaveError as error:
        return visitor.redirect("/runs", "runs.not_cancelled", says=str(error))


@router.get("/runs/{run_id}")
def run(look: AnyLook, run_id: RunId) -> Response:
    row = look.store.runs.get(run_id)
    if row is None:
        raise UnknownReference("There is no such run.", hint="The list has all of them.")
    alive = {one.run_id: one for one in watch_of(look.request).running()}
    ledger = Ledger(look.store, look.settings.budget, look.desk.clock, run_id)
    extracted, consolidated = of(row.detail, "extract"), of(row.detail, "consolidate")
    calls = ledger.rows(run_id=run_id, limit=MAX_CALLS + 1)
    outcomes = [(one, _source(one)) for one in listed(extracted, "outcomes") if isinstance(one, dict)]
    ids = [RolloutId.parse(str(one["rollout"])) for one, source in outcomes if source]
    return look.page(
        "run.html",
        one=past(row, alive),
        row=row,
        live=[telling(look, alive[run_id])] if run_id in alive else [],
        link=_link(look, run_id),
        discovered=of(row.detail, "discover"),
        hooks=of(row.detail, "hooks"),
        extracted=extracted,
        outcomes=outcomes,
        titles={str(name): title for name, title in titles(look.store, ids).items()},
        consolidated=consolidated,
        violations=_violations(listed(consolidated, "violations")),
        transcript=[str(text) for text in listed(consolidated, "transcript")],
        recovered=[str(text) for text in listed(row.detail, "recovered")],
        notices=[str(text) for text in listed(row.detail, "notices")],
        error=str(row.detail.get("error") or ""),
        spend=ledger.total(run_id=run_id),
        by_stage=ledger.spend("stage", run_id=run_id),
        calls=calls[:MAX_CALLS],
        more_calls=len(calls) > MAX_CALLS,
        span=lambda seconds: span(look, seconds),
        money=lambda amount: money(look, amount),
    )


def _choice(look: Look) -> list[tuple[str, str, str]]:
    """Sessions a person may pick for a run: id of the source, title, project."""
    found = [
        one.row for fate in ("waiting", "failed") for one in sessions(look.store, Wanted(fate=fate), limit=CHOICE)[0]
    ]
    names = {one.id: one.name for one in confirmed.projects(look.store)}
    return [
        (row.id.source_id, row.title or row.id.session, names.get(row.project, row.project_name))
        for row in found[:CHOICE]
    ]


def _wanted(look: Look, form: Posted) -> tuple[Stage, Sequence[str]]:
    """Stage and sessions of a form. Raises UsageError, UnknownReference."""
    stage = form.get("stage", "all")
    if stage not in STAGES:
        raise UsageError("There is no such stage.", hint="Choose one of the list.")
    names = [name.removeprefix("s-") for name in form.fields if name.startswith("s-") and form.has(name)]
    found = []
    for name in names:
        row = session(look.store, name) if len(name) == 16 else None
        if row is None:
            raise UnknownReference("A chosen session is not known any more.", hint="Load the page again.")
        found.append(str(row.row.id))
    known: dict[str, Stage] = {one: one for one in STAGES}
    return ("extract" if found and stage == "consolidate" else known[stage]), found


def _link(look: Look, run_id: str) -> str | None:
    """Prefect's page of the run; only ever a web address."""
    try:
        found = look.desk.runs.link(run_id)
    except SlowwaveError:
        return None
    return found if found and found.startswith(("http://", "https://")) else None


def _source(outcome: dict[str, object]) -> str:
    try:
        return RolloutId.parse(str(outcome.get("rollout"))).source_id
    except (SlowwaveError, ValueError):
        return ""


def _violations(found: Sequence[object]) -> list[tuple[str, list[int]]]:
    """Rule -> the lines that break it, in order of first meeting."""
    rules: dict[str, list[int]] = {}
    for one in found:
        if isinstance(one, dict):
            lines = rules.setdefault(str(one.get("rule")), [])
            if isinstance(one.get("line"), int):
                lines.append(one["line"])
    return list(rules.items())
