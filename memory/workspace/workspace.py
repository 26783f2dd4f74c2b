"""The long-memory workspace of one generation on disk [Z044 Z045].

Readers take no lock: every file changes by an atomic rename. Writers, of whatever process, take turns at the
generation's lock for the length of one short change; a writer whose generation was cleared gets a FencedError.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memory.errors import FencedError, InputsChangedError, PathRefused, StorageError, WorkspaceError
from memory.model import (
    MAX_NOTES_BYTES,
    MAX_ROLLOUT_SUMMARY_BYTES,
    MAX_SUMMARY_BYTES,
    SUMMARY_NAME,
    Manifest,
)
from memory.workspace import files as layer
from memory.workspace import healing, layout, staging, versions
from memory.workspace import notes as note_files
from memory.workspace.confined import Limits
from memory.workspace.diff import WorkspaceDiff, compare
from memory.workspace.files import Files
from memory.workspace.healing import HealReport, PendingIntent
from memory.workspace.layout import encode, sha256_text
from memory.workspace.locks import locked
from memory.workspace.notes import Note, NotesReading
from memory.workspace.staging import Staging
from memory.workspace.topics import Topics
from memory.workspace.versions import Version

SUMMARY = layer.writing("workspace.summary")
SUMMARY_GONE = layer.removing("workspace.summary.removal")
ROLLOUT = layer.writing("workspace.rollout_summary")
ROLLOUT_GONE = layer.removing("workspace.rollout_summary.removal")
NOTE = layer.writing("workspace.note")
NOTE_GONE = layer.removing("workspace.note.removal")
BLOCKS_GONE = layer.emptying("workspace.blocks.delete")
INSTRUCTIONS = layer.scratch_writing("workspace.instructions")
FOLDER = layer.making("workspace.folder")
LOCK = layer.touching("workspace.lock")
INDEX_GONE = layer.removing("workspace.index.removal")
PROBE = layer.writing("workspace.probe")
PROBE_GONE = layer.removing("workspace.probe.removal")
RETIRE = layer.moving("workspace.generation.retire")
EMPTY = layer.emptying("workspace.generation.delete")

_MAX_READ = 64_000_000


@dataclass(frozen=True, slots=True)
class Restored:
    """What `restore` did: paths written, paths left out on request, live inputs the version does not know."""

    written: tuple[str, ...]
    skipped: tuple[str, ...]
    others: tuple[str, ...]


class Workspace:
    """`<home>/generations/<generation>/memories_v2`. Every failure is a WorkspaceError (StorageError,
    PathRefused, InputsChangedError), or a FencedError when the generation was cleared meanwhile."""

    def __init__(self, home: Path, generation: str) -> None:
        """Touches nothing; use `open`."""
        self.home = home
        self.generation = layout.check_plain_name(generation, "The generation")
        self._generation = Files(home, f"{layout.GENERATIONS}/{generation}")
        self._files = self._generation.below(layout.MEMORIES)
        self.root: Path = self._files.full()
        self.topics = Topics(self._files, self._locked)

    @classmethod
    def open(cls, home: Path, generation: str, *, create: bool = True) -> Workspace:
        """Creates the layout (folders 0700, files 0600) unless `create` is false; then nothing is written, and
        what is not there reads as empty. Raises PathRefused when `home` or a folder below it is a link."""
        workspace = cls(home.absolute(), generation)
        if create:
            workspace._create()
        else:
            workspace._refuse_links()
        return workspace

    # -- the summary

    @property
    def summary_path(self) -> Path:
        """Where readers find the confirmed summary."""
        return self.root / SUMMARY_NAME

    def summary(self) -> str | None:
        """The confirmed summary; None when nothing was published yet."""
        return self._text(SUMMARY_NAME, limit=_MAX_READ)

    def summary_sha(self) -> str | None:
        """sha256 hex of the confirmed summary's bytes, whatever they are; None when there is none."""
        content = self._files.read(SUMMARY_NAME, limit=_MAX_READ)
        return None if content is None else hashlib.sha256(content.data).hexdigest()

    def install_summary(self, text: str, expect_old_sha: str | None) -> str:
        """Makes `text` the confirmed summary if the present one still has the expected hash (None: no file).

        Readers see the old or the new text, never another [Z105]; returns its sha256 when it is on disk for good.
        Raises InputsChangedError when the present summary is another one, WorkspaceError when no gate could have
        passed the text [Z046 Z047]. After a StorageError the old or the new text stands: compare hashes.
        """
        data = encode(text, "The summary")
        if len(data) >= MAX_SUMMARY_BYTES or not text.startswith("v1\n"):
            raise WorkspaceError(
                f"The summary of {len(data):,} bytes was not published: it must begin with the line v1 and stay "
                f"below {MAX_SUMMARY_BYTES:,} bytes.",
                hint="The confirmed summary stays as it is.",
            )
        with self._locked():
            if self.summary_sha() != expect_old_sha:
                raise InputsChangedError(
                    f"{self.summary_path} is not the summary this run started from.",
                    hint="Nothing was published; run again.",
                )
            self._files.write(SUMMARY_NAME, data, SUMMARY)
        return sha256_text(text)

    def remove_summary(self, expect_sha: str) -> None:
        """Takes back a first summary that turned out not to be confirmed. Raises InputsChangedError when the present
        one is another."""
        with self._locked():
            if self.summary_sha() != expect_sha:
                raise InputsChangedError(
                    f"{self.summary_path} is another summary by now.", hint="It was left as it is."
                )
            self._files.remove(SUMMARY_NAME, SUMMARY_GONE)

    # -- inputs

    @staticmethod
    def rollout_summary_path(source_id: str) -> str:
        """The path a rollout summary has in manifests, staging and versions."""
        return f"{layout.ROLLOUTS}/{layout.check_source_id(source_id)}.md"

    def write_rollout_summary(self, source_id: str, text: str) -> str:
        """Stores `rollout_summaries/<16 hex>.md`, at most 9,000 bytes [Z054 Z055]; returns its sha256."""
        path = self.rollout_summary_path(source_id)
        data = encode(text, "The rollout summary")
        if len(data) > MAX_ROLLOUT_SUMMARY_BYTES:
            raise WorkspaceError(
                f"The rollout summary {source_id} has {len(data):,} bytes; {MAX_ROLLOUT_SUMMARY_BYTES:,} are allowed.",
                hint="It was not stored; its former text stands.",
            )
        with self._locked():
            self._files.write(path, data, ROLLOUT)
        return sha256_text(text)

    def rollout_summary(self, source_id: str) -> str | None:
        """The text of one rollout summary; None when there is none."""
        return self._text(self.rollout_summary_path(source_id), limit=MAX_ROLLOUT_SUMMARY_BYTES)

    def rollout_summary_sha(self, source_id: str) -> str | None:
        """sha256 hex of one rollout summary's bytes, whatever they are; None when there is none."""
        content = self._files.read(self.rollout_summary_path(source_id), limit=_MAX_READ)
        return None if content is None else hashlib.sha256(content.data).hexdigest()

    def remove_rollout_summary(self, source_id: str) -> bool:
        """False when there was none."""
        path = self.rollout_summary_path(source_id)
        with self._locked():
            return self._files.remove(path, ROLLOUT_GONE)

    def rollout_summaries(self) -> dict[str, str]:
        """source id -> text, sorted. Raises, naming the file, when one is damaged, linked or too large: taking it
        for removed would drop what it says. Files that are not named like one are passed over."""
        found: dict[str, str] = {}
        for entry in self._files.entries(layout.ROLLOUTS) or ():
            source_id = entry.name.removesuffix(".md")
            if entry.name.endswith(".md") and layout.SOURCE_ID.fullmatch(source_id):
                text = self._text(f"{layout.ROLLOUTS}/{entry.name}", limit=MAX_ROLLOUT_SUMMARY_BYTES)
                if text is not None:
                    found[source_id] = text
        return found

    def write_instructions(self, *, extract: str, consolidate: str) -> None:
        """Keeps the stage instructions in force beside the inputs [Z045]; writes only what differs."""
        wanted = {f"{layout.INSTRUCTIONS}/{n}.md": t for n, t in (("extract", extract), ("consolidate", consolidate))}
        if all(self._text(path, limit=_MAX_READ) == text for path, text in wanted.items()):
            return
        with self._locked():
            for path, text in wanted.items():
                if self._text(path, limit=_MAX_READ) != text:
                    self._files.write(path, encode(text), INSTRUCTIONS)

    def source_ids(self) -> frozenset[str]:
        """Source ids of the rollout summaries there are, without reading one."""
        names = (entry.name for entry in self._files.entries(layout.ROLLOUTS) or ())
        return frozenset(n.removesuffix(".md") for n in names if layout.SOURCE_ID.fullmatch(n.removesuffix(".md")))

    def notes(self) -> NotesReading:
        """Every note within 512,000 bytes, pinned first, then newest [Z057-Z059]."""
        return note_files.read_notes(self._files)

    def write_note(
        self,
        name: str,
        text: str,
        *,
        project: str | None = None,
        is_global: bool = False,
        pinned: bool = False,
        created: datetime | None = None,
        replace: bool = False,
        topic: str = "",
        by: str = "",
    ) -> Note:
        """Returns only when the note is on disk for good. `text` must be redacted by the caller.

        Raises UsageError for a name that cannot be, WorkspaceError when it is empty, exists already (without
        `replace`), or would not be read for the limit of all notes.
        """
        path = note_files.note_path(layout.check_note_name(name))
        note_files.check_new(name, text)
        data = encode(
            note_files.print_note(
                text, project=project, is_global=is_global, pinned=pinned, created=created, topic=topic, by=by
            ),
            "The note",
        )
        with self._locked():
            others = {entry.name: entry.size for entry in self._files.entries(layout.NOTES) or ()}
            if others.pop(f"{name}.md", None) is not None and not replace:
                raise WorkspaceError(f"There is a note {name} already.", hint="Choose another name or replace it.")
            used = sum(size for other, size in others.items() if other.endswith(".md"))
            if used + len(data) > MAX_NOTES_BYTES:
                raise WorkspaceError(
                    f"The note {name} was not saved: all notes together may hold {MAX_NOTES_BYTES:,} bytes and would "
                    f"have {used + len(data):,}.",
                    hint="Shorten it or remove other notes.",
                )
            self._files.write(path, data, NOTE)
            saved = next((note for note in self.notes().notes if note.name == name), None)
        if saved is None:
            raise WorkspaceError(f"The note {name} was written but cannot be read back.", hint="Run `slowwave doctor`.")
        return saved

    def remove_note(self, name: str) -> bool:
        """False when there was none."""
        path = note_files.note_path(layout.check_note_name(name))
        with self._locked():
            return self._files.remove(path, NOTE_GONE)

    def drop_blocks(self) -> None:
        """Deletes the blocks hooks built from the summary, which hold its text; the next turn builds them anew."""
        with self._locked():
            self._generation.remove_tree(layout.BLOCKS, BLOCKS_GONE)

    # -- one consolidation

    def diff(self, manifest: Manifest, texts: Mapping[str, str]) -> WorkspaceDiff:
        """The manifest's inputs (`texts`: path -> text) against the baseline."""
        from memory.workspace import baseline  # dulwich: not for hooks that only read the summary

        layout.check_inputs(manifest, texts)
        old = baseline.read(self._files)
        new = {item.path: texts[item.path] for item in manifest.inputs}
        changed = self.summary_sha() != (None if old.summary is None else sha256_text(old.summary))
        return compare(old.texts, new, summary_changed=changed, baseline=old.state)

    def stage(
        self,
        run_id: str,
        manifest: Manifest,
        texts: Mapping[str, str],
        diff_text: str,
        *,
        summary: str | None = None,
        limits: Limits | None = None,
    ) -> Staging:
        """Makes the controlled folder of one run. `summary` is what the agent starts from; None: what is on disk.

        Raises InputsChangedError when a text is not what its hash in the manifest says, WorkspaceError when this
        run has a folder already.
        """
        layout.check_plain_name(run_id, "The run")
        layout.check_inputs(manifest, texts)
        with self._locked():
            start = self.summary() if summary is None else summary
            return staging.make(self._files, run_id, manifest, texts, diff_text, start, limits)

    # -- after a publish

    def save_version(
        self, number: int, summary: str, manifest: Manifest, texts: Mapping[str, str], *, keep: int = 10
    ) -> None:
        """Keeps summary and inputs as one unit, whole or not at all; drops all but the last `keep`."""
        layout.check_inputs(manifest, texts)
        with self._locked():
            versions.save(self._generation, number, summary, manifest, texts, keep=max(keep, 1))

    def replace_version(self, number: int, summary: str, manifest: Manifest, texts: Mapping[str, str]) -> None:
        """Another content under the same number; a kill leaves the old one or the new one."""
        layout.check_inputs(manifest, texts)
        with self._locked():
            versions.replace(self._generation, number, summary, manifest, texts)

    def versions(self) -> list[int]:
        """Numbers of the kept versions, ascending."""
        return versions.numbers(self._generation)

    def read_version(self, number: int) -> Version:
        """Every hash is checked; raises WorkspaceError when it is damaged, UnknownReference when there is none."""
        return versions.read(self._generation, number)

    def drop_version(self, number: int) -> bool:
        """False when there was none."""
        with self._locked():
            return versions.drop(self._generation, number)

    def reset_baseline(
        self, manifest: Manifest, texts: Mapping[str, str], summary: str, *, at: datetime | None = None
    ) -> str:
        """Makes inputs and summary the baseline: one parentless commit, dated `at` [Z107]. Never raises for the
        disk's sake, since a publish stands without it: returns "" or, in one sentence, what went wrong; the next
        `heal` makes it anew from the last version."""
        layout.check_inputs(manifest, texts)
        with self._locked():
            try:
                self._reset_baseline(manifest, texts, summary, at)
            except WorkspaceError as error:
                return str(error)
        return ""

    def restore(self, version: Version, expect_old_sha: str | None, *, without: Collection[str] = ()) -> Restored:
        """Puts a version's inputs and then its summary back [Z117]; doing it again after a crash is safe.

        `without` are citations that must not come back. Inputs the version does not know stay and are named.
        """
        restored = self.restore_inputs(version, without=without)
        if self.summary_sha() != version.sha256:
            self.install_summary(version.summary, expect_old_sha)
        return restored

    def restore_inputs(self, version: Version, *, without: Collection[str] = ()) -> Restored:
        """The first half of `restore`: the inputs alone."""
        kept = [item for item in version.manifest.inputs if item.citation not in without]
        for item in kept:
            path, text = item.path, version.texts[item.path]
            with self._locked():
                if self._text(path, limit=MAX_NOTES_BYTES) != text:
                    self._files.write(path, encode(text), NOTE if path.startswith(layout.NOTES) else ROLLOUT)
        known = {item.path for item in kept}
        others = [path for path, kind in staging.live_inputs(self._files).items() if kind == "file"]
        return Restored(
            tuple(sorted(known)),
            tuple(sorted(item.path for item in version.manifest.inputs if item.path not in known)),
            tuple(path for path in others if path not in known and layout.INPUT_PATH.fullmatch(path)),
        )

    def drop_index(self) -> bool:
        """Deletes the search index, which is made anew when it is wanted: nothing forgotten stays in it. False when
        there was none."""
        return self._generation.remove(layout.INDEX_NAME, INDEX_GONE)

    def indexed(self) -> int:
        """How many files of the search index there are."""
        return sum(entry.name.startswith(layout.INDEX_NAME) for entry in self._generation.entries() or ())

    # -- start-up, probe, clear

    def heal(self, intents: Iterable[PendingIntent] = ()) -> HealReport:
        """Start-up repairs: stale temporary files, stagings of dead runs, the baseline; judges open intents.

        Never raises for the disk's sake: what could not be mended is in `problems`.
        """
        report = HealReport()
        with self._locked():
            healing.remove_left_overs(self._generation, self._files, report)
            try:
                current = self.summary_sha()
            except WorkspaceError as error:
                report.problems.append(str(error))
            else:
                healing.mend_baseline(self._generation, self._files, current, report, self._reset_baseline)
                healing.judge(intents, current, report)
        healing.mend_topics(self.topics, self.notes, self.remove_note, report)
        self._remove_cleared(report)
        return report

    def probe(self) -> None:
        """Writes, flushes and removes a small file. Raises StorageError naming the cure when that fails."""
        with self._locked():
            name = layer.temporary_name()
            self._files.write(name, b"probe\n", PROBE)
            self._files.remove(name, PROBE_GONE)

    @classmethod
    def remove_generation(cls, home: Path, generation: str) -> bool:
        """Deletes workspace and versions of a generation for good [Z111]; out of sight at once, writers that
        still hold it are fenced. False when there was none."""
        workspace = cls(home.absolute(), generation)
        all_files = Files(workspace.home)
        try:
            with workspace._locked():
                gone = (
                    f"{layout.GENERATIONS}/{layout.GONE_PREFIX}{layer.temporary_name().removeprefix(layer.TEMP_PREFIX)}"
                )
                all_files.move(f"{layout.GENERATIONS}/{generation}", gone, RETIRE)
        except FencedError:
            return False
        return all_files.remove_tree(gone, EMPTY)

    # -- below

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(self._generation, layout.LOCK_NAME):
            yield

    def _text(self, path: str, *, limit: int) -> str | None:
        content = self._files.read(path, limit=limit)
        if content is None:
            return None
        try:
            return content.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WorkspaceError(
                f"{self._files.full(path)} is damaged: byte {error.start} is not valid UTF-8.",
                hint="Run `slowwave doctor`.",
            ) from None

    def _reset_baseline(
        self,
        manifest: Manifest,
        texts: Mapping[str, str],
        summary: str,
        at: datetime | None,
        just_read: Mapping[str, str] | None = None,
    ) -> None:
        from memory.workspace import baseline

        inputs = {item.path: texts[item.path] for item in manifest.inputs}
        baseline.reset(self._files, inputs, summary, key=manifest.key(), at=at, just_read=just_read)

    def _create(self) -> None:
        try:
            self.home.mkdir(mode=layer.FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise layer.explain(error, self.home, "created") from error
        self._refuse_links()
        generation = Files(self.home)
        for folder in layout.FOLDERS:
            generation.make_folder(f"{layout.GENERATIONS}/{self.generation}/{layout.MEMORIES}/{folder}", FOLDER)
        self._generation.make_folder(layout.VERSIONS, FOLDER)
        if not any(entry.name == layout.LOCK_NAME for entry in self._generation.entries() or ()):
            self._generation.touch(layout.LOCK_NAME, LOCK)
        if self._files.read(layout.NOTE_INSTRUCTIONS, limit=_MAX_READ) is not None:
            return  # opening takes no lock: a process that was stopped inside one must not keep others from looking
        with self._locked():
            if self._files.read(layout.NOTE_INSTRUCTIONS, limit=_MAX_READ) is None:
                self._files.write(layout.NOTE_INSTRUCTIONS, encode(note_files.INSTRUCTIONS_TEXT), INSTRUCTIONS)

    def _refuse_links(self) -> None:
        try:
            mode = self.home.lstat().st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise layer.explain(error, self.home, "opened") from error
        if not stat.S_ISDIR(mode):
            raise PathRefused(
                f"{self.home} is a link or no folder.",
                hint="Set SLOWWAVE_HOME to a real folder; links are never followed.",
            )
        self._files.entries()

    def _remove_cleared(self, report: HealReport) -> None:
        """What a `clear` was killed over."""
        generations = Files(self.home, layout.GENERATIONS)
        try:
            for entry in generations.entries() or ():
                if entry.name.startswith(layout.GONE_PREFIX) and generations.remove_tree(entry.name, EMPTY):
                    report.removed.append(str(generations.full(entry.name)))
        except StorageError as error:
            report.problems.append(str(error))
