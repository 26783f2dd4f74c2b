"""The long-memory workspace of one generation on disk [Z044 Z045]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path

from memory.model import Manifest
from memory.workspace.diff import WorkspaceDiff
from memory.workspace.healing import HealReport, PendingIntent
from memory.workspace.notes import Note, NotesReading
from memory.workspace.staging import Staging
from memory.workspace.versions import Version


class Workspace:
    """`<home>/generations/<generation>/memories_v2`. Every failure is a WorkspaceError (StorageError,
    PathRefused, InputsChangedError) or, when the generation was cleared meanwhile, a FencedError."""

    root: Path
    generation: str

    @classmethod
    def open(cls, home: Path, generation: str, *, create: bool = True) -> Workspace:
        """Creates the layout (0700, files 0600) unless `create` is false; refuses links anywhere below `home`."""
        raise NotImplementedError

    @property
    def summary_path(self) -> Path:
        """Where readers find the confirmed summary."""
        return self.root / "memory_summary.md"

    def summary(self) -> str | None:
        """The confirmed summary; None when nothing was published yet."""
        raise NotImplementedError

    def summary_sha(self) -> str | None:
        """sha256 hex of the confirmed summary's bytes; None when there is none."""
        raise NotImplementedError

    def write_rollout_summary(self, source_id: str, text: str) -> str:
        """Stores `rollout_summaries/<16 hex>.md`, at most 9,000 bytes [Z054 Z055]; returns its sha256."""
        raise NotImplementedError

    def remove_rollout_summary(self, source_id: str) -> bool:
        """False when there was none."""
        raise NotImplementedError

    def rollout_summaries(self) -> dict[str, str]:
        """source id -> text, sorted. A damaged, linked or foreign file raises, naming it."""
        raise NotImplementedError

    @staticmethod
    def rollout_summary_path(source_id: str) -> str:
        """The path a rollout summary has in manifests, staging and versions."""
        return f"rollout_summaries/{source_id}.md"

    def write_instructions(self, *, extract: str, consolidate: str) -> None:
        """Keeps the stage instructions in force beside the inputs [Z045]; writes only what differs."""
        raise NotImplementedError

    def notes(self) -> NotesReading:
        """Every note within 512,000 bytes, pinned first, then newest [Z057-Z059]."""
        raise NotImplementedError

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
    ) -> Note:
        """Returns only when the note is on disk for good. `text` must be redacted by the caller."""
        raise NotImplementedError

    def remove_note(self, name: str) -> bool:
        """False when there was none."""
        raise NotImplementedError

    def diff(self, manifest: Manifest, texts: Mapping[str, str]) -> WorkspaceDiff:
        """The manifest's inputs (`texts`: path -> text) against the baseline."""
        raise NotImplementedError

    def stage(self, run_id: str, manifest: Manifest, texts: Mapping[str, str], diff_text: str) -> Staging:
        """Makes the controlled folder of one run. Raises InputsChangedError when a text is not what the manifest says."""
        raise NotImplementedError

    def install_summary(self, text: str, expect_old_sha: str | None) -> str:
        """Makes `text` the confirmed summary if the present one still has the expected hash (None: no file).

        Readers see the old or the new text, never another [Z105]. Returns the new sha256. Raises
        InputsChangedError when the present summary is another one.
        """
        raise NotImplementedError

    def save_version(
        self, number: int, summary: str, manifest: Manifest, texts: Mapping[str, str], *, keep: int = 10
    ) -> None:
        """Keeps summary and inputs as one unit; all or nothing; drops all but the last `keep`."""
        raise NotImplementedError

    def versions(self) -> list[int]:
        """Numbers of the kept versions, ascending."""
        raise NotImplementedError

    def read_version(self, number: int) -> Version:
        """Every hash is checked; raises WorkspaceError when it is damaged, UnknownReference when there is none."""
        raise NotImplementedError

    def drop_version(self, number: int) -> bool:
        """False when there was none."""
        raise NotImplementedError

    def reset_baseline(
        self, manifest: Manifest, texts: Mapping[str, str], summary: str, *, at: datetime | None = None
    ) -> str:
        """Makes inputs and summary the baseline: one parentless commit [Z107]. Never raises for the disk's sake: a
        publish stands without it. Returns "" or, in one sentence, why it could not be written."""
        raise NotImplementedError

    def heal(self, intents: Iterable[PendingIntent] = ()) -> HealReport:
        """Start-up repairs: stale temporary files, stagings of dead runs, the baseline; judges open intents."""
        raise NotImplementedError
