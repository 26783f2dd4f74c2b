"""Making a candidate the confirmed summary. Whatever happens between two lines here, readers see the old file or the
new one, and the next start finishes or undoes the step by comparing hashes (`recover`) [Z103-Z106]."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from consolidate.gate import Change
from memory import failpoints, locks
from memory.clock import iso, parse_iso
from memory.errors import FencedError, StateBusyError
from memory.model import Manifest
from memory.runtime import Runtime
from memory.settings import Settings, enabled_on_disk
from memory.state import Lease, Store, VersionRow, manifest_to_dict
from memory.workspace import PendingIntent, Staging, Verdict, Workspace

LOCK_WAIT_SECONDS = 10.0

failpoints.declare(
    "publish.before_intent",
    "publish.after_intent",
    "publish.after_version",
    "publish.after_install",
    "publish.after_success",
    "publish.after_baseline",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be published, with everything that proves it."""

    text: str
    manifest: Manifest
    texts: Mapping[str, str]
    changes: tuple[Change, ...]
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None


def sha256(text: str) -> str:
    """Hex digest of the UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def publish(runtime: Runtime, lease: Lease, staging: Staging, candidate: Candidate) -> int:
    """The publish protocol; returns the version's number.

    Raises FencedError (lease or generation lost, memory switched off), InputsChangedError, StorageError; then
    nothing is published.
    """
    home = runtime.settings.home
    with locks.hold(home / locks.WRITER, owner=runtime.owner, wait_seconds=LOCK_WAIT_SECONDS):
        return publish_locked(runtime, lease, staging, candidate)


def publish_locked(runtime: Runtime, lease: Lease, staging: Staging | None, candidate: Candidate) -> int:
    """Inside the writer lock: a worker that was stopped in here is waited for, never overtaken.

    Without a staging area (forget, restore) the caller has just written the inputs itself.
    """
    store, workspace = runtime.store, runtime.workspace
    if staging is not None:
        if not enabled_on_disk(runtime.settings):
            raise FencedError("Memory was switched off while the consolidation ran.", hint="Nothing was published.")
        staging.verify_inputs(candidate.manifest)
    old_sha = workspace.summary_sha()
    failpoints.hit("publish.before_intent")
    with store.write() as tx:
        store.jobs.check(lease, tx)
        row = _version_row(runtime, candidate, store.versions.next_number(tx))
        intent = store.intents.open(lease, "publish", old_sha, row.sha256, _payload(row), tx)
    failpoints.hit("publish.after_intent")
    keep = runtime.settings.consolidate.versions
    workspace.save_version(row.number, candidate.text, candidate.manifest, candidate.texts, keep=keep)
    failpoints.hit("publish.after_version")
    workspace.install_summary(candidate.text, old_sha)
    failpoints.hit("publish.after_install")
    with store.write() as tx:
        store.versions.add(row, tx)
        store.jobs.succeed(lease, tx)
        store.intents.close(intent, tx)
    failpoints.hit("publish.after_success")
    # Git is a comparison aid and never in the way of a publish: `reset_baseline` reports, the next run rebuilds.
    workspace.reset_baseline(candidate.manifest, candidate.texts, candidate.text, at=row.published)
    failpoints.hit("publish.after_baseline")
    return row.number


def recover(settings: Settings, store: Store, workspace: Workspace, *, owner: str) -> list[str]:
    """Start-up: finishes or undoes every open publish; returns a line for each, for the log.

    The summary on disk decides: the new text is there, so the step is finished; the old one is, so it is undone.
    Does nothing while another process is inside a publish.
    """
    try:
        with locks.hold(settings.home / locks.WRITER, owner=owner):
            return _recover_locked(store, workspace)
    except StateBusyError:
        return []


def _recover_locked(store: Store, workspace: Workspace) -> list[str]:
    pending = [intent for intent in store.intents.pending() if intent.kind == "publish"]
    report = workspace.heal(PendingIntent(i.id, i.old_sha, i.new_sha or "") for i in pending)
    lines = list(report.problems)
    for intent in pending:
        row = _row_of(intent.payload)
        verdict = report.verdicts.get(intent.id, Verdict.FOREIGN)
        if intent.generation != store.generation:
            said = "dropped: it belonged to a generation that was cleared"
            verdict = Verdict.FOREIGN
        elif verdict is Verdict.FINISH:
            said = "finished"
        elif verdict is Verdict.UNDO:
            workspace.drop_version(row.number)
            said = "undone: the former summary stands"
        else:
            said = "closed: the summary on disk is neither the former nor the new text"
        with store.write() as tx:
            if verdict is Verdict.FINISH and all(row.number != other.number for other in store.versions.all(tx)):
                store.versions.add(row, tx)
            if verdict is Verdict.FINISH:
                store.jobs.succeed_interrupted(
                    intent.job_kind, intent.job_key, token=intent.token, generation=intent.generation, tx=tx
                )
            store.intents.close(intent.id, tx)
        lines.append(f"version {row.number}: the interrupted publish was {said}")
    return lines


def _version_row(runtime: Runtime, candidate: Candidate, number: int) -> VersionRow:
    return VersionRow(
        number=number,
        generation=runtime.store.generation,
        published=runtime.clock.now(),
        sha256=sha256(candidate.text),
        manifest=manifest_to_dict(candidate.manifest),
        model=candidate.model,
        requests=candidate.requests,
        input_tokens=candidate.input_tokens,
        output_tokens=candidate.output_tokens,
        money=candidate.money,
        changes=[asdict(change) for change in candidate.changes],
    )


def _payload(row: VersionRow) -> dict[str, Any]:
    """The version row as JSON, so that recovery can finish what a dead process began."""
    return {**asdict(row), "published": iso(row.published)}


def _row_of(payload: dict[str, Any]) -> VersionRow:
    published = parse_iso(payload["published"])
    assert published is not None
    return VersionRow(**{**payload, "published": published})
