"""Which sources a consolidation reads. Pure: time and limits are arguments."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from memory.model import InputFile, LeftOut, Manifest
from memory.settings import ConsolidateSettings


@dataclass(frozen=True, slots=True)
class Candidate:
    """A source that could be read. `note` sources are what somebody asked to remember; they never expire.

    `time` is when the session ended or the note was written, `last_used` when it was last read or injected.
    """

    citation: str
    path: str
    text: str
    project: str
    project_name: str
    time: datetime | None
    last_used: datetime | None = None
    note: bool = False
    pinned: bool = False
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Selection:
    """The manifest and the texts behind it, by path."""

    manifest: Manifest
    texts: Mapping[str, str]
    chosen: tuple[Candidate, ...]


def choose(
    candidates: Iterable[Candidate],
    *,
    generation: str,
    now: datetime,
    limits: ConsolidateSettings,
    cited_before: Iterable[str] = (),
) -> Selection:
    """Pinned notes, other notes, then rollouts by last use and age; whole files only [Z085-Z087].

    A rollout unused for longer than `unused_days` is left out (its age counts from its last use, else from its
    end; exactly the limit is still in). `max_sources` counts rollouts and notes, `max_chars` code points of all.
    What is left out is listed; what the last summary cited and is no input any more is `removed`.
    """
    left_out: list[LeftOut] = []
    fresh: list[Candidate] = []
    for candidate in candidates:
        if not candidate.note and _unused(candidate, now, limits):
            left_out.append(LeftOut(candidate.citation, candidate.path, "unused"))
        else:
            fresh.append(candidate)
    chosen: list[Candidate] = []
    room = limits.max_chars
    for candidate in sorted(fresh, key=_rank):
        if len(chosen) >= limits.max_sources:
            left_out.append(LeftOut(candidate.citation, candidate.path, "max_sources"))
        elif len(candidate.text) > room:
            left_out.append(LeftOut(candidate.citation, candidate.path, "max_chars"))
        else:
            chosen.append(candidate)
            room -= len(candidate.text)
    chosen, names = _citable(chosen)
    inputs = tuple(_input(candidate) for candidate in chosen)
    removed = tuple(sorted(set(cited_before) - names))
    manifest = Manifest(generation, inputs, tuple(left_out), removed)
    return Selection(manifest, {candidate.path: candidate.text for candidate in chosen}, tuple(chosen))


def binding_cap(left_out: Sequence[LeftOut]) -> str:
    """Which limit bound first, for the run's outcome; empty when nothing was cut."""
    reasons = [item.reason for item in left_out]
    return next((reason for reason in ("max_chars", "max_sources") if reason in reasons), "")


def _unused(candidate: Candidate, now: datetime, limits: ConsolidateSettings) -> bool:
    since = candidate.last_used or candidate.time
    return since is not None and now - since > timedelta(days=limits.unused_days)


def _rank(candidate: Candidate) -> tuple[int, float, float, str]:
    used = candidate.last_used.timestamp() if candidate.last_used else 0.0
    time = candidate.time.timestamp() if candidate.time else 0.0
    group = 0 if candidate.pinned else 1 if candidate.note else 2
    return (group, -used, -time, candidate.citation)


def _citable(chosen: list[Candidate]) -> tuple[list[Candidate], set[str]]:
    """Two rollouts with the same 8 hex digits are both cited by all 16 (the file's name has them)."""
    seen: dict[str, int] = {}
    for candidate in chosen:
        seen[candidate.citation] = seen.get(candidate.citation, 0) + 1
    renamed = [
        _with_long_citation(candidate) if seen[candidate.citation] > 1 and not candidate.note else candidate
        for candidate in chosen
    ]
    return renamed, {candidate.citation for candidate in renamed}


def _with_long_citation(candidate: Candidate) -> Candidate:
    long = candidate.path.rsplit("/", 1)[-1].removesuffix(".md")
    return replace(candidate, citation=long)


def _input(candidate: Candidate) -> InputFile:
    return InputFile(
        citation=candidate.citation,
        path=candidate.path,
        sha256=hashlib.sha256(candidate.text.encode()).hexdigest(),
        chars=len(candidate.text),
        project=candidate.project,
        projects_global=candidate.everywhere,
        pinned=candidate.pinned,
        time=candidate.time,
    )
