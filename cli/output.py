"""Writing for people and for programs: tables and panels on a terminal, plain lines elsewhere, JSON on request."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from cli.text import printable
from memory.clock import iso, minutes
from memory.progress import Progress as Report
from memory.progress import Step
from memory.state import CeilingUse, Spend
from memory.wording import counted

# No emoji codes: `generic:cherries:` is the id of a session.
out = Console(highlight=False, emoji=False, soft_wrap=not sys.stdout.isatty())
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=not sys.stderr.isatty())


def print_json(value: Any) -> None:
    """One JSON document and a newline on standard output."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    sys.stdout.write(orjson.dumps(value, option=options, default=_plain).decode())
    sys.stdout.write("\n")


def _plain(value: object) -> object:
    return iso(value) if isinstance(value, datetime) else str(value)


def line(text: str, *, style: str = "") -> None:
    """A line of plain text: memory and session text is data, never markup and never a terminal command."""
    out.print(escape(printable(text)), style=style or None)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on a terminal, tab-separated lines elsewhere."""
    if not out.is_terminal:
        sys.stdout.write("".join("\t".join(printable(cell).replace("\n", " ") for cell in row) + "\n" for row in rows))
        return
    shown = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(escape(printable(cell)) for cell in row))
    out.print(shown)


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """Draws steps: a bar per stage on a terminal, one line per step elsewhere, on standard error."""
    if quiet:
        yield lambda step: None
        return
    if not err.is_terminal:
        yield lambda step: err.print(escape(f"{step.stage}: {step.what}"))
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bars:
        tasks: dict[str, Any] = {}

        def draw(step: Step) -> None:
            text = f"{step.stage}: {step.what}"[:100]
            if step.stage not in tasks:
                tasks[step.stage] = bars.add_task(text, total=step.total or None)
            bars.update(tasks[step.stage], description=text, completed=step.done, total=step.total or None)

        yield draw


def ago(moment: datetime | None, now: datetime) -> str:
    """`3 h ago (2026-11-30T08:14Z)`, `in 20 min (2026-11-30T11:34Z)`, `never`."""
    if moment is None:
        return "never"
    past = now - moment
    text = duration(abs(past))
    return f"{f'{text} ago' if past >= timedelta(0) else f'in {text}'} ({minutes(moment)})"


def duration(length: timedelta) -> str:
    """`45 s`, `12 min`, `5 h`, `3 d`."""
    seconds = length.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def money(amount: float | None) -> str:
    """Four digits; a dash where the price is unknown."""
    return "–" if amount is None else f"{amount:.4f}"


def cost(spend: Spend) -> str:
    """What a sum of calls cost; calls whose price nobody knows are said to be left out of it."""
    return cost_of(spend.money, spend.unpriced)


def cost_of(amount: float, unpriced: int) -> str:
    """As `cost`, from the two numbers."""
    if not unpriced:
        return money(amount)
    known = money(amount) if amount else "–"
    return f"{known} ({counted(unpriced, 'call')} without a price)"


def ceiling_line(use: CeilingUse) -> str:
    """`budget.day_tokens: 10 of 10 tokens used; frees 2026-12-01T00:00Z`."""
    whose = f" of {use.project}" if use.project else ""
    if use.limit <= 0:
        return f"{use.name}{whose}: 0, so no call is allowed; raise it"
    used, limit = (f"{value:,.4f}".rstrip("0").rstrip(".") for value in (use.used, use.limit))
    when = f"frees {minutes(use.frees)}" if use.frees else "the next run begins anew"
    return f"{use.name}{whose}: {used} of {limit} {use.of} used or reserved; {when}"
