"""Making a candidate the confirmed summary. Whatever happens between two lines here, readers see the old file or the
new one, and the next start finishes or undoes the step by comparing hashes (`recover`) [Z103-Z106]."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from consolidate.gate import Change
from memory import failpoints, locks
from memory.clock import iso, parse_iso
from memory.errors import FencedError, InputsChangedError, SlowwaveError, StateBusyError, WorkspaceError
from memory.model import Manifest
from memory.runtime import Runtime
from memory.settings import Settings, enabled_on_disk
from memory.state import IntentRow, Lease, Store, Tx, VersionRow, manifest_to_dict
from memory.workspace import PendingIntent, Staging, Verdict, Workspace, healing

LOCK_WAIT_SECONDS = 10.0

failpoints.declare(
    "publish.before_intent",
    "publish.after_intent",
    "publish.after_version",
    "publish.before_install",
    "publish.after_install",
    "publish.recorded",
    "publish.after_success",
    "publish.after_baseline",
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be published, with everything that proves it.

    `base` is the number of the version the work started from, None for the first: when another one was published
    since, the candidate was judged against the wrong text. `parent` is the intent of the deed this publish completes.
    """

    text: str
    manifest: Manifest
    texts: Mapping[str, str]
    changes: tuple[Change, ...]
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None
    base: int | None = None
    parent: int | None = None


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
        _check_base(store, candidate, tx)
        row = _version_row(runtime, candidate, store.versions.next_number(tx))
        payload = _payload(row) | {"parent": candidate.parent}
        intent = store.intents.open(lease, "publish", old_sha, row.sha256, payload, tx)
    failpoints.hit("publish.after_intent")
    old = _text_or_none(workspace)
    try:
        _carry_out(runtime, lease, candidate, row, old_sha, intent)
    except SlowwaveError as error:
        finished = False
        with suppress(SlowwaveError):  # what cannot be settled now is settled at the next start
            finished = _take_back(runtime, row, old, intent, fenced=isinstance(error, FencedError))
        if not finished:
            raise
    failpoints.hit("publish.after_success")
    with suppress(WorkspaceError):
        # The publish stands. Git is a comparison aid, which the next start rebuilds.
        workspace.reset_baseline(candidate.manifest, candidate.texts, candidate.text, at=row.published)
        for number in workspace.versions()[: -max(1, runtime.settings.consolidate.versions)]:
            workspace.drop_version(number)
    failpoints.hit("publish.after_baseline")
    return row.number


def _text_or_none(workspace: Workspace) -> str | None:
    """The confirmed summary; None where there is none or it is no text, so that nothing could be put back."""
    try:
        return workspace.summary()
    except WorkspaceError:
        return None


def _check_base(store: Store, candidate: Candidate, tx: Tx) -> None:
    latest = store.versions.latest(tx)
    if (latest.number if latest is not None else None) != candidate.base:
        raise InputsChangedError(
            "The summary was restored, consolidated or changed by a forget while this run worked on the one before.",
            hint="Nothing was published; run again to consolidate what is there now.",
        )


def _carry_out(
    runtime: Runtime, lease: Lease, candidate: Candidate, row: VersionRow, old_sha: str | None, intent: int
) -> None:
    """Version, summary, success. Before the summary is touched the lease is looked at once more: the process may have
    been stopped for hours since."""
    store, workspace = runtime.store, runtime.workspace
    # One more than wanted: the oldest goes when this one is published, not before.
    keep = max(1, runtime.settings.consolidate.versions) + 1
    workspace.save_version(row.number, candidate.text, candidate.manifest, candidate.texts, keep=keep)
    failpoints.hit("publish.after_version")
    with store.write() as tx:
        store.jobs.check(lease, tx)
    failpoints.hit("publish.before_install")
    workspace.install_summary(candidate.text, old_sha)
    failpoints.hit("publish.after_install")
    with store.write() as tx:
        store.jobs.check(lease, tx)
        store.versions.add(row, tx)
        store.jobs.succeed(lease, tx)
        store.intents.close(intent, tx)
        if candidate.parent is not None:
            store.intents.close(candidate.parent, tx)
    failpoints.hit("publish.recorded")


def _take_back(runtime: Runtime, row: VersionRow, old: str | None, intent: int, *, fenced: bool) -> bool:
    """After a failure inside the writer lock: the former summary stands, or the new one where only the last row was
    missing; then True, for it is published. A fenced worker's text never stays: whoever has the claim now works from
    the former one."""
    store, workspace = runtime.store, runtime.workspace
    found = next((other for other in store.intents.pending() if other.id == intent), None)
    if found is None:
        return False
    if fenced and workspace.summary_sha() == row.sha256 != found.old_sha:
        if found.old_sha is None:
            workspace.remove_summary(row.sha256)
        elif old is not None:
            workspace.install_summary(old, row.sha256)
    verdict = healing.decide(workspace.summary_sha(), found.old_sha, row.sha256)
    _settle(store, workspace, found, Verdict.UNDO if fenced and found.old_sha == row.sha256 else verdict)
    return any(other.number == row.number and other.sha256 == row.sha256 for other in store.versions.all())


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
    if store.meta.generation() != workspace.generation:
        return []  # memory was cleared since this process started: what is open belongs to others
    pending = [intent for intent in store.intents.pending() if intent.kind == "publish"]
    report = workspace.heal(PendingIntent(i.id, i.old_sha, i.new_sha or "") for i in pending)
    lines = list(report.problems)
    lines += [_settle(store, workspace, i, report.verdicts.get(i.id, Verdict.FOREIGN)) for i in pending]
    return lines


def _settle(store: Store, workspace: Workspace, intent: IntentRow, verdict: Verdict) -> str:
    """Finishes or undoes one open publish. The caller holds the writer lock; returns a line for the log."""
    row = _row_of(intent.payload)
    recorded = any(row.number == other.number for other in store.versions.all())
    if verdict is Verdict.FINISH and intent.old_sha == intent.new_sha and row.number not in workspace.versions():
        verdict = Verdict.UNDO  # the text was to stay as it is, and its version was not kept yet
    said = {
        Verdict.FINISH: "finished",
        Verdict.UNDO: "undone: the former summary stands",
        Verdict.FOREIGN: "closed: the summary on disk is neither the former nor the new text",
    }[verdict]
    if verdict is not Verdict.FINISH and not recorded:
        # Its number is given again: left there, it would be in the way of the next publish.
        workspace.drop_version(row.number)
    with store.write() as tx:
        if verdict is Verdict.FINISH:
            if not recorded:
                store.versions.add(row, tx)
            store.jobs.succeed_interrupted(
                intent.job_kind, intent.job_key, token=intent.token, generation=intent.generation, tx=tx
            )
            _close_parent(store, intent, tx)
        store.intents.close(intent.id, tx)
    return f"version {row.number}: the interrupted publish was {said}"


def _close_parent(store: Store, intent: IntentRow, tx: Tx) -> None:
    parent = intent.payload.get("parent")
    if parent is not None and any(other.id == parent for other in store.intents.pending(tx)):
        store.intents.close(parent, tx)


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
    values = {name: payload[name] for name in VersionRow.__dataclass_fields__}
    return VersionRow(**{**values, "published": published})
