"""Cost: what was spent by day, stage, model and project; the ceilings; what the next run may cost."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from dashboard import confirmed
from dashboard.costs import SPANS, UNITS, Unit, chart, shares, usual
from dashboard.desk import AnyLook
from dashboard.running import money
from memory import models
from memory.state import Ledger
from memory.state.spending import daily

router = APIRouter()
RECENT = 20
Days = Annotated[int, Query(ge=1, le=366)]


@router.get("/costs")
def costs(look: AnyLook, unit: Annotated[Unit, Query()] = "tokens", days: Days = 30) -> Response:
    now = look.desk.clock.now()
    budget = look.settings.budget
    ledger = Ledger(look.store, budget, look.desk.clock, "dashboard", free=models.FREE)
    found = daily(look.store, f"{now - timedelta(days=days - 1):%Y-%m-%d}")
    counted, tokens = usual(look.store.runs.last(RECENT))
    return look.page(
        "costs.html",
        unit=unit,
        units=UNITS,
        days=days,
        spans=SPANS,
        chart=chart(found, now=now, days=days, unit=unit),
        total=ledger.total(days=days),
        by={
            "stage": shares(ledger.spend("stage", days=days), unit),
            "model": shares(ledger.spend("model", days=days), unit),
            "project": shares(ledger.spend("project", days=days), unit),
        },
        names={one.id: one.name for one in confirmed.projects(look.store)},
        ceilings=ledger.ceilings(),
        unset=[name for name in type(budget).model_fields if name != "prices" and getattr(budget, name) is None],
        unpriced=ledger.unpriced_models(days=days),
        free=any(one.name in models.FREE for one in ledger.spend("model", days=days)),
        counted=counted,
        usual=tokens,
        model=models.describe(look.settings),
        money=lambda amount: money(look, amount),
        amount=lambda value, of: money(look, value) if of == "money" else f"{value:,.0f}",
    )
