"""How a stage tells the user where it is. The stages emit steps; the surfaces draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Step:
    """`stage` is `discover`, `extract`, `consolidate` or `publish`; `done` of `total` (0: unknown).

    `what` is one short line fit for a log: ids and counts, never content.
    """

    stage: str
    what: str
    done: int = 0
    total: int = 0


class Progress(Protocol):
    def __call__(self, step: Step) -> None: ...


def silent(step: Step) -> None:
    """Progress for callers who draw nothing."""
