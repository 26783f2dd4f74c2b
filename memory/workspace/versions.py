"""The last published summaries with their inputs, for restore, diff and `why` [Z117]."""

from __future__ import annotations

from dataclasses import dataclass

from memory.model import Manifest


@dataclass(frozen=True, slots=True)
class Version:
    """One published summary with exactly what it was made from; `texts` is path -> text."""

    number: int
    summary: str
    sha256: str
    manifest: Manifest
    texts: dict[str, str]
