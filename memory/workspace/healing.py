"""What start-up finds and mends after a crash."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class HealReport:
    """What was done. `verdicts` by intent id; `removed` are paths of left-overs; `baseline` is `ok`, `rebuilt`,
    `missing` or `damaged`; `problems` are sentences about what could not be mended."""

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
