"""What was said in sessions, as units: only when `index.evidence` asks for it, and never more than it asks for.

A session is read up to the boundary of its rollout summary: what came later was not taken, and what was forgotten has
no rollout summary. What is no evidence (derived text, our own tools' answers) is never read [O17 M38].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from memory.errors import RolloutError, WorkspaceError
from memory.model import RolloutId, SummaryHeader, Tier
from recall.index.collect import EVIDENCE, when
from recall.index.unit import Unit
from rollouts.adapters import ADAPTERS

TIERS = {"user": (Tier.HUMAN,), "all": (Tier.HUMAN, Tier.FINAL, Tier.AGENT, Tier.COMMENTARY, Tier.TOOL)}
MAX_TEXT = 4_000
"""Code points of one event: head and, beyond that, nothing."""
MAX_EVENTS = 400
"""Events of one session, the last ones."""


class Sessions:
    """Reads sessions by the paths the state knows."""

    def __init__(self, paths: Mapping[RolloutId, Path], which: Literal["user", "all"]) -> None:
        self._paths = paths
        self._tiers = TIERS[which]

    def __call__(self, header: SummaryHeader) -> Iterator[Unit]:
        """Units without scope; none for a session that cannot be read any more."""
        path = self._paths.get(header.source)
        if path is None:
            return
        try:
            events = ADAPTERS[header.source.host].read(path, limit=header.boundary.offset or None).events
        except (RolloutError, WorkspaceError, OSError):
            return
        wanted = [event for event in events if event.tier in self._tiers and event.text.strip()]
        for event in wanted[-MAX_EVENTS:]:
            yield Unit(
                f"{header.citation}@e{event.number}",
                f"{header.source.source_id}@",
                " ".join(event.text[:MAX_TEXT].split()),
                kind=EVIDENCE,
                citations=(header.citation,),
                source=str(header.source),
                section=event.tier.value,
                time=when(event.time or header.ended),
            )
