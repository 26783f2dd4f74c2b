"""The last section of the summary: which record holds what, newest first, every source findable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memory import support
from memory.offline.digest import INDEX, Candidate, proven
from memory.offline.proof import clean, is_fit, stands
from memory.offline.prose import clip
from memory.offline.sources import Source

SINGLE = 16
"""So many of the newest records have a line of their own; older ones share one by project."""
SHARED = 8
BARE = 12
TITLE_BYTES = 100
SHORT_TITLE_BYTES = 60
TITLE_SHARE = 0.6
"""A title with this share of its words in what was replaced says just that."""
OVERTAKEN = "superseded"
FIRST_RANK, LAST_SINGLE_RANK, SHARED_RANK = 74.0, 40.0, 39.0


def contents(sources: Iterable[Source], overtaken: Mapping[str, list[str]] | None = None) -> list[Candidate]:
    """One line for each of the newest records, then one for every few older ones of a project.

    `overtaken` is by citation what a later record replaced: a title that says it is marked, so that nobody takes it
    for what holds now. Records of one project whose titles start alike share a line. Older groups never change when a
    record is added."""
    known = {source.citation: source for source in sources}
    records = sorted(
        (source for source in known.values() if not source.row.is_note),
        key=lambda source: (source.order, source.citation),
        reverse=True,
    )
    grouped: dict[tuple[str, str], list[Source]] = {}
    for source in records:
        start = support.normalise(clip(source.title, SHORT_TITLE_BYTES)) or source.citation
        grouped.setdefault((source.scope, start), []).append(source)
    newest, older = list(grouped.values())[:SINGLE], list(grouped.values())[SINGLE:]
    found = []
    for place, group in enumerate(newest):
        rank = max(LAST_SINGLE_RANK, FIRST_RANK - 2.0 * place)
        old = _is_overtaken(group[0], overtaken or {})
        found += [
            _single(group[0], tuple(s.citation for s in part), rank, known, old) for part in _parts(group, SHARED)
        ]
    rest = sorted((source for group in older for source in group), key=lambda source: (source.order, source.citation))
    by_project: dict[str, list[Source]] = {}
    for source in rest:
        by_project.setdefault(source.scope, []).append(source)
    for mine in by_project.values():
        found += [_shared(part, known, overtaken or {}) for part in _parts(mine, SHARED)]
    return found


def _is_overtaken(source: Source, overtaken: Mapping[str, list[str]]) -> bool:
    return any(support.coverage(source.title, [text]) >= TITLE_SHARE for text in overtaken.get(source.citation, ()))


def bare(sources: Iterable[Source]) -> list[Candidate]:
    """The shortest lines that name these sources at all: for what has no room for more."""
    by_project: dict[str, list[Source]] = {}
    found = []
    for source in sources:
        if source.row.is_note:
            found.append(Candidate(INDEX, _note_words(source), (source.citation,), SHARED_RANK, source.order))
        else:
            by_project.setdefault(source.scope, []).append(source)
    for mine in by_project.values():
        mine.sort(key=lambda source: (source.order, source.citation), reverse=True)
        for part in _parts(mine, BARE):
            text = f"{_head(part[0])} ({part[0].outcome})"
            found.append(Candidate(INDEX, text, tuple(s.citation for s in part), SHARED_RANK, part[0].order))
    return found


def _note_words(source: Source) -> str:
    """The first words of a note that can be proven from it: `1.2.3` taken apart stands nowhere, and what would make a
    rule of words that no person said is left out."""
    words = [word for word in re.findall(r"[^\W_]+", source.title)[:6] if stands(word, [source.proof])]
    while words:
        line = Candidate(INDEX, " ".join(words), (source.citation,), SHARED_RANK, source.order)
        if proven(line, {source.citation: source}):
            return line.text
        del words[0]
    return "—"


def _single(
    first: Source, citations: tuple[str, ...], rank: float, known: Mapping[str, Source], overtaken: bool = False
) -> Candidate:
    """The best form that can be proven. A title that reads like a rule stands as a sentence of its own, so that it is
    measured against the person's words alone."""
    head, title = _head(first), clip(clean(first.title), TITLE_BYTES)
    outcome = f"{first.outcome}, {OVERTAKEN}" if overtaken else first.outcome
    forms = [f"{head}: {title} ({outcome})", f"{head} ({outcome}); {title}"] if is_fit(title) else []
    lines = (Candidate(INDEX, text, citations, rank, first.order) for text in forms)
    plainest = Candidate(INDEX, f"{head} ({outcome})", citations, rank, first.order)
    return next((line for line in lines if proven(line, known)), plainest)


def _shared(part: list[Source], known: Mapping[str, Source], overtaken: Mapping[str, list[str]]) -> Candidate:
    newest = part[-1]
    citations = tuple(source.citation for source in part)
    if len(part) == 1:
        return _single(newest, citations, SHARED_RANK, known, _is_overtaken(newest, overtaken))
    current = [source for source in reversed(part) if not _is_overtaken(source, overtaken)]
    titles = [clip(clean(source.title), SHORT_TITLE_BYTES) for source in current]
    titles = [title for title in dict.fromkeys(titles) if is_fit(title)]
    for count in (3, 2, 1):
        text = "; ".join([_head(newest), *titles[:count]])
        line = Candidate(INDEX, text, citations, SHARED_RANK, newest.order)
        if titles and proven(line, known):
            return line
    return Candidate(INDEX, f"{_head(newest)} ({newest.outcome})", citations, SHARED_RANK, newest.order)


def _parts(items: list[Source], size: int) -> list[list[Source]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _head(source: Source) -> str:
    return ", ".join(part for part in (f"`{source.name}`" if _named(source) else "", source.day) if part) or "—"


def _named(source: Source) -> bool:
    return bool(source.name) and source.name != "unknown" and "`" not in source.name
