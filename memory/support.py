"""Does a text stand in its sources? Pure text measures shared by local validation (stage 1) and the gate (stage 2).

Identifiers (backticked spans, quoted spans, paths, URLs, versions, numbers, names) must stand in a cited text to the
letter, up to white space, quotes and markup; words need only be covered to a share. Works in any script: scripts
without spaces are compared by character pairs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from memory.documents import without_marks

_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "`": "", "*": "", "…": "..."})
_SPACES = re.compile(r"\s+")
_BACKTICK = re.compile(r"`([^`\n]+)`")
_QUOTED = re.compile(r"[\"“「『]([^\"“”「」『』\n]{3,200})[\"”」』]")
_URL = re.compile(r"https?://[^\s<>\"'`)\]]+", re.IGNORECASE)
_PATH = re.compile(
    r"(?<![\w/])(?:[~.]{0,2}/)?(?:[\w.@+-]+/)+[\w.@+-]*\w|(?<![\w/.])[\w-]+\.[A-Za-z][A-Za-z0-9]{0,7}(?!\w)", re.ASCII
)
_NUMBER = re.compile(r"(?<![\w.])v?\d[\d,]*(?:\.\d+)*(?:\.x)?%?", re.ASCII)
_MIXED = re.compile(
    r"\b(?:[A-Za-z]+_[A-Za-z0-9_]+|[a-z]+[A-Z]\w*|[A-Z]\w*[a-z]\w*[A-Z]\w*|[0-9a-f]{7,40})\b|(?<!\S)--?[a-z][\w-]*",
    re.ASCII,
)
_LATIN_IN_CJK = re.compile(r"[A-Za-z][A-Za-z0-9_.+#-]*[A-Za-z0-9+#]", re.ASCII)
_NOT_PATHS = frozenset({"and/or", "read/write", "input/output", "yes/no", "client/server", "he/she", "i/o", "a/b"})
_NAME = re.compile(
    r"(?<=[^\s.!?:;。！？：；\-–—(\[\"“「] )[A-Z][A-Za-z0-9+#.'-]*[A-Za-z0-9+#]|\b[A-Z]{2,}[A-Z0-9]*\b", re.ASCII
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*", re.UNICODE)
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff]+")
_COUNT = re.compile(r"\(?\b(\d+)(?:×| ?x\b| sessions?\b| sources?\b| projects?\b| 次| 个会话)")

_STOPWORD_TEXT = """
a an and are as at be been but by can do does for from had has have he her his i if in into is it its may must no not of
on or our she should so than that the their them then there these they this those to use used user users uses was we
were what when where which who will with would you your 的 了 是 在 和 与 及 用户
"""
STOPWORDS = frozenset(_STOPWORD_TEXT.split())


@lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    """NFKC, straight quotes, no backticks or emphasis, single spaces, casefolded."""
    folded = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    return _SPACES.sub(" ", folded).strip().casefold()


def identifiers(text: str) -> tuple[str, ...]:
    """Everything in a claim that must stand in a cited source to the letter, in order, once each.

    Marks (`[e12]`, citations) are left out. A number that only counts the claim's own sources
    (`(3 sessions)`) is the caller's to check, see `counts`.
    """
    plain = _COUNT.sub(" ", without_marks(text))
    found: list[str] = []
    rest = plain
    for pattern in (_BACKTICK, _QUOTED):
        # A quotation around a backticked span is checked in the pieces beside it.
        found += [piece.strip() for match in pattern.finditer(rest) for piece in match[1].split(" ¤ ")]
        rest = pattern.sub(" ¤ ", rest)
    for pattern in (_URL, _PATH, _MIXED):
        found += [match[0] for match in pattern.finditer(rest)]
        rest = pattern.sub(" ¤ ", rest)
    found += [match[0].rstrip(",.") for match in _NUMBER.finditer(rest)]
    found += [match[0].rstrip(".'-") for match in _NAME.finditer(rest) if match[0] not in {"I", "OK"}]
    if _UNSPACED.search(rest):
        found += [match[0] for match in _LATIN_IN_CJK.finditer(rest)]
    kept = (item for item in found if item.strip("¤ ") and item.casefold() not in _NOT_PATHS)
    return tuple(dict.fromkeys(kept))


def counts(text: str) -> tuple[int, ...]:
    """The numbers with which a claim counts its own sources."""
    return tuple(int(match[1]) for match in _COUNT.finditer(without_marks(text)))


def stands_in(identifier: str, source: str) -> bool:
    """Whether an identifier occurs in a source text, not as a part of a longer number or word."""
    needle, hay = normalise(identifier), normalise(source)
    if not needle:
        return True
    if re.fullmatch(r"v?\d[\d,]*(?:\.\d+)*%?", needle):
        needle = needle.replace(",", "").removeprefix("v")
        hay = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", hay)
        return re.search(rf"(?<![\d.]){re.escape(needle)}(?!\d|\.\d)", hay) is not None
    start = hay.find(needle)
    while start >= 0:
        before = hay[start - 1] if start else " "
        after = hay[start + len(needle)] if start + len(needle) < len(hay) else " "
        if not (_joins(before, needle[0]) or _joins(needle[-1], after)):
            return True
        start = hay.find(needle, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


@lru_cache(maxsize=8192)
def terms(text: str) -> frozenset[str]:
    """Content words, and character pairs of scripts without spaces; stop words and marks left out."""
    plain = normalise(without_marks(text))
    found: set[str] = set()
    for run in _UNSPACED.findall(plain):
        found.update(run[i : i + 2] for i in range(len(run) - 1)) if len(run) > 1 else found.add(run)
    for word in _WORD.findall(_UNSPACED.sub(" ", plain)):
        if word not in STOPWORDS:
            found.add(_stem(word))
    return frozenset(found)


def _stem(word: str) -> str:
    """Plural and verb endings off, so that `tests` meets `test`; deliberately weak."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def coverage(claim: str, sources: Iterable[str]) -> float:
    """Share of a claim's terms that occur in the sources together, 0 to 1; 1 for a claim without terms."""
    wanted = terms(claim)
    if not wanted:
        return 1.0
    have: set[str] = set()
    for source in sources:
        have |= terms(source)
    return len(wanted & have) / len(wanted)


def similarity(left: str, right: str) -> float:
    """Jaccard measure of two texts' terms, 0 to 1."""
    a, b = terms(left), terms(right)
    return len(a & b) / len(a | b) if a or b else 1.0


_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])\s*")


def sentences(text: str) -> list[str]:
    """A claim's sentences, marks left out; a full stop inside backticks or a number ends none."""
    parts = re.split(r"(`[^`]*`)", without_marks(text))
    shielded = "".join(part.replace(" ", "\x00") if part.startswith("`") else part for part in parts)
    found = (part.replace("\x00", " ").strip() for part in _SENTENCE_END.split(shielded))
    return [part for part in found if part]


# -- forms that are never memory ------------------------------------------------------------------------

_REFUSAL = re.compile(
    r"^(?:i['’]?m (?:sorry|unable)|i am (?:sorry|unable)|sorry,|i (?:can(?:no|['’])t|cannot|won['’]t) "
    r"(?:help|assist|provide|do|comply|summari[sz]e|process)|as an ai\b|i apologi[sz]e|unfortunately,? i (?:can|am)"
    r"|抱歉|对不起，?我|很抱歉|我无法|"
    r"作为(?:一个)?(?:ai|人工智能)|申し訳|죄송|es tut mir leid|je suis désolé|lo siento|desculpe|извините)",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"<\|[a-z_]+\|>|\[/?INST\]|<</?SYS>>|(?<!\w)</?(?:system|assistant|user|developer|system-reminder|tool_result|function_calls)\b"
    r"|^\s*(?:-\s*)?(?:system|assistant|developer|human)\s*:",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"</?slowwave-|```|~~~", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:always|never|must(?: not)?|from now on|do(?: not|n['’]t)|avoid|make sure|ensure|"
    r"ignore (?:all|any|previous)|you (?:should|must)|be sure to|remember to|prefer|instead of|rather than|"
    r"only use|stop using)\b"
    r"|^(?:in `[^`]+`: *)?(?:use|run|add|set|install|execute|call|send|post|fetch|download|curl|write|delete|remove|"
    r"disable|enable|commit|push|keep|put|include|open|visit|reply|respond|answer)\b"
    r"|以后|不要|别|必须|一律|总是|永远|务必|禁止|统一|记得|应当|应该|请"
    r"|必ず|今後|禁止|してください|しない|항상|절대|하지 ?마|immer|niemals|toujours|jamais|siempre|nunca|sempre"
    r"|всегда|никогда",
    re.IGNORECASE,
)


def is_refusal(text: str) -> bool:
    """A model declining its job, in place of a memory [M20]."""
    return _REFUSAL.match(without_marks(text).lstrip("#-*> ").strip()) is not None


def has_role_marker(text: str) -> bool:
    """Chat-template marks, role prefixes and reminder tags [M61]."""
    return _ROLE.search(text) is not None


def has_fence(text: str) -> bool:
    """Our own injection fence or a code fence: text that could close the block it is injected in."""
    return _FENCE.search(text) is not None


def is_instruction(text: str) -> bool:
    """Whether a line tells its reader to do or not to do something."""
    return _ORDER.search(without_marks(text)) is not None
