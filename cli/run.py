"""`slowwave run`: one run in this process, or a dry run that lists what one would read and may cost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from cli.output import cost_of, line, money, print_json, progress, table
from consolidate.outcomes import Failed
from extract.outcomes import ExtractReport
from flows import pipeline
from flows.choices import picks_of
from flows.place import Place
from memory.clock import SystemClock, minutes, parse_iso
from memory.errors import UsageError
from memory.model import Violation
from memory.runtime import open_runtime
from memory.settings import Settings, load
from memory.wording import counted

EXIT_CODES = {"failed": 1, "cancelled": 130}
"""By the word of a run; any other is 0."""


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
    here: bool = False,
) -> None:
    """Exit code 0 for done and for nothing to do, 1 for a failure, 130 when stopped.

    Where the service is up the run is its, so that it is seen there; `here` keeps it in this process.
    """
    if extract_only and consolidate_only:
        raise UsageError("--extract-only and --consolidate-only exclude each other.")
    settings = load()
    picks = picks_of(settings, SystemClock().now(), since=since, limit=limit, host=host, rollouts=rollouts)
    options = pipeline.Options(extract=not consolidate_only, consolidate=not extract_only, picks=picks)
    if dry_run:
        _dry_run(settings, options, as_json=as_json)
        return
    if not here and not settings.service_worker and Place(settings.home).running() is not None:
        from cli import follow

        wish = {
            "extract_only": extract_only, "consolidate_only": consolidate_only, "since": since, "limit": limit,
            "host": host or None, "rollouts": [str(one) for one in sorted(picks.rollouts, key=str)] or None,
        }  # fmt: skip
        code = follow.run_there(settings, wish, as_json=as_json)
        if code is not None:
            sys.exit(code)
    report = execute(settings, options, quiet=as_json)
    if as_json:
        print_json(pipeline.detail(report))
    else:
        print_report(report)
    sys.exit(EXIT_CODES.get(report.outcome, 0))


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
    more = counted(plan.waiting, "more session waits", "more sessions wait")
    line(f"sources for the summary: {plan.sources} now; {more} for a later batch")
    for reason, count in sorted(plan.skipped.items()):
        line(f"skipped: {count} {reason}")
    line(
        f"upper bound: {counted(plan.requests, 'model call')}, {counted(plan.input_tokens, 'token')} in, "
        f"{plan.output_tokens:,} out; money {money(plan.money)} ({plan.model})"
    )


def print_report(report: pipeline.RunReport) -> None:
    """What happened, what it cost, what to do next; of a refused summary also what the gate says about its lines."""
    done = report.consolidated
    print_detail(pipeline.detail(report), broken=done.violations if isinstance(done, Failed) else ())


def print_detail(detail: Mapping[str, Any], *, broken: Sequence[Violation] = ()) -> None:
    """The same from what the run's row keeps of it, wherever the run was: `pipeline.detail`."""
    for recovered in detail["recovered"]:
        line(f"recovered  {recovered}")
    hooks, found, spend = detail["hooks"], detail["discover"], detail["spend"]
    if hooks["uses"] or hooks["wakes"]:
        uses, wakes = counted(hooks["uses"], "use"), counted(hooks["wakes"], "wake-up")
        line(f"hooks      {uses} of sources counted, {wakes} answered")
    if found is not None:
        line(f"sessions   {counted(found['files'], 'file')}, {found['new']} new, {found['changed']} changed")
    if detail["extract"] is not None:
        for text in ExtractReport.from_detail(detail["extract"]).lines():
            line(f"extract    {text}")
    if detail["consolidate"] is not None:
        for text in outcome_lines(detail["consolidate"], broken):
            line(f"summary    {text}")
    if spend is not None:
        line(
            f"cost       {counted(spend['requests'], 'model call')}, {counted(spend['input_tokens'], 'token')} in, "
            f"{spend['output_tokens']:,} out, money {cost_of(spend['money'] or 0.0, spend['unpriced'])}"
        )
    for notice in detail["notices"]:
        line(f"note       {notice}")


def outcome_lines(plain: Mapping[str, Any], broken: Sequence[Violation] = ()) -> list[str]:
    """A consolidation's outcome in words, from `pipeline.outcome_detail`."""
    match plain["code"]:
        case "published":
            what = ", ".join(f"{count} {kind}" for kind, count in sorted(plain["changes"].items()))
            lines = [
                f"version {plain['version']} published: {counted(plain['bytes'], 'byte')} from "
                f"{counted(plain['sources'], 'source')}; {what or 'text unchanged'}",
                f"{counted(plain['requests'], 'request')}, {counted(plain['repairs'], 'repair round')} of the gate",
            ]
            if plain["left_out"]:
                reasons = ", ".join(sorted({item["reason"] for item in plain["left_out"]}))
                lines.append(f"{counted(len(plain['left_out']), 'source')} left out ({reasons}); see slowwave sources")
            return lines
        case "unchanged":
            return [f"unchanged: the same {counted(plain['sources'], 'source')} as last time, no model call"]
        case "empty":
            return ["nothing to consolidate yet"]
        case "deferred":
            until = parse_iso(plain["until"])
            when = f" until {minutes(until)}" if until else ""
            return [f"deferred ({plain['reason']}){when}: {plain['detail']}"]
        case "failed":
            lines = [f"failed ({plain['error']}): {plain['message']}", "the confirmed summary is as it was"]
            said = [f"  line {v.line}: {v.rule}: {v.message}" for v in broken]
            said = said or [f"  line {v['line']}: {v['rule']}" for v in plain["violations"]]
            return lines + said[:12]
        case _:
            return ["stopped; the confirmed summary is as it was"]
