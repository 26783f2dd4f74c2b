"""Costs for programs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from dashboard.api.models import Answer
from dashboard.desk import AnyLook
from memory import models
from memory.state import Ledger, Spend
from memory.state.spending import daily

router = APIRouter(tags=["costs"])


class Sum(Answer):
    """`money` sums the calls whose price is known; `unpriced` counts the others. `name` is what the sum is of."""

    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float
    unpriced: int
    failed: int


class DayAndStage(Answer):
    """A stage on a UTC day."""

    day: str
    stage: str
    requests: int
    tokens: int
    money: float
    unpriced: int


class Ceiling(Answer):
    """A ceiling that is set, in `of` (requests, tokens, money), with what is used or reserved; `project` is empty where
    it holds for all; `frees` is when it opens again by itself."""

    name: str
    of: str
    limit: float
    used: float
    shut: bool
    frees: datetime | None
    project: str


class Costs(Answer):
    """What the last `days` UTC days cost, today included."""

    days: int
    total: Sum
    by_stage: list[Sum]
    by_model: list[Sum]
    by_project: list[Sum]
    by_day: list[DayAndStage]
    ceilings: list[Ceiling]
    unpriced_models: list[str]


@router.get("/costs")
def read_costs(look: AnyLook, days: Annotated[int, Query(ge=1, le=366)] = 30) -> Costs:
    """Sums over the ledger, and the ceilings."""
    now = look.desk.clock.now()
    ledger = Ledger(look.store, look.settings.budget, look.desk.clock, "dashboard", free=models.FREE)
    return Costs(
        days=days,
        total=_sum(ledger.total(days=days)),
        by_stage=[_sum(one) for one in ledger.spend("stage", days=days)],
        by_model=[_sum(one) for one in ledger.spend("model", days=days)],
        by_project=[_sum(one) for one in ledger.spend("project", days=days)],
        by_day=[DayAndStage.filled(one) for one in daily(look.store, f"{now - timedelta(days=days - 1):%Y-%m-%d}")],
        ceilings=[Ceiling.filled(one) for one in ledger.ceilings()],
        unpriced_models=ledger.unpriced_models(days=days),
    )


def _sum(one: Spend) -> Sum:
    return Sum(
        name=one.name,
        requests=one.requests,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        money=one.money,
        unpriced=one.unpriced,
        failed=one.failed,
    )
