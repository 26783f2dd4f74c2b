"""The words by which people state rules, correct, decide, praise and complain: one table per language, `tables/*.txt`.

A cue is a hint, the decision is `memory.offline.classify`'s. A table is plain text: a section in brackets, then one
regular expression a line (case ignored), any of which may match. Sections:

standing    a rule that holds beyond this task, by its own words ("from now on", "always", 以后)
rule        a rule by form, unless the sentence says it is for this once ("use X instead of Y", "don't", 不要)
once        valid for this task only
correct     the person tells the assistant that it was wrong
decide      a choice was made
remember    the person asks to keep something in mind
profile     a lasting fact about the person or their environment
fact        a lasting fact about the work's environment, with a concrete value
praise, complain    how the person judges the result
reason      why
ask         a question or a request in the form of one
polite      the opening of such a request that may still carry a rule
everywhere  the statement is declared valid for all projects
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources

LANGUAGES = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "vi", "zh")
_PARTS = {
    # Where an instruction may begin inside a sentence.
    "{{START}}": r"(?:^|[,;:.!)(]\s*|[-–—]\s+|\b(?:and|but|so|please|also|then|just|or|we|i|you)\s+)",
    # Something concrete: a number, an address, a path, a code span (masked).
    "{{VALUE}}": r"(?:\d{2,}|https?:|¤|/\w|\w+[._-]\w+\.\w{2,}|\w+\.(?:com|org|net|io|dev|local)\b)",
}
_NEVER = r"(?!)"
_SECTION = re.compile(r"\[[a-z_]+\]$")


@dataclass(frozen=True, slots=True)
class Cues:
    """One language's compiled table. See the module docstring for the fields."""

    standing: re.Pattern[str]
    rule: re.Pattern[str]
    once: re.Pattern[str]
    correct: re.Pattern[str]
    decide: re.Pattern[str]
    remember: re.Pattern[str]
    profile: re.Pattern[str]
    fact: re.Pattern[str]
    praise: re.Pattern[str]
    complain: re.Pattern[str]
    reason: re.Pattern[str]
    ask: re.Pattern[str]
    polite: re.Pattern[str]
    everywhere: re.Pattern[str]


FIELDS = tuple(field.name for field in fields(Cues))


@cache
def cues(code: str) -> Cues:
    """The table of a language; English for one without a table."""
    table = _sections(code if code in LANGUAGES else "en")
    return Cues(**{name: _compiled(table.get(name, [])) for name in FIELDS})


@cache
def shared(name: str) -> re.Pattern[str]:
    """An expression of `tables/shared.txt`, for what is no matter of one language. KeyError for an unknown one."""
    return _compiled(_sections("shared")[name])


@cache
def _sections(name: str) -> dict[str, list[str]]:
    """`[section]` -> its expressions."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in (resources.files(__package__) / "tables" / f"{name}.txt").read_text("utf-8").split("\n"):
        if _SECTION.match(line):
            current = found.setdefault(line[1:-1], [])
        elif line and not line.startswith("# "):
            for part, pattern in _PARTS.items():
                line = line.replace(part, pattern)
            current.append(line)
    return found


def _compiled(lines: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(lines) or _NEVER, re.IGNORECASE)


@cache
def word_families() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """`tables/families.txt`: values that exclude each other, by family (`name=value` is another name of a value), and
    words of one topic in several languages, by topic."""
    families: dict[str, list[str]] = {}
    topics: dict[str, list[str]] = {}
    for line in (resources.files(__package__) / "tables" / "families.txt").read_text("utf-8").split("\n"):
        name, colon, words = line.partition(": ")
        if colon and not line.startswith("# "):
            (topics if name.startswith("@") else families)[name.lstrip("@")] = words.split()
    return families, topics
