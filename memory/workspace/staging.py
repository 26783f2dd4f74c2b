"""The controlled folder of one consolidation: inputs read-only, the summary writable [Z090 Z099 Z109]."""

from __future__ import annotations

from pathlib import Path

from memory.model import Manifest
from memory.workspace.confined import ConfinedFiles


class Staging:
    """`workspace/<run id>/`. A context manager: leaving it discards the folder."""

    root: Path
    files: ConfinedFiles

    def candidate(self) -> str:
        """The summary as the agent left it; empty when there is none."""
        raise NotImplementedError

    def verify_inputs(self, manifest: Manifest) -> None:
        """Raises InputsChangedError naming the paths when list, paths or contents of the inputs changed since
        `stage`, in the workspace or in the staging folder [Z099]."""
        raise NotImplementedError

    def discard(self) -> bool:
        """Removes the folder, the diff with it [Z109]. False when something could not be removed (`heal` will)."""
        raise NotImplementedError

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()
