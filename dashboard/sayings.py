"""What the program says of itself, in the language of a page: errors, findings of the doctor, what a run tells.

The English text is the key, with its fields by number, as in the source:

    {"{0} is larger than {1} bytes.": "{0} 大于 {1} 字节。"}

So what a row of the database or the service kept in English is told in Chinese, too, and what `said/` lacks stays
English. A test reads the source and finds the texts that a page may show and no file here holds, and those that nobody
says any more. `{0:n}` is the number a field begins with (`3 rules`). `system.json` holds what comes from elsewhere.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from dashboard.i18n import Language

_FIELD = re.compile(r"\{(\w+)\}")
_END = re.compile(r"(?<=[.!?])\s+")
_WIDE = re.compile(r"[\u3000-\u303f\uff00-\uffef]\Z")
MAX_TEXT = 4_000
"""Longer ones are left as they are."""
MAX_DEPTH = 3
MAX_ENDS = 16
"""Ends of sentences in a text that are tried in every way; of longer ones each sentence is taken alone."""


def own(language: Language, text: str) -> str:
    """A text of the program's own in a language; as it is where there is no other."""
    if language == "en" or not text or len(text) > MAX_TEXT:
        return text
    return _told(text)


@cache
def catalog() -> Mapping[str, str]:
    """English -> Chinese. Raises ValueError for a text that two files hold with two meanings."""
    found: dict[str, str] = {}
    folder = resources.files("dashboard").joinpath("said")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".json"):
            continue
        for key, text in json.loads(file.read_text(encoding="utf-8")).items():
            if found.setdefault(key, text) != text:
                raise ValueError(f"{file.name}: another file says it otherwise: {key}")
    return found


class _Pattern(NamedTuple):
    """`needs` is its longest piece: what lacks it needs no closer look."""

    needs: str
    pieces: tuple[str, ...]
    names: tuple[str, ...]
    text: str

    def fields(self, text: str) -> dict[str, str] | None:
        """What stands between the pieces, each field as short as can be. Nothing is tried twice, so that a text made to
        have many readings costs no more than another."""
        first, *inner, last = self.pieces
        end = len(text) - len(last)
        if end < len(first) or not (text.startswith(first) and text.endswith(last)):
            return None
        at, found = len(first), []
        for piece in inner:
            next_at = text.find(piece, at, end)
            if next_at < 0:
                return None
            found.append(text[at:next_at])
            at = next_at + len(piece)
        return dict(zip(self.names, [*found, text[at:end]], strict=True))


@cache
def _patterns() -> list[_Pattern]:
    """Texts with fields, those first that leave least to the fields."""
    made = []
    for key, text in catalog().items():
        pieces = _FIELD.split(key)
        names = tuple(pieces[1::2])
        if names:
            made.append((len(names), -len(key), _Pattern(max(pieces[::2], key=len), tuple(pieces[::2]), names, text)))
    return [pattern for *_, pattern in sorted(made, key=lambda one: one[1] + 8 * one[0])]


@lru_cache(maxsize=2_048)
def _told(text: str) -> str:
    told = _sentences(text)
    if told is None:
        told = _sentence(text)
    if told is None:  # what is known of it, the rest as it is
        pieces = [_sentence(piece) or piece for piece in _END.split(text)]
        told = ""
        for piece in pieces:
            told = _joined(told, piece)
    return told


def _sentences(text: str) -> str | None:
    """Some sentences, each of which is known; None where one is not. A field may hold several, so every end is tried,
    and what follows it once."""
    ends = list(_END.finditer(text))
    if not 0 < len(ends) <= MAX_ENDS:
        return None
    starts = [0, *(end.end() for end in ends)]
    stops = [*(end.start() for end in ends), len(text)]
    told: list[str | None] = [*(None for _ in starts), ""]
    for first in reversed(range(len(starts))):
        for last in range(first, len(stops)):
            rest = told[last + 1]
            # All of it at once is what is tried without us.
            if rest is None or last - first == len(ends):
                continue
            sentence = _sentence(text[starts[first] : stops[last]])
            if sentence is not None:
                told[first] = _joined(sentence, rest)
                break
    return told[0]


def _sentence(text: str) -> str | None:
    """A text as it is, or what was made a sentence of by a capital letter and a full stop, or none of by taking it."""
    told = _one(text, 0)
    if told is None and text.endswith("."):
        told = _one(text[:-1], 0) or _one(text[0].lower() + text[1:-1], 0)
        told = f"{told}。" if told is not None else None
    elif told is None and not _END.search(text):
        told = _one(f"{text}.", 0)
        told = told.removesuffix("。") if told is not None else None
    return told


def _joined(first: str, rest: str) -> str:
    return f"{first}{'' if not first or not rest or _WIDE.search(first) else ' '}{rest}"


def _one(text: str, depth: int) -> str | None:
    exact = catalog().get(text)
    if exact is not None:
        return exact
    for pattern in _patterns():
        fields = pattern.fields(text) if pattern.needs in text else None
        if fields is not None:
            told = {name: _field(one, depth) for name, one in fields.items()}
            return _FORMATTER.vformat(pattern.text, (), told)
    return None


def _field(text: str, depth: int) -> str:
    """A field may hold a text of ours again."""
    if depth >= MAX_DEPTH or " " not in text:
        return text
    return _one(text, depth + 1) or text


class _Formatter(string.Formatter):
    def get_value(self, key: int | str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        return kwargs[str(key)]

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "n":
            number = re.match(r"[\d,.]*\d", str(value))
            return number[0] if number else str(value)
        return str(value)


_FORMATTER = _Formatter()
