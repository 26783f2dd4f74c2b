"""The commands that change memory by hand: clear, forget, restore; and history and diff, which show what changed."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import typer

from cli.output import line, money, print_json, table
from consolidate.forgetting import ForgetReport
from consolidate.service import LongMemory
from memory.clock import iso, minutes
from memory.errors import Cancelled, UnknownReference, UsageError
from memory.model import RolloutId
from memory.runtime import open_runtime
from memory.settings import load
from memory.state import Store, VersionRow
from memory.wording import counted
from memory.workspace.topic_text import USER, TopicEntry
from recall.answers import path_of
from recall.trace import Tracer

Already = tuple[str, datetime]
"""What was forgotten before, in words, and when."""

UNSCRUBBED = "Others use the database, so deleted rows may still stand in it; the next start scrubs it."


@contextmanager
def service() -> Iterator[LongMemory]:
    """The service over the user's store, after recovery."""
    with open_runtime(load()) as runtime:
        found = LongMemory(runtime)
        for text in found.recover():
            line(f"recovered  {text}")
        yield found


def _confirm(question: str, *, yes: bool) -> None:
    """Asks on a terminal; elsewhere only `--yes` will do. Raises Cancelled when the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("This needs a confirmation and there is no terminal.", hint="Give --yes.")
    if not typer.confirm(question, default=False):
        raise Cancelled("Nothing was changed.")


def clear(*, yes: bool, as_json: bool) -> None:
    """`slowwave clear`."""
    with service() as memory:
        memory.look_around()
        before = memory.preview_clear()
        if not as_json:
            line(
                f"goes:  the summary, {counted(before.sources, 'rollout summary', 'rollout summaries')}, "
                f"{counted(before.notes, 'note')}, {counted(before.versions, 'version')} "
                f"({counted(before.files, 'file')}, {counted(before.bytes, 'byte')})"
                + (f", {counted(before.entries, 'entry', 'entries')} of topics" if before.entries else "")
                + (f", {counted(before.set_aside, 'file')} that doctor had set aside" if before.set_aside else "")
            )
            histories = counted(before.sessions_kept, "session history", "session histories")
            line(f"stays: {histories}, short files, settings, the ledger of costs")
            line("Nothing of a session up to this moment can become memory again; what is written later can.")
        _confirm("Clear long memory?", yes=yes)
        report = memory.clear()
    if as_json:
        print_json(
            {
                "generation": report.generation,
                "left": {
                    "files": report.files_left,
                    "rows": report.rows_left,
                    "versions": report.versions_left,
                    "old_folders": report.old_folders_left,
                    "index": report.index_left,
                    "set_aside": report.set_aside_left,
                },
            }
        )
    else:
        line(
            f"cleared; left of it: {counted(report.files_left, 'file')}, {counted(report.rows_left, 'row')}, "
            f"{counted(report.versions_left, 'version')}, {counted(report.index_left, 'index file')}, "
            f"{counted(report.set_aside_left, 'file')} set aside, {counted(report.old_folders_left, 'old folder')}; "
            f"generation {report.generation}"
        )
        if report.unscrubbed:
            line(UNSCRUBBED)
        _tell_server(memory)
    if not report.clean:
        sys.exit(1)


def _tell_server(memory: LongMemory) -> None:
    """What no proof of ours reaches."""
    if memory.runtime.store.schema:
        line("Beyond this proof: write-ahead log, standbys and backups of the PostgreSQL server, which are its own.")


def forget(reference: str, *, text: str, project: str, yes: bool, as_json: bool) -> None:
    """`slowwave forget`."""
    if sum(map(bool, (reference, text, project))) != 1:
        raise UsageError("Name one thing to forget: a session, a note, an entry, --project or --text.")
    with service() as memory:
        entries = _entries(memory, reference, project)
        rollouts, notes, already = _targets(memory, reference, project, entries)
        if text and (at := memory.forgotten_at(text=text)) is not None:
            already.append(("this text", at))
        if already and not as_json:
            _tell_already(already)
        report = ForgetReport((), (), (), 0, 0, None)
        if rollouts or notes or entries or (text and not already):
            _announce(memory, rollouts, notes, text, quiet=as_json)
            for entry in () if as_json else entries:
                line(f"entry {entry.id} {path_of(entry.topic, entry.title)}")
            _confirm("Forget this for good?", yes=yes)
            ids = [entry.id for entry in entries]
            report = memory.forget(rollouts=rollouts, notes=notes, text=text, entries=ids)
        left = memory.left(text) if text else ()
        unscrubbed = memory.runtime.store.meta.scrub_due()
    own = [path for path in left if path.startswith("short/") or path == "config.toml"]
    _tell_forgotten(report, left, own, already, text=text, as_json=as_json)
    if unscrubbed and not as_json:
        line(UNSCRUBBED)
    if not as_json:
        _tell_server(memory)
    if len(left) > len(own):
        sys.exit(1)


def _tell_already(already: Sequence[Already]) -> None:
    if len(already) > 3:
        line(f"{len(already)} sessions were forgotten already, the last on {minutes(max(at for _, at in already))}")
        return
    for what, at in already:
        line(f"{what} was forgotten already on {minutes(at)}; nothing is kept of it")


def _tell_forgotten(
    report: ForgetReport,
    left: Sequence[str],
    own: Sequence[str],
    already: Sequence[Already],
    *,
    text: str,
    as_json: bool,
) -> None:
    """What went, and the proof: `left` are files that hold the text all the same, `own` those the user edits."""
    if as_json:
        print_json(
            {
                "rollouts": [str(rollout) for rollout in report.rollouts],
                "notes": list(report.notes),
                "entries": report.entries,
                "lines_removed": len(report.lines),
                "lines_kept_with_other_sources": report.kept,
                "versions_purged": report.versions,
                "version": report.version,
                "set_aside_deleted": list(report.set_aside),
                "left": list(left),
                "already": [{"what": what, "at": at} for what, at in already],
            }
        )
        return
    if report.rollouts or report.notes or report.entries or not already:
        line(
            f"forgotten: {counted(len(report.rollouts), 'session')}, {counted(len(report.notes), 'note')}; "
            f"{counted(len(report.lines), 'line')} left the summary, {report.kept} went on with other sources; "
            f"{counted(report.versions, 'version')} purged"
            + (f"; {counted(report.entries, 'entry', 'entries')} of topics" if report.entries else "")
        )
    for path in report.set_aside:
        line(f"deleted from what doctor had set aside, because it held it or could not be searched for it: {path}")
    for path in left:
        line(f"still holds it: {path}" + (" (your own file: edit it)" if path in own else ""))
    if text and not left:
        line("no file of the data folder holds it any more")


def _entries(memory: LongMemory, reference: str, project: str) -> list[TopicEntry]:
    """The entries of topics that are meant: one by its id, or all of a project."""
    reading = memory.runtime.workspace.topics.read()
    if project:
        names = reading.projects or {}
        return [one for one in reading.entries if project in {one.scope, names.get(one.scope)} - {USER}]
    return [one for one in reading.entries if one.id == reference.strip("[]").partition("#")[0]]


def _targets(
    memory: LongMemory, reference: str, project: str, entries: Sequence[TopicEntry]
) -> tuple[list[RolloutId], list[str], list[Already]]:
    """The sessions and notes that are meant, and what is meant and was forgotten before. Raises UnknownReference where
    neither is."""
    if entries and not project:
        return [], [], []
    rollouts, notes = _meant(memory, reference, project, entries)
    before = {rollout: memory.forgotten_at(rollout=rollout) for rollout in rollouts}
    already = [(str(rollout), at) for rollout, at in before.items() if at is not None]
    already += [(f"note {name}", at) for name in notes if (at := memory.forgotten_at(note=name)) is not None]
    gone = {what for what, _ in already}
    return (
        [one for one in rollouts if str(one) not in gone],
        [one for one in notes if f"note {one}" not in gone],
        already,
    )


def _meant(
    memory: LongMemory, reference: str, project: str, entries: Sequence[TopicEntry]
) -> tuple[list[RolloutId], list[str]]:
    runtime = memory.runtime
    memory.look_around()  # a session nobody has seen yet would come back after all
    if project:
        rows = [row for row in runtime.store.rollouts.all() if project in {row.project, row.project_name}]
        keys = {project, *(row.project for row in rows)}
        own = [note.name for note in runtime.workspace.notes().notes if note.project in keys and not note.is_global]
        if not rows and not entries and not own:
            raise UnknownReference(f"No session belongs to project {project!r}.", hint="Nothing was forgotten.")
        return [row.id for row in rows], own
    if not reference:
        return [], []
    notes = {note.name for note in runtime.workspace.notes().notes}
    name = reference.removeprefix("note:")
    if name in notes and (reference.startswith("note:") or ":" not in reference):
        return [], [name]
    rows = Tracer(runtime.store, runtime.workspace, runtime.redactor).find(reference)
    rows += [
        row for row in runtime.store.rollouts.all() if reference.strip("[]") in {row.id.citation, row.id.source_id}
    ]
    found = list(dict.fromkeys(row.id for row in rows)) or _without_a_row(runtime.store, reference)
    if not found and runtime.store.tombstones.has("note", name):
        return [], [name]
    if not found:
        raise UnknownReference(f"No session or note answers to {reference!r}.", hint="Nothing was forgotten.")
    if len(found) > 1:
        ids = ", ".join(map(str, found[:4]))
        raise UnknownReference(f"{len(found)} sessions begin with {reference!r} ({ids} …).", hint="Type more of it.")
    return found, []


def _without_a_row(store: Store, reference: str) -> list[RolloutId]:
    """A forgotten session whose file is gone as well: only its tombstone is left."""
    found = [RolloutId.parse(key) for kind, key in store.tombstones.all() if kind == "rollout"]
    return [one for one in found if reference.strip("[]") in {str(one), one.session, one.citation, one.source_id}]


def _announce(memory: LongMemory, rollouts: list[RolloutId], notes: list[str], text: str, *, quiet: bool) -> None:
    if quiet:
        return
    for rollout in rollouts[:20]:
        line(f"session {rollout}")
    if len(rollouts) > 20:
        line(f"and {counted(len(rollouts) - 20, 'more session')}")
    for name in notes:
        line(f"note {name}")
    if text:
        found = memory.find(text)
        for claim in found.lines:
            line(f"line {claim.line}: {claim.text}")
        for rollout, bullets in found.bullets.items():
            for bullet in bullets:
                line(f"{rollout}: {bullet}")
        for name in found.notes:
            line(f"note {name} (goes whole)")
        for name in found.entries:
            line(f"entry {name} (goes whole)")
        for path in found.set_aside:
            line(f"{path} (set aside by doctor; goes whole)")


def restore(number: int, *, yes: bool, as_json: bool) -> None:
    """`slowwave restore`."""
    with service() as memory:
        row = memory.version(number)
        if not as_json:
            line(f"version {row.number} of {minutes(row.published)} and its inputs come back")
        _confirm("Restore this version?", yes=yes)
        report = memory.restore(number)
    if as_json:
        print_json(
            {
                "version": report.version,
                "restored": report.restored,
                "skipped": list(report.skipped),
                "set_aside": list(report.set_aside),
            }
        )
        return
    line(f"restored version {report.restored} as version {report.version}")
    if report.skipped:
        line(f"not brought back, because they were forgotten: {', '.join(report.skipped)}")
    if report.set_aside:
        line(f"set aside until they are extracted anew: {', '.join(report.set_aside)}")


def history(*, as_json: bool) -> None:
    """`slowwave history`."""
    with service() as memory:
        rows = memory.history()
        kept = set(memory.runtime.workspace.versions())
    if as_json:
        print_json([_row_json(row, kept) for row in rows])
        return
    if not rows:
        line("Nothing has been published yet. Start with: slowwave run")
    for row in rows:
        counts: dict[str, int] = {}
        for change in row.changes:
            counts[change["kind"]] = counts.get(change["kind"], 0) + 1
        what = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())) or "no line changed"
        gone = "" if row.number in kept else " (no longer kept)"
        tokens = counted(row.input_tokens + row.output_tokens, "token")
        cost = f"{counted(row.requests, 'request')}, {tokens}, money {money(row.money)}"
        line(
            f"version {row.number}  {minutes(row.published)}  {row.model}  {cost}  {what}{gone}",
            style="bold",
        )
        for change in row.changes:
            into = f" → {change['into']}" if change.get("into") else ""
            said = f"{change['kind']}: {change['text']}{into}" if change["text"] else change["kind"]
            line(f"    {said}" + (f" ({change['reason']})" if change["reason"] else ""))


def _row_json(row: VersionRow, kept: set[int]) -> dict[str, Any]:
    return {
        "version": row.number,
        "published": iso(row.published),
        "model": row.model,
        "requests": row.requests,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "money": row.money,
        "sources": len(row.manifest["inputs"]),
        "kept": row.number in kept,
        "changes": row.changes,
    }


def diff(first: int, second: int, *, as_json: bool) -> None:
    """`slowwave diff`."""
    with service() as memory:
        reader = memory.runtime.workspace
        memory.version(first), memory.version(second)
        before, after = reader.read_version(first), reader.read_version(second)
    lines = list(
        difflib.unified_diff(
            before.summary.splitlines(),
            after.summary.splitlines(),
            f"version {first}",
            f"version {second}",
            lineterm="",
        )
    )
    old = {item.citation for item in before.manifest.inputs}
    new = {item.citation for item in after.manifest.inputs}
    if as_json:
        print_json({"diff": lines, "sources_added": sorted(new - old), "sources_removed": sorted(old - new)})
        return
    for text in lines:
        line(text, style={"+": "green", "-": "red"}.get(text[:1], ""))
    table(
        "",
        ["sources", ""],
        [["added", ", ".join(sorted(new - old)) or "–"], ["removed", ", ".join(sorted(old - new)) or "–"]],
    )
