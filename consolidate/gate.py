"""The gate: whether a candidate summary may be published. Pure; every rule named; all violations at once.

The rules are those of ARCHITECTURE.md, "Gate". A rule that needs judgement (is this line supported? has that line only
been reworded?) uses the measures of `memory.support` with the thresholds below; they err towards refusing, because
a refused candidate costs a repair round and an accepted lie costs the user's trust.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from memory import support
from memory.clock import iso
from memory.documents import BULLET, anchors, citations, claims, parse_rollout_summary, sections
from memory.model import ANCHOR, HEADINGS, MAX_SUMMARY_BYTES, Claim, Manifest, Violation
from memory.workspace.notes import AGENT, parse_note

SUPPORT_SHARE = 0.34
"""Least share of a bullet's words that must stand in its cited sources."""
ORDER_SHARE = 0.5
"""Least share of an instruction's words that must stand in what a person said."""
DUPLICATE_SHARE = 0.8
"""Two bullets of one section this alike, with the same identifiers, say the same thing."""
SAME_SHARE = 0.6
"""A former bullet and a new one this alike are one bullet, reworded."""
MERGED_SHARE = 0.34
"""Least share of a former bullet's words in the bullet that is said to have taken it up."""
SUBJECT_SHARE = 0.25
"""Least share of a former bullet's words in the later bullet that is said to replace it."""
PINNED_SHARE = 0.6
"""Least share of a pinned note's words in the bullets that cite it."""
FULL_BYTES = 9_000
"""From this size on, new sources may stay unlisted for lack of room."""
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
INDEX = HEADINGS[3]
PERSONAL = HEADINGS[:2]


@dataclass(frozen=True, slots=True)
class Source:
    """An input as the gate sees it. `spoken` holds the bullets that a person's words support; a note is all spoken.
    `place` names the project a note belongs to, so that a line may say "In `shop`:"; it supports nothing else."""

    citation: str
    text: str
    bullets: tuple[str, ...]
    spoken: tuple[str, ...]
    order: str = ""
    pinned: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a line since the last version: `added`, `removed`, `superseded`, `merged`, `reworded`."""

    kind: str
    text: str
    reason: str
    into: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`violations` empty means the candidate may be published; `changes` tells what it changes."""

    violations: tuple[Violation, ...]
    changes: tuple[Change, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.violations


@dataclass(frozen=True, slots=True)
class Case:
    """What the gate judges. `changed` are citations whose text differs from the last version's input, `fresh` those
    that the last version did not have.

    `secrets` finds secrets in a text (rule names); it is injected so that the gate stays pure.
    """

    candidate: bytes
    manifest: Manifest
    sources: Mapping[str, Source]
    previous: str = ""
    changed: frozenset[str] = frozenset()
    fresh: frozenset[str] = frozenset()
    secrets: Callable[[str], list[str]] = field(default=lambda text: [])


def source_from_rollout(citation: str, text: str) -> Source:
    """A rollout summary file as a source: bullets citing a person's event are spoken. Never raises."""
    try:
        header, body = parse_rollout_summary(text)
    except ValueError:
        return Source(citation, text, (), ())
    human = set(header.human)
    bullets = [bullet for found in sections(body).values() for bullet in found]
    spoken = tuple(bullet for bullet in bullets if human.intersection(anchors(bullet)))
    order = header.ended.isoformat() if header.ended else ""
    # Anchors, hashes and offsets are left out: the "3" of `[e3]` must not prove that something happened 3 times.
    facts = (header.project_name, header.cwd, header.branch, iso(header.started), iso(header.ended), header.slug)
    content = "\n".join([*(fact for fact in facts if fact), header.outcome.value, ANCHOR.sub("", body)])
    return Source(citation, content, tuple(bullets), spoken, order)


def source_from_note(citation: str, text: str, *, order: str = "", pinned: bool = False, project: str = "") -> Source:
    """A note: something a person asked to remember, so all of it is spoken; nothing of it when an agent wrote it of its
    own accord. `project` is the name of its project as the agent is told it."""
    body = FRONT_MATTER.sub("", text, count=1)
    lines = tuple(line.strip() for line in body.split("\n") if line.strip())
    note = parse_note(text)
    place = "\n".join(dict.fromkeys(name for name in (project, note.project) if name))
    return Source(citation, body, lines, () if note.by == AGENT else (body,), order, pinned, place)


def judge(case: Case) -> Verdict:
    """Applies every rule. The candidate is judged as bytes: what would be on disk."""
    text, broken = _decode(case.candidate)
    if text is None:
        return Verdict(tuple(broken))
    found = broken + list(_form(text, len(case.candidate)))
    bullets = claims(text)
    for claim in bullets:
        found += _sources_of(claim, case)
        found += _content_of(claim, case)
    found += _duplicates(bullets)
    found += _pinned(bullets, case)
    found += _unlisted(bullets, case, len(case.candidate))
    lost, changes = _shrink(bullets, case, len(case.candidate))
    found += lost
    found += [Violation("secret", f"The text holds a secret ({rule}).") for rule in sorted(set(case.secrets(text)))]
    return Verdict(tuple(sorted(found, key=lambda v: (v.line, v.rule))), tuple(changes))


# -- form ---------------------------------------------------------------------------------------------


def _decode(candidate: bytes) -> tuple[str | None, list[Violation]]:
    if candidate.startswith(b"\xef\xbb\xbf"):
        return None, [Violation("bom", "The file starts with a byte order mark; remove it.", 1)]
    try:
        text = candidate.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        return None, [Violation("utf8", f"Byte {error.start} is not valid UTF-8.")]
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if any(unicodedata.category(char) in {"Cc", "Cs", "Co"} or char in "\u2028\u2029\ufeff" for char in line):
            found.append(Violation("control", "The line holds a control character (NUL, tab, CR, escape ...).", number))
        elif any(unicodedata.category(char) == "Cf" and char not in "\u200c\u200d" for char in line):
            found.append(Violation("hidden", "The line holds invisible or direction-changing characters.", number))
    return text, found


def _form(text: str, size: int) -> Iterator[Violation]:
    lines = text.split("\n")
    if size >= MAX_SUMMARY_BYTES:
        yield Violation(
            "size", f"{size} bytes; the summary must have fewer than {MAX_SUMMARY_BYTES}. Shorten or merge."
        )
    if not text.strip():
        yield Violation("empty", "The file is empty.")
        return
    if lines[0] != "v1":
        yield Violation("first_line", "The first line must be exactly: v1", 1)
    if not text.endswith("\n"):
        yield Violation("last_line", "The file must end with a newline.", len(lines))
    yield from _headings(lines)
    bullet_before = False
    for number, line in enumerate(lines[1:], start=2):
        if not line or line in HEADINGS:
            bullet_before = False
        elif BULLET.match(line) or (bullet_before and line.startswith("  ") and line.strip()):
            bullet_before = True
        else:
            yield Violation("stray_text", "Only the four headings, blank lines and `- ` bullets are allowed.", number)
        if support.is_refusal(line):
            yield Violation("refusal", "The line is a refusal or an apology, not memory.", number)
        if support.has_role_marker(line):
            yield Violation("role_marker", "The line imitates a chat role or a system tag.", number)
        if support.has_fence(line):
            yield Violation("fence", "Code fences and slowwave tags are not allowed in a summary.", number)


def _headings(lines: list[str]) -> Iterator[Violation]:
    places = [(line, number) for number, line in enumerate(lines, start=1) if line in HEADINGS]
    for heading in HEADINGS:
        count = sum(1 for line, _ in places if line == heading)
        if count != 1:
            yield Violation("headings", f"The heading `{heading}` must stand exactly once; it stands {count} times.")
    order = [line for line, _ in places]
    if sorted(order) == sorted(HEADINGS) and order != list(HEADINGS):
        yield Violation("headings", "The headings must be in this order: " + ", ".join(HEADINGS))
    first_bullet = next((n for n, line in enumerate(lines, start=1) if BULLET.match(line)), 0)
    if first_bullet and places and first_bullet < places[0][1]:
        yield Violation("headings", "A bullet stands before the first heading.", first_bullet)


# -- each bullet --------------------------------------------------------------------------------------


def _sources_of(claim: Claim, case: Case) -> Iterator[Violation]:
    known = case.sources
    if not claim.citations:
        yield Violation(
            "uncited", "The bullet cites no source; end it with [<citation>] of this run's inputs.", claim.line
        )
    for citation in claim.citations:
        if citation in case.manifest.removed:
            yield Violation(
                "removed_source", f"[{citation}] was removed or forgotten; drop what only it says.", claim.line
            )
        elif citation not in known:
            yield Violation("unknown_source", f"[{citation}] is not an input of this run.", claim.line)


def _content_of(claim: Claim, case: Case) -> Iterator[Violation]:
    cited = [case.sources[citation] for citation in claim.citations if citation in case.sources]
    if not cited:
        return
    texts = [source.text for source in cited]
    named = [f"{source.text}\n{source.place}" for source in cited]
    for identifier in support.identifiers(claim.text):
        if not any(support.stands_in(identifier, text) for text in named):
            yield Violation("unsupported_quote", f"`{identifier}` does not stand in a cited source.", claim.line)
    for count in support.counts(claim.text):
        if count != len(claim.citations) and not any(support.stands_in(str(count), text) for text in texts):
            yield Violation("wrong_count", f"The bullet counts {count} but cites {len(claim.citations)}.", claim.line)
    spoken = [bullet for source in cited for bullet in source.spoken]
    # Sentence by sentence: a supported one must not carry an invented one along.
    for sentence in support.sentences(_without_scope(claim.text)):
        share = support.coverage(sentence, texts)
        if share < SUPPORT_SHARE:
            message = f"Only {share:.0%} of the words of «{_clip(sentence, 60)}» stand in the cited sources."
            yield Violation("unsupported_text", message, claim.line)
        ordering = support.is_instruction(sentence)
        if not ordering and (claim.section not in PERSONAL or len(support.terms(sentence)) < 2):
            continue
        if claim.section == INDEX and not ordering:
            continue
        if support.coverage(sentence, spoken) < ORDER_SHARE:
            yield Violation(
                "untrusted_instruction",
                "A preference or instruction must rest on the user's words, not on tool output or an agent's alone.",
                claim.line,
            )


def supported(claim: Claim, sources: Mapping[str, Source]) -> bool:
    """Whether a claim, as it stands, is proven by the sources it cites; for changes that no model makes."""
    case = Case(b"", Manifest("", ()), sources)
    return not any(True for _ in _sources_of(claim, case)) and not any(True for _ in _content_of(claim, case))


def _without_scope(text: str) -> str:
    """`In `shop`: use tabs` -> `use tabs`."""
    return re.sub(r"^(?:In|在)\s*`[^`]+`\s*(?:中)?[:：,，]\s*", "", text)


def _duplicates(bullets: list[Claim]) -> Iterator[Violation]:
    """Pairs that share a rare enough word only; measured, not all pairs of a long file."""
    for place, claim in enumerate(bullets):
        for other in bullets[:place]:
            if other.section != claim.section or not support.terms(claim.text) & support.terms(other.text):
                continue
            alike = support.similarity(claim.text, other.text)
            if alike >= DUPLICATE_SHARE and _marks(claim) == _marks(other):
                message = f"Says the same as line {other.line}; merge them and keep all citations."
                yield Violation("near_duplicate", message, claim.line)
                break


def _marks(claim: Claim) -> frozenset[str]:
    return frozenset(support.normalise(item) for item in support.identifiers(claim.text))


def _pinned(bullets: list[Claim], case: Case) -> Iterator[Violation]:
    for source in case.sources.values():
        if not source.pinned:
            continue
        mine = [claim.text for claim in bullets if source.citation in claim.citations]
        if support.coverage(source.text, mine) < PINNED_SHARE:
            yield Violation("pinned_missing", f"The pinned note [{source.citation}] must be present in the summary.")


def _unlisted(bullets: list[Claim], case: Case, size: int) -> Iterator[Violation]:
    """A new source that no line cites was not consolidated, whatever the model says [M4 O41 X11]."""
    if size >= FULL_BYTES:
        return
    known = {citation for claim in bullets for citation in claim.citations}
    for citation in sorted(case.fresh - known):
        message = f"The new source [{citation}] is cited nowhere; list it at least under {INDEX}."
        yield Violation("source_unlisted", message)


# -- what vanished --------------------------------------------------------------------------------------


def _shrink(bullets: list[Claim], case: Case, size: int) -> tuple[list[Violation], list[Change]]:
    """A bullet may vanish only for a reason that can be named [M45 X44]."""
    former = claims(case.previous) if case.previous else []
    taken = {claim.line for claim in bullets if any(_same(old, claim) for old in former)}
    changes = [Change("added", claim.text, "new") for claim in bullets if claim.line not in taken]
    lost: list[Claim] = []
    for old in former:
        change = _fate(old, bullets, case)
        if change is None:
            lost.append(old)
        elif change.kind != "kept":
            changes.append(change)
    if not lost:
        return [], changes
    room = MAX_SUMMARY_BYTES - size
    if room < min(len(f"- {old.text} [00000000]\n".encode()) for old in lost) and len(lost) * 3 <= len(former):
        changes += [Change("removed", old.text, "no room") for old in lost]
        return [], changes
    reason = "vanished although its sources are still inputs; keep it, or merge it into a bullet that cites them"
    found = [Violation("shrink", f"A line of the confirmed summary {reason}: «{_clip(old.text)}»") for old in lost]
    return found, changes


def _same(old: Claim, new: Claim) -> bool:
    return old.text == new.text or support.similarity(old.text, new.text) >= SAME_SHARE


def _fate(old: Claim, bullets: list[Claim], case: Case) -> Change | None:
    """What became of a former bullet; None when nothing explains its absence."""
    for new in bullets:
        if old.text == new.text:
            return Change("kept", old.text, "")
    alive = [citation for citation in old.citations if citation in case.sources]
    if not alive:
        return Change("removed", old.text, "all its sources went")
    best = max(bullets, key=lambda new: support.similarity(old.text, new.text), default=None)
    if best is not None and _same(old, best):
        return Change("reworded", old.text, "", best.text)
    for new in bullets:
        if set(alive) <= set(new.citations) and support.coverage(old.text, [new.text]) >= MERGED_SHARE:
            return Change("merged", old.text, "taken up by a line with the same sources", new.text)
    if old.section == INDEX and all(any(c in new.citations for new in bullets) for c in alive):
        return Change("merged", old.text, "its sources are still listed")
    newest = max((case.sources[citation].order for citation in alive), default="")
    for new in bullets:
        later = [c for c in new.citations if c in case.sources and case.sources[c].order > newest]
        if (later or set(new.citations) & case.changed) and support.coverage(old.text, [new.text]) >= SUBJECT_SHARE:
            return Change(
                "superseded", old.text, f"a later source says otherwise: {', '.join(new.citations)}", new.text
            )
    if all(citation in case.changed for citation in alive):
        return Change("removed", old.text, "its sources changed")
    return None


def _clip(text: str, width: int = 120) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def cited(summary: str) -> frozenset[str]:
    """Every citation of a summary."""
    return frozenset(citations(summary))
