"""What a person chose where options were laid before them: the option's own words, not the letter they typed."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory.documents import PrintedEvent
from memory.model import Tier
from memory.offline.book import Entry, Mark
from memory.offline.cues import shared
from memory.offline.language import language, weight
from memory.offline.proof import clean
from memory.offline.prose import answers, clip, plain

_OPTION = shared("option")
_PROCEDURE = shared("procedure")
"""Questions about how to go on: their answers hold for the moment only."""
_NO_CHOICE = shared("no_choice")
_NOT_LATIN = frozenset({"zh", "ja", "ko", "ru", "ar"})
_WIDE = str.maketrans("ＡＢＣＤＥ１２３４５", "ABCDE12345")
OPTION_BYTES = 200
QUESTION_BYTES = 200
CHOICE_WEIGHT = 2


def choices(events: Iterable[PrintedEvent], section: str) -> list[Entry]:
    """One entry for each choice, in order of time."""
    found: list[Entry] = []
    before: PrintedEvent | None = None
    for event in events:
        if event.tier in {Tier.FINAL, Tier.COMMENTARY}:
            before = event
        elif event.tier is Tier.HUMAN:
            found += _picked(event, section)
            if before is not None and (entry := _by_letter(before, event, section)) is not None:
                found.append(entry)
            before = None
    return found


def _by_letter(asked: PrintedEvent, answer: PrintedEvent, section: str) -> Entry | None:
    match = _OPTION.match(answer.text.translate(_WIDE)) if len(answer.text) < 60 else None
    if match is None or _PROCEDURE.search(asked.text[-300:]):
        return None
    letter = match[1].upper()
    option = _option_text(asked.text, letter)
    if not option:
        return None
    question = _question(asked.text, letter)
    text = clean(f"{question} — {option}" if question else option)
    # A bare letter has no language: where the option is not in Latin letters, only the event that holds it is cited.
    numbers = [asked.number] if language(option) in _NOT_LATIN else [asked.number, answer.number]
    return Entry(text, section, CHOICE_WEIGHT, tuple(Mark(f"e{number}") for number in numbers))


def _option_text(text: str, letter: str) -> str:
    patterns = (
        rf"^[ \t]*\|[ \t]*\**(?:Option +)?{letter}\**[ \t]*\|[ \t]*([^|\n]+?)[ \t]*\|",
        rf"^[ \t]*(?:[-*] +)?\**\(?(?:Option\s+|方案[ \t]*|选项[ \t]*)?{letter}\**[.):：、]\**[ \t]*(.+)$",
        rf"^[ \t]*(?:[-*] +)?\**(?:Option|方案|选项)[ \t]*{letter}\**[ \t]*[-–—][ \t]*(.+)$",
    )
    found = (re.search(pattern, text, re.MULTILINE | re.IGNORECASE) for pattern in patterns)
    return next((clip(plain(match[1]), OPTION_BYTES) for match in found if match), "")


def _question(text: str, letter: str) -> str:
    """What the options were about: the recommendation that was followed, the question's heading or its last line."""
    advised = rf"Recommended[:：]?\**[:：]?[ \t]*\**Option {letter}\**[ \t]*[-–—:][ \t]*(.+)$"
    headed = r"^#+ *(?:Question|Q)[ \t]*\d*[ \t]*[:：.][ \t]*(.+)$"
    for pattern in (advised, headed):
        match = re.search(pattern, text, re.MULTILINE | re.IGNORECASE)
        if match:
            return clip(plain(match[1]), QUESTION_BYTES).rstrip(".")
    lines = [line for line in text.split("\n") if line.rstrip(" *_").endswith(("?", "？")) and len(line) < 400]
    return clip(plain(lines[-1]), QUESTION_BYTES) if lines else ""


def _picked(event: PrintedEvent, section: str) -> list[Entry]:
    """Answers to questions a host put to the person, where the answer settles something."""
    found = []
    for question, given in answers(event.text):
        answer = re.sub(r"^None of the above, user_note: ", "", given)
        settled = 3 <= weight(answer) <= 90 and not answer.endswith(("?", "？")) and not _NO_CHOICE.match(answer)
        lasting = not _PROCEDURE.search(question) and len(question) <= QUESTION_BYTES and clean(question) == question
        if settled and lasting:
            text = clean(f'"{question}" — {clip(answer, OPTION_BYTES)}')
            found.append(Entry(text, section, CHOICE_WEIGHT, (Mark(f"e{event.number}"),)))
    return found
