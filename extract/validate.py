"""May a model's record be kept? Pure rules; every objection says the rule, the place and how to mend it.

The model's word is worth nothing here: a line stands only if the events it cites carry it. The same rules hold with
native structured output and without [Z079].
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from extract.form import Body, Bullet, read, write
from memory import support
from memory.clock import iso
from memory.documents import LABEL, PrintedEvent, anchors, without_marks
from memory.model import MAX_ROLLOUT_SUMMARY_BYTES, SUMMARY_SECTIONS, Outcome, Tier

PREFERENCES = SUMMARY_SECTIONS[1]
MAX_TITLE = 200
MAX_REASONS = 20
SHOWN = 60
"""Code points of an identifier repeated in a reason."""
SPOKEN_SHARE = 0.25
"""Least share of a preference's words that must stand in what the person (or the reply to them) said."""
RICH_CHARS = 400
"""Weighted code points of a person's words from which an empty answer is suspicious; a Han character counts 3."""
TRUSTED = frozenset({Tier.HUMAN, Tier.FINAL, Tier.AGENT})

_MALFORMED_ANCHOR = re.compile(r"\[\s*e\d+[^\]\d][^\]]*\]|\[\d+\]|\(e\d+\)|\[e0\d*\]", re.IGNORECASE)
_NAIVE_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?!\d|:|\.\d|\s?(?:[+-]\d{2}|Z\b|UTC))")
_RELATIVE_DAY = re.compile(r"\b(?:today|yesterday|tomorrow)\b|今天|昨天|明天|今日|昨日|明日", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|“[^”]*”|「[^」]*」|『[^』]*』")
_STANDING = re.compile(
    r"\b(?:always|never|from now on|in future|going forward|we use|we don[’']?t|i (?:prefer|want|like|hate))\b"
    r"|以后|今后|统一|一律|永远|总是|不要再|别再|記住|记住|我们用|今後|必ず|항상|앞으로",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Objection:
    """One broken rule. `line` is 1-based in the tidied body, 0 for the whole. `bullet` tells that dropping the
    bullet on that line would cure it."""

    rule: str
    message: str
    line: int = 0
    bullet: bool = False

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.message} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Case:
    """What a record is judged against.

    `events` are those the model was shown, by number, and those the former record cites. `known` are facts about the
    session a bullet may name without citing them (project, folder, branch). `measure` is the size in bytes of the
    whole file with this body. `has_secret` tells whether a text holds one.
    """

    events: Mapping[int, PrintedEvent]
    measure: Callable[[str], int]
    has_secret: Callable[[str], bool]
    known: tuple[str, ...] = ()
    max_bytes: int = MAX_ROLLOUT_SUMMARY_BYTES


def judge(body: str, case: Case) -> list[Objection]:
    """Every objection to a tidied body, all rules at once, in the order of lines; none means it may be kept."""
    parts = read(body)
    found = [*_whole(body, parts, case), *_form(parts)]
    for bullet in parts.bullets:
        found += _bullet(bullet, case)
    return sorted(found, key=lambda objection: objection.line)


def reasons(objections: list[Objection]) -> list[str]:
    """As text for the model, bounded."""
    shown = [str(objection) for objection in objections[:MAX_REASONS]]
    rest = len(objections) - len(shown)
    return [*shown, f"and {rest} more of the same kinds."] if rest > 0 else shown


def salvage(body: str, case: Case) -> tuple[str, int] | None:
    """What remains of a record when only the lines that can be proven stay: (body, bullets dropped).

    None where dropping lines is no cure, or where less than half would remain: a record that is mostly wrong is
    wrong. A record that is only too long loses its last lines; preferences are never dropped for room.
    """
    parts = read(body)
    good = list(parts.bullets)
    enough = (len(good) + 1) // 2
    while True:
        if not good or len(good) < enough or parts.outcome is None:
            return None
        text = write(parts.title, parts.outcome, good)
        good = read(text).bullets
        objections = judge(text, case)
        if not objections:
            return text, len(parts.bullets) - len(good)
        bad = {objection.line for objection in objections if objection.bullet}
        if bad:
            good = [bullet for bullet in good if bullet.line not in bad]
        elif all(objection.rule == "size" for objection in objections):
            last = next((bullet for bullet in reversed(good) if bullet.section != PREFERENCES), None)
            good = [bullet for bullet in good if bullet is not last]
            if last is None:
                return None
        else:
            return None


# -- the whole ------------------------------------------------------------------------------------------


def _whole(body: str, parts: Body, case: Case) -> Iterator[Objection]:
    size = case.measure(body)
    if size > case.max_bytes:
        yield Objection(
            "size", f"The record is {size - case.max_bytes:,} bytes too long; drop the least useful bullets."
        )
    first = parts.bullets[0].text if parts.bullets else ""
    if any(support.is_refusal(text) for text in (body, parts.title, first)):
        yield Objection("refusal", "This is a refusal, not a record; record what the session shows or nothing.")
    for number, line in enumerate(body.split("\n"), start=1):
        bullet = line.startswith("- ")
        if case.has_secret(line):
            yield Objection("secret", "The line holds a secret; leave it out, also in part.", number, bullet)
        if support.has_fence(line):
            yield Objection("fence", "No code fences and no memory tags; write plain bullets.", number, bullet)
        if support.has_role_marker(line):
            yield Objection("role", "No role marks or prompt tags; describe them in words.", number, bullet)
        if LABEL.match(line) or LABEL.match(line.removeprefix("- ")):
            yield Objection("label", "Do not copy event labels; write a bullet and cite its event.", number, bullet)


def _form(parts: Body) -> Iterator[Objection]:
    if not parts.title:
        yield Objection("title", "The first line must be `# ` and a title.", 1)
    elif len(parts.title) > MAX_TITLE:
        yield Objection("title", f"The title is longer than {MAX_TITLE} characters; shorten it.", 1)
    if parts.outcome is None:
        labels = ", ".join(outcome.value for outcome in Outcome)
        yield Objection("outcome", f"The second line must be `Outcome: ` and one of {labels}.", 2)
    if not parts.bullets:
        yield Objection("bullets", "There is no bullet under a heading; write at least one, or two empty strings.")
    places: list[int] = []
    for heading, number in parts.sections:
        if heading not in SUMMARY_SECTIONS:
            yield Objection("heading", f"Only these headings: {', '.join(SUMMARY_SECTIONS)}.", number)
            continue
        places.append(SUMMARY_SECTIONS.index(heading))
        if places != sorted(set(places)):
            yield Objection("heading", "Each heading once, in the given order.", number)
            places = sorted(set(places))
    for number, line in parts.odd:
        if not LABEL.match(line):
            yield Objection("form", "Only a title, an outcome, headings and `- ` bullets; make this a bullet.", number)


# -- one bullet -------------------------------------------------------------------------------------------


def _bullet(bullet: Bullet, case: Case) -> Iterator[Objection]:
    cited = anchors(bullet.text)

    def objection(rule: str, message: str) -> Objection:
        return Objection(rule, message, bullet.line, bullet=True)

    if _MALFORMED_ANCHOR.search(bullet.text):
        yield objection("anchor_form", "Write each anchor on its own, as in `[e3] [e12]`.")
    if not cited:
        yield objection("anchor", "The bullet cites no event; end it with an anchor such as `[e12]`, or drop it.")
        return
    if not bullet.text.rstrip().endswith("]"):
        yield objection("anchor", "Anchors stand at the end of the bullet.")
    if not without_marks(bullet.text):
        yield objection("bullets", "The bullet says nothing.")
    unknown = [number for number in cited if number not in case.events]
    if unknown:
        listed = ", ".join(f"[e{number}]" for number in unknown[:5])
        yield objection("unknown_event", f"{listed} is no event of the evidence; cite the event that shows it.")
    events = [case.events[number] for number in cited if number in case.events]
    if events:
        for rule, message in (*_support(bullet, events, case), *_trust(bullet, events), *_words(bullet, events)):
            yield objection(rule, message)


def _support(bullet: Bullet, events: list[PrintedEvent], case: Case) -> Iterator[tuple[str, str]]:
    """What is quoted must stand in a cited event; a bullet must share something with its events [M21 M38]."""
    texts = [haystack(event) for event in events]
    quoted = support.identifiers(bullet.text)
    for identifier in quoted:
        if not any(support.stands_in(identifier, text) for text in (*texts, *case.known)):
            yield (
                "unsupported",
                f"`{identifier[:SHOWN]}` does not stand in the cited events; copy it exactly, cite the event that has"
                " it, or leave it out.",
            )
    if not quoted and support.coverage(bullet.text, texts) == 0 and _same_script(bullet, events):
        yield "unsupported", "Nothing in the bullet stands in the cited events; cite the events that show it."


def _trust(bullet: Bullet, events: list[PrintedEvent]) -> Iterator[tuple[str, str]]:
    """Tool output never supports a preference or an instruction [M61 M64 X38]."""
    tiers = {event.tier for event in events}
    if bullet.section != PREFERENCES:
        if tiers == {Tier.TOOL} and support.is_instruction(bullet.text):
            yield (
                "tool_instruction",
                "Only tool output supports this instruction; say what was seen, or cite the person.",
            )
        return
    if Tier.HUMAN not in tiers:
        yield "preference", "A preference needs a `human` event; cite it, or move the bullet to another heading."
        return
    spoken = [haystack(event) for event in events if event.tier in TRUSTED]
    for identifier in support.identifiers(bullet.text):
        if any(support.stands_in(identifier, haystack(event)) for event in events) and not any(
            support.stands_in(identifier, text) for text in spoken
        ):
            yield (
                "preference",
                f"`{identifier[:SHOWN]}` stands in tool output only; a preference is the person's words.",
            )
    if support.coverage(_without_scope(bullet.text), spoken) < SPOKEN_SHARE:
        yield "preference", "The preference shares too little with what the person said; use their own words."


def _words(bullet: Bullet, events: list[PrintedEvent]) -> Iterator[tuple[str, str]]:
    """The person's language, and times that mean something later [M22 M32]."""
    humans = [event for event in events if event.tier is Tier.HUMAN]
    if humans and not _same_script(bullet, humans):
        yield "language", "Keep the language the person used; do not translate."
    plain = _QUOTED.sub(" ", bullet.text)
    if _NAIVE_TIME.search(plain):
        yield "time", "A time needs its offset from UTC, as in the label; or give the date alone."
    if _RELATIVE_DAY.search(plain):
        yield "time", "Write the date in place of a relative day."


def haystack(event: PrintedEvent) -> str:
    """The text of an event with its tool's name and its time in the forms a bullet may use."""
    times = ""
    if event.time is not None:
        times = f"{event.time.isoformat(timespec='minutes')} {event.time:%Y-%m-%d} {event.time:%H:%M} {iso(event.time)}"
    return f"{event.text}\n{event.tool or ''} {times}"


def _without_scope(text: str) -> str:
    """`In this project: use tabs` -> `use tabs`: the scope is ours, the rule is the person's."""
    return re.sub(r"^(?:In|For|在)\s[^:：,，]{1,60}[:：,，]\s*", "", text)


# -- scripts ----------------------------------------------------------------------------------------------

_SCRIPTS = (
    ("kana", re.compile(r"[\u3040-\u30ff]")),
    ("hangul", re.compile(r"[\u1100-\u11ff\uac00-\ud7af]")),
    ("han", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff]")),
    ("cyrillic", re.compile(r"[\u0400-\u04ff]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff\u0750-\u077f]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("devanagari", re.compile(r"[\u0900-\u097f]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
)
_DENSE = frozenset({"kana", "hangul", "han"})
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
DENSE_WEIGHT = 3
"""One character of a dense script says about as much as three letters."""


def script_of(text: str) -> str:
    """The script that carries a text, quoted spans left out: `latin`, `han`, `kana`, ...; empty where there is none."""
    plain = _QUOTED.sub(" ", without_marks(text))
    weights = {
        name: len(pattern.findall(plain)) * (DENSE_WEIGHT if name in _DENSE else 1) for name, pattern in _SCRIPTS
    }
    if weights["kana"] * 10 >= weights["han"] > 0:
        weights["kana"] += weights.pop("han")
    weights["latin"] = len(_LATIN.findall(plain))
    name, weight = max(weights.items(), key=lambda item: item[1])
    return name if weight else ""


def _same_script(bullet: Bullet, events: list[PrintedEvent]) -> bool:
    """Whether a bullet is written in a script of one of its events; identifiers alone have no language.

    Any script but Latin counts as soon as it occurs: a Chinese sentence above a pasted English log is Chinese, and a
    Chinese bullet full of Latin names too. Latin counts where it carries the text.
    """
    mine = _scripts_in(bullet.text)
    theirs = set().union(*(_scripts_in(event.text) for event in events))
    return not mine or not theirs or bool(mine & theirs)


def _scripts_in(text: str) -> set[str]:
    plain = _QUOTED.sub(" ", without_marks(text))
    return {name for name, pattern in _SCRIPTS if len(pattern.findall(plain)) >= 2} | ({script_of(text)} - {""})


# -- emptiness --------------------------------------------------------------------------------------------


def is_rich(events: Mapping[int, PrintedEvent]) -> bool:
    """Whether the person said enough that "nothing worth keeping" deserves a second question [M19]."""
    weight = 0
    for event in events.values():
        if event.tier is not Tier.HUMAN:
            continue
        if _STANDING.search(event.text):
            return True
        weight += sum(DENSE_WEIGHT if unicodedata.east_asian_width(c) in "WF" else 1 for c in event.text)
    return weight >= RICH_CHARS
