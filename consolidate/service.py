"""The one object through which long memory is generated, cleared, forgotten in and restored [Z024].

Each of these replaces confirmed text or its generation, so each holds the writer lock and leaves, at any kill, a state
that `recover` settles at the next start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from consolidate import forgetting, publish, restoring
from consolidate.forgetting import ForgetReport, Matches
from consolidate.outcomes import ConsolidateOutcome
from consolidate.run import run
from memory import failpoints, forgotten, locks, settling
from memory.errors import SlowwaveError, StateBusyError, UnknownReference, UsageError
from memory.model import RolloutId
from memory.runtime import Runtime
from memory.state import VersionRow
from memory.state.meta import write_generation_file
from memory.workspace import Workspace, quarantine, scan
from rollouts.discover import discover

LOCK_WAIT_SECONDS = 30.0
DEEDS = frozenset({forgetting.FORGET, restoring.RESTORED})
"""Kinds of intents that are finished under the writer lock."""

failpoints.declare(
    "clear.before_state",
    "clear.after_state",
    "clear.after_file",
    "clear.after_delete",
    "clear.after_scrub",
)


@dataclass(frozen=True, slots=True)
class ClearPreview:
    """What a clear takes away and what it leaves. Counts; `bytes` of the workspace and its versions; `set_aside` are
    files that `doctor --fix` put into quarantine."""

    files: int
    bytes: int
    sources: int
    notes: int
    versions: int
    summary: bool
    sessions_kept: int
    set_aside: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class ClearReport:
    """The proof: what is left of the old generation, counted after the fact. All zeros unless something failed."""

    generation: str
    files_left: int
    rows_left: int
    versions_left: int
    old_folders_left: int
    index_left: int = 0
    set_aside_left: int = 0
    unscrubbed: bool = False
    """Deleted rows may still stand in the database file, which others kept in use; the next start sees to it."""

    @property
    def clean(self) -> bool:
        left = self.files_left + self.rows_left + self.versions_left + self.old_folders_left
        return not (left or self.index_left or self.set_aside_left or self.unscrubbed)


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """`version` is the new version that carries the restored text; `skipped` are inputs that may not come back."""

    version: int
    restored: int
    skipped: tuple[str, ...]
    set_aside: tuple[str, ...]


class LongMemory:
    """The service of one store. Built on a `Runtime`; after `clear` its runtime works in the new generation."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def consolidate(self) -> ConsolidateOutcome:
        """Stage 2, as `consolidate.run.run`."""
        return await run(self.runtime)

    # -- start-up ---------------------------------------------------------------------------------------

    def recover(self) -> list[str]:
        """Settles what an interrupted process left: extractions, publishes, forgets, restores, a clear killed before it
        had deleted all. A line for each; nothing while another process is inside one of them."""
        runtime = self.runtime
        store, home = runtime.store, runtime.settings.home
        if store.meta.generation() != store.generation:
            return []  # cleared since this process started: nothing here is ours to settle
        lines = publish.recover(runtime.settings, store, runtime.workspace, owner=runtime.owner)
        lines += settling.settle_all(store, runtime.workspace)
        if self._nothing_left():
            return lines
        try:
            with locks.hold(home / locks.WRITER, owner=runtime.owner):
                lines += self._remove_old_generations()
                lines += self._finish_deeds()
                _sweep(home)
        except StateBusyError:
            return lines
        if store.meta.scrub_due():
            with suppress(StateBusyError):
                store.scrub()
        return lines

    def _nothing_left(self) -> bool:
        """A normal start: nothing was interrupted."""
        store, home = self.runtime.store, self.runtime.settings.home
        return not (
            any(intent.kind in DEEDS for intent in store.intents.pending())
            or any(entry.name != store.generation for entry in _entries(home / "generations"))
            or store.meta.scrub_due()
            or any(_stale(home))
        )

    def _finish_deeds(self) -> list[str]:
        """Forgets and restores, oldest first."""
        lines = []
        for intent in self.runtime.store.intents.pending():
            if intent.kind == forgetting.FORGET:
                lines.append(forgetting.redo(self.runtime, intent))
            elif intent.kind == restoring.RESTORED:
                lines.append(restoring.put_back_again(self.runtime, intent))
        return lines

    def _remove_old_generations(self) -> list[str]:
        """Only the current generation may have a folder; another one belongs to a clear that was killed."""
        home, store = self.runtime.settings.home, self.runtime.store
        current = store.meta.generation()
        lines = []
        for entry in _entries(home / "generations"):
            if entry.name not in {current, store.generation} and not entry.name.startswith("."):
                quarantine.remove_all(home)
                Workspace.remove_generation(home, entry.name)
                lines.append(f"generation {entry.name}: the interrupted clear was finished")
        return lines

    # -- clear ------------------------------------------------------------------------------------------

    def look_around(self) -> None:
        """Takes down which sessions lie on disk now: what is not known can be neither shown nor cleared nor forgotten.
        Does without where that is not possible."""
        with suppress(SlowwaveError, OSError):
            discover(self.runtime.settings, self.runtime.clock, self.runtime.store)

    def preview_clear(self) -> ClearPreview:
        """Counts only; changes nothing."""
        runtime = self.runtime
        folder = runtime.settings.home / "generations" / runtime.store.generation
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        return ClearPreview(
            files=len(files),
            bytes=sum(path.stat().st_size for path in files),
            sources=sum(row.kept for row in runtime.store.outputs.all()),
            notes=len(runtime.workspace.notes().notes),
            versions=len(runtime.workspace.versions()),
            summary=runtime.workspace.summary() is not None,
            sessions_kept=len(runtime.store.rollouts.all()),
            set_aside=quarantine.count(runtime.settings.home),
            entries=len(runtime.workspace.topics.read().entries),
        )

    def clear(self) -> ClearReport:
        """Forgets all of long memory: fence the writers, new generation and watermark, delete the old [Z110-Z115].

        Session histories, short files, settings and the ledger stay. Killed anywhere, the next start finishes it.
        """
        runtime = self.runtime
        home, store = runtime.settings.home, runtime.store
        self.look_around()  # what lies on disk now is what is cleared, whatever its times say: before the watermark
        with locks.hold(home / locks.WRITER, owner=runtime.owner, wait_seconds=LOCK_WAIT_SECONDS):
            old = store.generation
            failpoints.hit("clear.before_state")
            # One transaction: from here on every write of the old generation is refused, and nothing at or before
            # the watermark is offered again. The old folder is garbage whether or not we live to delete it.
            new = store.meta.new_generation(runtime.clock.now())
            failpoints.hit("clear.after_state")
            write_generation_file(home, new)
            store.generation = new
            failpoints.hit("clear.after_file")
            quarantine.remove_all(home)  # before the folder whose being there tells the next start to finish this
            Workspace.remove_generation(home, old)
            failpoints.hit("clear.after_delete")
            runtime.workspace = Workspace.open(home, new)
        with suppress(StateBusyError):  # `scrub_due` stays: the proof says so and the next start does it
            store.scrub()
        failpoints.hit("clear.after_scrub")
        return self._prove_cleared()

    def _prove_cleared(self) -> ClearReport:
        runtime = self.runtime
        store, workspace = runtime.store, runtime.workspace
        files = len(workspace.rollout_summaries()) + len(workspace.notes().notes) + (workspace.summary() is not None)
        files += len(workspace.topics.read().entries)
        rows = len(store.outputs.all()) + len(store.usage.last_used()) + len(store.intents.pending())
        folders = [e for e in _entries(runtime.settings.home / "generations") if e.name != store.generation]
        versions = len(store.versions.all()) + len(workspace.versions())
        return ClearReport(
            store.generation, files, rows, versions, len(folders), workspace.indexed(),
            quarantine.count(runtime.settings.home), store.meta.scrub_due(),
        )  # fmt: skip

    # -- forget -----------------------------------------------------------------------------------------

    def find(self, text: str) -> Matches:
        """The claims, sources and notes that contain a text, for the user to look at before forgetting it."""
        return forgetting.find(self.runtime, text)

    def forget(
        self,
        *,
        rollouts: Iterable[RolloutId] = (),
        notes: Iterable[str] = (),
        text: str = "",
        entries: Iterable[str] = (),
    ) -> ForgetReport:
        """Takes sources, notes, entries of topics or a text out of everything kept, for good [M48 M54 X40].

        Raises UnknownReference when nothing of it is known.
        """
        runtime = self.runtime
        home = runtime.settings.home
        with locks.hold(home / locks.WRITER, owner=runtime.owner, wait_seconds=LOCK_WAIT_SECONDS):
            return forgetting.forget(runtime, tuple(rollouts), tuple(notes), text, tuple(entries))

    def forgotten_at(self, *, rollout: RolloutId | None = None, note: str = "", text: str = "") -> datetime | None:
        """When one of them was forgotten, where nothing of it is kept any more; None where there is something to
        forget, or nothing ever was."""
        runtime = self.runtime
        stones = runtime.store.tombstones
        if rollout is not None:
            return stones.when("rollout", str(rollout)) if runtime.store.outputs.get(rollout) is None else None
        if note:
            known = {one.name for one in runtime.workspace.notes().notes}
            return stones.when("note", note) if note not in known else None
        return stones.when(forgotten.TEXT, forgotten.text_key(text)) if text and not self.find(text) else None

    def left(self, text: str) -> tuple[str, ...]:
        """The proof after a text was forgotten: files of the data folder that hold it all the same. Short files and
        settings are the user's own to edit and stay as they are."""
        return scan.holding(self.runtime.settings.home, forgotten.holder(text))

    # -- history and restore ----------------------------------------------------------------------------

    def history(self) -> list[VersionRow]:
        """Every version of this generation, newest first; older ones may be rows without kept files."""
        rows = self.runtime.store.versions.all()
        return [row for row in reversed(rows) if row.generation == self.runtime.store.generation]

    def version(self, number: int) -> VersionRow:
        """Raises UnknownReference."""
        for row in self.history():
            if row.number == number:
                return row
        raise UnknownReference(f"There is no version {number}.", hint="`slowwave history` lists them.")

    def restore(self, number: int) -> RestoreReport:
        """Puts a former version and its inputs back, as a new version [Z116-Z118].

        Never across a clear (other generations are gone), never a forgotten source: a version that rests on one is
        put back without the lines that only it supports. Sources that came later stay on disk, so the next
        consolidation takes them up again; the restore is kept in the history as such.
        """
        runtime = self.runtime
        row = self.version(number)
        if number not in runtime.workspace.versions():
            raise UsageError(f"Version {number} is no longer kept.", hint="consolidate.versions says how many are.")
        home = runtime.settings.home
        with locks.hold(home / locks.WRITER, owner=runtime.owner, wait_seconds=LOCK_WAIT_SECONDS):
            version = runtime.workspace.read_version(row.number)
            new, skipped, aside = restoring.put_back(runtime, version)
            return RestoreReport(new, row.number, skipped, aside)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _stale(home: Path) -> Iterator[Path]:
    """Temporary files of dead processes beside the state: `.state.db.<pid>.<hex>`, `.generation.json.<pid>.<hex>`."""
    for path in home.glob(".*.*.*.*"):
        number = path.name.split(".")[-2]
        if path.name.startswith((".state.db.", ".generation.json.")) and number.isdigit() and not _alive(int(number)):
            yield path


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _sweep(home: Path) -> None:
    for path in _stale(home):
        with suppress(OSError):
            path.unlink()
