"""What changed between the last consolidated inputs and the present ones, as lists and as text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkspaceDiff:
    """Paths of inputs by fate, and a unified diff bounded in size with every cut marked.

    `empty` means that no input was added, removed or changed. `summary_changed` says that the summary on disk is
    not the one the baseline was taken with. `baseline` is `ok`, `missing` or `damaged`: in the latter two
    everything counts as added, so that nothing pending is lost.
    """

    added: list[str]
    removed: list[str]
    changed: list[str]
    text: str
    empty: bool
    summary_changed: bool = False
    baseline: str = "ok"
