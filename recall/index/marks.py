"""Where a question's words stand in a text, so that they can be shown; and the stretch of a long text worth showing."""

from __future__ import annotations

from collections.abc import Collection

from recall.index import words

SHOWN = 320
"""Code points of an excerpt."""
_ELLIPSIS = "…"


def spans(text: str, terms: Collection[str]) -> list[tuple[int, int]]:
    """Begin and end of every stretch that says one of the terms, in order, without overlaps. A part of an identifier
    is marked where the whole was not asked for."""
    wanted = frozenset(terms)
    found: list[tuple[int, int]] = []
    for run in words.runs(text):
        if not run.unspaced:
            hits = [(term.start, term.end) for term in run.terms if term.text in wanted]
        else:
            pairs = [(t.start, t.end) for t in run.terms if len(t.text) > 1 and t.text in wanted]
            hits = pairs or [(t.start, t.end) for t in run.terms if t.text in wanted]
        found += hits
    return _joined(found)


def _joined(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def excerpt(text: str, marked: list[tuple[int, int]], room: int = SHOWN) -> tuple[str, list[tuple[int, int]], bool]:
    """At most `room` code points around the stretch with most marks, the marks in it, and whether it was cut."""
    if len(text) <= room:
        return text, marked, False
    inner = room - 2
    starts = [start for start, _ in marked] or [0]
    best = max(starts, key=lambda begin: (sum(begin <= start < begin + inner for start, _ in marked), -begin))
    begin = max(0, min(best - inner // 8, len(text) - inner))
    end = begin + inner
    head, tail = _ELLIPSIS if begin else "", _ELLIPSIS if end < len(text) else ""
    moved = len(head) - begin
    inside = [
        (max(start, begin) + moved, min(end_, end) + moved) for start, end_ in marked if start < end and end_ > begin
    ]
    return f"{head}{text[begin:end]}{tail}", inside, True
