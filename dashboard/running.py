"""What runs now and what ran, as pages and API tell it; one look at the live files serves all open pages."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any

from fastapi import Request

from dashboard.desk import Desk, Visitor
from dashboard.shown import plain
from memory import live
from memory.errors import SlowwaveError
from memory.live import LiveRun
from memory.state import RunRow
from memory.wishes import ServiceState

LOOK_SECONDS = 0.25
"""The live files are read this often while somebody watches, however many do."""
SERVICE_SECONDS = 3.0
"""How old an answer of the service may be: asking it takes a talk over HTTP."""
KEEP_ALIVE_SECONDS = 10.0
STREAM_SECONDS = 600.0
"""A stream ends after so long; the browser opens it again."""
NEVER = "never"
"""Stands for the outcome of a run whose process ended without a word."""
RUNNING = "running"


# -- what runs now ------------------------------------------------------------------------------------


class Watch:
    """One for each server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._runs: list[LiveRun] = []
        self._revision = 0
        self._looked = 0.0
        self._turn = asyncio.Lock()
        self._told: dict[str, tuple[int, str]] = {}
        self._service: tuple[float, ServiceState] | None = None
        self._service_turn = Lock()

    def running(self) -> list[LiveRun]:
        """The runs of this home that are going on, read now."""
        return live.running(self._desk.load().home, now=self._desk.clock.now())

    def service(self) -> ServiceState:
        """The service's state, a few seconds old at most; a refusal is a problem like any other."""
        with self._service_turn:
            now = time.monotonic()
            if self._service is None or now - self._service[0] > SERVICE_SECONDS:
                try:
                    state = self._desk.runs.service()
                except SlowwaveError as error:
                    state = ServiceState(False, problems=(str(error),))
                self._service = (time.monotonic(), state)
            return self._service[1]

    async def stream(self, visitor: Visitor) -> AsyncIterator[str]:
        """Server-sent events: what runs, at once and whenever it changes."""
        end = time.monotonic() + STREAM_SECONDS
        sent, silent = -1, time.monotonic()
        yield "retry: 1000\n\n"
        while time.monotonic() < end:
            revision = await self._look()
            if revision != sent:
                sent, silent = revision, time.monotonic()
                yield f"data: {self._line(visitor)}\n\n"
            elif time.monotonic() - silent > KEEP_ALIVE_SECONDS:
                silent = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> int:
        async with self._turn:
            if time.monotonic() - self._looked >= LOOK_SECONDS * 0.9:
                try:
                    found = await asyncio.to_thread(self.running)
                except SlowwaveError:  # the settings are being edited: what was known stands
                    found = self._runs
                self._looked = time.monotonic()
                if found != self._runs:
                    self._runs, self._revision = found, self._revision + 1
            return self._revision

    def _line(self, visitor: Visitor) -> str:
        """The event in the visitor's language, made once for all who share it."""
        made = self._told.get(visitor.language)
        if made is None or made[0] != self._revision:
            text = json.dumps({"runs": [telling(visitor, run) for run in self._runs]}, ensure_ascii=True)
            made = self._told[visitor.language] = (self._revision, text)
        return made[1]


def watch_of(request: Request) -> Watch:
    state = request.app.state
    if not hasattr(state, "watch"):
        state.watch = Watch(state.desk)
    found: Watch = state.watch
    return found


def telling(visitor: Visitor, run: LiveRun) -> dict[str, Any]:
    """A live run in words. `done` of `total` drive the bar, `total` 0 is unknown."""
    t, now = visitor.t, visitor.desk.clock.now()
    calls = f"{run.requests:,}"
    if run.request_limit is not None:
        calls = t("runs.of", done=run.requests, total=run.request_limit)
    count = ""
    if run.total and run.stage in {"discover", "extract", "consolidate"}:
        count = t(f"count.{run.stage}", done=min(run.done, run.total), total=run.total)
    return {
        "id": run.run_id,
        "stage": visitor.word("stage", run.stage),
        "what": plain(_what(visitor, run.what), visitor.redactor),
        "count": count,
        "done": min(run.done, run.total),
        "total": run.total,
        "trigger": visitor.word("trigger", run.trigger),
        "calls": calls,
        "tokens": t("runs.tokens_both", read=run.input_tokens, written=run.output_tokens),
        "money": money(visitor, run.money),
        "elapsed": span(visitor, (now - run.started).total_seconds()),
        "left": _left(visitor, run, now),
    }


def _what(visitor: Visitor, text: str) -> str:
    """What a run is at: ids, counts, and sentences of ours behind the id of a session."""
    if re.fullmatch(r"\d+ sessions?", text):
        return ""  # the count beside the bar says it
    name, mark, rest = text.partition(": ")
    return f"{name}{mark}{visitor.own(rest)}" if mark and ":" in name else visitor.own(text)


def _left(visitor: Visitor, run: LiveRun, now: datetime) -> str:
    """Until the stage is stopped, or as long as the rest of its sessions will take at the pace of the first ones."""
    if run.deadline is not None:
        return visitor.t("runs.at_most", span=span(visitor, (run.deadline - now).total_seconds()))
    if run.stage == "extract" and 0 < run.done < run.total:
        pace = (now - run.started).total_seconds() / run.done
        return visitor.t("runs.about", span=span(visitor, pace * (run.total - run.done)))
    return "–"


def span(visitor: Visitor, seconds: float | None) -> str:
    """A length of time in words."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    if whole < 60:
        return visitor.t("runs.seconds", n=whole)
    if whole < 3_600:
        return visitor.t("runs.minutes", n=whole // 60, s=whole % 60)
    return visitor.t("runs.hours", n=whole // 3_600, m=whole % 3_600 // 60)


def money(visitor: Visitor, amount: float | None) -> str:
    """An amount in the currency of `budget.prices`; None is one nobody knows."""
    if amount is None:
        return visitor.t("runs.unknown_money")
    return f"{amount:,.2f}" if amount >= 1 or amount == 0 else f"{amount:.4f}"


# -- what ran -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Past:
    """A run's row, read for people. `state` is its outcome, `running`, or `never` for one that was killed."""

    row: RunRow
    state: str
    seconds: float | None
    kept: int
    failed: int
    version: int | None
    requests: int
    tokens: int
    money: float | None


def past(row: RunRow, alive: Mapping[str, LiveRun]) -> Past:
    """What a row says; rows of other releases may lack anything."""
    if row.run_id in alive:
        state = RUNNING
    elif row.finished is None or str(row.detail.get("error", "")).startswith("killed:"):
        state = NEVER
    else:
        state = row.outcome or NEVER
    extracted, consolidated, spend = (of(row.detail, name) for name in ("extract", "consolidate", "spend"))
    counts = of(extracted, "counts")
    failed = sum(whole(n) for code, n in counts.items() if code.partition(":")[0] in {"failed", "exhausted", "stopped"})
    version = consolidated.get("version")
    amount = spend.get("money", 0.0) if spend else 0.0
    return Past(
        row=row,
        state=state,
        seconds=_seconds(row.started, row.finished),
        kept=whole(counts.get("kept")),
        failed=failed,
        version=version if isinstance(version, int) else None,
        requests=whole(spend.get("requests")),
        tokens=whole(spend.get("input_tokens")) + whole(spend.get("output_tokens")),
        money=float(amount) if isinstance(amount, int | float) else None,
    )


def did(visitor: Visitor, one: Past) -> str:
    """What a run came to, in a few words; empty where it came to nothing."""
    told = [visitor.t("runs.kept", n=one.kept)] if one.kept else []
    told += [visitor.t("runs.failed", n=one.failed)] if one.failed else []
    told += [visitor.t("memory.version", n=one.version)] if one.version else []
    return " · ".join(told)


def of(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of a report; empty where there is none."""
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def listed(values: Mapping[str, Any], name: str) -> list[Any]:
    found = values.get(name)
    return list(found) if isinstance(found, list | tuple) else []


def _seconds(started: datetime, finished: datetime | None) -> float | None:
    return (finished - started).total_seconds() if finished is not None else None
