"""Words of the pages in English and Chinese. Every key stands in one file of `strings/` with both.

    {"memory.title": {"en": "Memory", "zh": "记忆"}}

A value may hold `{name}` fields; both languages hold the same ones. Whole numbers are shown in groups of three,
`{n:d}` is a number that is a name (a version), and `{n:line|lines}` chooses the word that goes with a count:

    {"en": "{n} {n:line|lines} left", "zh": "剩余 {n} 行"}
"""

from __future__ import annotations

import json
import string
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
NAMES: dict[Language, str] = {"en": "English", "zh": "中文"}
TAGS: dict[Language, str] = {"en": "en", "zh": "zh-Hans"}


@cache
def catalog() -> Mapping[str, Mapping[str, str]]:
    """Key -> language -> text. Raises ValueError for a key that two files hold."""
    found: dict[str, dict[str, str]] = {}
    folder = resources.files("dashboard").joinpath("strings")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".json"):
            continue
        for key, texts in json.loads(file.read_text(encoding="utf-8")).items():
            if key in found:
                raise ValueError(f"{file.name}: {key} is in another file too")
            found[key] = texts
    return found


def translate(language: Language, key: str, /, **values: object) -> str:
    """The text of a key. Raises KeyError for a key that does not exist: a test finds those."""
    text = catalog()[key][language]
    return _FORMATTER.vformat(text, (), values) if values else text


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" in format_spec:
            one, _, many = format_spec.partition("|")
            return one if value == 1 else many
        if not isinstance(value, int) or isinstance(value, bool):
            return str(value)
        return f"{value:{format_spec or ','}}"


_FORMATTER = _Formatter()


def known(key: str) -> bool:
    """Whether there is such a key: for words that come from data, as reasons do."""
    return key in catalog()


def choose(cookie: str | None, setting: str, accept: str | None) -> Language:
    """The language of a page: what the person switched to, else the setting, else what the browser asks for."""
    for language in LANGUAGES:
        if cookie == language:
            return language
    for language in LANGUAGES:
        if setting == language:
            return language
    return _accepted(accept or "")


def _accepted(header: str) -> Language:
    """`zh-CN,zh;q=0.9,en;q=0.8` -> zh. What cannot be read is passed over."""
    best: tuple[float, Language] = (0.0, "en")
    for part in header[:500].split(","):
        tag, _, rest = part.strip().partition(";")
        try:
            weight = float(rest.strip().removeprefix("q=")) if rest else 1.0
        except ValueError:
            continue
        for language in LANGUAGES:
            if tag.lower().split("-")[0] == language and weight > best[0]:
                best = (weight, language)
    return best[1]
