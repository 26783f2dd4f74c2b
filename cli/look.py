"""The commands that only look: status, why, show, sources, evidence, doctor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import typer

from cli.hosts import doctor_findings
from cli.output import ago, ceiling_line, cost, line, print_json, table
from flows.place import Place
from hosts import hook_log
from hosts.catalog import HOSTS
from memory import live
from memory.clock import Clock, SystemClock, iso, minutes, parse_iso
from memory.errors import UnknownReference
from memory.redact import Redactor
from memory.settings import Settings, load
from memory.state import Store
from memory.wording import counted
from memory.workspace import Workspace
from recall.delivery import Delivery, overruled, read_delivery
from recall.delivery import as_json as delivery_json
from recall.doctor import diagnose
from recall.mending import Mended
from recall.status import Status, read_status
from recall.status import as_json as status_json
from recall.trace import ClaimTrace, RolloutTrace, Support, Tracer, cited_sources
from rollouts.discover import discover


@dataclass(frozen=True, slots=True)
class Opened:
    """What every looking command needs."""

    settings: Settings
    clock: Clock
    store: Store
    workspace: Workspace
    redactor: Redactor

    @property
    def tracer(self) -> Tracer:
        return Tracer(self.store, self.workspace, self.redactor)


@contextmanager
def opened() -> Iterator[Opened]:
    """Settings, state and workspace as they are."""
    settings = load()
    clock = SystemClock()
    with Store.open(settings, clock) as store:
        workspace = Workspace.open(settings.home, store.generation)
        yield Opened(settings, clock, store, workspace, Redactor(settings.redact))


STATES = {"never_ran": "nothing yet: no consolidation has ended", "empty": "empty: there was nothing to remember"}
"""What needs more than its word."""


def status(*, as_json: bool) -> None:
    """`slowwave status`."""
    with opened() as it:
        found = read_status(it.settings, it.store, it.clock, provider=_provider(it.settings), workspace=it.workspace)
        given = read_delivery(it.settings.home)
        log, now = it.settings.home / hook_log.NAME, it.clock.now()
        called = {host: hook_log.last_hook(log, host) for host in HOSTS}
        faults = hook_log.faults(log, now)
        if as_json:
            hooks = {"last": {host: iso(at) for host, at in called.items()}, "faults": faults}
            print_json(
                status_json(found) | {"injected": delivery_json(given), "hooks": hooks} | _going_json(it.settings)
            )
            return
        _print_status(found, it.clock)
        _print_going(it.settings, it.clock)
        _print_delivery(given, called, faults, now)


def _provider(settings: Settings) -> str:
    from memory import models

    return models.describe(settings)


def _print_status(found: Status, clock: Clock) -> None:
    now, health, coverage = clock.now(), found.health, found.coverage
    age = f", published {ago(now - health.age, now)}" if health.age is not None else ""
    style = "red" if found.state in {"broken", "failed"} else ""
    line(
        f"memory     {STATES.get(found.state, found.state)}{age}{' (running now)' if health.running else ''}",
        style=style,
    )
    line(f"mode       {found.mode}; model: {found.provider}; home: {found.home}")
    if found.server:
        line(f"state      on {found.server}")
    line(
        f"sessions   {coverage.seen} seen, {coverage.extracted} extracted, "
        f"{coverage.nothing_worth_keeping} with nothing worth keeping, {coverage.eligible} eligible now"
    )
    if coverage.skipped:
        line("skipped    " + ", ".join(f"{count} {reason}" for reason, count in coverage.skipped.items()))
    if coverage.failed or coverage.exhausted:
        failed = ", ".join(f"{count} × {code}" for code, count in coverage.failed.items())
        line(f"failed     {failed or 'none waiting'}; {coverage.exhausted} exhausted", style="yellow")
    if found.last_run is not None:
        last = found.last_run
        ended = last.outcome or "has not ended"
        line(f"last run   {last.run_id} ({last.trigger}), {ago(last.started, now)}: {ended}")
    else:
        line("last run   never; start one with: slowwave run")
    waits = f"a session becomes eligible {ago(found.next_eligible, now)}" if found.next_eligible else "no session waits"
    line(f"next       {waits}")
    for name, spend in (("today", found.today), ("in all", found.total)):
        line(
            f"spend      {name}: {counted(spend.requests, 'call')}, {counted(spend.input_tokens, 'token')} in, "
            f"{spend.output_tokens:,} out, money {cost(spend)}"
        )
    for one in found.ceilings:
        if one.shut:
            line(f"paused by  {ceiling_line(one)}", style="yellow")
    for text in found.deferred:
        line(f"put off    {text}", style="yellow")
    if found.unpriced:
        line(f"no price   {', '.join(found.unpriced)}: held by token and request ceilings alone (budget.prices)")
    if found.entries:
        kept = ", ".join(f"{count} {tier}" for tier, count in sorted(found.entries.items()))
        line(f"entries    {kept} (memory tools)")
    for problem in (*found.broken, *health.problems):
        line(f"problem    {problem}", style="red")


def _going_json(settings: Settings) -> dict[str, Any]:
    """The service and the runs that are going on, from what they say of themselves."""
    service = Place(settings.home).running()
    return {
        "service": service and asdict(service) | {"started": iso(parse_iso(service.started))},
        "runs_going_on": [asdict(run) for run in live.running(settings.home)],
    }


def _print_going(settings: Settings, clock: Clock) -> None:
    now = clock.now()
    service = Place(settings.home).running()
    if service is None:
        line("service    not running; start it with: slowwave up")
    else:
        word = "up, started" if service.ready else "starting, began"
        line(f"service    {word} {ago(parse_iso(service.started), now)}: {service.dashboard}")
        line(f"schedule   {service.schedule or 'not known yet'}")
        for problem in service.problems:
            line(f"problem    {problem}", style="red")
    for run in live.running(settings.home):
        of = f", {run.done} of {run.total}" if run.total else ""
        line(f"running    {run.run_id} ({run.trigger}), since {ago(run.started, now)}: {run.stage}{of}; {run.what}")


def _print_delivery(given: Delivery, called: dict[str, datetime | None], faults: dict[str, int], now: datetime) -> None:
    """What sessions got of memory, when hosts called, and what was in the way."""
    if given.sessions:
        line(
            f"injected   {counted(given.tokens, 'token')} in {counted(given.blocks, 'block')} over "
            f"{counted(given.turns, 'turn')} of {counted(given.sessions, 'session')} (30 days)"
        )
        if given.left_out or given.contradicted:
            line(
                f"           in the last session: {counted(given.left_out, 'line')} left out by the host's cap, "
                f"{given.contradicted} overruled by instruction files"
            )
    for host, at in called.items():
        if at is not None:
            line(f"hook       {host}: last called {ago(at, now)}")
    for fault, count in faults.items():
        line(f"hook       {fault} ({count} × in 24 hours)", style="yellow")
    for problem in given.problems:
        line(f"problem    {problem}", style="red")


def show(*, version: int | None, numbers: bool, as_json: bool) -> None:
    """`slowwave show`."""
    with opened() as it:
        if version is None:
            text = it.workspace.summary()
            latest = it.store.versions.latest()
            number = latest.number if latest else None
        else:
            text, number = it.workspace.read_version(version).summary, version
        if as_json:
            print_json({"version": number, "path": str(it.workspace.summary_path), "text": text})
            return
        if text is None:
            line("Nothing has been published yet. Start with: slowwave run")
            return
        for place, row in enumerate(text.rstrip("\n").split("\n"), start=1):
            line(f"{place:4d}  {row}" if numbers else row)


def sources(*, as_json: bool) -> None:
    """`slowwave sources`."""
    with opened() as it:
        latest = it.store.versions.latest()
        used, uses = it.store.usage.last_used(), it.store.usage.counts()
        counts = cited_sources(it.workspace.summary() or "")
        manifest = latest.manifest if latest else {"inputs": [], "left_out": []}
        names = {row.rollout.citation: row for row in it.store.outputs.all()}
        projects = {row.project: row.project_name for row in names.values()}  # a note knows its project's id alone
        rows: list[dict[str, Any]] = []
        for item in manifest["inputs"]:
            row = names.get(item["citation"][:8])
            name = row.rollout.citation if row else item["citation"]
            last = used.get(name)
            rows.append(
                {
                    "citation": item["citation"],
                    "source": str(row.rollout) if row else item["path"],
                    "project": row.project_name if row else projects.get(item["project"], item["project"]),
                    "outcome": row.outcome.value if row else "",
                    "time": item["time"],
                    "lines": counts.get(item["citation"], 0),
                    "uses": uses.get(name, 0),
                    "last_used": iso(last),
                    "left_out": None,
                }
            )
        rows += [
            {"citation": item["citation"], "source": item["path"], "left_out": item["reason"]}
            for item in manifest["left_out"]
        ]
        if as_json:
            print_json(rows)
            return
        if not rows:
            line("No sources yet. Start with: slowwave run")
        keys = ["citation", "project", "outcome", "time", "lines", "uses", "last_used", "source", "left_out"]
        heads = ["citation", "project", "outcome", "time", "lines", "uses", "last used", "source", "left out"]
        told = [row | {key: minutes(parse_iso(row.get(key))) for key in ("time", "last_used")} for row in rows]
        table("Sources of the summary", heads, [[_cell(row.get(key)) for key in keys] for row in told])


def _cell(value: object) -> str:
    return "–" if value is None or value == "" else str(value)


def why(reference: str, *, as_json: bool) -> None:
    """`slowwave why`."""
    with opened() as it:
        found = it.tracer.why(reference)
        latest = it.store.versions.latest()
        against = overruled(it.settings.home, latest.number) if latest else {}
        if as_json:
            print_json([_with_places(trace_json(trace), against) for trace in found])
            return
        for place, trace in enumerate(found):
            if place:
                line("")
            if isinstance(trace, ClaimTrace):
                print_claim(trace)
                for path in against.get(trace.claim.line, ()):
                    line(f"  not given to sessions there: {path} says otherwise", style="yellow")
            else:
                _print_rollout(trace)


def _with_places(values: dict[str, Any], against: dict[int, list[str]]) -> dict[str, Any]:
    """With the instruction files that overrule a line."""
    return values | {"overruled_by": against.get(values["line"], [])} if "line" in values else values


def print_claim(trace: ClaimTrace) -> None:
    """A line, its sources, their bullets and the moments behind them."""
    version = f", version {trace.version}" if trace.version else ""
    line(f"line {trace.claim.line} ({trace.claim.section.removeprefix('## ')}{version})", style="bold")
    line(f"  {trace.claim.text}")
    for part in trace.supports:
        line(f"  because [{part.citation}] {part.source}", style="cyan")
        if part.path:
            line(f"    in {part.path}")
        for bullet in part.bullets:
            line(f"    says: {bullet}")
        for moment in part.moments:
            when = minutes(moment.time) if moment.time else "no time"
            who = "the user" if moment.spoken else moment.tier.value
            first, *rest = moment.text.split("\n")
            line(f"    e{moment.number} {when} {who}: {first}" + (f" (+{counted(len(rest), 'line')})" if rest else ""))
        if part.problem:
            line(f"    {part.problem}", style="yellow")


def _print_rollout(trace: RolloutTrace) -> None:
    row = trace.row
    line(str(row.id), style="bold")
    line(f"  file      {row.path} ({counted(row.size, 'byte')})")
    line(f"  project   {row.project_name} ({row.project}), cwd {row.cwd or '–'}, branch {row.branch or '–'}")
    line(f"  activity  {minutes(row.started)} to {minutes(row.last_event)}")
    line(f"  state     {row.reason.value if row.reason else 'not classified yet'}: {row.detail or '–'}")
    if trace.job is not None:
        error = f", last error {trace.job.error_code}: {trace.job.error_message}" if trace.job.error_code else ""
        line(f"  job       {trace.job.status}, {counted(trace.job.attempts, 'attempt')} at this boundary{error}")
    if trace.output is not None:
        kept = "summary kept" if trace.output.kept else "nothing worth keeping"
        line(f"  extracted {kept}, outcome {trace.output.outcome.value}, citation [{row.id.citation}]")
    for claim in trace.lines:
        line(f"  line {claim.line}: {claim.text}")
    if trace.output is not None and trace.output.kept and not trace.lines:
        line("  no line of the summary rests on it")
    if trace.body:
        line("")
        line(trace.body.rstrip("\n"))


def trace_json(trace: ClaimTrace | RolloutTrace) -> dict[str, Any]:
    """The same for programs."""
    if isinstance(trace, ClaimTrace):
        return {
            "line": trace.claim.line,
            "section": trace.claim.section,
            "text": trace.claim.text,
            "version": trace.version,
            "sources": [_support_json(part) for part in trace.supports],
        }
    row, job, made = trace.row, trace.job, trace.output
    return {
        "rollout": str(row.id),
        "citation": row.id.citation,
        "path": str(row.path),
        "project": row.project_name,
        "reason": row.reason.value if row.reason else None,
        "detail": row.detail,
        "job": None if job is None else {"status": job.status, "attempts": job.attempts, "error": job.error_code},
        "extracted": None if made is None else {"kept": made.kept, "outcome": made.outcome.value, "slug": made.slug},
        "lines": [{"line": claim.line, "text": claim.text} for claim in trace.lines],
    }


def _support_json(part: Support) -> dict[str, Any]:
    return {
        "citation": part.citation,
        "source": part.source,
        "path": part.path,
        "bullets": list(part.bullets),
        "events": [
            {
                "number": moment.number,
                "time": iso(moment.time),
                "tier": moment.tier.value,
                "text": moment.text,
            }
            for moment in part.moments
        ],
        "problem": part.problem or None,
    }


def evidence(reference: str, *, as_json: bool) -> None:
    """`slowwave evidence`: the very messages the extractor would send now, word for word."""
    import extract
    from memory.runtime import open_runtime

    settings = load()
    with open_runtime(settings) as runtime:
        discover(settings, runtime.clock, runtime.store)
        rows = Tracer(runtime.store, runtime.workspace, runtime.redactor).find(reference)
        if not rows:
            raise UnknownReference(
                f"No session answers to {reference[:80]!r}.", hint="Give its id, its beginning or path."
            )
        if len(rows) > 1:
            ids = ", ".join(str(row.id) for row in rows[:4])
            raise UnknownReference(f"{len(rows)} sessions begin with {reference!r} ({ids} …).", hint="Type more of it.")
        found = asyncio.run(extract.preview(runtime, rows[0]))
    if as_json:
        print_json(
            {
                "rollout": str(rows[0].id),
                "model": found.model,
                "budget_tokens": found.budget,
                "tokens": found.evidence.tokens,
                "boundary": found.evidence.boundary.key(),
                "coverage": found.evidence.coverage,
                "system": found.system,
                "user": found.user,
            }
        )
        return
    line(found.user.rstrip("\n"))
    err = (
        f"{found.evidence.tokens:,} of {found.budget:,} tokens; coverage {found.evidence.coverage}; model {found.model}"
    )
    typer.echo(err, err=True)


def doctor(*, fix: bool, as_json: bool) -> None:
    """`slowwave doctor`: exit code 1 when something is in error, also after `--fix`; warnings leave it at 0."""
    settings, clock = load(), SystemClock()
    done = mend(settings, clock) if fix else []
    findings = diagnose(settings, clock) + doctor_findings(settings)
    if as_json:
        shown: Any = [asdict(finding) for finding in findings]
        print_json({"mended": [asdict(one) for one in done], "findings": shown} if fix else shown)
    else:
        for one in done:
            line(f"mended   {one.check}: {one.did}")
        for finding in findings:
            style = {"ok": "green", "warning": "yellow", "error": "red"}[finding.level]
            tail = "".join(f"; {part}" for part in (finding.means, finding.mend and f"mend: {finding.mend}") if part)
            line(f"{finding.level:8s} {finding.check}: {finding.says}{tail}", style=style)
    if any(finding.level == "error" for finding in findings):
        sys.exit(1)


def mend(settings: Settings, clock: Clock) -> list[Mended]:
    """The safe mends; what stopped them goes to standard error."""
    from dashboard import doctoring

    done, error = doctoring.mend(settings, clock)
    if error is not None:
        typer.echo(f"slowwave: {error}", err=True)
    return done
