"""The one object through which long memory is generated, cleared, forgotten in and restored [Z024].

Each of these replaces confirmed text or its generation, so each holds the writer lock and leaves, at any kill, a state
that `recover` settles at the next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from consolidate import forgetting, publish
from consolidate.forgetting import ForgetReport, Matches
from consolidate.outcomes import ConsolidateOutcome
from consolidate.run import run
from memory import failpoints, locks
from memory.errors import StateBusyError, UnknownReference, UsageError
from memory.model import RolloutId
from memory.runtime import Runtime
from memory.state import VersionRow
from memory.state.meta import write_generation_file
from memory.workspace import Workspace

LOCK_WAIT_SECONDS = 30.0

failpoints.declare(
    "clear.before_state",
    "clear.after_state",
    "clear.after_file",
    "clear.after_delete",
    "restore.before_files",
    "restore.after_files",
    "restore.after_success",
)


@dataclass(frozen=True, slots=True)
class ClearPreview:
    """What a clear takes away and what it leaves. Counts; `bytes` of the workspace and its versions."""

    files: int
    bytes: int
    sources: int
    notes: int
    versions: int
    summary: bool
    sessions_kept: int


@dataclass(frozen=True, slots=True)
class ClearReport:
    """The proof: what is left of the old generation, counted after the fact. All zeros unless something failed."""

    generation: str
    files_left: int
    rows_left: int
    versions_left: int
    old_folders_left: int

    @property
    def clean(self) -> bool:
        return not (self.files_left or self.rows_left or self.versions_left or self.old_folders_left)


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
        """Settles what an interrupted process left: open publishes, a clear killed before it had deleted all."""
        runtime = self.runtime
        lines = publish.recover(runtime.settings, runtime.store, runtime.workspace, owner=runtime.owner)
        lines += self._remove_old_generations()
        lines += self._finish_forgets()
        return lines

    def _finish_forgets(self) -> list[str]:
        home = self.runtime.settings.home
        try:
            with locks.hold(home / locks.WRITER, owner=self.runtime.owner):
                return forgetting.redo(self.runtime)
        except StateBusyError:
            return []

    def _remove_old_generations(self) -> list[str]:
        """Only the current generation may have a folder; another one belongs to a clear that was killed."""
        runtime = self.runtime
        folder = runtime.settings.home / "generations"
        old = [entry.name for entry in _entries(folder) if entry.name != runtime.store.generation]
        if not old:
            return []
        lines = []
        try:
            with locks.hold(runtime.settings.home / locks.WRITER, owner=runtime.owner):
                for name in old:
                    if name == runtime.store.meta.generation() or name.startswith("."):
                        continue
                    Workspace.remove_generation(runtime.settings.home, name)
                    lines.append(f"generation {name}: the interrupted clear was finished")
        except StateBusyError:
            return []
        return lines

    # -- clear ------------------------------------------------------------------------------------------

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
        )

    def clear(self) -> ClearReport:
        """Forgets all of long memory: fence the writers, new generation and watermark, delete the old [Z110-Z115].

        Session histories, short files, settings and the ledger stay. Killed anywhere, the next start finishes it.
        """
        runtime = self.runtime
        home, store = runtime.settings.home, runtime.store
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
            Workspace.remove_generation(home, old)
            failpoints.hit("clear.after_delete")
            runtime.workspace = Workspace.open(home, new)
            store.scrub()
        return self._prove_cleared()

    def _prove_cleared(self) -> ClearReport:
        runtime = self.runtime
        store, workspace = runtime.store, runtime.workspace
        files = len(workspace.rollout_summaries()) + len(workspace.notes().notes) + (workspace.summary() is not None)
        rows = len(store.outputs.all()) + len(store.usage.last_used()) + len(store.intents.pending())
        folders = [e for e in _entries(runtime.settings.home / "generations") if e.name != store.generation]
        versions = len(store.versions.all()) + len(workspace.versions())
        return ClearReport(store.generation, files, rows, versions, len(folders))

    # -- forget -----------------------------------------------------------------------------------------

    def find(self, text: str) -> Matches:
        """The claims, sources and notes that contain a text, for the user to look at before forgetting it."""
        return forgetting.find(self.runtime, text)

    def forget(self, *, rollouts: Iterable[RolloutId] = (), notes: Iterable[str] = (), text: str = "") -> ForgetReport:
        """Takes sources, notes or a text out of everything kept, for good [M48 M54 X40].

        Raises UnknownReference when nothing of it is known.
        """
        runtime = self.runtime
        home = runtime.settings.home
        with locks.hold(home / locks.WRITER, owner=runtime.owner, wait_seconds=LOCK_WAIT_SECONDS):
            return forgetting.forget(runtime, tuple(rollouts), tuple(notes), text)

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
            new, skipped, aside = forgetting.put_back(runtime, version)
            return RestoreReport(new, row.number, skipped, aside)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
