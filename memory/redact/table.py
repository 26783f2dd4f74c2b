"""What a rule is. Patterns are RE2: no look-around, no back-references, time linear in the text whatever it holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import re2  # type: ignore[import-untyped]

Span = tuple[int, int]
"""Byte offsets of a secret: start, end (exclusive)."""


class RawMatch(Protocol):
    """The part of an RE2 match that is used; groups by number, offsets in bytes."""

    def start(self, group: int = 0) -> int: ...
    def end(self, group: int = 0) -> int: ...
    def span(self, group: int = 0) -> Span: ...


class Pattern(Protocol):
    """A compiled RE2 pattern over bytes."""

    @property
    def groupindex(self) -> dict[bytes, int]: ...
    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> RawMatch | None: ...
    def match(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> RawMatch | None: ...


class Match:
    """A match whose groups have names. Offsets are bytes of the whole data; -1 where a group took no part."""

    __slots__ = ("_data", "_names", "_raw")

    def __init__(self, data: bytes, raw: RawMatch, names: dict[str, int]) -> None:
        self._data, self._raw, self._names = data, raw, names

    def span(self, group: str = "") -> Span:
        return self._raw.span(self._names[group])

    def start(self, group: str = "") -> int:
        return self.span(group)[0]

    def end(self, group: str = "") -> int:
        return self.span(group)[1]

    def group(self, group: str = "") -> bytes | None:
        start, end = self.span(group)
        return None if start < 0 else self._data[start:end]


Judge = Callable[[bytes, Match], Span | None]
"""Sees the whole data and the match of `full`; gives the span of the secret, or None where it is none."""

SEPARATOR = b"\x1e"
"""Stands between texts that are scanned as one; no secret reaches over it."""
WINDOW = 512
"""Bytes that `full` may look at from where the gate matched: the bound that keeps the whole pass linear. A value that
reaches its end is followed to its own end."""


_REST = re.compile(rb"[^\s\"'`\x1e]*")


@dataclass(frozen=True, slots=True)
class Rule:
    """`gate` finds where to look (all gates are one pattern, one pass); `full` is matched there, `judge` decides.

    `rank` breaks ties between rules that overlap: the smaller names the finding.
    """

    name: str
    gate: bytes
    full: Pattern
    judge: Judge
    rank: int

    def find(self, data: bytes, start: int) -> Span | None:
        """The secret of a candidate that begins at byte `start`, None where it is none."""
        limit = min(len(data), start + WINDOW)
        stop = data.find(SEPARATOR, start, limit)
        raw = self.full.match(data, start, limit if stop < 0 else max(stop - 1, start))
        if raw is None:
            return None
        names = {name.decode(): number for name, number in self.full.groupindex.items()}
        span = self.judge(data, Match(data, raw, {"": 0, **names}))
        if span is not None and span[1] == start + WINDOW:
            rest = _REST.match(data, span[1])
            span = span[0], rest.end() if rest else span[1]
        return span


def group_s(data: bytes, match: Match) -> Span | None:
    """The judge of shapes that are secrets whatever stands around them: the span of group `s`."""
    return match.span("s")


_JUDGED = 160


def text_at(data: bytes, span: Span) -> str:
    """The first 160 bytes of a span as text: a secret shows itself there, and a judge must be cheap."""
    return data[span[0] : min(span[1], span[0] + _JUDGED)].decode("utf-8", "replace")


def compile_pattern(pattern: str, *, memory: int = 8 << 20) -> Pattern:
    """Compiled over UTF-8 bytes. `memory` bounds the automaton's cache, in bytes. Raises re2.error."""
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    compiled: Pattern = re2.compile(pattern.encode(), options)
    return compiled


def rule(name: str, gate: str, full: str, judge: Judge = group_s, *, rank: int = 2) -> Rule:
    """A rule from its patterns as text; an empty `gate` means `full` without its groups' names."""
    return Rule(name, (gate or full.replace("(?P<s>", "(?:")).encode(), compile_pattern(full), judge, rank)
