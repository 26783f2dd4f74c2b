"""Last look at a line before it leaves: what it names must stand where it points, and it must look like memory only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory import support

_ANCHOR_LIKE = re.compile(r"\[(?:e\d+|[0-9a-f]{8}|[0-9a-f]{16}|note:[^\]\s]*|\d+)\]|\(e\d+\)", re.IGNORECASE)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u2064\u2066-\u2069\ufeff\ud800-\udfff\ue000-\uf8ff]"
)
_DAY = re.compile(r"\b(?:today|yesterday|tomorrow)\b|今天|昨天|明天|今日|昨日|明日", re.IGNORECASE)
_NAIVE_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?!\d|:|\.\d|\s?(?:[+-]\d{2}|Z\b|UTC))"
)
_FENCES = re.compile(r"```|~~~")
_REDACTED = re.compile(r"\[redacted[^\]]*\]", re.IGNORECASE)


def clean(text: str) -> str:
    """One line without control or invisible characters, without anything that could pass for one of our marks, and
    without words that only meant something on the day (`…` stands in their place)."""
    text = _CONTROL.sub("", re.sub(r"\s+", " ", text))
    text = _FENCES.sub("", _ANCHOR_LIKE.sub("", text))
    text = _NAIVE_TIME.sub(r"\1", _DAY.sub("…", text))
    return re.sub(r" {2,}", " ", text).strip()


def is_fit(text: str) -> bool:
    """Whether a line may stand in a record or a summary at all."""
    return bool(text.strip(" .…-")) and not (
        _REDACTED.search(text) or support.is_refusal(text) or support.has_role_marker(text) or support.has_fence(text)
    )


def stands(text: str, sources: Iterable[str]) -> bool:
    """Whether everything a line names to the letter stands in one of the sources."""
    texts = list(sources)
    return all(any(support.stands_in(name, source) for source in texts) for name in support.identifiers(text))
