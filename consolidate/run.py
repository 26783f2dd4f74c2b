"""Stage 2, from the sources on disk to the published summary, as one story."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import prompts
from consolidate import agent, gate, publish, restoring
from consolidate.heartbeat import heartbeat, prolong
from consolidate.outcomes import ConsolidateOutcome, Deferred, Empty, Failed, Published, Stopped, Unchanged
from consolidate.select import Candidate, Selection, binding_cap, choose
from memory.documents import parse_rollout_summary, print_summary
from memory.errors import (
    BudgetExceeded,
    Cancelled,
    FencedError,
    GateRejected,
    InputsChangedError,
    QuotaModelError,
    SlowwaveError,
    StateError,
    StateLostError,
)
from memory.llm.base import CallContext
from memory.model import DIFF_NAME, SUMMARY_NAME, LeftOut, Manifest
from memory.progress import Step
from memory.runtime import Runtime
from memory.state import Lease, Ledger, Refused, VersionRow
from memory.wording import counted
from memory.workspace import Note, WorkspaceDiff

CLOCK_TOLERANCE = timedelta(minutes=1)
"""How far ahead of our clock the last version may be before its time is not believed."""
TRIES = 3
"""Looks at the inputs when others publish meanwhile."""


async def run(runtime: Runtime) -> ConsolidateOutcome:
    """Consolidates once and says how it ended. Raises only what no run can survive (state or workspace unusable)."""
    # 1. Is it wanted at all?
    refused = _not_wanted(runtime)
    if refused is not None:
        return refused
    for _ in range(TRIES):
        # 2. Synchronise the inputs, identify what expired [Z088].
        last = _last_version(runtime)
        selection = gather(runtime, last)
        # 3. Compare: no change, no model call [Z089].
        diff = runtime.workspace.diff(selection.manifest, selection.texts)
        early = _nothing_to_do(runtime, selection, last, diff)
        if early is not None:
            return early
        # 4. One consolidation at a time, and not again before its back-off or cool-down is over.
        lease = _claim(runtime, selection.manifest, last)
        if not isinstance(lease, Lease):
            return lease
        if _last_version(runtime) == last:
            # 5. Let the agent work in the staging area, judge, publish.
            return await _carry_out(runtime, lease, selection, last, diff)
        # Somebody published between our look and our claim: look again, before anything is paid for.
        _release(runtime, lease)
    return Deferred("running", "Others keep consolidating; their work is as good as ours.")


async def _carry_out(
    runtime: Runtime, lease: Lease, selection: Selection, last: VersionRow | None, diff: WorkspaceDiff
) -> ConsolidateOutcome:
    """The claimed attempt, to whatever end it comes."""
    session = agent.Session([])
    try:
        async with heartbeat(runtime, lease):
            return await _attempt(runtime, lease, selection, last, diff, session)
    except Cancelled:
        _release(runtime, lease)
        return Stopped(session.requests)
    except asyncio.CancelledError:
        _release(runtime, lease)
        raise
    except InputsChangedError as error:
        # Nobody's failure: a session was extracted or a note written meanwhile. The next run takes it in.
        _release(runtime, lease)
        return Deferred(error.code, str(error))
    except (BudgetExceeded, QuotaModelError) as error:
        return _paused(runtime, lease, error, session)
    except StateLostError:
        # Nobody's failure either. Where it cannot even be given back, the next run finds that its process is gone.
        _release(runtime, lease)
        raise
    except SlowwaveError as error:
        return _failed(runtime, lease, error, session)


def instructions() -> str:
    """The stage's instructions in force, for the copy in the workspace [Z045]."""
    return agent.system_prompt()


def gather(runtime: Runtime, last: VersionRow | None) -> Selection:
    """Every source of this generation, chosen by the rules of `select`; what could not be read is left out with why."""
    used = runtime.store.usage.last_used()
    texts = runtime.workspace.rollout_summaries()
    candidates: list[Candidate] = []
    skipped: list[LeftOut] = []
    aside = restoring.set_aside(runtime)
    for row in runtime.store.outputs.all():
        path = runtime.workspace.rollout_summary_path(row.rollout.source_id)
        text = texts.get(row.rollout.source_id)
        if not row.kept:
            continue
        reason = _unfit(runtime, row.rollout.citation, text, aside)
        if text is None or reason:
            skipped.append(LeftOut(row.rollout.citation, path, reason))
            continue
        candidates.append(
            Candidate(
                row.rollout.citation,
                path,
                text,
                row.project,
                row.project_name,
                row.ended or row.written,
                used.get(row.rollout.citation),
            )
        )
    notes = runtime.workspace.notes()
    names = {candidate.project: candidate.project_name for candidate in candidates}
    skipped += notes.left_out
    for note in notes.notes:
        reason = _unfit(runtime, note.citation, note.text, aside)
        if reason:
            skipped.append(LeftOut(note.citation, note.path, reason))
            continue
        project, scope = _project_of_note(note, names)
        candidates.append(
            Candidate(
                note.citation,
                note.path,
                note.text,
                project,
                scope,
                note.created or note.mtime,
                used.get(note.citation),
                note=True,
                pinned=note.pinned,
                everywhere=note.is_global or note.project is None,
            )
        )
    former = {item["citation"] for item in last.manifest["inputs"]} if last is not None else set()
    selection = choose(
        candidates,
        generation=runtime.store.generation,
        now=runtime.clock.now(),
        limits=runtime.settings.consolidate,
        cited_before=former,
    )
    return replace(
        selection, manifest=replace(selection.manifest, left_out=selection.manifest.left_out + tuple(skipped))
    )


def _project_of_note(note: Note, names: Mapping[str, str]) -> tuple[str, str]:
    """Id and name of the project a note names by either; `names` are those of the sessions, by id."""
    if note.is_global or note.project is None:
        return note.project or "", "all projects"
    if note.project in names:
        return note.project, names[note.project]
    ids = [project for project, name in names.items() if name == note.project]
    return ids[0] if len(ids) == 1 else note.project, note.project


def _unfit(runtime: Runtime, citation: str, text: str | None, aside: frozenset[str]) -> str:
    """Why a source is no input now; empty when it is one."""
    if text is None:
        return "missing"
    if citation in aside:
        return restoring.RESTORED
    return "secret" if runtime.redactor.findings(text) else ""


# -- before the work --------------------------------------------------------------------------------------


def _not_wanted(runtime: Runtime) -> Deferred | None:
    memory = runtime.settings.memory
    if runtime.settings.own_session:
        return Deferred("off", "This process belongs to a session that slowwave started itself: nothing runs in it.")
    if not memory.enabled or memory.mode == "off":
        return Deferred("off", "Memory is switched off (memory.enabled, memory.mode).")
    if runtime.trigger != "manual" and memory.mode != "long":
        return Deferred("off", "memory.mode is not long: nothing runs by itself; `slowwave run` works.")
    return None


def _last_version(runtime: Runtime) -> VersionRow | None:
    last = runtime.store.versions.latest()
    return last if last is not None and last.generation == runtime.store.generation else None


def _nothing_to_do(
    runtime: Runtime, selection: Selection, last: VersionRow | None, diff: WorkspaceDiff
) -> ConsolidateOutcome | None:
    if last is None and not selection.chosen:
        return Empty()
    if last is None or not _same_inputs(selection.manifest, last):
        return None
    if runtime.workspace.summary_sha() != last.sha256:
        return None
    if not diff.empty or diff.summary_changed or diff.baseline != "ok":
        text = runtime.workspace.summary() or ""
        runtime.workspace.reset_baseline(selection.manifest, selection.texts, text, at=last.published)
    job = runtime.store.jobs.get("consolidate", runtime.settings.store)
    if job is not None and job.status == "failed":
        # What failed was another input set, or was finished by recovery: there is nothing left to fail about.
        runtime.store.jobs.rearm("consolidate", runtime.settings.store)
    return Unchanged(len(selection.chosen))


def _same_inputs(manifest: Manifest, last: VersionRow) -> bool:
    before = {(item["citation"], item["sha256"], item["pinned"]) for item in last.manifest["inputs"]}
    return before == {(item.citation, item.sha256, item.pinned) for item in manifest.inputs}


def _claim(runtime: Runtime, manifest: Manifest, last: VersionRow | None) -> Lease | Deferred:
    limits = runtime.settings.consolidate
    if runtime.trigger != "manual" and last is not None:
        length, now = timedelta(minutes=limits.cooldown_minutes), runtime.clock.now()
        # A clock that was set back does not make a version recent.
        until = last.published + length if last.published <= now + CLOCK_TOLERANCE else now
        if runtime.clock.now() < until:
            return Deferred("cooldown", "The last consolidation is too recent (consolidate.cooldown_minutes).", until)
    answer = runtime.store.jobs.claim(
        "consolidate",
        runtime.settings.store,
        boundary=manifest.key(),
        owner=runtime.owner,
        lease_seconds=limits.lease_minutes * 60,
        max_failures=limits.max_failures,
        again=True,
    )
    if isinstance(answer, Refused):
        return Deferred(answer.reason, _refusal_text(answer.reason), answer.until)
    return answer


def _refusal_text(reason: str) -> str:
    return {
        "running": "Another consolidation is running.",
        "backoff": "The last attempt failed; the next one waits (consolidate.backoff_minutes).",
        "exhausted": "These inputs failed consolidate.max_failures times; new inputs start afresh.",
        "generation": "Memory was cleared meanwhile.",
    }.get(reason, "")


# -- the work -----------------------------------------------------------------------------------------------


async def _attempt(
    runtime: Runtime,
    lease: Lease,
    selection: Selection,
    last: VersionRow | None,
    diff: WorkspaceDiff,
    session: agent.Session,
) -> Published:
    manifest = selection.manifest
    total = len(selection.chosen)
    gone = len(manifest.removed)
    says = f"{counted(total, 'source')}: {len(diff.added)} new, {len(diff.changed)} changed, {gone} removed"
    runtime.progress(Step("consolidate", says))
    previous = _confirmed(runtime, last)
    secrets = runtime.redactor
    sources = _sources(selection)
    changed, fresh = _changed(manifest, last), _fresh(manifest, last)

    def case(candidate: bytes) -> gate.Case:
        return gate.Case(
            candidate,
            manifest,
            sources,
            previous,
            changed,
            fresh,
            lambda text: [finding.rule for finding in secrets.findings(text)],
        )

    # The confirmed text is staged, not what somebody may have made of the file by hand.
    staging = runtime.workspace.stage(runtime.run_id, manifest, selection.texts, diff.text, summary=previous)
    try:
        if selection.chosen:
            context = CallContext("consolidate", runtime.run_id, runtime.settings.store)
            message = _first_message(selection, previous)
            text, verdict = await agent.work(
                runtime,
                staging,
                first_message=message,
                must_read=frozenset(i.path for i in manifest.inputs if i.citation in changed | fresh),
                case=case,
                context=context,
                tokens=runtime.tokens,
                session=session,
                ours=lambda: prolong(runtime, lease),
            )
        else:
            # Every source is gone: what remains is the empty form, and no model is needed to write it.
            text = print_summary({})
            verdict = gate.judge(case(text.encode()))
        runtime.check_cancelled()
        runtime.progress(Step("publish", "publishing"))
        candidate = publish.Candidate(
            text,
            manifest,
            selection.texts,
            verdict.changes,
            runtime.consolidate_model.name,
            session.requests,
            session.input_tokens,
            session.output_tokens,
            _money(runtime),
            base=last.number if last is not None else None,
        )
        number = publish.publish(runtime, lease, staging, candidate)
    finally:
        staging.discard()
    return Published(
        version=number,
        sources=total,
        bytes=len(text.encode()),
        requests=session.requests,
        changes=verdict.changes,
        left_out=manifest.left_out,
        cap=binding_cap(manifest.left_out),
        repairs=session.repairs,
        reviewed=text == previous,
        transcript=tuple(session.transcript),
    )


def _confirmed(runtime: Runtime, last: VersionRow | None) -> str:
    """The text of the last version, from the version itself: an edit by hand is not what was confirmed [C069]."""
    if last is None:
        return ""
    if runtime.workspace.summary_sha() == last.sha256:
        return runtime.workspace.summary() or ""
    try:
        return runtime.workspace.read_version(last.number).summary
    except SlowwaveError:
        return ""


def _sources(selection: Selection) -> dict[str, gate.Source]:
    found: dict[str, gate.Source] = {}
    for item in selection.chosen:
        if item.note:
            order = item.time.isoformat() if item.time else ""
            project = "" if item.everywhere else item.project_name
            found[item.citation] = gate.source_from_note(
                item.citation, item.text, order=order, pinned=item.pinned, project=project
            )
        else:
            found[item.citation] = gate.source_from_rollout(item.citation, item.text)
    return found


def _changed(manifest: Manifest, last: VersionRow | None) -> frozenset[str]:
    if last is None:
        return frozenset()
    before = {item["citation"]: item["sha256"] for item in last.manifest["inputs"]}
    return frozenset(i.citation for i in manifest.inputs if before.get(i.citation, i.sha256) != i.sha256)


def _fresh(manifest: Manifest, last: VersionRow | None) -> frozenset[str]:
    before = {item["citation"] for item in last.manifest["inputs"]} if last is not None else set()
    return frozenset(item.citation for item in manifest.inputs) - before


def _first_message(selection: Selection, previous: str) -> str:
    rows = [
        prompts.InputRow(
            item.citation, item.path, item.project_name, _date(item), pinned=item.pinned, is_global=item.everywhere
        )
        for item in selection.chosen
    ]
    return prompts.render(
        "consolidate_input",
        has_summary=bool(previous),
        summary_name=SUMMARY_NAME,
        diff_name=DIFF_NAME,
        inputs=rows,
        removed=selection.manifest.removed,
        left_out=len(selection.manifest.left_out),
    )


def _date(item: Candidate) -> str:
    if not item.note:
        try:
            header, _ = parse_rollout_summary(item.text)
        except ValueError:
            return ""
        return header.ended.date().isoformat() if header.ended else ""
    return item.time.date().isoformat() if item.time else ""


def _money(runtime: Runtime) -> float | None:
    """What the run has cost so far; None where a price is unknown."""
    if not isinstance(runtime.meter, Ledger):
        return None
    total = runtime.meter.run_total()
    return None if total.unpriced else total.money


# -- how it can end -------------------------------------------------------------------------------------------


def _release(runtime: Runtime, lease: Lease) -> None:
    try:
        runtime.store.jobs.release(lease)
    except StateError:
        return


def _paused(
    runtime: Runtime, lease: Lease, error: BudgetExceeded | QuotaModelError, session: agent.Session
) -> ConsolidateOutcome:
    """A ceiling of the user or the provider pauses the work; the agent's own request limit is a failure [Z096].

    So is a ceiling that these inputs alone have used up: begun again under it they would spend it again and again.
    """
    if isinstance(error, BudgetExceeded) and _too_small(runtime, error, session):
        return _failed(runtime, lease, error, session)
    _release(runtime, lease)
    until: datetime | None = error.frees if isinstance(error, BudgetExceeded) else None
    if isinstance(error, QuotaModelError) and error.retry_after is not None:
        until = runtime.clock.now() + timedelta(seconds=error.retry_after)
    return Deferred(error.code, str(error), until)


def _too_small(runtime: Runtime, error: BudgetExceeded, session: agent.Session) -> bool:
    """Whether the attempt met its own limit, or has itself used half of a ceiling and more."""
    if error.budget == "consolidate.max_requests" or error.alone:
        return True
    spent = {
        "requests": session.requests - 1,
        "tokens": session.input_tokens + session.output_tokens,
        "money": _spent_here(runtime) if error.of == "money" else 0.0,
    }
    return error.limit > 0 and spent.get(error.of, 0) * 2 >= error.limit


def _spent_here(runtime: Runtime) -> float:
    """What this run's consolidation cost so far, of calls whose price is known."""
    if not isinstance(runtime.meter, Ledger):
        return 0.0
    return sum(one.money for one in runtime.meter.spend("stage", run_id=runtime.run_id) if one.name == "consolidate")


def _failed(runtime: Runtime, lease: Lease, error: SlowwaveError, session: agent.Session) -> Failed:
    retry_at: datetime | None = runtime.clock.now() + timedelta(minutes=runtime.settings.consolidate.backoff_minutes)
    try:
        runtime.store.jobs.fail(lease, error, retry_at)
    except FencedError:
        retry_at = None
    violations = error.violations if isinstance(error, GateRejected) else ()
    return Failed(error.code, str(error), violations, session.requests, retry_at, tuple(session.transcript))
