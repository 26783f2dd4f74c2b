"""Changing a list of `config.toml` in its own text: an entry that stays keeps its line and its comment.

A list over several lines with one entry on each is changed line by line. One that stands on a single line holds no
comment, so any way of writing it anew will do.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any

import tomlkit
from tomlkit.items import Array

_ENTRY = re.compile(
    r"""(?P<indent>[ \t]*)(?P<value>"(?:[^"\\]|\\.)*"|'[^']*')(?P<comma>[ \t]*,)?(?P<rest>[ \t]*(?:\#.*)?\r?)"""
)
_NO_ENTRY = re.compile(r"[ \t]*(?:#.*)?\r?")


def written(values: Sequence[str]) -> str:
    """A list as a new one is written: an entry on each line where there are several."""
    if len(values) < 2:
        return f"[{', '.join(map(_quoted, values))}]"
    return "[\n" + "".join(f"    {_quoted(one)},\n" for one in values) + "]"


def holds_comments(text: str, key: tuple[str, ...]) -> bool:
    """Whether the list of a key has comments inside of it."""
    return "#" in re.sub(r'"(?:[^"\\]|\\.)*"' + r"|'[^']*'", "", _array(text, key))


def edited(text: str, key: tuple[str, ...], values: Sequence[str]) -> str | None:
    """The text with the list of a key changed; None where it is not written with one entry on each line."""
    old = _array(text, key)
    first, *lines = old.split("\n")
    if not lines or text.count(old) != 1 or not re.fullmatch(r"\[[ \t]*(?:#.*)?\r?", first):
        return None
    *lines, last = lines
    found = [_ENTRY.fullmatch(line) for line in lines]
    if not re.fullmatch(r"[ \t]*\]", last) or any(
        match is None and not _NO_ENTRY.fullmatch(line) for match, line in zip(found, lines, strict=True)
    ):
        return None
    return text.replace(old, "\n".join([first, *_changed(lines, found, values), last]))


def _array(text: str, key: tuple[str, ...]) -> str:
    """A list's own text; empty where there is none."""
    place: Any = tomlkit.parse(text)
    for part in key:
        if part not in place:
            return ""
        place = place[part]
    return place.as_string() if isinstance(place, Array) else ""


def _changed(lines: list[str], found: Sequence[re.Match[str] | None], values: Sequence[str]) -> list[str]:
    """Lines of the old entries that stay, of new ones where they belong, and every line that is no entry."""
    at = [number for number, match in enumerate(found) if match]
    old = [_value(found[number]) for number in at]
    former = {value: lines[number] for value, number in zip(old, at, strict=True)}
    sample = found[at[0]] if at else None
    indent, end = (sample["indent"] if sample else "    "), ("\r" if lines and lines[0].endswith("\r") else "")
    gone: set[int] = set()
    new: dict[int, list[str]] = {}
    matcher = difflib.SequenceMatcher(a=old, b=list(values), autojunk=False)
    for kind, start, stop, low, high in matcher.get_opcodes():
        if kind == "equal":
            continue
        gone.update(at[start:stop])
        place = at[start] if start < len(at) else len(lines)
        if start and start == len(at):
            place = at[-1] + 1
        new[place] = [former.get(one) or f"{indent}{_quoted(one)},{end}" for one in values[low:high]]
    made: list[str] = []
    for number in range(len(lines) + 1):
        made += new.get(number, [])
        if number < len(lines) and number not in gone:
            made.append(lines[number])
    return _with_commas(made)


def _with_commas(lines: list[str]) -> list[str]:
    """Every entry but the last one needs one; the last one keeps what it has."""
    matches = [_ENTRY.fullmatch(line) for line in lines]
    at = [number for number, match in enumerate(matches) if match]
    for number in at[:-1]:
        match = matches[number]
        if match is not None and not match["comma"]:
            lines[number] = f"{match['indent']}{match['value']},{match['rest']}"
    return lines


def _value(match: re.Match[str] | None) -> str:
    assert match is not None
    value = tomllib.loads(f"v = {match['value']}")["v"]
    assert isinstance(value, str)
    return value


def _quoted(value: str) -> str:
    """As a person would write it: a literal string where a backslash would have to be doubled."""
    if "\\" in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    basic = json.dumps(value, ensure_ascii=False)
    return basic.replace("\x7f", "\\u007f")
