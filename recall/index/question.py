"""A question taken apart: what is asked for, in terms of an index, and how much of it a unit answers."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from recall.index import words
from recall.index.file import IndexFile, Posting

MAX_CHARS = 4_000
"""Code points of a question that are read."""
MAX_CONCEPTS = 64
PART_WEIGHT = 0.5
"""What a part of an identifier counts beside the whole."""
CHARACTER_WEIGHT = 0.15
"""What a single character counts beside the pairs of its run."""
GUESS_WEIGHT = 0.7
"""What a known word counts that is one slip away from an unknown one."""
MIN_GUESS, LONG = 4, 8
SAME_BEGINNING = 2
UNKNOWN, UNKNOWN_PAIR = 0.5, 0.15
_PLAIN = re.compile(r"[^\W\d_]+")


class Concept(NamedTuple):
    """One thing asked for: a word, an identifier, a pair of characters. `whole` are terms that each say it entirely,
    `parts` say it together. A `pair` may straddle two words and then stands nowhere."""

    whole: tuple[str, ...]
    parts: tuple[str, ...] = ()
    pair: bool = False


class Question(NamedTuple):
    """`weights` are the terms to be looked up; `known` those that stand somewhere, with their postings among units and
    groups; `mass` is what each concept weighs, `total` their sum; `said` are terms that each say a concept entirely."""

    concepts: tuple[Concept, ...]
    weights: dict[str, float]
    known: dict[str, tuple[Posting, Posting]]
    mass: tuple[float, ...]
    total: float
    said: frozenset[str] = frozenset()

    def covered(self, units: Collection[int]) -> dict[int, float]:
        """Share of what is asked for that each of these units says, 0 to 1."""
        found = dict.fromkeys(units, 0.0)
        among = frozenset(units)
        for concept, mass in zip(self.concepts, self.mass, strict=True):
            worth = mass / self.total if self.total else 0.0
            whole: set[int] = set()
            for term in concept.whole:
                whole |= self._standing(term, among)
            for number in whole:
                found[number] += worth
            for term in concept.parts:
                for number in self._standing(term, among) - whole:
                    found[number] += worth / len(concept.parts)
        return found

    def _standing(self, term: str, among: frozenset[int]) -> frozenset[int]:
        return among.intersection(self.known[term][0].numbers) if term in self.known else frozenset()


def rarity(count: int, rows: int) -> float:
    """How much a term says that stands in `count` of `rows`; never negative."""
    return math.log(1 + (rows - count + 0.5) / (count + 0.5))


def ask(index: IndexFile, text: str) -> Question:
    """Takes any text apart; nothing in it is syntax."""
    concepts, weights = _parse(text[:MAX_CHARS])
    known = _look_up(index, weights)
    concepts = [_guessed(index, concept, weights, known) for concept in concepts]
    rows = len(index)
    mass = tuple(_mass(concept, known, rows) for concept in concepts)
    said = frozenset(term for concept in concepts for term in concept.whole)
    return Question(tuple(concepts), weights, known, mass, sum(mass), said)


def _look_up(index: IndexFile, terms: Iterable[str]) -> dict[str, tuple[Posting, Posting]]:
    return index.postings(list(terms))


def _mass(concept: Concept, known: dict[str, tuple[Posting, Posting]], rows: int) -> float:
    """Rarity of the most common way to say it; what stands nowhere counts like a rare word, in part: the question may
    only word it otherwise."""
    counts = [len(known[term][0].numbers) for term in concept.whole if term in known]
    if not counts and concept.parts and all(term in known for term in concept.parts):
        return sum(rarity(len(known[term][0].numbers), rows) for term in concept.parts) / len(concept.parts)
    if counts:
        return rarity(max(counts), rows)
    return (UNKNOWN_PAIR if concept.pair else UNKNOWN) * rarity(0, rows)


# -- parsing ------------------------------------------------------------------------------------------------------


def _parse(text: str) -> tuple[list[Concept], dict[str, float]]:
    concepts: list[Concept] = []
    weights: dict[str, float] = {}
    for strict in (True, False):  # a question of nothing but empty words is taken at its word
        for run in words.runs(text):
            if run.unspaced:
                _characters(run.terms, concepts, weights, strict=strict)
            else:
                _word(text, run.terms, concepts, weights, strict=strict)
        if concepts:
            break
    return list(dict.fromkeys(concepts))[:MAX_CONCEPTS], weights


def _word(
    text: str, terms: tuple[words.Term, ...], concepts: list[Concept], weights: dict[str, float], *, strict: bool
) -> None:
    start, end = terms[0].start, terms[0].end
    plain = words.fold(text[start:end]).replace("'", "").replace("’", "")
    if strict and words.is_stop(plain):
        return
    whole = tuple(term.text for term in terms if (term.start, term.end) == (start, end))
    parts = tuple(dict.fromkeys(term.text for term in terms if term.text not in whole))
    for term in whole:
        weights[term] = max(weights.get(term, 0.0), 1.0)
    for term in parts:
        weights[term] = max(weights.get(term, 0.0), PART_WEIGHT)
    concepts.append(Concept(whole, parts))


def _characters(
    terms: tuple[words.Term, ...], concepts: list[Concept], weights: dict[str, float], *, strict: bool
) -> None:
    pairs = [term.text for term in terms if len(term.text) > 1]
    singles = [term.text for term in terms if len(term.text) == 1]
    for pair in pairs:
        if not (strict and (words.is_stop(pair) or all(words.is_stop(char) for char in pair))):
            concepts.append(Concept((pair,), pair=True))
            weights[pair] = 1.0
    for char in singles:
        if strict and words.is_stop(char):
            continue
        if not pairs:
            concepts.append(Concept((char,)))
        weights[char] = max(weights.get(char, 0.0), CHARACTER_WEIGHT if pairs else 1.0)


# -- slips of the pen -----------------------------------------------------------------------------------------------


def _guessed(
    index: IndexFile, concept: Concept, weights: dict[str, float], known: dict[str, tuple[Posting, Posting]]
) -> Concept:
    """A word that stands nowhere, read as the known one that differs by one letter, if there is one."""
    if any(term in known for term in (*concept.whole, *concept.parts)):
        return concept
    word = concept.whole[0]
    if len(word) < MIN_GUESS or not word.isascii() or not _PLAIN.fullmatch(word):
        return concept
    close = [term for term in index.vocabulary(word[:SAME_BEGINNING]) if _one_slip(word, term)]
    for term in close:
        weights[term] = max(weights.get(term, 0.0), GUESS_WEIGHT)
    known.update(_look_up(index, close))
    return concept._replace(whole=(*concept.whole, *close)) if close else concept


def _one_slip(left: str, right: str) -> bool:
    """One letter more or less, two neighbours swapped; one letter other only in long words, where few are alike."""
    if abs(len(left) - len(right)) > 1 or left == right or not _PLAIN.fullmatch(right):
        return False
    at = 0
    shorter = min(len(left), len(right))
    while at < shorter and left[at] == right[at]:
        at += 1
    if len(left) == len(right):
        swapped = left[at : at + 2] == right[at : at + 2][::-1] and left[at + 2 :] == right[at + 2 :]
        return swapped or (len(left) >= LONG and left[at + 1 :] == right[at + 1 :])
    longer, other = (left, right) if len(left) > len(right) else (right, left)
    return longer[at + 1 :] == other[at:]
