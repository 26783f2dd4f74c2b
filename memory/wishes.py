"""A wish for a run and what the service says to it: the words the service, the dashboard and the command line share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Stage = Literal["all", "extract", "consolidate"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer to a wish for a run. `run` is its id where it is known, `coalesced` that one which runs already
    takes the wish along; `says` is a sentence for people."""

    run: str | None
    coalesced: bool
    says: str


@dataclass(frozen=True, slots=True)
class ServiceState:
    """Whether the background service answers, since when, and what it does next. `problems` are sentences."""

    up: bool
    since: datetime | None = None
    schedule: str = ""
    next_run: datetime | None = None
    prefect_url: str | None = None
    problems: tuple[str, ...] = ()
