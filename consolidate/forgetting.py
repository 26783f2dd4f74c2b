"""Forgetting and putting back: changes of confirmed memory that no model makes.

A forgotten source leaves the state, the workspace, every kept version, the baseline and the summary. A line that it
shared with other sources stays only where those alone still support it; what they can say anyway comes back with the
next consolidation. A tombstone keeps the session from ever being extracted again.

Order, so that a kill anywhere is settled by doing it again (`redo`): the tombstone first, then rows, files, versions,
at last the summary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from consolidate import gate, publish
from consolidate.gate import Change, Source
from memory import failpoints, support
from memory.documents import claims, parse_rollout_summary, print_rollout_summary, print_summary
from memory.errors import StateBusyError, StateError, UnknownReference, WorkspaceError
from memory.model import HEADINGS, Claim, InputFile, LeftOut, Manifest, Reason, RolloutId
from memory.runtime import Runtime
from memory.state import Lease, OutputRow, VersionRow, manifest_from_dict, manifest_to_dict
from memory.workspace import Version

RESTORED = "restored"
"""Reason under which a restore sets aside the sources that came after the restored version."""
TEXT = "text"
"""Tombstone kind of a forgotten text: `<length>:<sha256>` of its normalised form, never the text itself."""

failpoints.declare(
    "forget.before_tombstone",
    "forget.after_tombstone",
    "forget.after_rows",
    "forget.after_files",
    "forget.after_versions",
    "forget.after_publish",
)


@dataclass(frozen=True, slots=True)
class Matches:
    """Where a text stands: lines of the summary, bullets of rollout summaries by source, notes by name."""

    lines: tuple[Claim, ...] = ()
    bullets: Mapping[RolloutId, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lines or self.bullets or self.notes)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What went. `lines` left the summary, `kept` lines went on with their other sources; `version` is the new one."""

    rollouts: tuple[RolloutId, ...]
    notes: tuple[str, ...]
    lines: tuple[str, ...]
    kept: int
    versions: int
    version: int | None


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be forgotten: whole sources by citation, and texts by a test."""

    citations: frozenset[str]
    holds: Callable[[str], bool]


# -- finding ------------------------------------------------------------------------------------------


def find(runtime: Runtime, text: str) -> Matches:
    """The places that hold a text, white space, case and markup aside."""
    holds = _holder(text)
    summary = runtime.workspace.summary() or ""
    bullets: dict[RolloutId, tuple[str, ...]] = {}
    for row in runtime.store.outputs.all():
        found = tuple(line for line in _lines(_summary_of(runtime, row)) if holds(line))
        if found:
            bullets[row.rollout] = found
    notes = tuple(note.name for note in runtime.workspace.notes().notes if holds(note.body or note.text))
    return Matches(tuple(claim for claim in claims(summary) if holds(claim.text)), bullets, notes)


def _holder(text: str) -> Callable[[str], bool]:
    needle = support.normalise(text)
    if not needle:
        return lambda _: False
    return lambda hay: needle in support.normalise(hay)


def _lines(text: str) -> list[str]:
    try:
        _, body = parse_rollout_summary(text)
    except ValueError:
        return []
    return [line for line in body.split("\n") if line.strip()]


def _summary_of(runtime: Runtime, row: OutputRow) -> str:
    return runtime.workspace.rollout_summaries().get(row.rollout.source_id, "")


# -- tombstones of texts --------------------------------------------------------------------------------


def text_key(text: str) -> str:
    """The tombstone of a text: enough to recognise it, not enough to read it."""
    plain = support.normalise(text)
    return f"{len(plain)}:{hashlib.sha256(plain.encode()).hexdigest()}"


def recogniser(keys: Iterable[str]) -> Callable[[str], bool]:
    """Whether a line holds a forgotten text, from tombstone keys alone: every window of a key's length is hashed."""
    wanted: dict[int, set[str]] = {}
    for key in keys:
        length, _, digest = key.partition(":")
        wanted.setdefault(int(length), set()).add(digest)
    if not wanted:
        return lambda _: False

    def holds(line: str) -> bool:
        plain = support.normalise(line)
        return any(
            hashlib.sha256(plain[start : start + length].encode()).hexdigest() in digests
            for length, digests in wanted.items()
            for start in range(len(plain) - length + 1)
        )

    return holds


# -- forgetting -----------------------------------------------------------------------------------------


def forget(runtime: Runtime, rollouts: Collection[RolloutId], notes: Collection[str], text: str) -> ForgetReport:
    """See `LongMemory.forget`. The caller holds the writer lock."""
    store = runtime.store
    known_notes = {note.name for note in runtime.workspace.notes().notes}
    unknown = [str(r) for r in rollouts if store.rollouts.get(r) is None and store.outputs.get(r) is None]
    unknown += [name for name in notes if name not in known_notes]
    if unknown or not (rollouts or notes or text):
        raise UnknownReference(f"Nothing is known of {', '.join(unknown) or 'it'}.", hint="Nothing was forgotten.")
    if text and not find(runtime, text):
        raise UnknownReference("No line, source or note holds this text.", hint="Nothing was forgotten.")
    failpoints.hit("forget.before_tombstone")
    with store.write() as tx:
        for rollout in rollouts:
            store.tombstones.add("rollout", str(rollout), tx)
        for name in notes:
            store.tombstones.add("note", name, tx)
        if text:
            store.tombstones.add(TEXT, text_key(text), tx)
    failpoints.hit("forget.after_tombstone")
    return _carry_out(runtime, tuple(rollouts), tuple(notes))


def redo(runtime: Runtime) -> list[str]:
    """Start-up: carries out every tombstone whose traces are still there. A line for the log when there was one."""
    stones = runtime.store.tombstones.all()
    rollouts = tuple(RolloutId.parse(key) for kind, key in stones if kind == "rollout")
    notes = tuple(key for kind, key in stones if kind == "note")
    kept = {row.rollout for row in runtime.store.outputs.all()}
    files = set(runtime.workspace.rollout_summaries())
    cited = set()
    for row in runtime.store.versions.all():
        cited |= {item["citation"] for item in row.manifest["inputs"]}
    left = [r for r in rollouts if r in kept or r.source_id in files or {r.citation, r.source_id} & cited]
    left_notes = [n for n in notes if f"note:{n}" in cited or any(x.name == n for x in runtime.workspace.notes().notes)]
    texts = any(kind == TEXT for kind, _ in stones) and _texts_left(runtime)
    if not (left or left_notes or texts):
        return []
    _carry_out(runtime, tuple(left), tuple(left_notes))
    return ["an interrupted forget was finished"]


def _texts_left(runtime: Runtime) -> bool:
    holds = recogniser(key for kind, key in runtime.store.tombstones.all() if kind == TEXT)
    texts = [*runtime.workspace.rollout_summaries().values(), runtime.workspace.summary() or ""]
    return any(holds(line) for text in texts for line in text.split("\n"))


def _carry_out(runtime: Runtime, rollouts: tuple[RolloutId, ...], notes: tuple[str, ...]) -> ForgetReport:
    """Everything after the tombstone; doing it twice does no harm."""
    store, workspace = runtime.store, runtime.workspace
    holds = recogniser(key for kind, key in store.tombstones.all() if kind == TEXT)
    # 1. Rows.
    with store.write() as tx:
        for rollout in rollouts:
            store.outputs.delete(rollout, tx)
            row = store.rollouts.get(rollout, tx)
            if row is not None:
                gone = replace(row, title=None, reason=Reason.FORGOTTEN, detail="forgotten at the user's wish")
                store.rollouts.upsert_many([gone], tx)
    failpoints.hit("forget.after_rows")
    # 2. Files of the workspace.
    for rollout in rollouts:
        workspace.remove_rollout_summary(rollout.source_id)
    for name in notes:
        workspace.remove_note(name)
    _strip_texts(runtime, holds)
    failpoints.hit("forget.after_files")
    # 3. Every kept version, its row and its inputs.
    gone_citations = {r.citation for r in rollouts} | {r.source_id for r in rollouts} | {f"note:{n}" for n in notes}
    order = _Order(frozenset(gone_citations), holds)
    touched = _purge_versions(runtime, order)
    failpoints.hit("forget.after_versions")
    # 4. The summary itself, as a new version.
    lines, kept, version = _publish_without(runtime, order)
    failpoints.hit("forget.after_publish")
    # 5. What deleted rows left in the database file.
    store.scrub()
    return ForgetReport(rollouts, notes, lines, kept, touched, version)


def _strip_texts(runtime: Runtime, holds: Callable[[str], bool]) -> None:
    """Takes lines with a forgotten text out of the rollout summaries and rewrites their rows."""
    store, workspace = runtime.store, runtime.workspace
    texts = workspace.rollout_summaries()
    for row in store.outputs.all():
        text = texts.get(row.rollout.source_id)
        if text is None:
            continue
        try:
            header, body = parse_rollout_summary(text)
        except ValueError:
            continue
        remaining = "\n".join(line for line in body.split("\n") if not holds(line))
        if remaining == body:
            continue
        sha = workspace.write_rollout_summary(row.rollout.source_id, print_rollout_summary(header, remaining))
        store.outputs.rewrite(replace(row, sha256=sha))
    for note in workspace.notes().notes:
        if holds(note.body or note.text):
            workspace.remove_note(note.name)
            store.tombstones.add("note", note.name)


def _purge_versions(runtime: Runtime, order: _Order) -> int:
    """Rewrites every version that rests on a forgotten source or holds a forgotten text; returns how many."""
    store, workspace = runtime.store, runtime.workspace
    on_disk = set(workspace.versions())
    touched = 0
    for row in store.versions.all():
        version: Version | None = None
        if row.number in on_disk:
            try:
                version = workspace.read_version(row.number)
            except WorkspaceError:
                # A version that cannot be read cannot be purged by line: it goes whole.
                workspace.drop_version(row.number)
                on_disk.discard(row.number)
        clean_row, clean = _purged(row, version, order)
        if clean_row == row:
            continue
        touched += 1
        if clean is not None:
            workspace.drop_version(row.number)
            workspace.save_version(
                row.number, clean.summary, clean.manifest, clean.texts, keep=runtime.settings.consolidate.versions
            )
        with store.write() as tx:
            store.versions.rewrite(clean_row, tx)
    return touched


def _purged(row: VersionRow, version: Version | None, order: _Order) -> tuple[VersionRow, Version | None]:
    """A version without what is to be forgotten; equal to the given one where it held nothing of it."""
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
    clean_text, _, _ = without(summary, order, _sources(inputs, texts))
    changes = [c for c in row.changes if not _tells(c, order, summary, clean_text)]
    same = tuple(inputs) == manifest.inputs and clean_text == summary and len(changes) == len(row.changes)
    if same and left_out == manifest.left_out:
        return row, None
    clean_manifest = replace(manifest, inputs=tuple(inputs), left_out=left_out)
    sha = hashlib.sha256(clean_text.encode()).hexdigest() if version else row.sha256
    clean_row = replace(row, manifest=manifest_to_dict(clean_manifest), sha256=sha, changes=changes)
    return clean_row, replace(
        version, summary=clean_text, sha256=sha, manifest=clean_manifest, texts=texts
    ) if version else None


def _tells(change: Mapping[str, str], order: _Order, before: str, after: str) -> bool:
    """Whether a kept change quotes something forgotten: a line that is gone from its own version, or the text."""
    parts = [part for part in (change.get("text", ""), change.get("into", "")) if part]
    gone = {claim.text for claim in claims(before)} - {claim.text for claim in claims(after)}
    if any(part in gone or order.holds(part) for part in parts):
        return True
    # A line of which no version shows the sources any more cannot be cleared of suspicion.
    return change.get("kind") != "added" and bool(order.citations)


def without(summary: str, order: _Order, sources: Mapping[str, Source]) -> tuple[str, tuple[str, ...], int]:
    """A summary without forgotten sources and texts: new text, lines that left, lines that went on with others."""
    kept: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    gone: list[str] = []
    carried = 0
    for claim in claims(summary):
        rest = tuple(c for c in claim.citations if c not in order.citations)
        if order.holds(claim.text) or (not rest and claim.citations):
            gone.append(claim.text)
            continue
        if len(rest) < len(claim.citations):
            if not gate.supported(replace(claim, citations=rest), sources):
                gone.append(claim.text)
                continue
            carried += 1
        marks = " ".join(f"[{citation}]" for citation in rest)
        kept.setdefault(claim.section, []).append(f"{claim.text} {marks}".strip())
    if not gone and not carried:
        return summary, (), 0
    return print_summary(kept), tuple(gone), carried


def _sources(inputs: Iterable[InputFile], texts: Mapping[str, str]) -> dict[str, Source]:
    found: dict[str, Source] = {}
    for item in inputs:
        text = texts.get(item.path)
        if text is None:
            continue
        if item.citation.startswith("note:"):
            found[item.citation] = gate.source_from_note(item.citation, text, pinned=item.pinned)
        else:
            found[item.citation] = gate.source_from_rollout(item.citation, text)
    return found


def _publish_without(runtime: Runtime, order: _Order) -> tuple[tuple[str, ...], int, int | None]:
    """Publishes the summary without what was forgotten, when it held something of it."""
    store, workspace = runtime.store, runtime.workspace
    latest = store.versions.latest()
    current = workspace.summary()
    if current is None or latest is None:
        return (), 0, None
    manifest = manifest_from_dict(latest.manifest)
    live = {**{workspace.rollout_summary_path(k): v for k, v in workspace.rollout_summaries().items()}}
    live |= {note.path: note.text for note in workspace.notes().notes}
    inputs = tuple(
        replace(item, sha256=hashlib.sha256(live[item.path].encode()).hexdigest(), chars=len(live[item.path]))
        for item in manifest.inputs
        if item.path in live and item.citation not in order.citations
    )
    texts = {item.path: live[item.path] for item in inputs}
    clean, lines, carried = without(current, order, _sources(inputs, texts))
    if clean == current and inputs == manifest.inputs:
        return (), 0, None
    if clean == current:
        workspace.reset_baseline(replace(manifest, inputs=inputs), texts, current, at=latest.published)
    changes = tuple(Change("removed", "", "forgotten at the user's wish") for _ in lines)
    number = change_by_hand(runtime, "forget", clean, replace(manifest, inputs=inputs), texts, changes)
    return lines, carried, number


# -- putting back -----------------------------------------------------------------------------------------


def put_back(runtime: Runtime, version: Version) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Restores a version's inputs and summary; returns the new version's number, what may not come back, and the
    sources that came later and are set aside. The caller holds the writer lock."""
    store, workspace = runtime.store, runtime.workspace
    stones = store.tombstones.all()
    forbidden = {RolloutId.parse(key).source_id for kind, key in stones if kind == "rollout"}
    holds = recogniser(key for kind, key in stones if kind == TEXT)
    barred = {
        item.citation
        for item in version.manifest.inputs
        if item.path.rsplit("/", 1)[-1].removesuffix(".md") in forbidden
        or ("note", item.citation.removeprefix("note:")) in stones
        or any(holds(line) for line in version.texts[item.path].split("\n"))
    }
    inputs = tuple(item for item in version.manifest.inputs if item.citation not in barred)
    texts = {item.path: version.texts[item.path] for item in inputs}
    text, _, _ = without(version.summary, _Order(frozenset(barred), holds), _sources(inputs, texts))
    failpoints.hit("restore.before_files")
    restored = workspace.restore_inputs(version, without=barred)
    failpoints.hit("restore.after_files")
    _rows_of(runtime, texts)
    aside = tuple(
        LeftOut(citation_of(path), path, RESTORED) for path in restored.others if not path.endswith("instructions.md")
    )
    manifest = replace(version.manifest, inputs=inputs, left_out=aside, removed=())
    changes = (Change("restored", "", f"version {version.number} was put back"),)
    number = change_by_hand(runtime, RESTORED, text, manifest, texts, changes)
    failpoints.hit("restore.after_success")
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


def citation_of(path: str) -> str:
    """The citation of an input by its path."""
    name = path.rsplit("/", 1)[-1].removesuffix(".md")
    return name[:8] if path.startswith("rollout_summaries/") else f"note:{name}"


def set_aside(runtime: Runtime) -> frozenset[str]:
    """Sources that the last restore set aside and that have not been extracted anew since."""
    rows = [row for row in runtime.store.versions.all() if row.generation == runtime.store.generation]
    last = next((row for row in reversed(rows) if row.model == RESTORED), None)
    if last is None:
        return frozenset()
    aside = {item["citation"] for item in last.manifest["left_out"] if item["reason"] == RESTORED}
    newer = {row.rollout.citation for row in runtime.store.outputs.all() if _after(row.written, last.published)}
    newer |= {note.citation for note in runtime.workspace.notes().notes if _after(note.mtime, last.published)}
    return frozenset(aside - newer)


def _after(left: datetime, right: datetime) -> bool:
    return left > right


# -- publishing without a model -----------------------------------------------------------------------------


def change_by_hand(
    runtime: Runtime,
    why: str,
    text: str,
    manifest: Manifest,
    texts: Mapping[str, str],
    changes: tuple[Change, ...],
) -> int:
    """Publishes a text that the user's own request made, under a claim of its own. `why` stands where a model would."""
    store = runtime.store
    lease = store.jobs.claim(
        "consolidate",
        f"{runtime.settings.store}/{why}",
        boundary=runtime.run_id,
        owner=runtime.owner,
        lease_seconds=60,
        max_failures=1_000_000,
        again=True,
    )
    if not isinstance(lease, Lease):
        raise StateBusyError(f"Another {why} is running ({lease.reason}).", hint="Try again when it has finished.")
    candidate = publish.Candidate(text, manifest, texts, changes, why, 0, 0, 0, 0.0)
    try:
        return publish.publish_locked(runtime, lease, None, candidate)
    except (WorkspaceError, StateError) as error:
        store.jobs.fail(lease, error, None)
        raise
