"""Budget and ledger: every model call is one row, written before the call is made [C022 M65 M68 X1 O2 O4].

`admit` writes the row as `reserved` with the call's upper bound, in the same transaction that compares sums and
ceilings, so calls admitted by other processes and not yet recorded are counted. `record` turns it into `settled`
with what the call really took. A reservation whose process died is `lost` after `RESERVATION_SECONDS`: it keeps
counting with its upper bound, because the provider may well have answered; it only stops being "in flight".

A ceiling of 0 allows nothing, whatever the model. Other token and money ceilings look at billable calls only:
the models named `free` (the offline engine) are recorded and pass them. A model without a price is held by
requests and tokens alone, and `unpriced` says so. Rows hold ids, counts and times; no content.

A call of stage 1 is booked on its session's project. A consolidation serves all projects: it is booked on none, so
that the ceilings of a project never hold it and those of run and day do.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal

from sqlalchemy import Text, and_, case, cast, func, insert, literal, select, true, update
from sqlalchemy.sql import ColumnElement

from memory.clock import Clock, minutes
from memory.errors import BudgetExceeded
from memory.llm.base import CallContext, CallRecord, Usage
from memory.settings import BudgetSettings
from memory.state.base import Tx
from memory.state.schema import ledger, meta
from memory.state.store import Store

RESERVATION_SECONDS = 3_600.0
"""Longer than any single call may take (`request_minutes` of either stage, with its repairs)."""
MAX_WORD = 40
"""Code points of an outcome or the name of a count: room for words, not for content [C055]."""
EPSILON = 1e-9
"""Rounding of summed money."""

Unit = Literal["requests", "tokens", "money"]
Group = Literal["day", "stage", "model", "project", "run"]


@dataclass(frozen=True, slots=True)
class Spend:
    """A sum over ledger rows. Tokens of rows in flight or lost are upper bounds.

    `money` sums what is known; `unpriced` counts the calls whose price is not.
    """

    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    money: float
    unpriced: int
    failed: int
    in_flight: int
    lost: int

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One call. `state` is `reserved`, `settled` or `lost`; `outcome` is `ok` or an error's code once settled."""

    id: int
    state: str
    day: str
    run_id: str
    role: str
    job: str
    project: str
    provider: str
    model: str
    billable: bool
    admitted: datetime
    started: datetime | None
    seconds: float
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reported: bool
    money: float | None
    outcome: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CeilingUse:
    """A ceiling and how much of it is used or reserved, in `of`. `project` is empty where it holds for all.

    `frees` is when it opens again by itself: the next UTC midnight for those of a day; None for those of a run, which
    are open in the next one, and for 0, which only a change of the setting opens.
    """

    name: str
    of: Unit
    limit: float
    used: float
    frees: datetime | None
    project: str = ""

    @property
    def shut(self) -> bool:
        """It allows no call at all now."""
        return self.limit <= 0 or self.used >= self.limit - EPSILON

    @property
    def left(self) -> float:
        return max(0.0, self.limit - self.used)


@dataclass(frozen=True, slots=True)
class _Ceiling:
    name: str
    limit: float
    scope: ColumnElement[bool]
    of: Unit
    project: str = ""


@dataclass(frozen=True, slots=True)
class _Bound:
    """What one call may take at most; None money: price unknown."""

    requests: int
    tokens: int
    money: float | None


class Ledger:
    """Implements `memory.llm.base.Meter` for one run. Safe between threads and processes."""

    def __init__(
        self, store: Store, budget: BudgetSettings, clock: Clock, run_id: str, *, free: Collection[str] = ()
    ) -> None:
        self._store = store
        self._budget = budget
        self._clock = clock
        self._run_id = run_id
        self._free = frozenset(free)
        self._open: dict[tuple[str, str, str, str, str], list[tuple[int, int]]] = {}
        self._lock = threading.Lock()
        self.unpriced: set[str] = set()
        """Billable models seen in this run that no money ceiling can hold, for lack of a price."""

    # -- the meter ------------------------------------------------------------------------------------

    def admit(self, context: CallContext, model: str, *, input_tokens: int, output_tokens: int) -> None:
        """Reserves the call's upper bound or raises BudgetExceeded naming the ceiling; then nothing is written."""
        now = self._clock.now()
        day = _day(now)
        billable = model not in self._free
        money = self._money(model, Usage(input_tokens, output_tokens)) if billable else 0.0
        if money is None:
            self.unpriced.add(model)
        bound = _Bound(1, input_tokens + output_tokens, money)
        values = {
            "state": "reserved",
            "day": day,
            "run_id": context.run_id or self._run_id,
            "role": context.role,
            "job": context.job,
            "project": context.project,
            "provider": "",
            "model": model,
            "billable": billable,
            "admitted": now,
            "seconds": 0.0,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cached_tokens": 0,
            "reported": False,
            "money": money,
            "outcome": "reserved",
            "detail": {},
        }
        with self._store.write() as tx:
            tx.execute(select(meta.c.value).where(meta.c.name == "version").with_for_update())
            self._expire(tx, now)
            for ceiling in self._ceilings(str(values["run_id"]), day, context.project):
                self._check(tx, ceiling, bound, billable=billable)
            row = int(tx.execute(insert(ledger).returning(ledger.c.id), values).scalar_one())
        with self._lock:
            self._open.setdefault(self._key(context, model), []).append((bound.tokens, row))

    def record(self, record: CallRecord) -> None:
        """Settles an open reservation of this context and model; without one, adds a settled row.

        Of several (calls of one job at once) the smallest that covers the tokens: so the sum of what was used and
        what is still reserved stays below the ceiling whichever of them came back.
        """
        context = record.context
        row = self._reservation(self._key(context, record.model), record.usage)
        billable = record.model not in self._free
        money = record.money
        if money is None:
            money = self._money(record.model, record.usage) if billable else 0.0
        values = {
            "state": "settled",
            "provider": record.provider,
            "started": record.started,
            "seconds": record.seconds,
            "input_tokens": record.usage.input_tokens,
            "output_tokens": record.usage.output_tokens,
            "cached_tokens": record.usage.cached_tokens,
            "reported": record.usage.reported,
            "money": money,
            "outcome": record.outcome[:MAX_WORD],
            "detail": {name[:MAX_WORD]: int(number) for name, number in record.detail.items()},
        }
        with self._store.write() as tx:
            if row is not None and tx.execute(update(ledger).where(ledger.c.id == row).values(**values)).rowcount:
                return
            now = self._clock.now()
            who = {"run_id": context.run_id or self._run_id, "role": context.role, "job": context.job}
            what = {"project": context.project, "model": record.model, "billable": billable}
            tx.execute(insert(ledger), values | who | what | {"day": _day(now), "admitted": now})

    # -- what was spent -------------------------------------------------------------------------------

    def spend(self, by: Group, *, days: int | None = None, run_id: str | None = None) -> list[Spend]:
        """Sums by day (UTC), stage, model, project or run, in the order of names.

        `days` keeps the last so many UTC days, today included; `run_id` keeps one run.
        """
        return self._spend(_GROUPS[by], self._kept(days, run_id))

    def total(self, *, days: int | None = None, run_id: str | None = None) -> Spend:
        """One sum over everything kept; zeros where there is nothing."""
        found = self._spend(cast(literal("total"), Text), self._kept(days, run_id))
        return found[0] if found else Spend("total", 0, 0, 0, 0, 0.0, 0, 0, 0, 0)

    def run_total(self) -> Spend:
        """What this run took so far."""
        return self.total(run_id=self._run_id)

    def rows(self, *, run_id: str | None = None, limit: int = 1_000) -> list[LedgerRow]:
        """The latest rows, newest first."""
        with self._store.read() as tx:
            query = select(*ledger.c).where(self._kept(None, run_id)).order_by(ledger.c.id.desc()).limit(limit)
            return [LedgerRow(*row) for row in tx.execute(query)]

    def unpriced_models(self, *, days: int | None = None) -> list[str]:
        """Billable models with calls of which nobody knows what they cost, by name."""
        c = ledger.c
        wanted = and_(self._kept(days, None), c.billable.is_(True), c.money.is_(None))
        with self._store.read() as tx:
            return sorted(tx.execute(select(c.model).where(wanted).distinct()).scalars())

    def warnings(self) -> tuple[str, ...]:
        """Sentences for the user: money ceilings that cannot hold the models used in this run."""
        budget = self._budget
        if all(limit is None for limit in (budget.run_money, budget.day_money, budget.project_day_money)):
            return ()
        return tuple(
            f"budget.prices has no price for {model}: money ceilings cannot hold it, token and request ceilings do."
            for model in sorted(self.unpriced)
        )

    def paused(self) -> tuple[str, ...]:
        """Names of the ceilings that allow no call at all now: those that are 0 or used up [O4]."""
        return tuple(ceiling.name for ceiling in self.ceilings(projects=False) if ceiling.shut)

    def ceilings(self, *, projects: bool = True) -> list[CeilingUse]:
        """Every ceiling that is set, with its use by now: this run's, the day's, those of each project of the day."""
        now = self._clock.now()
        day = _day(now)
        with self._store.read() as tx:
            wanted = self._ceilings(self._run_id, day, "")
            if projects:
                named = select(ledger.c.project).where(ledger.c.day == day, ledger.c.project != "").distinct()
                for project in sorted(tx.execute(named).scalars()):
                    wanted += [one for one in self._ceilings(self._run_id, day, project) if one.project]
            return [
                CeilingUse(one.name, one.of, one.limit, self._used(tx, one), _frees(one, now), one.project)
                for one in wanted
            ]

    # -- inside ---------------------------------------------------------------------------------------

    def _reservation(self, key: tuple[str, str, str, str, str], usage: Usage) -> int | None:
        with self._lock:
            rows = sorted(self._open.get(key, ()))
            if not rows:
                return None
            used = usage.input_tokens + usage.output_tokens
            largest = max(rows, key=lambda row: (row[0], -row[1]))
            chosen = next((row for row in rows if row[0] >= used), largest)
            self._open[key].remove(chosen)
            return chosen[1]

    def _key(self, context: CallContext, model: str) -> tuple[str, str, str, str, str]:
        return (context.role, context.run_id, context.job, context.project, model)

    def _money(self, model: str, usage: Usage) -> float | None:
        price = self._budget.prices.get(model)
        if price is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        cheap = price.input if price.cached_input is None else price.cached_input
        fresh = usage.input_tokens - cached
        return (fresh * price.input + cached * cheap + usage.output_tokens * price.output) / 1_000_000

    def _ceilings(self, run_id: str, day: str, project: str) -> list[_Ceiling]:
        run, today = ledger.c.run_id == run_id, ledger.c.day == day
        scoped = and_(today, ledger.c.project == project)
        budget = self._budget
        wanted: list[tuple[str, float | None, ColumnElement[bool], Unit]] = [
            ("budget.run_requests", budget.run_requests, run, "requests"),
            ("budget.run_tokens", budget.run_tokens, run, "tokens"),
            ("budget.run_money", budget.run_money, run, "money"),
            ("budget.day_requests", budget.day_requests, today, "requests"),
            ("budget.day_tokens", budget.day_tokens, today, "tokens"),
            ("budget.day_money", budget.day_money, today, "money"),
        ]
        if project:
            wanted += [
                ("budget.project_day_requests", budget.project_day_requests, scoped, "requests"),
                ("budget.project_day_tokens", budget.project_day_tokens, scoped, "tokens"),
                ("budget.project_day_money", budget.project_day_money, scoped, "money"),
            ]
        return [
            _Ceiling(name, limit, scope, of, project if scope is scoped else "")
            for name, limit, scope, of in wanted
            if limit is not None
        ]

    def _check(self, tx: Tx, ceiling: _Ceiling, bound: _Bound, *, billable: bool) -> None:
        if ceiling.limit > 0 and ceiling.of != "requests" and not billable:
            return
        wanted = {"requests": bound.requests, "tokens": bound.tokens, "money": bound.money}[ceiling.of]
        if ceiling.limit > 0 and wanted is None:
            return
        used = self._used(tx, ceiling)
        if ceiling.limit > 0 and used + (wanted or 0) <= ceiling.limit + EPSILON:
            return
        raise _refusal(ceiling, used, wanted or 0, self._clock.now())

    def _used(self, tx: Tx, ceiling: _Ceiling) -> float:
        sums = {
            "requests": func.count(),
            "tokens": func.coalesce(func.sum(ledger.c.input_tokens + ledger.c.output_tokens), 0),
            "money": func.coalesce(func.sum(ledger.c.money), 0.0),
        }
        condition = ceiling.scope if ceiling.of == "requests" else and_(ceiling.scope, ledger.c.billable.is_(True))
        return float(tx.execute(select(sums[ceiling.of]).select_from(ledger).where(condition)).scalar_one())

    def _expire(self, tx: Tx, now: datetime) -> None:
        before = now - timedelta(seconds=RESERVATION_SECONDS)
        stale = and_(ledger.c.state == "reserved", ledger.c.admitted < before)
        tx.execute(update(ledger).where(stale).values(state="lost", outcome="lost"))

    def _kept(self, days: int | None, run_id: str | None) -> ColumnElement[bool]:
        conditions: list[ColumnElement[bool]] = [true()]
        if days is not None:
            conditions.append(ledger.c.day >= _day(self._clock.now() - timedelta(days=days - 1)))
        if run_id is not None:
            conditions.append(ledger.c.run_id == run_id)
        return and_(*conditions)

    def _spend(self, name: ColumnElement[Any], condition: ColumnElement[bool]) -> list[Spend]:
        def number(wanted: ColumnElement[bool]) -> ColumnElement[int]:
            return func.sum(case((wanted, 1), else_=0))

        c = ledger.c
        columns = (
            name,
            func.count(),
            func.sum(c.input_tokens),
            func.sum(c.output_tokens),
            func.sum(c.cached_tokens),
            func.coalesce(func.sum(c.money), 0.0),
            number(c.money.is_(None)),
            number(and_(c.state == "settled", c.outcome != "ok")),
            number(c.state == "reserved"),
            number(c.state == "lost"),
        )
        with self._store.read() as tx:
            query = select(*columns).where(condition).group_by(name).order_by(name)
            return [_spend_row(row) for row in tx.execute(query)]


_GROUPS: dict[Group, ColumnElement[Any]] = {
    "day": ledger.c.day,
    "stage": ledger.c.role,
    "model": ledger.c.model,
    "project": ledger.c.project,
    "run": ledger.c.run_id,
}


def _spend_row(row: Sequence[Any]) -> Spend:
    name, requests, read, written, cached, money, *counts = row
    return Spend(str(name), int(requests), int(read), int(written), int(cached), float(money), *map(int, counts))


def _refusal(ceiling: _Ceiling, used: float, wanted: float, now: datetime) -> BudgetExceeded:
    frees = _frees(ceiling, now)
    alone = wanted > ceiling.limit > 0
    if ceiling.limit <= 0:
        hint = f"It allows nothing: raise {ceiling.name}."
    elif alone:
        hint = f"This call alone is larger than the ceiling: raise {ceiling.name}."
    elif frees is not None:
        hint = f"It goes on by itself in a run after {minutes(frees)}, or raise {ceiling.name}."
    else:
        hint = f"The next run goes on, or raise {ceiling.name}."
    return BudgetExceeded(
        f"The next model call could pass {ceiling.name} ({_number(ceiling.limit)}): {_number(used)} used or"
        f" reserved, up to {_number(wanted)} more for this call. It was not made.",
        budget=ceiling.name,
        hint=hint,
        used=used,
        limit=ceiling.limit,
        of=ceiling.of,
        frees=frees,
        project=ceiling.project,
        alone=alone,
    )


def _frees(ceiling: _Ceiling, now: datetime) -> datetime | None:
    if ceiling.limit <= 0 or "day_" not in ceiling.name:
        return None
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)


def _day(moment: datetime) -> str:
    return moment.date().isoformat()


def _number(value: float) -> str:
    return f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{int(value):,}"
