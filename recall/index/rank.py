"""From a question to the units and groups that answer it, best first, and to nothing where nothing does [M9 M25 O21].

Score of a group (a session, a note): its own, a share of its best unit, and of what the best units of all also talk
about (feedback: thirty words of the five best units, which finds sessions that say it in other words).
Score of a unit: its own, its neighbours' in part, and its group's, so that a short line is understood where it stands.
Newer and more often used units win ties. What was superseded comes last and is marked [M41 O29].

What `visible` refuses is left out before anything is compared: it neither shows nor lends its words [O18 C023].
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from recall.index.file import IndexFile, Posting
from recall.index.question import Question, ask, rarity
from recall.index.unit import Scope, Unit

NEIGHBOUR = 0.2
CONTEXT = 0.8
BEST_UNIT = 0.2
FEEDBACK_SPREAD = 100
"""A word that stands in more groups than this, and in a quarter of them, tells nothing of what a unit is about."""
FEEDBACK, FEEDBACK_UNITS, FEEDBACK_TERMS = 0.2, 5, 30
RECENT, USED = 0.02, 0.01
"""Tie-breaks, as shares of the best score."""
CANDIDATES = 120
COMMON = 400
"""A term that stands in more units than this only adds to what rarer terms have found, if they found enough."""
ANSWERS = 0.45
"""Share of what is asked for that a unit has to say to be an answer."""
CLOSE = 0.4
"""An answer is at least this good, measured by the best."""
MEANING, MEANING_GROUP = 0.5, 0.1
"""What the nearest unit by meaning gets beside its words; others in proportion, down to the `NEAREST`th, which gets
nothing. Its group gets a share."""
NEAREST = 20
SAME_MEANING = 0.4
"""Cosine from which a unit answers whatever its words."""

Visible = Callable[[Scope], bool]


def everything(scope: Scope) -> bool:
    """No restriction."""
    del scope
    return True


class Hit(NamedTuple):
    """A unit found. `score` compares hits of one search alone; `covered` is the share of the question that the unit
    says, 0 to 1; `named` that the question says one of the unit's names; `number` is the row in this index."""

    unit: Unit
    score: float
    covered: float
    named: bool
    number: int


class GroupHit(NamedTuple):
    """A session, note or file found, with its best units. `name` is the units' `group`."""

    name: str
    score: float
    best: tuple[Hit, ...]


class Scores(NamedTuple):
    """Everything a question scores in an index: visible rows that hold a term of it or stand beside one. `named` are
    the visible units one of whose names is said, `near` those that lie nearest by meaning, with their cosines."""

    question: Question
    units: dict[int, float]
    groups: dict[int, float]
    named: frozenset[int] = frozenset()
    near: Mapping[int, float] = {}


def score(index: IndexFile, text: str, visible: Visible = everything) -> Scores:
    """All visible rows that have to do with the question. Any text may be asked."""
    question = ask(index, text)
    seen = bytes(visible(scope) for scope in index.scopes)
    own = _sum(question, 0, len(index), index.scope_of, seen)
    near = _near(index, text, seen)
    if not own and not near:
        return Scores(question, {}, {})
    named = frozenset(number for number in index.named(question.said) if seen[index.scope_of[number]])
    units: dict[int, float] = {}
    groups: dict[int, float] = {}
    if own:
        top = heapq.nlargest(CANDIDATES, own, key=own.__getitem__)
        groups = _group_scores(index, question, own, top, seen)
        units = _in_context(index, own, top, named, groups)
    if near:
        _add_meaning(index, near, units, groups)
    return Scores(question, units, groups, named, near)


def search(
    index: IndexFile,
    text: str,
    *,
    limit: int = 10,
    visible: Visible = everything,
    kinds: Collection[str] = (),
    answers_only: bool = True,
) -> list[Hit]:
    """The best units, current ones first. With `answers_only`, none that does not answer: that says too little of the
    question (`ANSWERS`) and none of its names, or is far behind the best."""
    scores = score(index, text, visible)
    chosen = _answers(scores, scores.units) if answers_only else list(scores.units)
    found: list[tuple[int, Unit]] = []
    for number in _ordered(index, scores.units, chosen):
        if len(found) >= limit:
            break
        unit = index.unit(number)
        if not kinds or unit.kind in kinds:
            found.append((number, unit))
    return _hits(found, scores)


def search_groups(
    index: IndexFile,
    text: str,
    *,
    limit: int = 10,
    visible: Visible = everything,
    best: int = 3,
    answers_only: bool = True,
) -> list[GroupHit]:
    """The best sessions and notes, each with its best units. With `answers_only`, none without an answer in it."""
    scores = score(index, text, visible)
    inside: dict[int, list[int]] = {}
    for number in _answers(scores, scores.units) if answers_only else scores.units:
        inside.setdefault(index.group_of[number], []).append(number)
    found: list[GroupHit] = []
    for group in sorted(scores.groups, key=lambda g: (-scores.groups[g], g)):
        if len(found) >= limit:
            break
        if group in inside or not answers_only:
            numbers = _ordered(index, scores.units, inside.get(group, []))[:best]
            hits = tuple(_hits([(number, index.unit(number)) for number in numbers], scores))
            found.append(GroupHit(index.groups[group][0], scores.groups[group], hits))
    return found


def said(index: IndexFile, text: str) -> frozenset[str]:
    """The terms a question is read as, slips of the pen mended: what to highlight."""
    question = ask(index, text)
    return frozenset(term for concept in question.concepts for term in (*concept.whole, *concept.parts))


# -- scores ---------------------------------------------------------------------------------------------------------


def _sum(question: Question, grain: int, rows: int, scope_of: Collection[int], seen: bytes) -> dict[int, float]:
    """Row -> its terms' impacts, weighted by rarity. Rare terms first, so that common ones need not be gone through."""
    total: dict[int, float] = {}
    get = total.get
    postings = [
        (question.known[term][grain], weight) for term, weight in question.weights.items() if term in question.known
    ]
    for posting, weight in sorted(postings, key=lambda item: len(item[0].numbers)):
        factor = weight * rarity(len(posting.numbers), rows)
        if len(posting.numbers) > COMMON and len(total) >= CANDIDATES:
            _add_to_found(total, posting, factor)
            continue
        for number, impact in zip(posting.numbers, posting.impacts, strict=True):
            total[number] = get(number, 0.0) + factor * impact
    if all(seen):
        return total
    scopes = list(scope_of)
    return {number: value for number, value in total.items() if seen[scopes[number]]}


def _add_to_found(total: dict[int, float], posting: Posting, factor: float) -> None:
    numbers, impacts = posting
    last = len(numbers)
    for number in total:
        at = bisect_left(numbers, number)
        if at < last and numbers[at] == number:
            total[number] += factor * impacts[at]


def _group_scores(
    index: IndexFile, question: Question, own: dict[int, float], top: list[int], seen: bytes
) -> dict[int, float]:
    """0 to 1."""
    whole = _sum(question, 1, len(index.groups), index.group_scope, seen)
    best: dict[int, float] = {}
    group_of = index.group_of
    for number in reversed(top):
        best[group_of[number]] = own[number]
    also = _feedback(index, question, own, top[:FEEDBACK_UNITS], seen)
    return _normal(_mixed(((1 - BEST_UNIT, whole), (BEST_UNIT, best), (FEEDBACK, also))))


def _feedback(
    index: IndexFile, question: Question, own: dict[int, float], top: list[int], seen: bytes
) -> dict[int, float]:
    """How much groups talk about what the best units also talk about."""
    weights: dict[str, float] = {}
    for number in top:
        for term in index.talk(number):
            if term not in question.weights:
                weights[term] = weights.get(term, 0.0) + own[number] / own[top[0]]
    chosen = heapq.nlargest(FEEDBACK_TERMS, weights, key=lambda term: (weights[term], term))
    rows = len(index.groups)
    most = max(FEEDBACK_SPREAD, rows // 4)
    known = {t: postings for t, postings in index.postings(chosen).items() if len(postings[1].numbers) <= most}
    more = Question((), {term: weights[term] for term in chosen if term in known}, known, (), 0.0)
    return _sum(more, 1, rows, index.group_scope, seen)


def _in_context(
    index: IndexFile, own: dict[int, float], top: list[int], named: frozenset[int], groups: dict[int, float]
) -> dict[int, float]:
    best = own[top[0]]
    group_of, last, get = index.group_of, len(index) - 1, own.get
    near = {*top, *named}
    for number in top:
        near.update(n for n in (number - 1, number + 1) if 0 <= n <= last and group_of[n] == group_of[number])
    found: dict[int, float] = {}
    for number in near:
        group = group_of[number]
        before = get(number - 1, 0.0) if number and group_of[number - 1] == group else 0.0
        after = get(number + 1, 0.0) if number < last and group_of[number + 1] == group else 0.0
        found[number] = (get(number, 0.0) + NEIGHBOUR * max(before, after)) / best + CONTEXT * groups.get(group, 0.0)
    return found


def _near(index: IndexFile, text: str, seen: bytes) -> dict[int, float]:
    """The nearest visible units by meaning with their cosines; none where search by meaning is off."""
    similar = {n: value for n, value in index.similarities(text).items() if seen[index.scope_of[n]]}
    return {n: similar[n] for n in heapq.nlargest(NEAREST, similar, key=similar.__getitem__)}


def _add_meaning(
    index: IndexFile, near: Mapping[int, float], units: dict[int, float], groups: dict[int, float]
) -> None:
    best, last = max(near.values()), min(near.values())
    of_group: dict[int, float] = {}
    for number, cosine in near.items():
        share = (cosine - last) / (best - last) if best > last else 1.0
        units[number] = units.get(number, 0.0) + MEANING * share
        group = index.group_of[number]
        of_group[group] = max(of_group.get(group, 0.0), share)
    for group, share in of_group.items():
        groups[group] = groups.get(group, 0.0) + MEANING_GROUP * share


def _mixed(parts: tuple[tuple[float, dict[int, float]], ...]) -> dict[int, float]:
    total: dict[int, float] = {}
    for weight, scores in parts:
        for number, value in _normal(scores).items():
            total[number] = total.get(number, 0.0) + weight * value
    return total


def _normal(scores: dict[int, float]) -> dict[int, float]:
    best = max(scores.values(), default=0.0) or 1.0
    return {number: value / best for number, value in scores.items()}


# -- answers --------------------------------------------------------------------------------------------------------


def _answers(scores: Scores, units: dict[int, float]) -> list[int]:
    """Those that say enough of the question, or mean it, and are not far behind the best; and those it names."""
    floor = CLOSE * max(units.values(), default=0.0)
    covered = scores.question.covered([number for number, value in units.items() if value >= floor])
    meant = {number for number in covered if scores.near.get(number, 0.0) >= SAME_MEANING}
    return [n for n in units if n in scores.named or n in meant or covered.get(n, 0.0) >= ANSWERS]


def _ordered(index: IndexFile, units: dict[int, float], chosen: list[int]) -> list[int]:
    """Best first; ties to the newer and the more used; superseded last."""
    best = max((units[n] for n in chosen), default=0.0) or 1.0
    newest = max((index.time_of[n] for n in chosen), default=0) or 1
    most = max((index.used[n] for n in chosen), default=0) or 1

    def key(n: int) -> tuple[int, float, int]:
        ties = RECENT * index.time_of[n] / newest + USED * index.used[n] / most
        return index.superseded[n], -(units[n] / best + ties), n

    return sorted(chosen, key=key)


def _hits(found: list[tuple[int, Unit]], scores: Scores) -> list[Hit]:
    covered = scores.question.covered([number for number, _ in found])
    return [Hit(u, scores.units[n], round(covered[n], 6), n in scores.named, n) for n, u in found]
