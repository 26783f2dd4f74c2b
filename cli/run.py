"""`slowwave run`: one run in this process, or a dry run that lists what one would read and may cost."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from cli.output import cost, line, money, print_json, progress, table
from consolidate.outcomes import Deferred, Empty, Failed, Published, Stopped, Unchanged
from flows import pipeline
from flows.choices import picks_of
from memory.clock import SystemClock
from memory.errors import UsageError
from memory.runtime import open_runtime
from memory.settings import Settings, load


def run(
    *,
    extract_only: bool,
    consolidate_only: bool,
    since: str,
    limit: int | None,
    host: str,
    rollouts: list[str],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Exit code 0 for done and for nothing to do, 1 for a failure, 130 when stopped."""
    if extract_only and consolidate_only:
        raise UsageError("--extract-only and --consolidate-only exclude each other.")
    settings = load()
    picks = picks_of(settings, SystemClock().now(), since=since, limit=limit, host=host, rollouts=rollouts)
    options = pipeline.Options(extract=not consolidate_only, consolidate=not extract_only, picks=picks)
    if dry_run:
        _dry_run(settings, options, as_json=as_json)
        return
    report = execute(settings, options, quiet=as_json)
    if as_json:
        print_json(pipeline.detail(report))
    else:
        print_report(report)
    sys.exit({"failed": 1, "cancelled": 130}.get(report.outcome, 0))


def execute(settings: Settings, options: pipeline.Options, *, quiet: bool) -> pipeline.RunReport:
    """One run with progress on standard error; Ctrl-C and SIGTERM stop it within seconds."""
    with progress(quiet=quiet) as draw, open_runtime(settings, progress=draw) as runtime:
        return asyncio.run(pipeline.run_until_stopped(runtime, options))


def _dry_run(settings: Settings, options: pipeline.Options, *, as_json: bool) -> None:
    with open_runtime(settings) as runtime:
        plan = asyncio.run(pipeline.plan(runtime, options))
    if as_json:
        print_json(plan.as_json())
        return
    line("Dry run: these files would be read; no model is called, nothing is written but the list of sessions.")
    rows = [[str(row.id), row.project_name, f"{row.size:,}", str(row.path)] for row in plan.rollouts]
    table("Sessions", ["session", "project", "bytes", "file"], rows)
    line(f"sources for the summary: {plan.sources} now; {plan.waiting} more sessions wait for a later batch")
    for reason, count in sorted(plan.skipped.items()):
        line(f"skipped: {count} {reason}")
    line(
        f"upper bound: {plan.requests} model calls, {plan.input_tokens:,} tokens in, {plan.output_tokens:,} out; "
        f"money {money(plan.money)} ({plan.model})"
    )


def print_report(report: pipeline.RunReport) -> None:
    """What happened, what it cost, what to do next."""
    for recovered in report.recovered:
        line(f"recovered  {recovered}")
    if report.hooks.uses or report.hooks.wakes:
        line(f"hooks      {report.hooks.uses} uses of sources counted, {report.hooks.wakes} wake-ups answered")
    if report.discovered is not None:
        found = report.discovered
        line(f"sessions   {found.files} files, {found.new} new, {found.changed} changed")
    if report.extracted is not None:
        for text in report.extracted.lines():
            line(f"extract    {text}")
    if report.consolidated is not None:
        for text in outcome_lines(report.consolidated):
            line(f"summary    {text}")
    if report.spend is not None:
        spend = report.spend
        line(
            f"cost       {spend.requests} model calls, {spend.input_tokens:,} tokens in, "
            f"{spend.output_tokens:,} out, money {cost(spend)}"
        )
    for notice in report.notices:
        line(f"note       {notice}")


def outcome_lines(outcome: Any) -> list[str]:
    """A consolidation's outcome in words."""
    match outcome:
        case Published():
            counts: dict[str, int] = {}
            for change in outcome.changes:
                counts[change.kind] = counts.get(change.kind, 0) + 1
            what = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "text unchanged"
            lines = [
                f"version {outcome.version} published: {outcome.bytes:,} bytes from {outcome.sources} sources; {what}",
                f"{outcome.requests} requests, {outcome.repairs} repair rounds of the gate",
            ]
            if outcome.left_out:
                reasons = sorted({item.reason for item in outcome.left_out})
                lines.append(f"{len(outcome.left_out)} sources left out ({', '.join(reasons)}); see slowwave sources")
            return lines
        case Unchanged():
            return [f"unchanged: the same {outcome.sources} sources as last time, no model call"]
        case Empty():
            return ["nothing to consolidate yet"]
        case Deferred():
            until = f" until {outcome.until.isoformat(timespec='minutes')}" if outcome.until else ""
            return [f"deferred ({outcome.reason}){until}: {outcome.detail}"]
        case Stopped():
            return ["stopped; the confirmed summary is as it was"]
        case Failed():
            lines = [f"failed ({outcome.error}): {outcome.message}", "the confirmed summary is as it was"]
            lines += [f"  line {v.line}: {v.rule}: {v.message}" for v in outcome.violations[:12]]
            return lines
        case _:
            raise AssertionError(outcome)
