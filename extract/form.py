"""The form of a record's body: read into lines that carry meaning, tidied mechanically, written back.

Tidying changes no word: bullets on one line, one way to write an anchor, no wrapper around the whole.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from memory.model import SUMMARY_SECTIONS, Outcome

MAX_SLUG = 60
NO_SLUG = "session"
_WRAPPER = re.compile(r"\A\s*```[a-zA-Z]*[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_ANCHOR_GROUP = re.compile(r"\[\s*(e[1-9]\d{0,8}(?:\s*[,;，、]\s*e?[1-9]\d{0,8})+)\s*\]", re.IGNORECASE)
_ANCHOR_CASE = re.compile(r"\[\s*[eE]([1-9]\d{0,8})\s*\]")
_OUTCOME = re.compile(r"^\**outcome\**\s*[:：]\s*\**\s*([a-z]+)\**\s*\.?$", re.IGNORECASE)
_BULLET = re.compile(r"^\s{0,3}[-*•]\s+(\S.*)$")


@dataclass(frozen=True, slots=True)
class Bullet:
    """One claim. `line` is 1-based in the tidied body."""

    section: str
    text: str
    line: int


@dataclass(slots=True)
class Body:
    """A body as read. `odd` holds lines that belong nowhere: (line, text)."""

    title: str = ""
    outcome: Outcome | None = None
    outcome_text: str = ""
    sections: list[tuple[str, int]] = field(default_factory=list)
    bullets: list[Bullet] = field(default_factory=list)
    odd: list[tuple[int, str]] = field(default_factory=list)


def tidy(text: str) -> str:
    """The answer's text in the one form we store; a no-op on text that has it already."""
    if wrapper := _WRAPPER.match(text):
        text = wrapper[1]
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n")
    text = _ANCHOR_GROUP.sub(_split_group, text)
    text = _ANCHOR_CASE.sub(r"[e\1]", text)
    lines: list[str] = []
    for raw in text.split("\n"):
        line = raw.rstrip()
        bullet = _BULLET.match(line)
        if bullet:
            lines.append(f"- {bullet[1]}")
        elif line.startswith(("  ", "\t")) and line.strip() and lines and lines[-1].startswith("- "):
            lines[-1] += " " + line.strip()
        elif outcome := _OUTCOME.match(line.strip()):
            lines.append(f"Outcome: {outcome[1].lower()}")
        elif line or (lines and lines[-1]):
            lines.append(line)
    return _spaced(lines)


def _split_group(match: re.Match[str]) -> str:
    return " ".join(f"[e{number}]" for number in re.findall(r"\d+", match[1]))


def _spaced(lines: list[str]) -> str:
    """One blank line before each heading, none elsewhere."""
    found: list[str] = []
    for line in lines:
        if not line:
            continue
        if line.startswith("## ") and found:
            found.append("")
        found.append(line)
    return "\n".join(found)


def read(body: str) -> Body:
    """A tidied body in its parts; what fits nowhere is kept in `odd`, nothing is lost."""
    found = Body()
    for number, line in enumerate(body.split("\n"), start=1):
        if not line:
            continue
        if line.startswith("# ") and not found.title and number == 1:
            found.title = line[2:].strip()
        elif line.startswith("Outcome: ") and not found.outcome_text and not found.sections:
            found.outcome_text = line.removeprefix("Outcome: ")
            found.outcome = _outcome(found.outcome_text)
        elif line.startswith("## "):
            found.sections.append((line, number))
        elif line.startswith("- ") and found.sections:
            found.bullets.append(Bullet(found.sections[-1][0], line[2:], number))
        else:
            found.odd.append((number, line))
    return found


def _outcome(text: str) -> Outcome | None:
    try:
        return Outcome(text)
    except ValueError:
        return None


def write(title: str, outcome: Outcome, bullets: list[Bullet]) -> str:
    """A body from its parts: sections in their order, empty ones left out."""
    lines = [f"# {title}", f"Outcome: {outcome.value}"]
    for section in SUMMARY_SECTIONS:
        texts = [bullet.text for bullet in bullets if bullet.section == section]
        if texts:
            lines += ["", section, *(f"- {text}" for text in dict.fromkeys(texts))]
    return "\n".join(lines)


def slug_of(text: str) -> str:
    """`[a-z0-9-]`, at most 60 characters; never empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:MAX_SLUG].strip("-") or NO_SLUG
