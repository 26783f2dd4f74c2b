"""What start-up finds and mends after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from memory.errors import UnknownReference, WorkspaceError
from memory.model import Manifest
from memory.workspace import files as layer
from memory.workspace import layout, staging, versions
from memory.workspace.files import Files
from memory.workspace.notes import Note, NotesReading
from memory.workspace.topic_text import USER, TopicEntry, entry_id
from memory.workspace.topics import Topics
from memory.workspace.versions import Version

LEFT_OVER = layer.emptying("workspace.heal.left_over")

ResetBaseline = Callable[[Manifest, Mapping[str, str], str, datetime | None, Mapping[str, str]], None]


class Verdict(StrEnum):
    """What an open intent has come to. `foreign`: the summary is neither the old nor the new one; left alone."""

    FINISH = "finish"
    UNDO = "undo"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class PendingIntent:
    """What the workspace needs to know of an open intent row; hashes are sha256 hex, None: there was no summary."""

    id: int
    old_sha: str | None
    new_sha: str


@dataclass(slots=True)
class HealReport:
    """What was done. `verdicts` by intent id; `removed` are paths of left-overs; `baseline` is `ok`, `missing` or
    `damaged`, or `rebuilt` when it was made anew; `problems` are sentences about what could not be mended."""

    verdicts: dict[int, Verdict] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    baseline: str = "ok"
    problems: list[str] = field(default_factory=list)


def decide(current: str | None, old: str | None, new: str) -> Verdict:
    """Finish when the new summary is in place, undo when the old one is (None: no file)."""
    if current == new:
        return Verdict.FINISH
    if current == old:
        return Verdict.UNDO
    return Verdict.FOREIGN


def twins(topics: Topics, notes: Iterable[Note]) -> list[tuple[Note, TopicEntry]]:
    """Notes of the memory tools that have the identity of an entry of a topic."""
    titled = {
        entry_id(USER if one.is_global else one.project or "", one.topic, one.title): one for one in notes if one.title
    }
    if not titled:
        return []
    return [(titled[entry.id], entry) for entry in topics.read().entries if entry.id in titled]


def judge(intents: Iterable[PendingIntent], current: str | None, report: HealReport) -> None:
    """Compares each intent's hashes with that of the summary on disk; changes nothing there."""
    for intent in intents:
        report.verdicts[intent.id] = decide(current, intent.old_sha, intent.new_sha)


def remove_left_overs(generation: Files, files: Files, report: HealReport) -> None:
    """Temporary files of interrupted writes, stagings of dead runs. Called with the lock held, so none is in use."""
    folders = [(generation, path) for path in ("", layout.VERSIONS)]
    with suppress(WorkspaceError):  # said below, where the versions' own folder is looked at
        folders += [(generation, f"{layout.VERSIONS}/{number}") for number in versions.numbers(generation)]
    folders += [(files, path) for path in ("", layout.ROLLOUTS, layout.NOTES, layout.AD_HOC, layout.INSTRUCTIONS)]
    for tree, path in folders:
        try:
            report.removed += tree.remove_temporary(path, LEFT_OVER)
        except WorkspaceError as error:
            report.problems.append(str(error))
    try:
        versions.finish_replacements(generation)
        for entry in files.entries(layout.WORKSPACE) or ():
            if staging.remove_if_dead(files, entry.name):
                report.removed.append(str(files.full(f"{layout.WORKSPACE}/{entry.name}")))
    except WorkspaceError as error:
        report.problems.append(str(error))


def mend_topics(
    topics: Topics, notes: Callable[[], NotesReading], remove_note: Callable[[str], bool], report: HealReport
) -> None:
    """What interrupted writes of topics left, and entries that stand in two places because a change of their tier was
    interrupted: the later one holds."""
    try:
        report.removed += topics.heal()
        for note, entry in twins(topics, notes().notes):
            if (entry.record.updated or note.mtime) < (note.created or note.mtime):
                topics.remove({entry.id})
                report.removed.append(f"{entry.path}: {entry.id}, which is a note by now")
            else:
                remove_note(note.name)
                report.removed.append(f"{note.path}, which is an entry of a topic by now")
    except WorkspaceError as error:
        report.problems.append(str(error))


def mend_baseline(
    generation: Files, files: Files, current: str | None, report: HealReport, reset: ResetBaseline
) -> None:
    """Makes the baseline anew when it is not that of the present summary and a kept version is.

    That is so after a publish whose baseline could not be written. Without such a version it is left as it is:
    everything then counts as added, which costs a consolidation and loses nothing.
    """
    from memory.workspace import baseline  # dulwich: not for hooks that only read the summary

    try:
        found = baseline.read(files)
        report.baseline = found.state
        if current is None or (found.summary is not None and layout.sha256_text(found.summary) == current):
            return
        version = _version_of(generation, current, report)
        if version is not None:
            reset(version.manifest, version.texts, version.summary, None, found.texts)
            report.baseline = "rebuilt"
    except WorkspaceError as error:
        report.problems.append(str(error))


def _version_of(generation: Files, sha256: str, report: HealReport) -> Version | None:
    for number in reversed(versions.numbers(generation)):
        try:
            if versions.summary_hash(generation, number) == sha256:
                return versions.read(generation, number)
        except (WorkspaceError, UnknownReference) as error:
            report.problems.append(str(error))
    return None
