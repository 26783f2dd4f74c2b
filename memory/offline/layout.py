"""Which lines fit, and the summary's text: whole lines within the byte limit, stable from run to run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from memory import support
from memory.documents import claims, print_summary
from memory.model import HEADINGS, MAX_SUMMARY_BYTES, Claim
from memory.offline.digest import INDEX, PREFERENCES, PROFILE, TIPS, Candidate, proven
from memory.offline.frames import code_for, frame
from memory.offline.proof import clean
from memory.offline.prose import clip
from memory.offline.sources import Source
from memory.offline.subjects import replaces

TARGET_BYTES = 8_000
"""What a first version fills; lines that were published before may go on up to the hard limit."""
HARD_BYTES = MAX_SUMMARY_BYTES - 10
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
        cost = len(f"- {line}\n".encode())
        if self.size + cost > limit or any(_twins(line, other) for other in self.lines):
            return False
        self.lines.append(line)
        self.size += cost
        return True


def compose(lines: list[Candidate], previous: str, sources: Iterable[Source], demands: Demands = Demands()) -> str:
    """The summary. With its own result as `previous` and the same lines it returns the same text [Z074]."""
    known = {source.citation: source for source in sources}
    former = claims(previous) if previous else []
    usable = _adopted([line for line in lines if line.text not in demands.dropped], former, known)
    usable += _surviving(former, usable, known, demands)
    published = {claim.text for claim in former} | demands.kept
    page = _Page()
    target, hard = TARGET_BYTES - demands.shrink_bytes, HARD_BYTES - demands.shrink_bytes
    ranked = sorted(usable, key=lambda line: (not line.pinned, -line.rank, line.section, line.text))
    for line in ranked:
        if line.pinned and not page.add(line, hard):
            page.add(replace(line, text=clip(line.text, max(200, (hard - page.size) // 2))), hard)
    must = [line for line in ranked if not line.pinned and line.text in published]
    rest = [line for line in ranked if not line.pinned and line.text not in published]
    _fill(page, must, rest, target, hard)
    return _print(page.lines)


def _fill(page: _Page, must: list[Candidate], rest: list[Candidate], target: int, hard: int) -> None:
    """Best lines first up to the target; then published lines up to the hard limit, so that none vanishes while there
    is room for it. Where that would push out more than a third of them, they go first."""
    trial = _Page(list(page.lines), page.size)
    for line in sorted([*must, *rest], key=lambda line: (-line.rank, line.section, line.text)):
        trial.add(line, target)
    taken = {line.text for line in trial.lines}
    for line in must:
        if line.text not in taken:
            trial.add(line, hard)
    lost = len(must) - sum(1 for line in trial.lines if line in must)
    if lost * 3 > len(must):
        trial = _Page(list(page.lines), page.size)
        for line in [*must, *rest]:
            trial.add(line, hard)
    page.lines, page.size = trial.lines, trial.size


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
    former: list[Claim], lines: list[Candidate], known: dict[str, Source], demands: Demands
) -> list[Candidate]:
    """Published lines that our own lines do not account for, as far as their sources still prove them."""
    texts = {line.text for line in lines}
    found = []
    for claim in former:
        alive = tuple(name for name in claim.citations if name in known)
        if not alive or claim.text in texts or claim.text in demands.dropped:
            continue
        order = max(known[name].order for name in alive)
        line = Candidate(claim.section, claim.text, alive, _FORMER_RANK.get(claim.section, 50.0), order)
        if claim.text not in demands.kept and any(_accounts_for(other, line, known) for other in lines):
            continue
        if proven(line, known):
            found.append(line)
    return found


def _accounts_for(new: Candidate, old: Candidate, known: dict[str, Source]) -> bool:
    if support.similarity(new.text, old.text) >= SAME_SHARE:
        return True
    cover = support.coverage(old.text, [new.text])
    if set(old.citations) <= set(new.citations) and cover >= MERGED_SHARE:
        return True
    if old.section == INDEX and new.section == INDEX and set(old.citations) <= set(new.citations):
        return True
    newer = any(known[name].order > old.order for name in new.citations if name in known)
    return newer and cover >= SUBJECT_SHARE and replaces(new.text, old.text)
