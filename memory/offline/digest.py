"""Stage 2: from all inputs to the lines of the main summary: merged, later over earlier, each with its sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from memory import support
from memory.model import HEADINGS, SUMMARY_SECTIONS
from memory.offline.book import EVERYWHERE, Book, Entry, Mark
from memory.offline.classify import Kind, classify, has_reason
from memory.offline.frames import code_for, frame, leads, marks
from memory.offline.language import language, weight
from memory.offline.proof import clean, is_fit, stands
from memory.offline.prose import Sentence, clip
from memory.offline.prose import read as read_prose
from memory.offline.sources import Line, Source
from memory.offline.subjects import subject
from memory.offline.trouble import is_setup_error

PROFILE, PREFERENCES, TIPS, INDEX = HEADINGS
_TASK, _PREFERENCES, _DECISIONS, _FAILED, _WORKED, _REFERENCE = SUMMARY_SECTIONS
MAX_CITATIONS = 8
LINE_BYTES = 460
SUBJECT_SHARE = 0.25
"""A replaced line must be recognisable in the one that replaced it, by at least this share of its words."""
SPOKEN_SHARE = 0.5
SUPPORT_SHARE = 0.34
_CORRECTED, _CONFIRMED = leads("corrected"), leads("confirmed")
_LISTING = leads("changed") + leads("used") + leads("reported")
_THEN = marks("then")
_PLAIN_CHECK = re.compile(r"^`(?:(?![&|;=<>])[^`]){3,48}`(?! …)\D{0,20}$")
"""A command short enough to be the usual way to check ("`pnpm test` passed"), not one put together for the day."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line that may go into the summary. `rank` decides who goes first when room is short; `order` is its newest
    source's time; `pinned` is never left out."""

    section: str
    text: str
    citations: tuple[str, ...]
    rank: float
    order: str
    pinned: bool = False

    def __str__(self) -> str:
        return f"{self.text} {' '.join(f'[{citation}]' for citation in self.citations)}"


def candidates(sources: list[Source]) -> tuple[list[Candidate], dict[str, list[str]]]:
    """Every line the inputs support under the first three headings, and by citation what each source said that a
    later one replaced.

    Depends on the inputs alone: the same inputs give the same lines [Z074]. Linear in them: statements meet by an
    index, each with a bounded number of others."""
    by_time = sorted(sources, key=lambda source: (source.order, source.citation))
    book = Book(_fuller)
    for source in by_time:
        for entry in _entries(source):
            book.add(entry)
    known = {source.citation: source for source in by_time}
    age = {source.citation: place / max(1, len(by_time)) for place, source in enumerate(by_time)}
    _confirm(book, by_time)
    _unify_checks(book)
    found = [line for entry in book.all() if (line := _line(entry, known, age)) is not None]
    return _without_repeats(_spread(found)), _overtaken(book)


def _overtaken(book: Book) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for entry in book.all():
        for former in entry.former:
            for mark in former.marks:
                found.setdefault(mark.name, []).append(former.text)
    return found


def _confirm(book: Book, by_time: list[Source]) -> None:
    """A record in which the person confirmed a preferred tool ("yes, Vitest is right") supports that preference too."""
    preferring: dict[tuple[str, str], list[int]] = {}
    for place, entry in book.entries.items():
        if entry.section == PREFERENCES:
            for value in subject(entry.text).wants:
                preferring.setdefault(value, []).append(place)
    for source in by_time:
        for line in source.lines.get(_WORKED, ()):
            if not (line.spoken and line.text.startswith(_CONFIRMED)):
                continue
            for value in sorted(subject(line.text).wants):
                for place in preferring.get(value, ())[-1:]:
                    entry = book.entries[place]
                    if source.scope in entry.scopes:
                        mark = Mark(source.citation, source.scope, confirms=True)
                        book.entries[place] = replace(entry, marks=tuple(dict.fromkeys([*entry.marks, mark])))


def _unify_checks(book: Book) -> None:
    """One line for one check of one project, whatever language its record was in."""
    seen: dict[tuple[str, frozenset[str]], int] = {}
    for place in sorted(book.entries):
        entry = book.entries[place]
        if entry.section != TIPS or not _PLAIN_CHECK.match(entry.text):
            continue
        key = (entry.text.split("`")[1], entry.scopes)
        first = seen.setdefault(key, place)
        if first != place:
            old = book.entries[first]
            book.entries[first] = replace(old, marks=tuple(dict.fromkeys([*old.marks, *entry.marks])))
            del book.entries[place]


def _spread(lines: list[Candidate]) -> list[Candidate]:
    """Ranks the third and further tips of one source lower and lower: one long session must not fill the file."""
    seen: dict[str, int] = {}
    found = []
    for line in sorted(lines, key=lambda line: (-line.rank, line.section, line.text)):
        if line.section == TIPS and not line.pinned:
            source = line.citations[0]
            seen[source] = seen.get(source, 0) + 1
            line = replace(line, rank=line.rank - 5.0 * max(0, seen[source] - 2))
        found.append(line)
    return found


# -- what a source claims --------------------------------------------------------------------------------


def _entries(source: Source) -> Iterable[Entry]:
    """The claims of one input with their section and weight: 4 pinned, 3 asked for, 2 stated, 1 by its form, 0 seen."""
    if source.row.is_note:
        for line in source.lines.get("", ()):
            if not line.spoken:  # an agent's own words: a fact at most
                yield _entry(source, line.text, TIPS, 1)
                continue
            section, _, _ = _kind_section(line.text)
            yield _entry(source, line.text, section, 4 if source.row.pinned else 3, fixed=source.row.pinned)
        return
    for line in source.lines.get(_PREFERENCES, ()):
        if line.spoken:
            section, strength, everywhere = _kind_section(line.text)
            yield _entry(source, line.text, section, strength, everywhere=everywhere)
    for name in (_DECISIONS, _FAILED, _REFERENCE, _WORKED):
        for line in source.lines.get(name, ()):
            rank = _weight_of_tip(name, line)
            if rank is not None:
                yield _entry(source, line.text, TIPS, rank)


def _weight_of_tip(name: str, line: Line) -> int | None:
    """How much a line of a record helps later; None where it stays in the record alone."""
    if name == _DECISIONS:
        return _weight_of_decision(line)
    if name == _FAILED:
        return 1 if any(mark in line.text for mark in _THEN) else 0 if is_setup_error(line.text) else None
    if name == _REFERENCE:
        return None if line.text.startswith(_LISTING) else 2 if line.spoken else 1
    return 0 if _PLAIN_CHECK.match(line.text) else None


def _entry(
    source: Source, text: str, section: str, strength: int, *, everywhere: bool = False, fixed: bool = False
) -> Entry:
    scope = EVERYWHERE if everywhere else source.scope
    return Entry(clean(text), section, strength, (Mark(source.citation, scope),), fixed=fixed)


def _kind_section(text: str) -> tuple[str, int, bool]:
    """Where a person's statement belongs, how strong it is, and whether it holds for all projects."""
    sentence = next(iter(read_prose(text).sentences), Sentence(text, text))
    finding = classify(sentence, hint=language(text) or "en")
    section = PROFILE if finding.kind is Kind.PROFILE else PREFERENCES
    return section, max(1, finding.strength), finding.everywhere


def _weight_of_decision(line: Line) -> int:
    """A correction lasts where it names what is right instead, or why; an answer to a question counts less than a
    decision in the person's own words."""
    if line.text.startswith(_CORRECTED):
        about = subject(line.text)
        lasting = about.rejects or about.rejected_numbers or has_reason(line.text)
        return (2 if lasting else 1 if weight(line.text) > 90 else 0) if line.spoken else 0
    return 2 if line.spoken and " — " not in line.text else 1


def _fuller(old: Entry, new: Entry) -> Entry:
    """Of two wordings: the pinned, the stronger, then the one that says more; the earlier where they are equal, so
    that repeating a thing never rewrites its line."""
    if old.fixed != new.fixed:
        return new if new.fixed else old
    if old.weight != new.weight:
        return new if new.weight > old.weight else old
    return new if weight(new.text) > 1.3 * weight(old.text) and weight(new.text) <= 240 else old


# -- from claims to lines ---------------------------------------------------------------------------------


def _line(entry: Entry, known: Mapping[str, Source], age: dict[str, float]) -> Candidate | None:
    """The claim with its scope, what it replaced and its sources; None where it cannot be proven from them."""
    code = code_for(entry.text)
    cited = _newest(entry.marks, known)
    text = entry.text if entry.fixed else clip(entry.text, LINE_BYTES)
    former, proofs = _earlier(entry, text, known)
    if former:
        text += frame(code, "earlier", text=former)
    citations = tuple(dict.fromkeys([*cited, *proofs]))
    order = max((known[name].order for name in citations), default="")
    recency = max((age[name] for name in citations), default=0.0)
    support_count = len({mark.name for mark in entry.marks})
    rank = _RANK[entry.section][min(entry.weight, 4)] + 4 * recency + 2 * min(4, support_count - 1)
    for tongue in dict.fromkeys([code, "zh"]):
        line = Candidate(entry.section, _scoped(text, entry, known, tongue), citations, rank, order, pinned=entry.fixed)
        if entry.fixed or proven(line, known):
            return line
    return None


_RANK = {
    PROFILE: (70.0, 80.0, 84.0, 88.0, 100.0),
    PREFERENCES: (60.0, 68.0, 78.0, 88.0, 100.0),
    TIPS: (30.0, 46.0, 60.0, 86.0, 100.0),
    INDEX: (40.0, 40.0, 40.0, 40.0, 40.0),
}
"""By section and weight (see `_entries`): a person's rules before decisions, these before what was seen to work."""


def _newest(marked: Iterable[Mark], known: Mapping[str, Source]) -> list[str]:
    """The citations of the newest sources that state it, newest first, then of those that confirm it; bounded."""
    stating = {mark.name: not mark.confirms for mark in marked if mark.name in known}
    ranked = sorted(stating, key=lambda name: (stating[name], known[name].order, name), reverse=True)
    return ranked[:MAX_CITATIONS]


def _scoped(text: str, entry: Entry, known: Mapping[str, Source], code: str) -> str:
    """A claim that one project supports names it; one of several projects, or declared general, stands alone [X25]."""
    scopes = entry.scopes - {""}
    if EVERYWHERE in scopes or len(scopes) != 1:
        return text
    name = next((known[mark.name].name for mark in entry.marks if mark.name in known), "")
    if not name or name == "unknown" or "`" in name:
        return text
    return frame(code if code in {"zh", "ja"} else "en", "scope", project=name, text=text)


def _earlier(entry: Entry, text: str, known: Mapping[str, Source]) -> tuple[str, list[str]]:
    """What the claim replaced, in a word, where the claim itself does not show it; with a source that said so."""
    if not entry.former:
        return "", []
    old = entry.former[-1]
    if support.coverage(old.text, [text]) >= SUBJECT_SHARE:
        return "", []
    short = ", ".join(_old_values(old.text, text)) or clip(old.text, 90)
    if support.coverage(old.text, [f"{text} {short}"]) < SUBJECT_SHARE:
        short = clip(old.text, 120)
    return short.rstrip(" .。"), _newest(old.marks, known)[:1]


def _old_values(old: str, new: str) -> list[str]:
    """The values of the old statement that the new one changed, as they were written."""
    was, now = subject(old), subject(new)
    families = {family for family, _ in now.wants | now.rejects}
    values = {value for family, value in was.wants - now.wants if family in families} | {
        value for _, value in was.numbers - now.numbers
    }
    return [
        match[0]
        for match in re.finditer(r"[A-Za-z0-9][\w.+#-]*[A-Za-z0-9+#]|\d", old, re.ASCII)
        if match[0].lower() in values
    ]


def proven(line: Candidate, known: Mapping[str, Source]) -> bool:
    """Whether the line's sources carry it: names to the letter, words of each sentence to a share, rules by a
    person's words."""
    cited = [known[name] for name in line.citations if name in known]
    if not cited or not is_fit(line.text) or not stands(line.text, [source.proof for source in cited]):
        return False
    words = frozenset().union(*(source.terms for source in cited))
    spoken = frozenset().union(*(source.spoken_terms for source in cited))
    return all(
        _share(sentence, words) >= SUPPORT_SHARE
        and (not _is_rule(sentence, line.section) or _share(sentence, spoken) >= SPOKEN_SHARE)
        for sentence in support.sentences(_without_scope(line.text))
    )


def _is_rule(sentence: str, section: str) -> bool:
    personal = section in (PROFILE, PREFERENCES) and len(support.terms(sentence)) >= 2
    return personal or support.is_instruction(sentence)


def _share(sentence: str, words: frozenset[str]) -> float:
    wanted = support.terms(sentence)
    return len(wanted & words) / len(wanted) if wanted else 1.0


def _without_scope(text: str) -> str:
    return re.sub(r"^(?:In|在)\s*`[^`]+`\s*(?:中)?[:：,，]\s*", "", text)


def _without_repeats(lines: list[Candidate]) -> list[Candidate]:
    """Near twins that differ only in their scope or source are one line: the higher ranked keeps its words and takes
    the other's citations."""
    best: dict[tuple[str, frozenset[str]], int] = {}
    kept: list[Candidate] = []
    for line in sorted(lines, key=lambda line: (-line.rank, line.section, line.text)):
        key = (line.section, support.terms(line.text))
        if key in best and not line.pinned:
            first = kept[best[key]]
            joined = tuple(dict.fromkeys([*first.citations, *line.citations]))[:MAX_CITATIONS]
            kept[best[key]] = replace(first, citations=joined)
        else:
            best.setdefault(key, len(kept))
            kept.append(line)
    return kept
