"""Measures of search over public data: the engine as it is shipped, one configuration, no model.

Recall at k is the share of a question's gold sessions (turns, messages) among the first k, averaged over questions;
MRR is that of the first gold one. Ranks are taken before the cut that makes search abstain; `cut` says what it keeps.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import recall_data
from bench.recall_data import Belief, Case
from recall.index import meaning, rank
from recall.index.build import rows_of
from recall.index.file import IndexFile
from recall.index.unit import Scope, Unit

_vectors: dict[bytes, bytes] = {}


def index_of(units: Iterable[Unit], encoder: meaning.Encoder | None = None) -> IndexFile:
    """With `encoder`, search by meaning is on."""
    rows = rows_of(units, {"semantic": encoder.model} if encoder else {})
    if encoder is not None:
        found, _ = meaning.vectors([unit.text for unit in rows.units], encoder, _vectors)
        _vectors.update((kept.digest, kept.data) for kept in found.values())
        rows = rows._replace(vectors=found)
    return IndexFile.in_memory(rows)


def _share(gold: frozenset[str], found: Iterable[str]) -> float:
    return len(gold.intersection(found)) / len(gold)


def _first(gold: frozenset[str], ranked: Sequence[str]) -> float:
    return next((1 / place for place, name in enumerate(ranked, start=1) if name in gold), 0.0)


def _best(scores: dict[int, float], count: int) -> list[int]:
    return heapq.nlargest(count, scores, key=lambda number: (scores[number], -number))


def locomo(path: Path, *, corrected: bool = False, encoder: meaning.Encoder | None = None) -> dict[str, float]:
    """`session R@k`, `session MRR`, `turn R@k`, in percent, and the number of questions."""
    total: Counter[str] = Counter()
    count = 0
    for case in recall_data.locomo(path, corrected=corrected):
        index = index_of(case.units, encoder)
        for asked in case.questions:
            scores = rank.score(index, asked.text)
            sessions = [index.groups[number][0] for number in _best(scores.groups, len(scores.groups))]
            turns = [index.unit(number).ref for number in _best(scores.units, 10)]
            gold = frozenset(ref.partition(":")[0] for ref in asked.gold)
            found = {f"session R@{k}": _share(gold, sessions[:k]) for k in (1, 5, 10)}
            found |= {f"turn R@{k}": _share(asked.gold, turns[:k]) for k in (1, 5, 10)}
            total.update({**found, "session MRR": _first(gold, sessions)})
            count += 1
    return {**_percent(total, count), "questions": count}


def beam(path: Path, encoder: meaning.Encoder | None = None) -> dict[str, float]:
    """`fraction@k` of gold messages in the first k exchanges and `MRR`, in percent, and the number of questions."""
    total: Counter[str] = Counter()
    count = 0
    for case in recall_data.beam(path):
        index = index_of(case.units, encoder)
        for asked in case.questions:
            ranked = [index.unit(number).citations for number in _best(rank.score(index, asked.text).units, 20)]
            for k in (5, 10, 20):
                total[f"fraction@{k}"] += _share(asked.gold, (m for cited in ranked[:k] for m in cited))  # type: ignore[assignment]
            hits = [asked.gold.intersection(cited) for cited in ranked]
            total["MRR"] += next((1 / at for at, hit in enumerate(hits, start=1) if hit), 0.0)  # type: ignore[assignment]
            count += 1
    return {**_percent(total, count), "questions": count}


def _percent(total: Counter[str], count: int) -> dict[str, float]:
    return {name: 100 * value / count for name, value in total.items()}


# -- PrecisionMemBench ----------------------------------------------------------------------------------------------


class Precision(NamedTuple):
    """Mean precision and recall over the cases that have one, as the harness counts; `passed` cases got exactly what
    they should; `leaks` are beliefs of another user or scope, `stale` superseded ones given as current."""

    precision: float
    recall: float
    passed: int
    cases: int
    leaks: int
    stale: int


def half_of(case: str) -> int:
    """0 for the cases that thresholds were chosen on, 1 for those that are only reported."""
    return hashlib.sha256(case.encode()).digest()[-1] % 2


def precision(path: Path, half: int | None, encoder: meaning.Encoder | None = None) -> Precision:
    """What the benchmark's harness does: pinned facts and open questions come by another way; the rest is searched."""
    known = recall_data.beliefs(path)
    index = index_of((belief.unit for belief in known.values()), encoder)
    precisions: list[float] = []
    recalls: list[float] = []
    passed = leaks = stale = cases = 0
    for case in recall_data.precision_cases(path):
        if half is not None and half_of(case["caseId"]) != half:
            continue
        got = frozenset(_relevant(case, known, index))
        asked = case["expect"].get("relevantBeliefs") or {}
        want = frozenset(asked.get("shouldOnlyInclude", asked.get("mustInclude", ())))
        if got or want:
            precisions.append(len(got & want) / len(got) if got else 0.0)
        if want:
            recalls.append(len(got & want) / len(want))
        exact = got == want if "shouldOnlyInclude" in asked else want <= got
        passed += exact and not got.intersection(asked.get("mustExclude", ()))
        user, scopes = case.get("userId", "test-user"), set(case["scope"])
        leaks += sum(known[ref].user != user or not scopes.intersection(known[ref].scopes) for ref in got)
        stale += sum(known[ref].unit.superseded for ref in got)
        cases += 1
    return Precision(sum(precisions) / len(precisions), sum(recalls) / len(recalls), passed, cases, leaks, stale)


def _relevant(case: dict[str, Any], known: dict[str, Belief], index: IndexFile) -> list[str]:
    user, scopes = case.get("userId", "test-user"), set(case["scope"])
    room = {"maxBeliefs": 20, **case.get("budget", {})}["maxBeliefs"]
    seen = {f"{user}/{name}" for name in scopes}

    def visible(shown: Scope) -> bool:
        return not seen.isdisjoint(shown.projects)

    def in_scope(belief: Belief) -> bool:
        return belief.user == user and not scopes.isdisjoint(belief.scopes)

    pinned = [r for r, b in known.items() if b.pinned and not b.question and not b.unit.superseded and in_scope(b)]
    hits = rank.search(index, case["query"], limit=room, visible=visible) if case["query"].strip() else []
    current = [hit.unit.ref for hit in hits if not hit.unit.superseded]
    found = [ref for ref in current if ref not in pinned and not known[ref].question]
    others = [other for ref in found for other in known[ref].participants]
    found += [o for o in others if o not in found and o not in pinned and not known[o].question and in_scope(known[o])]
    return found[: max(0, room - len(pinned[:room]))]


# -- Chinese --------------------------------------------------------------------------------------------------------


def chinese(path: Path) -> dict[str, float]:
    """Our own facts and questions: recall at 1 and 3 in percent, and what the cut keeps."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    index = index_of(Unit(row["id"], row["id"], row["fact"]) for row in rows)
    first = third = kept = 0
    for row in rows:
        near = [hit.unit.ref for hit in rank.search(index, row["question"], limit=3, answers_only=False)]
        first += near[:1] == [row["id"]]
        third += row["id"] in near
        kept += row["id"] in [hit.unit.ref for hit in rank.search(index, row["question"], limit=3)]
    share = 100 / len(rows)
    return {"R@1": first * share, "R@3": third * share, "cut R@3": kept * share, "questions": len(rows)}


# -- speed ----------------------------------------------------------------------------------------------------------


class Speed(NamedTuple):
    """Milliseconds of one question, by the clock on the wall and of this processor, over `units` units."""

    units: int
    p50: float
    p95: float
    p99: float
    cpu_p50: float
    cpu_p95: float
    build_per_second: float


def many(cases: list[Case], units: int) -> list[Unit]:
    """Turns of all conversations as one memory, repeated under other names until there are enough."""
    found: list[Unit] = []
    turn = 0
    while len(found) < units:
        for number, case in enumerate(cases):
            name = f"{turn}.{number}"
            found += [
                u._replace(ref=f"{name}/{u.ref}", group=f"{name}/{u.group}", scope=Scope((name,))) for u in case.units
            ]
        turn += 1
    return found[:units]


def speed(cases: list[Case], units: int, questions: int = 300) -> Speed:
    """Questions of all conversations, spread evenly, over an index without restriction."""
    listed = many(cases, units)
    began = time.process_time()
    index = index_of(listed)
    rate = units / (time.process_time() - began)
    asked = [question.text for case in cases for question in case.questions]
    wall, cpu = [], []
    for text in asked[:: max(1, len(asked) // questions)]:
        before, used = time.perf_counter(), time.process_time()
        rank.search(index, text)
        cpu.append(time.process_time() - used)
        wall.append(time.perf_counter() - before)
    wall.sort()
    cpu.sort()

    def at(values: list[float], share: float) -> float:
        return values[min(len(values) - 1, int(share * len(values)))] * 1e3

    return Speed(units, at(wall, 0.5), at(wall, 0.95), at(wall, 0.99), at(cpu, 0.5), at(cpu, 0.95), rate)
