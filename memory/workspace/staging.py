"""The controlled folder of one consolidation: inputs read-only, the summary writable [Z090 Z099 Z109].

The folder is locked by the kernel as long as its `Staging` lives, so start-up repairs can tell a dead run's
left-overs from a living run's work.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from memory.errors import InputsChangedError, StorageError, WorkspaceError
from memory.model import DIFF_NAME, MAX_NOTES_BYTES, SUMMARY_NAME, Manifest
from memory.workspace import files as layer
from memory.workspace.confined import ConfinedFiles, Limits
from memory.workspace.files import TEMP_PREFIX, Files, explained
from memory.workspace.layout import NOTES, ROLLOUTS, WORKSPACE, encode, shorten

FILES = layer.scratch_writing("workspace.staging.file")
FOLDER = layer.making("workspace.staging.folder")
EMPTY = layer.emptying("workspace.staging.discard")

READ_ONLY = 0o400


def live_inputs(files: Files) -> dict[str, str]:
    """Every name where inputs lie, hidden and foreign ones too, but for writes in progress: path -> kind."""
    found: dict[str, str] = {}
    for folder in (ROLLOUTS, NOTES):
        for entry in files.entries(folder) or ():
            if not entry.name.startswith(TEMP_PREFIX):
                found[f"{folder}/{entry.name}"] = entry.kind
    return found


def make(
    files: Files,
    run_id: str,
    manifest: Manifest,
    texts: Mapping[str, str],
    diff_text: str,
    summary: str | None,
    limits: Limits | None,
) -> Staging:
    """Called with the workspace's lock held. `files` lies at the workspace's root."""
    base = f"{WORKSPACE}/{run_id}"
    live = live_inputs(files)
    folder = None
    if remove_if_dead(files, run_id):
        files.make_folder(base, FOLDER)
        folder = _lock(files, base)
    if folder is None:
        raise WorkspaceError(f"Run {run_id} is already at work.", hint="Wait for it or stop it, then run again.")
    try:
        for parent in sorted({item.path.rpartition("/")[0] for item in manifest.inputs}):
            files.make_folder(f"{base}/{parent}", FOLDER)
        for item in manifest.inputs:
            files.write(f"{base}/{item.path}", encode(texts[item.path]), FILES, mode=READ_ONLY)
        if summary is not None:
            files.write(f"{base}/{SUMMARY_NAME}", encode(summary), FILES)
        files.write(f"{base}/{DIFF_NAME}", encode(diff_text), FILES, mode=READ_ONLY)
    except BaseException:
        os.close(folder)
        with contextlib.suppress(WorkspaceError):
            files.remove_tree(base, EMPTY)
        raise
    return Staging(files, run_id, manifest, live, folder, diff_text, limits)


def remove_if_dead(files: Files, name: str) -> bool:
    """Removes one entry of the staging area unless a living run holds it. True when there is none any more."""
    entry = next((entry for entry in files.entries(WORKSPACE) or () if entry.name == name), None)
    if entry is None:
        return True
    path = f"{WORKSPACE}/{name}"
    if entry.kind != "folder":
        return files.remove_tree(path, EMPTY)
    folder = _lock(files, path)
    if folder is None:
        return False
    try:
        files.remove_tree(path, EMPTY)
    finally:
        os.close(folder)
    return True


def _lock(files: Files, path: str) -> int | None:
    """A descriptor of the folder with the kernel's lock on it; None when a living run has it."""
    with explained(files.full(path), "locked"), files.folder(path) as found:
        folder = os.dup(found)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            return None
        except OSError:
            os.close(folder)
            raise
        return folder


class Staging:
    """`workspace/<run id>/`. A context manager: leaving it discards the folder."""

    def __init__(
        self,
        files: Files,
        run_id: str,
        manifest: Manifest,
        live: Mapping[str, str],
        folder: int,
        diff_text: str,
        limits: Limits | None,
    ) -> None:
        self._all = files
        self._base = f"{WORKSPACE}/{run_id}"
        self._live = dict(live)
        self._diff_sha256 = hashlib.sha256(encode(diff_text)).hexdigest()
        self.root: Path = files.full(self._base)
        hashes = {item.path: item.sha256 for item in manifest.inputs}
        self.files = ConfinedFiles(folder, {**hashes, DIFF_NAME: self._diff_sha256}, limits)

    def candidate(self) -> str:
        """The summary as the agent left it; empty when there is none."""
        return self.files.candidate() or ""

    def verify_inputs(self, manifest: Manifest) -> None:
        """Raises InputsChangedError naming the paths when list, paths or contents of the inputs changed since
        `stage`, in the workspace or in the staging folder [Z099]."""
        expected = {item.path: item.sha256 for item in manifest.inputs}
        changes = _changes(self._live, live_inputs(self._all))
        changes += _altered(self._all, expected, changed=changes)
        if changes:
            raise _changed(changes, "while the consolidation ran")
        staged = {**expected, DIFF_NAME: self._diff_sha256}
        copies = self._all.below(self._base)
        strange = sorted(_listing(copies) - staged.keys() - {SUMMARY_NAME})
        strange += _altered(copies, staged, changed=())
        if strange:
            raise _changed(strange, "in the staging folder")

    def discard(self) -> bool:
        """Removes the folder, the diff with it [Z109]. False when something could not be removed (`heal` will)."""
        try:
            self._all.remove_tree(self._base, EMPTY)
        except WorkspaceError:
            return False
        finally:
            self.files.close()
        return True

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _altered(files: Files, expected: Mapping[str, str], *, changed: Collection[str]) -> list[str]:
    """Paths whose bytes are not those of the hash; those already known to have changed are not read."""
    return [path for path, sha256 in expected.items() if path not in changed and _sha256(files, path) != sha256]


def _sha256(files: Files, path: str) -> str | None:
    try:
        content = files.read(path, limit=MAX_NOTES_BYTES)
    except StorageError:
        raise
    except WorkspaceError:
        return None
    return None if content is None else hashlib.sha256(content.data).hexdigest()


def _listing(files: Files, path: str = "") -> set[str]:
    found: set[str] = set()
    for entry in files.entries(path) or ():
        full = f"{path}/{entry.name}" if path else entry.name
        found |= _listing(files, full) if entry.kind == "folder" else {full}
    return found


def _changed(paths: list[str], where: str) -> InputsChangedError:
    return InputsChangedError(
        f"{len(paths)} inputs changed {where}: {shorten(paths)}.",
        hint="Nothing was published; run again to consolidate what is there now.",
    )
