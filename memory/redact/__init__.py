"""Redaction: every secret in a text becomes `[redacted:<rule>]`, in time linear in the text [M56 M57 X35 O52].

Two sources work together: a maintained catalog of provider rules (`memory.redact.catalog`) and our own rules for what
only context gives away (`memory.redact.context`) and for shapes that must be found cut, wrapped or made up
(`memory.redact.shapes`). Redact before cutting a text, or use `redact_cut`, so that no half of a secret stays.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import re2  # type: ignore[import-untyped]

from memory.errors import SettingsError
from memory.redact import catalog, context, prose, shapes, split
from memory.redact.catalog import Catalog
from memory.redact.table import SEPARATOR, WINDOW, Pattern, Rule, Span, compile_pattern
from memory.settings import RedactSettings

__all__ = ["Finding", "Redactor"]

_MARK = re.compile(rb"\[redacted:[a-z0-9-]{1,64}\]")
_JOIN = b"\n" + SEPARATOR + b"\n"
_MAX_ROUNDS = 64


@dataclass(frozen=True, slots=True)
class Finding:
    """One secret: the rule's name and where it stands, in code points, end exclusive. Never the secret itself."""

    rule: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class _Hit:
    start: int
    end: int
    rank: int
    rule: str


class Redactor:
    """Finds and replaces secrets. Build one per process; it may be shared between threads.

    `cache` is the folder for the catalog's compiled form, private to the user (default: `catalog.default_cache`).
    `quick` leaves the catalog out: our rules alone, ready in milliseconds, for a hook that must not wait.
    Raises SettingsError naming the setting and position of a pattern that is not RE2.
    """

    def __init__(self, settings: RedactSettings, *, cache: Path | None = None, quick: bool = False) -> None:
        self._rules = _own_rules(settings.entropy)
        self._extra = _user_patterns("extra_patterns", settings.extra_patterns)
        self._allow = _user_patterns("allow_patterns", settings.allow_patterns)
        self._cache = cache
        self._quick = quick

    @property
    def catalog(self) -> catalog.CatalogInfo:
        """The maintained rules in use; no rules where the package is missing or `quick` was asked for."""
        loaded = self._catalog()
        return loaded.info if loaded else catalog.CatalogInfo("", 0)

    def redact(self, text: str) -> str:
        """The text with each secret replaced. Idempotent: `redact(redact(x)) == redact(x)`."""
        return self.redact_many((text,))[0]

    def redact_many(self, texts: Sequence[str]) -> list[str]:
        """Each text redacted on its own, for the price of one pass over all of them."""
        data, starts = _joined(texts)
        hits = self._hits(data)
        if not hits:
            return list(texts)
        return [
            self._settled(replaced) if replaced is not None else text
            for text, replaced in zip(texts, _replaced(data, starts, hits), strict=True)
        ]

    def redact_cut(self, texts: Sequence[str], keep: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
        """Head and tail of each text, cut so that no secret is halved.

        `keep[i]` is how many code points of `texts[i]` to keep from its head and from its tail. A secret that
        reaches over a cut is replaced as a whole on the side where it begins or ends.
        """
        data, starts = _joined(texts)
        hits = self._hits(data)
        if not hits:
            return [(t[:head], t[len(t) - tail :] if tail else "") for t, (head, tail) in zip(texts, keep, strict=True)]
        parts: list[tuple[str, str]] = []
        for text, (head, tail), inside, raw in zip(
            texts, keep, _by_part(starts, hits), _parts(data, starts), strict=True
        ):
            if not inside:
                parts.append((text[:head], text[len(text) - tail :] if tail else ""))
                continue
            first = len(text[:head].encode("utf-8", "surrogatepass"))
            last = len(raw) - (len(text[len(text) - tail :].encode("utf-8", "surrogatepass")) if tail else 0)
            parts.append(
                (
                    self._settled(_assemble(raw, [h for h in inside if h.start < first], 0, first)),
                    self._settled(_assemble(raw, [h for h in inside if h.end > last], last, len(raw))) if tail else "",
                )
            )
        return parts

    def findings(self, text: str) -> list[Finding]:
        """Where the secrets stand, in order, not overlapping."""
        data, _ = _joined((text,))
        found, done, chars = [], 0, 0
        for hit in self._hits(data):
            chars += len(data[done : hit.start].decode("utf-8", "surrogatepass"))
            size = len(data[hit.start : hit.end].decode("utf-8", "surrogatepass"))
            found.append(Finding(hit.rule, chars, chars + size))
            done, chars = hit.end, chars + size
        return found

    # -- one pass -------------------------------------------------------------------------------------

    def _settled(self, text: str) -> str:
        """Replaces until nothing is left to find, which makes redaction idempotent; a second round is rare."""
        for _ in range(_MAX_ROUNDS):
            data, starts = _joined((text,))
            hits = self._hits(data)
            if not hits:
                break
            text = next(_replaced(data, starts, hits)) or text
        return text

    def _catalog(self) -> Catalog | None:
        return None if self._quick else catalog.load(self._cache)

    def _hits(self, data: bytes) -> list[_Hit]:
        found = list(self._own(data))
        loaded = self._catalog()
        if loaded is not None and len(data) >= _SHORTEST:
            found += [_Hit(start, end, 2, name) for (start, end), name in loaded.spans(data)]
        for number, pattern in enumerate(self._extra, start=1):
            found += [_Hit(start, end, 0, f"extra-{number}") for start, end in _all(pattern, data)]
        if not found:
            return []
        return _merged(self._wanted(data, [_whole(data, hit) for hit in found]))

    def _own(self, data: bytes) -> Iterator[_Hit]:
        gate, choose, rules = self._rules.gate, self._rules.choose, self._rules.rules
        position = 0
        while (match := gate.search(data, position)) is not None:
            start = match.start()
            # On to the next word, also inside of what is found here: a longer secret may begin there. A gate has no
            # upper bound, so what lies further than a window before its end is not looked at again.
            position = max(start + _STEP, match.end() - WINDOW)
            for index in choose.Match(data[start : start + WINDOW]) or ():
                rule = rules[index]
                span = rule.find(data, start)
                if span is not None and span[0] < span[1]:
                    yield _Hit(span[0], span[1], rule.rank, rule.name)
                    if rule.rank == 0 or span[1] - span[0] > WINDOW:
                        position = max(position, span[1])

    def _wanted(self, data: bytes, found: Iterable[_Hit]) -> list[_Hit]:
        """Without what the user allows and without what is redacted already."""
        marks = [(m.start(), m.end()) for m in _MARK.finditer(data)]
        wanted = []
        for hit in found:
            near = bisect_right(marks, (hit.start, len(data))) if marks else 0
            touched = any(s < hit.end and e > hit.start for s, e in marks[max(0, near - 1) : near + 1])
            secret = data[hit.start : hit.end]
            if not touched and not any(pattern.search(secret) for pattern in self._allow):
                wanted.append(hit)
        return wanted


_STEP = 3
_SHORTEST = 8


@dataclass(frozen=True, slots=True)
class _Own:
    """Our rules with the one pattern that finds where any of them may begin and the set that tells which."""

    gate: Pattern
    choose: re2.Set
    rules: tuple[Rule, ...]


@lru_cache(maxsize=2)
def _own_rules(entropy: bool) -> _Own:
    rules = (*shapes.RULES, *split.RULES, *context.RULES, *prose.RULES, *((context.ENTROPY,) if entropy else ()))
    gate = compile_pattern("|".join(f"(?:{rule.gate.decode()})" for rule in rules), memory=64 << 20)
    options = re2.Options()
    options.max_mem = 64 << 20
    options.log_errors = False
    choose = re2.Set.MatchSet(options)
    for rule in rules:
        choose.Add(rule.gate)
    choose.Compile()
    return _Own(gate, choose, rules)


def _user_patterns(setting: str, patterns: Sequence[str]) -> tuple[Pattern, ...]:
    compiled = []
    for number, pattern in enumerate(patterns, start=1):
        try:
            compiled.append(compile_pattern(pattern))
        except re2.error as error:
            reason = error.args[0].decode("utf-8", "replace") if error.args else "not valid"
            raise SettingsError(
                f"Setting redact.{setting}, pattern {number}, is not a pattern of the RE2 kind: {reason}.",
                hint="Look-around and back-references are not supported; put the pattern in other words.",
            ) from None
    return tuple(compiled)


def _all(pattern: Pattern, data: bytes) -> Iterator[Span]:
    position = 0
    while (match := pattern.search(data, position)) is not None:
        if match.end() > match.start():
            yield match.span()
        position = max(match.end(), match.start() + 1)
        if position > len(data):
            return


# -- texts joined, hits taken apart -----------------------------------------------------------------------


def _joined(texts: Sequence[str]) -> tuple[bytes, list[int]]:
    """All texts as one run of bytes with separators between, and where each begins."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    starts, at = [], 0
    for part in encoded:
        starts.append(at)
        at += len(part) + len(_JOIN)
    return _JOIN.join(encoded), starts


def _parts(data: bytes, starts: Sequence[int]) -> Iterator[bytes]:
    if not starts:
        return iter(())
    ends = [*(start - len(_JOIN) for start in starts[1:]), len(data)]
    return (data[start:end] for start, end in zip(starts, ends, strict=True))


def _by_part(starts: Sequence[int], hits: Sequence[_Hit]) -> Iterator[list[_Hit]]:
    """The hits of each text, relative to its start; one that reaches into the next text is a hit of both."""
    found: list[list[_Hit]] = [[] for _ in starts]
    for hit in hits:
        first = max(bisect_right(starts, hit.start) - 1, 0)
        last = max(bisect_right(starts, hit.end - 1) - 1, first)
        for index in range(first, last + 1):
            base = starts[index]
            limit = starts[index + 1] - len(_JOIN) if index + 1 < len(starts) else hit.end
            start, end = max(hit.start, base), min(hit.end, limit)
            if start < end:
                found[index].append(_Hit(start - base, end - base, hit.rank, hit.rule))
    return iter(found)


def _whole(data: bytes, hit: _Hit) -> _Hit:
    """The hit with the characters it begins and ends in: a pattern counts bytes, and a bound on how many may lie
    inside of a character."""
    start, end = hit.start, hit.end
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return hit if (start, end) == (hit.start, hit.end) else _Hit(start, end, hit.rank, hit.rule)


def _merged(hits: list[_Hit]) -> list[_Hit]:
    """In order, overlapping ones made one that bears the name of the strongest."""
    merged: list[_Hit] = []
    for hit in sorted(hits):
        if merged and hit.start < merged[-1].end:
            last = merged[-1]
            rank, name = min((last.rank, last.rule), (hit.rank, hit.rule))
            merged[-1] = _Hit(last.start, max(last.end, hit.end), rank, name)
        else:
            merged.append(hit)
    return merged


def _assemble(raw: bytes, hits: Sequence[_Hit], start: int, end: int) -> str:
    """`raw[start:end]` with the hits replaced, those that reach over an edge included."""
    pieces, at = [], start
    for hit in hits:
        pieces.append(raw[at : max(at, hit.start)])
        pieces.append(b"[redacted:%s]" % hit.rule.encode())
        at = max(at, hit.end)
    pieces.append(raw[at : max(at, end)])
    return b"".join(pieces).decode("utf-8", "surrogatepass")


def _replaced(data: bytes, starts: Sequence[int], hits: Sequence[_Hit]) -> Iterator[str | None]:
    """Each text with its hits replaced; None where it has none."""
    for raw, inside in zip(_parts(data, starts), _by_part(starts, hits), strict=True):
        yield _assemble(raw, inside, 0, len(raw)) if inside else None
