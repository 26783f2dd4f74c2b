"""Texts a person asked to forget, known by their hashes alone: enough to recognise one, not enough to read it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable

from memory import support

TEXT = "text"
"""Tombstone kind of a forgotten text: `<length>:<sha256>` of its normalised form, never the text itself."""

Holds = Callable[[str], bool]
"""Whether a line holds something forgotten."""


def nothing(line: str) -> bool:
    """Holds nothing."""
    del line
    return False


def text_key(text: str) -> str:
    """The tombstone's key."""
    plain = support.normalise(text)
    return f"{len(plain)}:{hashlib.sha256(plain.encode()).hexdigest()}"


def holder(text: str) -> Holds:
    """Recognises a text that is still known, white space, case and markup aside."""
    needle = support.normalise(text)
    return (lambda line: needle in support.normalise(line)) if needle else nothing


def recogniser(keys: Iterable[str]) -> Holds:
    """Recognises texts by their keys: every window of a key's length is hashed. About a microsecond a character."""
    wanted: dict[int, set[str]] = {}
    for key in keys:
        length, _, digest = key.partition(":")
        if int(length):
            wanted.setdefault(int(length), set()).add(digest)
    if not wanted:
        return nothing

    def holds(line: str) -> bool:
        plain = support.normalise(line)
        return any(
            hashlib.sha256(plain[start : start + length].encode()).hexdigest() in digests
            for length, digests in wanted.items()
            for start in range(len(plain) - length + 1)
        )

    return holds


def of_tombstones(stones: Collection[tuple[str, str]]) -> Holds:
    """Recognises every forgotten text of a store."""
    return recogniser(key for kind, key in stones if kind == TEXT)


def without_lines(text: str, holds: Holds) -> str:
    """The text without the lines that hold something forgotten."""
    if holds is nothing:
        return text
    return "\n".join(line for line in text.split("\n") if not holds(line))
