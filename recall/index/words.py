"""Text to index terms, and back to places in the text: one function for what is stored and what is asked [M25 O31].

- Words: lower case, without accents, English forms brought to one stem.
- Identifiers (`snake_case`, `camelCase`, `kebab-case`): the whole without its joints, and every part.
- Paths, URLs, dotted names: the whole and every part; versions: the whole and its beginnings (`3`, `3.9`, `3.9.1`).
- Chinese, Japanese, Korean and other scripts that spaces do not split: every pair of characters, and every single one,
  so that a word of two characters or of one is found inside any run; `重跑gen-itgc后` falls into three runs.

Terms hold no white space, quotes or control characters, and a question has no syntax: any text may be asked.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import Stemmer  # type: ignore[import-not-found]

from recall.index.english import IRREGULAR, STOPWORDS

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+(?:['’./\\:@+#-]+[^\W{_UNSPACED}]+)*(?:\+\+|#)?")
_ASCII_RUN = re.compile(r"[A-Za-z0-9_]+(?:['./\\:@+#-]+[A-Za-z0-9_]+)*(?:\+\+|#)?")
"""What `_RUN` finds in a text of ASCII, in half the time."""
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]").match
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\dA-Za-z_]+")
_NUMBERED = re.compile(r"([^\W\d_]{3,})\d+")
_SEPARATOR = re.compile(r"[./\\:@+#]+")
_JOINT = re.compile(r"[_'’-]+")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
MAX_TERM = 64
"""Code points of a term; of longer words (hashes, base64) the beginning is kept and still finds them."""
_CACHED = 64
"""Longer runs are not worth remembering."""
_REMEMBERED = 65_536
"""Runs whose terms are remembered; then all are dropped."""

_STOP_PAIRS = frozenset(
    """
什么 怎么 怎样 如何 哪个 哪些 哪里 哪儿 多少 几个 是否 可以 我们 你们 他们 她们 它们 这个 那个 这些 那些 为什 么样 的是
是什 是谁 了吗 时候 一个 一下 有没 没有 请问 告诉 应该 需要 还是 或者 以及 关于 是哪 用什 么来 要用 的什 在哪 谁负
です ます した する ください ですか どこ なに どう たい とい 무엇 어떤 어디 입니 니다 습니 니까 는가 인가
""".split()
)
_STOP_CHARS = frozenset(
    "的了是在我你他她它们和与及吗呢吧啊呀么这那哪就也都很不有没个被把给让向从到为以于之其而且或但所着过会能要可去来上下里中谁几什"
    "のはがをにでともかなよねだたるいしてすまんこそあれ은는이가을를의에도로와과"
)


class Term(NamedTuple):
    """One index term with the place it came from: `start` and `end` in the text as given."""

    text: str
    start: int
    end: int


class Run(NamedTuple):
    """A stretch of one script. `unspaced`: its terms are characters and pairs; else the whole word, then its parts."""

    unspaced: bool
    terms: tuple[Term, ...]


_stemmer = Stemmer.Stemmer("english", 0)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The stem of an English word in lower case; words with letters beyond ASCII stay."""
    if not word.isascii() or len(word) < 3:
        return word
    return str(_stemmer.stemWord(IRREGULAR.get(word, word)))


def fold(word: str) -> str:
    """Lower case, compatibility forms and accents gone; not for scripts whose marks are letters of their own."""
    if word.isascii():
        return word.lower()
    plain = unicodedata.normalize("NFKD", word)
    return unicodedata.normalize("NFC", "".join(char for char in plain if not unicodedata.combining(char))).casefold()


def runs(text: str) -> Iterator[Run]:
    """The text's stretches in reading order, with their terms and places."""
    for match in _runs_of(text).finditer(text):
        at, run = match.start(), match[0]
        if not _IS_UNSPACED(run):
            found = _word(run) if len(run) <= _CACHED else _analysed(run)
            if found:
                yield Run(False, tuple(Term(term, at + start, at + end) for term, start, end in found))
        else:
            yield Run(True, tuple(_characters(run, at)))


def term_texts(text: str) -> list[str]:
    """Every term of a text, without places: what is stored."""
    return list(itertools.chain.from_iterable(map(_terms_of.__getitem__, _runs_of(text).findall(text))))


def spoken(name: str) -> set[str]:
    """What has to be said for a name to be said: its words, without their parts, and its pairs of characters."""
    found: set[str] = set()
    for run in runs(name):
        if not run.unspaced or len(run.terms) == 1:
            found.add(run.terms[0].text)
        else:
            found.update(term.text for term in run.terms if len(term.text) > 1)
    return found


def is_stop(term: str) -> bool:
    """Whether a term of a question says nothing about what is asked for. Takes a word before it is stemmed."""
    return term in STOPWORDS or term in _STOP_PAIRS or term in _STOP_CHARS


# -- words ------------------------------------------------------------------------------------------------------


def _runs_of(text: str) -> re.Pattern[str]:
    return _ASCII_RUN if text.isascii() else _RUN


class _TermsOf(dict[str, Sequence[str]]):
    """Run -> its terms, remembered. A plain dictionary, so that a text's terms are looked up without Python's help."""

    def __missing__(self, run: str) -> Sequence[str]:
        terms = _pairs(run) if _IS_UNSPACED(run) else [term for term, _, _ in _analysed(run)]
        if len(run) <= _CACHED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[run] = terms
        return terms


_terms_of = _TermsOf()


@lru_cache(maxsize=16_384)
def _word(word: str) -> tuple[tuple[str, int, int], ...]:
    return _analysed(word)


def _analysed(word: str) -> tuple[tuple[str, int, int], ...]:
    """Terms of one run of letters with their places in it: the whole first, then its parts."""
    bare = _POSSESSIVE.sub("", word)
    if _VERSION.fullmatch(bare):
        numbers = bare.lower().removeprefix("v").split(".")
        return tuple((".".join(numbers[: count + 1])[:MAX_TERM], 0, len(bare)) for count in range(len(numbers))[::-1])
    segments = list(_segments(bare))
    found: list[tuple[str, int, int]] = []
    if len(segments) > 1:
        found.append((_SEPARATOR.sub("/", fold(bare)).strip("/")[:MAX_TERM], 0, len(bare)))
    elif bare.endswith(("++", "#")):
        found.append((fold(bare)[:MAX_TERM], 0, len(bare)))
    for text, start in segments:
        found += _identifier(text, start)
    return tuple(dict.fromkeys(item for item in found if item[0]))


def _segments(text: str) -> Iterator[tuple[str, int]]:
    """The pieces of a path or dotted name with their places."""
    at = 0
    for match in _SEPARATOR.finditer(text):
        if match.start() > at:
            yield text[at : match.start()], at
        at = match.end()
    if at < len(text):
        yield text[at:], at


def _identifier(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """The whole, then its parts where it has more than one."""
    joined = _JOINT.sub("", text)
    yield stem(fold(joined)[:MAX_TERM]), start, start + len(text)
    plain = joined.islower() or joined.isupper() or joined.istitle()
    if (len(joined) == len(text) and plain) or "'" in text or "’" in text:
        if (numbered := _NUMBERED.fullmatch(text)) is not None:
            yield stem(fold(numbered[1])[:MAX_TERM]), start, start + numbered.end(1)
        return
    parts = list(_PART.finditer(text))
    if len(parts) > 1:
        for part in parts:
            yield stem(fold(part[0])[:MAX_TERM]), start + part.start(), start + part.end()


# -- scripts without spaces ---------------------------------------------------------------------------------------


def _pairs(run: str) -> list[str]:
    chars = unicodedata.normalize("NFKC", run).casefold()
    return [*chars, *map("".join, itertools.pairwise(chars))]


def _characters(run: str, at: int) -> Iterator[Term]:
    """Characters and pairs with their places; where a mark joins its letter, places are those of the whole run."""
    chars = unicodedata.normalize("NFKC", run).casefold()
    exact = len(chars) == len(run)
    for place, char in enumerate(chars):
        yield Term(char, at + place, at + place + 1) if exact else Term(char, at, at + len(run))
        if place:
            pair = chars[place - 1 : place + 1]
            yield Term(pair, at + place - 1, at + place + 1) if exact else Term(pair, at, at + len(run))
