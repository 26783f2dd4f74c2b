"""Which lines fit, and the summary's text: whole lines within the byte limit, stable from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from memory import support
from memory.documents import claims, print_summary
from memory.model import HEADINGS, MAX_SUMMARY_BYTES, Claim
from memory.offline.contents import bare
from memory.offline.digest import INDEX, MAX_CITATIONS, PREFERENCES, PROFILE, TIPS, Candidate, proven
from memory.offline.frames import code_for, frame
from memory.offline.proof import clean
from memory.offline.prose import clip
from memory.offline.sources import Source
from memory.offline.subjects import replaces

TARGET_BYTES = 8_000
"""What a first version fills; lines that were published before may go on up to the hard limit."""
HARD_BYTES = MAX_SUMMARY_BYTES - 10
OTHERS_BYTES = 4_400
"""Kept free from the index for everything else."""
INDEX_BYTES = 4_200
"""For lines of the index with titles; the bare mention of the other sources may take more."""
SAME_SHARE, MERGED_SHARE, SUBJECT_SHARE, DUPLICATE_SHARE = 0.6, 0.34, 0.25, 0.8
"""The measures by which a published line counts as still said, taken up, replaced or said twice (see the gate)."""
_FORMER_RANK = {PROFILE: 82.0, PREFERENCES: 76.0, TIPS: 56.0, INDEX: 40.0}


@dataclass(frozen=True, slots=True)
class Demands:
    """What the gate asked for in earlier rounds: texts to leave out, texts to keep, notes to show whole."""

    dropped: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    shrink_bytes: int = 0


@dataclass(slots=True)
class _Page:
    """Lines chosen so far and the bytes they take."""

    lines: list[Candidate] = field(default_factory=list)
    size: int = len(print_summary({}).encode())

    def add(self, line: Candidate, limit: int) -> bool:
        cost = _cost(line)
        if self.size + cost > limit or any(_twins(line, other) for other in self.lines):
            return False
        self.lines.append(line)
        self.size += cost
        return True

    def join(self, line: Candidate, limit: int, *, most: int = MAX_CITATIONS) -> None:
        """Gives the line's citations, up to `most` in all, to the one on the page that says the same."""
        place = next((place for place, other in enumerate(self.lines) if _twins(line, other)), None)
        if place is None:
            return
        old = self.lines[place]
        new = replace(old, citations=tuple(dict.fromkeys([*old.citations, *line.citations])))
        if len(new.citations) <= most and self.size + _cost(new) - _cost(old) <= limit:
            self.lines[place] = new
            self.size += _cost(new) - _cost(old)


def compose(lines: list[Candidate], previous: str, sources: Iterable[Source], demands: Demands = Demands()) -> str:
    """The summary. With its own result as `previous` and the same lines it returns the same text [Z074].

    Order of claims on the room: pinned notes, one line at least for every source, then the best lines.
    """
    known = {source.citation: source for source in sources}
    former = claims(previous) if previous else []
    usable = _adopted([line for line in lines if line.text not in demands.dropped], former, known)
    usable += _surviving(former, usable, known, demands)
    published = {claim.text for claim in former} | demands.kept
    target, hard = TARGET_BYTES - demands.shrink_bytes, HARD_BYTES - demands.shrink_bytes
    ranked = sorted(usable, key=lambda line: (-line.rank, line.section, line.text))
    page = _Page()
    for line in ranked:
        if line.pinned and not page.add(line, hard):
            page.add(replace(line, text=clip(line.text, max(200, (hard - page.size) // 2))), hard)
    others = [line for line in ranked if not line.pinned and line.section != INDEX]
    wanted = min(OTHERS_BYTES - demands.shrink_bytes, sum(_cost(line) for line in others))
    _list_sources(page, [line for line in ranked if line.section == INDEX], known, max(page.size, hard - wanted))
    _fill(page, others, published, max(target, min(hard, page.size + wanted)), hard)
    _name_the_rest(page, known, hard)
    return _print(page.lines)


def _list_sources(page: _Page, index: list[Candidate], known: Mapping[str, Source], limit: int) -> None:
    """The index within its share of the room; sources without a line of their own are named as shortly as can be."""
    room = min(limit, page.size + INDEX_BYTES)
    for line in index:
        if not page.add(line, room):
            page.join(line, room)
    _name_the_rest(page, known, limit)


def _name_the_rest(page: _Page, known: Mapping[str, Source], limit: int) -> None:
    named = {citation for line in page.lines for citation in line.citations}
    for line in bare(source for name, source in known.items() if name not in named):
        if not page.add(line, limit):
            # Many sessions of one project and day are named alike: one line names them all.
            page.join(line, limit, most=len(known))


def _fill(page: _Page, lines: list[Candidate], published: set[str], target: int, hard: int) -> None:
    """Best lines first up to the target; then published lines up to the hard limit, so that none vanishes while there
    is room for it. Where that would push out more than a third of them, they go first."""
    trial = _Page(list(page.lines), page.size)
    must = [line for line in lines if line.text in published]
    for line in lines:
        trial.add(line, target)
    taken = {line.text for line in trial.lines}
    for line in must:
        if line.text not in taken:
            trial.add(line, hard)
    kept = {line.text for line in trial.lines}
    if 3 * sum(1 for line in must if line.text not in kept) > len(must):
        trial = _Page(list(page.lines), page.size)
        for line in [*must, *(line for line in lines if line.text not in published)]:
            trial.add(line, hard)
    page.lines, page.size = trial.lines, trial.size


def _cost(line: Candidate) -> int:
    return len(f"- {line}\n".encode())


def _twins(left: Candidate, right: Candidate) -> bool:
    if left.section != right.section or left.pinned:
        return False
    if support.similarity(left.text, right.text) < DUPLICATE_SHARE:
        return False
    return _names(left.text) == _names(right.text)


def _names(text: str) -> frozenset[str]:
    return frozenset(support.normalise(name) for name in support.identifiers(text))


def _print(lines: list[Candidate]) -> str:
    """Sections in order; inside one the index newest first, the rest by rank, so that equal inputs give equal bytes."""
    by_section: dict[str, list[str]] = {}
    for heading in HEADINGS:
        mine = [line for line in lines if line.section == heading]
        if heading == INDEX:
            mine.sort(key=lambda line: line.text)
            mine.sort(key=lambda line: line.order, reverse=True)
        else:
            mine.sort(key=lambda line: (not line.pinned, -round(line.rank // 8), line.text))
        by_section[heading] = [clean_line(line) for line in mine]
    return print_summary(by_section)


def clean_line(line: Candidate) -> str:
    return f"{clean(line.text)} {' '.join(f'[{citation}]' for citation in line.citations)}"


# -- lines published before --------------------------------------------------------------------------------


def _adopted(lines: list[Candidate], former: list[Claim], known: dict[str, Source]) -> list[Candidate]:
    """A published line that differs from one of ours only by the word about what it replaced stays as it was."""
    by_start = {line.text: place for place, line in enumerate(lines)}
    for claim in former:
        code = code_for(claim.text)
        start = claim.text.split(frame(code, "earlier", text="\0").split("\0")[0], 1)[0]
        place = by_start.get(start)
        if place is None or start == claim.text or lines[place].section != claim.section:
            continue
        alive = [name for name in claim.citations if name in known]
        longer = replace(
            lines[place], text=claim.text, citations=tuple(dict.fromkeys([*lines[place].citations, *alive]))
        )
        if proven(longer, known):
            lines[place] = longer
    return lines


def _surviving(
    former: list[Claim], lines: list[Candidate], known: Mapping[str, Source], demands: Demands
) -> list[Candidate]:
    """Published lines that our own lines do not account for, as far as their sources still prove them."""
    texts = {line.text for line in lines}
    indexed = {citation for line in lines if line.section == INDEX for citation in line.citations}
    found = []
    for claim in former:
        alive = tuple(name for name in claim.citations if name in known)
        if not alive or claim.text in texts or claim.text in demands.dropped:
            continue
        order = max(known[name].order for name in alive)
        line = Candidate(claim.section, claim.text, alive, _FORMER_RANK.get(claim.section, 50.0), order)
        listed = claim.section == INDEX and indexed.issuperset(alive)
        if claim.text not in demands.kept and (listed or any(_accounts_for(other, line, known) for other in lines)):
            continue
        if proven(line, known):
            found.append(line)
    return found


def _accounts_for(new: Candidate, old: Candidate, known: Mapping[str, Source]) -> bool:
    if support.similarity(new.text, old.text) >= SAME_SHARE:
        return True
    cover = support.coverage(old.text, [new.text])
    if set(old.citations) <= set(new.citations) and cover >= MERGED_SHARE:
        return True
    newer = any(known[name].order > old.order for name in new.citations if name in known)
    return newer and cover >= SUBJECT_SHARE and replaces(new.text, old.text)
