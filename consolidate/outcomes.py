"""How a consolidation ends: a closed union. `code` is the word that status, JSON and the ledger of runs use."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from consolidate.gate import Change
from memory.model import LeftOut, Violation


@dataclass(frozen=True, slots=True)
class Published:
    """A new version is the confirmed summary. `reviewed` is True when the agent left the text as it was."""

    code: ClassVar[str] = "published"
    version: int
    sources: int
    bytes: int
    requests: int
    changes: tuple[Change, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    cap: str = ""
    repairs: int = 0
    reviewed: bool = False
    transcript: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The inputs are those of the last version: zero model calls [Z089]."""

    code: ClassVar[str] = "unchanged"
    sources: int


@dataclass(frozen=True, slots=True)
class Empty:
    """There is nothing to consolidate and nothing was ever published [X10 X23]."""

    code: ClassVar[str] = "empty"


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not now: `running`, `backoff`, `exhausted`, `cooldown`, `budget`, `quota`, `off`, `inputs_changed`. No attempt
    was spent."""

    code: ClassVar[str] = "deferred"
    reason: str
    detail: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt was spent; the confirmed summary is byte for byte what it was [Z103 Z104]."""

    code: ClassVar[str] = "failed"
    error: str
    message: str
    violations: tuple[Violation, ...] = ()
    requests: int = 0
    retry_at: datetime | None = None
    transcript: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Stopped:
    """The user or the service stopped it; the attempt was given back."""

    code: ClassVar[str] = "cancelled"
    requests: int = 0


ConsolidateOutcome = Published | Unchanged | Empty | Deferred | Failed | Stopped
