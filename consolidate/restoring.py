"""Putting a former version and its inputs back.

An intent is opened before the first file changes and closed with the publish, so that the next start finishes what a
kill interrupted: neither files of one version beside rows of another, nor a restore that silently did not happen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from consolidate.byhand import Order, change_by_hand, claim_by_hand, sources_of, without
from consolidate.gate import Change
from memory import failpoints, forgotten
from memory.documents import parse_rollout_summary
from memory.errors import FencedError, StateError, UnknownReference, WorkspaceError
from memory.model import LeftOut, RolloutId
from memory.runtime import Runtime
from memory.state import IntentRow, OutputRow
from memory.workspace import Version

RESTORED = "restored"
"""Reason under which a restore sets aside the sources that came after the restored version; kind of its intent."""

failpoints.declare(
    "restore.opened",
    "restore.before_files",
    "restore.after_files",
    "restore.after_rows",
    "restore.after_success",
)


def put_back(runtime: Runtime, version: Version) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Restores a version's inputs and summary; returns the new version's number, what may not come back, and the
    sources that came later and are set aside. The caller holds the writer lock. Killed on the way, the next start
    goes on with it (`put_back_again`)."""
    store = runtime.store
    lease = claim_by_hand(runtime, RESTORED)
    with store.write() as tx:
        payload = {"version": version.number}
        intent = store.intents.open(lease, RESTORED, runtime.workspace.summary_sha(), None, payload, tx)
    failpoints.hit("restore.opened")
    try:
        done = _put_back(runtime, version, intent)
    except (WorkspaceError, StateError) as error:
        with suppress(FencedError, StateError):
            store.jobs.fail(lease, error, None)
        raise
    store.jobs.succeed(lease)
    failpoints.hit("restore.after_success")
    return done


def put_back_again(runtime: Runtime, intent: IntentRow) -> str:
    """Start-up: finishes a restore that was interrupted. The caller holds the writer lock."""
    number = int(intent.payload["version"])
    try:
        version = runtime.workspace.read_version(number)
    except (WorkspaceError, UnknownReference):
        with runtime.store.write() as tx:
            runtime.store.intents.close(intent.id, tx)
        return f"version {number} is no longer kept whole: its interrupted restore was given up"
    lease = claim_by_hand(runtime, RESTORED)
    _put_back(runtime, version, intent.id)
    runtime.store.jobs.succeed(lease)
    return f"the interrupted restore of version {number} was finished"


def _put_back(runtime: Runtime, version: Version, intent: int) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    store, workspace = runtime.store, runtime.workspace
    stones = store.tombstones.all()
    forbidden = {RolloutId.parse(key).source_id for kind, key in stones if kind == "rollout"}
    holds = forgotten.of_tombstones(stones)
    barred = {
        item.citation
        for item in version.manifest.inputs
        if item.path.rsplit("/", 1)[-1].removesuffix(".md") in forbidden
        or ("note", item.citation.removeprefix("note:")) in stones
        or (holds is not forgotten.nothing and any(holds(line) for line in version.texts[item.path].split("\n")))
    }
    inputs = tuple(item for item in version.manifest.inputs if item.citation not in barred)
    texts = {item.path: version.texts[item.path] for item in inputs}
    text, _, _ = without(version.summary, Order(frozenset(barred), holds), sources_of(inputs, texts))
    failpoints.hit("restore.before_files")
    restored = workspace.restore_inputs(version, without=barred)
    failpoints.hit("restore.after_files")
    _rows_of(runtime, texts)
    failpoints.hit("restore.after_rows")
    aside = _aside(runtime, restored.others)
    manifest = replace(version.manifest, inputs=inputs, left_out=aside, removed=())
    changes = (Change("restored", "", f"version {version.number} was put back"),)
    number = change_by_hand(runtime, text, manifest, texts, changes, model=RESTORED, parent=intent)
    return number, tuple(sorted(barred)), tuple(item.citation for item in aside)


def _rows_of(runtime: Runtime, texts: Mapping[str, str]) -> None:
    """The output rows as the restored files have them, so that state and disk agree and growth is read from there."""
    store = runtime.store
    for text in texts.values():
        try:
            header, _ = parse_rollout_summary(text)
        except ValueError:
            continue
        before = store.outputs.get(header.source)
        row = OutputRow(
            rollout=header.source,
            generation=store.generation,
            boundary=header.boundary,
            kept=True,
            outcome=header.outcome,
            slug=header.slug,
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            project=header.project,
            project_name=header.project_name,
            ended=header.ended,
            written=before.written if before else runtime.clock.now(),
            model=before.model if before else RESTORED,
        )
        store.outputs.rewrite(row)


def _aside(runtime: Runtime, paths: Collection[str]) -> tuple[LeftOut, ...]:
    """The inputs that came after the restored version, with what they hold now."""
    shas = {note.path: note.sha256 for note in runtime.workspace.notes().notes}
    for row in runtime.store.outputs.all():
        shas[runtime.workspace.rollout_summary_path(row.rollout.source_id)] = row.sha256
    return tuple(LeftOut(citation_of(path), path, RESTORED, shas[path]) for path in paths if path in shas)


def citation_of(path: str) -> str:
    """The citation of an input by its path."""
    name = path.rsplit("/", 1)[-1].removesuffix(".md")
    return name[:8] if path.startswith("rollout_summaries/") else f"note:{name}"


def set_aside(runtime: Runtime) -> frozenset[str]:
    """Sources that the last restore set aside and that are still what they were then. Hashes tell, not times: a clock
    that was set back must not keep back what came after."""
    rows = [row for row in runtime.store.versions.all() if row.generation == runtime.store.generation]
    last = next((row for row in reversed(rows) if row.model == RESTORED), None)
    if last is None:
        return frozenset()
    left_out = [item for item in last.manifest["left_out"] if item["reason"] == RESTORED]
    aside = {item["citation"]: item.get("sha256", "") for item in left_out}
    if not aside:
        return frozenset()
    now = {row.rollout.citation: row.sha256 for row in runtime.store.outputs.all()}
    now |= {note.citation: note.sha256 for note in runtime.workspace.notes().notes}
    return frozenset(citation for citation, sha in aside.items() if now.get(citation) == sha)
