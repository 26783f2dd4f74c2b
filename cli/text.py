"""Text for terminals, for commands that have to start quickly: nothing here is slow to import."""

from __future__ import annotations


def printable(text: str) -> str:
    """Control characters made visible, so that stored text cannot drive the terminal."""
    return "".join(char if char == "\n" or char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def marked(text: str, spans: list[tuple[int, int]], before: str, after: str) -> str:
    """The text, printable, with `before` and `after` around each span (ascending, without overlaps)."""
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [printable(text[at:start]), before, printable(text[start:end]), after]
        at = end
    return "".join((*pieces, printable(text[at:])))
