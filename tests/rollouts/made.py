"""Transcripts made of a few events, and their evidence."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory.model import Boundary, Event, EventKind, Header, Host, ReadReport, RolloutId, Tier, Transcript
from memory.redact import Redactor
from memory.settings import ExtractSettings, RedactSettings
from memory.tokens import TokenCounter
from rollouts.evidence import Evidence, build

NOON = datetime(2026, 11, 28, 8, 14, 30, tzinfo=UTC)
COUNTER = TokenCounter()
REDACTOR = Redactor(RedactSettings())
LIMITS = ExtractSettings()
HUMAN, FINAL, COMMENTARY, TOOL, DERIVED = Tier.HUMAN, Tier.FINAL, Tier.COMMENTARY, Tier.TOOL, Tier.DERIVED


def event(number: int, tier: Tier, text: str, **more: object) -> Event:
    kind = EventKind.TOOL_RESULT if tier is Tier.TOOL else EventKind.MESSAGE
    given: dict[str, object] = {"kind": kind, "time": NOON + timedelta(minutes=number), "full_chars": len(text), **more}
    if tier is Tier.TOOL:
        given.setdefault("tool", "shell")
    return Event(number=number, tier=tier, text=text, **given)  # type: ignore[arg-type]


def transcript(events: Iterable[Event], *, offset: int | None = None) -> Transcript:
    found = tuple(events)
    header = Header(RolloutId(Host.CODEX, "s1"), Path("s1.jsonl"))
    boundary = Boundary(100 * len(found) if offset is None else offset, len(found), "ab" * 32)
    return Transcript(header, found, boundary, ReadReport())


def said(*texts: tuple[Tier, str]) -> Transcript:
    return transcript(event(n, tier, text) for n, (tier, text) in enumerate(texts, start=1))


def evidence(found: Transcript, budget: int = 10_000, **more: object) -> Evidence:
    given: dict[str, object] = {"settings": LIMITS, "tokens": COUNTER, "redactor": REDACTOR, **more}
    return build(found, budget_tokens=budget, **given)  # type: ignore[arg-type]


def words(size: int, seed: int = 0) -> str:
    known = "fix the port of server test config use module path run and then check again result value".split()
    return " ".join(random.Random(seed).choices(known, k=size))
