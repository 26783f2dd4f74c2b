"""Forgetting and putting back: changes of confirmed memory that no model makes.

A forgotten source leaves the state, the workspace, every kept version, the baseline and the summary. A line that it
shared with other sources stays only where those alone still support it; what they can say anyway comes back with the
next consolidation. A tombstone keeps the session from ever being extracted again.

Order, so that a kill anywhere is settled by doing it again: tombstone and intent in one transaction, then rows, files,
versions, the summary, what doctor had set aside, at last the bytes that deleted rows left in the database file. Only
then is the intent closed; the next start carries out what is still open (`redo`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from consolidate.byhand import Order, change_by_hand, claim_by_hand, sources_of, without
from consolidate.gate import Change
from memory import failpoints, forgotten
from memory.documents import claims, parse_rollout_summary, print_rollout_summary
from memory.errors import FencedError, StateBusyError, StateError, UnknownReference, WorkspaceError
from memory.forgotten import TEXT
from memory.model import Claim, InputFile, Reason, RolloutId
from memory.runtime import Runtime
from memory.state import IntentRow, Lease, OutputRow, VersionRow, manifest_from_dict, manifest_to_dict
from memory.workspace import Version, Workspace, quarantine

FORGET = "forget"
"""Kind of the intent of a forget. Its payload names sessions, notes and hashes of texts, never a text."""

failpoints.declare(
    "forget.before_tombstone",
    "forget.after_tombstone",
    "forget.after_rows",
    "forget.after_files",
    "forget.after_versions",
    "forget.after_publish",
    "forget.after_quarantine",
    "forget.after_scrub",
)


@dataclass(frozen=True, slots=True)
class Matches:
    """Where a text stands: lines of the summary, bullets of rollout summaries by source, notes by name, files that
    `doctor --fix` had set aside, `entries` of topics as `id topic/title`."""

    lines: tuple[Claim, ...] = ()
    bullets: Mapping[RolloutId, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.bullets or self.notes or self.set_aside or self.entries)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What went. `lines` left the summary, `kept` lines went on with their other sources; `version` is the new one;
    `set_aside` are deleted files of the quarantine: they held it or could not be searched for it. `entries` counts
    those of topics."""

    rollouts: tuple[RolloutId, ...]
    notes: tuple[str, ...]
    lines: tuple[str, ...]
    kept: int
    versions: int
    version: int | None
    set_aside: tuple[str, ...] = ()
    entries: int = 0


# -- finding ------------------------------------------------------------------------------------------


def find(runtime: Runtime, text: str) -> Matches:
    """The places that hold a text, white space, case and markup aside."""
    holds = forgotten.holder(text)
    summary = runtime.workspace.summary() or ""
    texts = runtime.workspace.rollout_summaries()
    bullets: dict[RolloutId, tuple[str, ...]] = {}
    for row in runtime.store.outputs.all():
        found = tuple(line for line in _lines(texts.get(row.rollout.source_id, "")) if holds(line))
        if found:
            bullets[row.rollout] = found
    notes = tuple(note.name for note in runtime.workspace.notes().notes if holds(note.body or note.text))
    lines = tuple(claim for claim in claims(summary) if holds(claim.text))
    entries = runtime.workspace.topics.holding(holds)
    return Matches(lines, bullets, notes, quarantine.holding(runtime.settings.home, holds), entries)


def _lines(text: str) -> list[str]:
    try:
        _, body = parse_rollout_summary(text)
    except ValueError:
        return []
    return [line for line in body.split("\n") if line.strip()]


# -- forgetting -----------------------------------------------------------------------------------------


def forget(
    runtime: Runtime,
    rollouts: Collection[RolloutId],
    notes: Collection[str],
    text: str,
    entries: Collection[str] = (),
) -> ForgetReport:
    """See `LongMemory.forget`. The caller holds the writer lock."""
    store = runtime.store
    known_notes = {note.name for note in runtime.workspace.notes().notes}
    unknown = [str(r) for r in rollouts if store.rollouts.get(r) is None and store.outputs.get(r) is None]
    unknown += [name for name in notes if name not in known_notes]
    known_entries = {entry.id for entry in runtime.workspace.topics.read().entries} if entries else set()
    unknown += [name for name in entries if name not in known_entries]
    if unknown or not (rollouts or notes or text or entries):
        raise UnknownReference(f"Nothing is known of {', '.join(unknown) or 'it'}.", hint="Nothing was forgotten.")
    if text and not find(runtime, text):
        raise UnknownReference("No line, source, note or entry holds this text.", hint="Nothing was forgotten.")
    key = forgotten.text_key(text) if text else ""
    deed = _Deed(tuple(rollouts), tuple(notes), key, tuple(entries))
    lease = claim_by_hand(runtime, FORGET)
    failpoints.hit("forget.before_tombstone")
    with store.write() as tx:
        for rollout in rollouts:
            store.tombstones.add("rollout", str(rollout), tx)
        for name in notes:
            store.tombstones.add("note", name, tx)
        if key:
            store.tombstones.add(TEXT, key, tx)
        intent = store.intents.open(lease, FORGET, None, None, deed.payload(), tx)
    failpoints.hit("forget.after_tombstone")
    return _finish(runtime, lease, deed, forgotten.holder(text), intent)


def redo(runtime: Runtime, intent: IntentRow) -> str:
    """Start-up: carries out a forget that was interrupted. A line for the log. The caller holds the writer lock."""
    deed = _Deed.of(intent.payload)
    lease = claim_by_hand(runtime, FORGET)
    _finish(runtime, lease, deed, forgotten.recogniser([deed.text] if deed.text else []), intent.id)
    return "an interrupted forget was finished"


@dataclass(frozen=True, slots=True)
class _Deed:
    """What one forget is about; `text` is the key of a text."""

    rollouts: tuple[RolloutId, ...]
    notes: tuple[str, ...]
    text: str
    entries: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        return {
            "rollouts": [str(rollout) for rollout in self.rollouts],
            "notes": list(self.notes),
            "text": self.text,
            "entries": list(self.entries),
        }

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> _Deed:
        rollouts = tuple(RolloutId.parse(name) for name in payload["rollouts"])
        return cls(rollouts, tuple(payload["notes"]), payload["text"], tuple(payload.get("entries", ())))


def _finish(runtime: Runtime, lease: Lease, deed: _Deed, holds: forgotten.Holds, intent: int) -> ForgetReport:
    """Carries the deed out and closes its intent; whatever fails leaves it open for the next start."""
    store = runtime.store
    try:
        report = _carry_out(runtime, deed, holds)
    except (WorkspaceError, StateError) as error:
        with suppress(FencedError, StateError):
            store.jobs.fail(lease, error, None)
        raise
    with store.write() as tx:
        store.intents.close(intent, tx)
        store.jobs.succeed(lease, tx)
    with suppress(StateBusyError):  # `scrub_due` stays: the next start does it
        store.scrub()
    failpoints.hit("forget.after_scrub")
    return report


def _carry_out(runtime: Runtime, deed: _Deed, holds: forgotten.Holds) -> ForgetReport:
    """Everything after the tombstone; doing it twice does no harm."""
    store, workspace = runtime.store, runtime.workspace
    # 1. Rows.
    with store.write() as tx:
        for rollout in deed.rollouts:
            store.outputs.delete(rollout, tx)
            row = store.rollouts.get(rollout, tx)
            if row is not None:
                gone = replace(row, title=None, reason=Reason.FORGOTTEN, detail="forgotten at the user's wish")
                store.rollouts.upsert_many([gone], tx)
        store.meta.scrub_needed(tx)
    failpoints.hit("forget.after_rows")
    # 2. Files of the workspace.
    for rollout in deed.rollouts:
        workspace.remove_rollout_summary(rollout.source_id)
    for name in deed.notes:
        workspace.remove_note(name)
    entries = len(workspace.topics.remove(deed.entries)) if deed.entries else 0
    if holds is not forgotten.nothing:
        _strip_texts(runtime, holds)
        entries += workspace.topics.forget(holds)
    failpoints.hit("forget.after_files")
    # 3. Every kept version, its row and its inputs.
    citations = {r.citation for r in deed.rollouts} | {r.source_id for r in deed.rollouts}
    order = Order(frozenset(citations | {f"note:{name}" for name in deed.notes}), holds)
    touched = _purge_versions(runtime, order)
    failpoints.hit("forget.after_versions")
    # 4. The summary itself, as a new version.
    lines, kept, version = _publish_without(runtime, order)
    failpoints.hit("forget.after_publish")
    # 5. The search index, which a reader makes anew of what is left.
    workspace.drop_index()
    # 6. What hooks have built from the former summary.
    workspace.drop_blocks()
    # 7. What doctor had set aside.
    names = order.citations.union(map(str, deed.rollouts))
    wanted = quarantine.Wanted(names, None if holds is forgotten.nothing else holds)
    aside = quarantine.remove(runtime.settings.home, wanted)
    failpoints.hit("forget.after_quarantine")
    return ForgetReport(deed.rollouts, deed.notes, lines, kept, touched, version, aside, entries)


def _strip_texts(runtime: Runtime, holds: forgotten.Holds) -> None:
    """Takes lines with a forgotten text out of the rollout summaries, with their rows, and notes that hold it."""
    store, workspace = runtime.store, runtime.workspace
    texts = workspace.rollout_summaries()
    for row in store.outputs.all():
        text = texts.get(row.rollout.source_id)
        if text is None or not any(holds(line) for line in text.split("\n")):
            if text is not None and hashlib.sha256(text.encode()).hexdigest() != row.sha256:
                _correct(runtime, row, text)
            continue
        try:
            header, body = parse_rollout_summary(text)
        except ValueError:
            continue
        clean = print_rollout_summary(header, forgotten.without_lines(body, holds))
        workspace.write_rollout_summary(row.rollout.source_id, clean)
        _correct(runtime, row, clean)
    for note in workspace.notes().notes:
        if holds(note.body or note.text):
            store.tombstones.add("note", note.name)
            workspace.remove_note(note.name)


def _correct(runtime: Runtime, row: OutputRow, text: str) -> None:
    """The row says what stands on disk: a strip that was killed between the two is made up for."""
    runtime.store.outputs.rewrite(replace(row, sha256=hashlib.sha256(text.encode()).hexdigest()))


def _purge_versions(runtime: Runtime, order: Order) -> int:
    """Rewrites every version that rests on a forgotten source or holds a forgotten text; returns how many."""
    store, workspace = runtime.store, runtime.workspace
    on_disk = set(workspace.versions())
    safe = {
        claim.text for claim in claims(workspace.summary() or "") if not order.citations.intersection(claim.citations)
    }
    touched = 0
    for row in store.versions.all():
        version: Version | None = None
        if row.number in on_disk and _concerned(row, order):
            try:
                version = workspace.read_version(row.number)
            except WorkspaceError:
                # A version that cannot be read cannot be purged by line: it goes whole.
                workspace.drop_version(row.number)
                on_disk.discard(row.number)
        clean_row, clean = _purged(row, version, order, safe)
        if clean_row == row:
            continue
        touched += 1
        if clean is not None:
            workspace.replace_version(row.number, clean.summary, clean.manifest, clean.texts)
        with store.write() as tx:
            store.versions.rewrite(clean_row, tx)
    return touched


def _concerned(row: VersionRow, order: Order) -> bool:
    """Whether a version may hold something forgotten: only then are its files read."""
    return order.holds is not forgotten.nothing or any(
        item["citation"] in order.citations for item in row.manifest["inputs"]
    )


def _purged(
    row: VersionRow, version: Version | None, order: Order, safe: Collection[str]
) -> tuple[VersionRow, Version | None]:
    """A version without what is to be forgotten; equal to the given one where it held nothing of it. `safe` are lines
    that are known to rest on other sources alone."""
    manifest = manifest_from_dict(row.manifest)
    texts = dict(version.texts) if version else {}
    inputs = []
    for item in manifest.inputs:
        if item.citation in order.citations:
            texts.pop(item.path, None)
            continue
        text = texts.get(item.path)
        if text is not None and any(order.holds(line) for line in text.split("\n")):
            text = "\n".join(line for line in text.split("\n") if not order.holds(line))
            texts[item.path] = text
            item = replace(item, sha256=hashlib.sha256(text.encode()).hexdigest(), chars=len(text))
        inputs.append(item)
    left_out = tuple(item for item in manifest.left_out if item.citation not in order.citations)
    summary = version.summary if version else ""
    clean_text, _, _ = without(summary, order, sources_of(inputs, texts))
    cleared = {claim.text for claim in claims(clean_text)} | set(safe)
    changes = [c for c in row.changes if not _tells(c, order, cleared, concerned=_concerned(row, order))]
    same = tuple(inputs) == manifest.inputs and clean_text == summary and len(changes) == len(row.changes)
    if same and left_out == manifest.left_out:
        return row, None
    clean_manifest = replace(manifest, inputs=tuple(inputs), left_out=left_out)
    sha = hashlib.sha256(clean_text.encode()).hexdigest() if version else row.sha256
    clean_row = replace(row, manifest=manifest_to_dict(clean_manifest), sha256=sha, changes=changes)
    return clean_row, replace(
        version, summary=clean_text, sha256=sha, manifest=clean_manifest, texts=texts
    ) if version else None


def _tells(change: Mapping[str, str], order: Order, cleared: Collection[str], *, concerned: bool) -> bool:
    """Whether a kept change may quote something forgotten. Versions come and go (a kill may fall between a version's
    files and its row), so what cannot be cleared of suspicion goes."""
    parts = [part for part in (change.get("text", ""), change.get("into", "")) if part]
    if any(order.holds(part) for part in parts):
        return True
    if not order.citations or all(part in cleared for part in parts):
        return False
    return concerned or change.get("kind") != "added"


def _publish_without(runtime: Runtime, order: Order) -> tuple[tuple[str, ...], int, int | None]:
    """Publishes the summary without what was forgotten, when it held something of it."""
    store, workspace = runtime.store, runtime.workspace
    latest = store.versions.latest()
    current = workspace.summary()
    if current is None or latest is None:
        return (), 0, None
    # As purged just now. Inputs that changed since count with the text they were consolidated with, so that the next
    # consolidation still sees the change.
    inputs, texts = _inputs_of(runtime, latest)
    clean, lines, carried = without(current, order, sources_of(inputs, texts))
    manifest = replace(manifest_from_dict(latest.manifest), inputs=inputs)
    if clean == current:
        # No line rested on it; the baseline still has the text.
        workspace.reset_baseline(manifest, texts, current, at=latest.published)
        return (), 0, None
    changes = tuple(Change("removed", "", "forgotten at the user's wish") for _ in lines)
    number = change_by_hand(runtime, clean, manifest, texts, changes, model=FORGET)
    return lines, carried, number


def _inputs_of(runtime: Runtime, row: VersionRow) -> tuple[tuple[InputFile, ...], dict[str, str]]:
    """A version's inputs with their texts: from the kept version, else those that are still the same on disk."""
    workspace, manifest = runtime.workspace, manifest_from_dict(row.manifest)
    if row.number in workspace.versions():
        with suppress(WorkspaceError):
            return manifest.inputs, dict(workspace.read_version(row.number).texts)
    notes = {note.path: note.text for note in workspace.notes().notes}
    texts: dict[str, str] = {}
    for item in manifest.inputs:
        source_id = item.path.rsplit("/", 1)[-1].removesuffix(".md")
        text = notes.get(item.path) if item.path in notes else _rollout_text(workspace, item.path, source_id)
        if text is not None and hashlib.sha256(text.encode()).hexdigest() == item.sha256:
            texts[item.path] = text
    return tuple(item for item in manifest.inputs if item.path in texts), texts


def _rollout_text(workspace: Workspace, path: str, source_id: str) -> str | None:
    return workspace.rollout_summary(source_id) if path == f"rollout_summaries/{source_id}.md" else None
