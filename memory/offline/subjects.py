"""What a statement is about, so that two statements on one subject meet: the later replaces or joins the earlier.

Meaning is not understood here. A statement is reduced to: the values it names (tools of one family, numbers with their
noun, code), which of them it rejects, whether it forbids, and its remaining content words. Two statements conflict
where these say different things about the same; they are the same where they agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from memory import support
from memory.offline.cues import shared, word_families

_FAMILIES, _TOPICS = word_families()
_VALUE_OF: dict[str, tuple[str, str]] = {}
for _family, _words in _FAMILIES.items():
    for _word in _words:
        _name, _, _canonical = _word.partition("=")
        _VALUE_OF[_name] = (_family, _canonical or _name)
_TOPIC_OF = {word: topic for topic, words in _TOPICS.items() for word in words}


def _alternation(words: list[str]) -> str:
    ordered = sorted(words, key=lambda word: (-len(word), word))
    spaced = [re.escape(word) for word in ordered if re.match(r"[a-zа-яà-ÿ]", word)]
    dense = [re.escape(word) for word in ordered if not re.match(r"[a-zа-яà-ÿ]", word)]
    return rf"(?<![a-z0-9_.-])(?:{'|'.join(spaced)})(?![a-z0-9_])(?![.-][a-z0-9])|{'|'.join(dense)}"


_VALUE = re.compile(_alternation(list(_VALUE_OF)))
_TOPIC = re.compile(_alternation(list(_TOPIC_OF)))
_NUMBER = re.compile(r"(?<![\w.])v?(\d{1,6}(?:\.\d+){0,3})(?![\w]|\.\d)")
_NOUN_BEFORE = re.compile(
    r"([a-zа-яà-ÿ][\w-]*|[\u3400-\u9fff\u30a0-\u30ff\uac00-\ud7af]+)[\s:=]*(?:(?:is|to|on|at|now|=|:|用|是|为|在|改成|改到|换成|换到|は|を|が|은|는|이)\s*)*$"
)
_NOUN_AFTER = re.compile(r"\s*(?:番|号|个)?(端口|ポート|포트|版本|行|字符|秒|分钟|[a-z]+)")
_QUANTITIES = frozenset(
    "timeout limit max maximum min minimum size width length height depth retries workers threads memory ttl interval "
    "coverage python node java php ruby rust golang postgres react lines line characters columns seconds minutes hours "
    "days ms mb gb 行 字符 秒 分钟 超时 上限 タイムアウト".split()
)
"""Words whose number is a value that can change."""
_REJECT_BEFORE = shared("reject_before")
_REJECT_AFTER = shared("reject_after")
_CLAUSE_END = shared("clause_end")
_FORBIDS = shared("forbids")
_CHANGE = shared("change")
_STOP_DENSE = shared("stop_dense")
_STOP_WORDS = (
    "always never please use using used now instead rather than not no don do only from on prefer we our "
    "i you it is are be must should for the all new any every in of to and or with this that repo "
    "repository project here just also moved move switched switch migrated migrate changed change have "
    "has was were will let lets going keep make sure ok okay everywhere anywhere stop avoid without more "
    "want over like love hate better by at as so but if when then they them their there remember "
    "everything stuff thing don't don’t doesn't can't won't isn't ever immer nie niemals nicht statt "
    "bitte wir ab jetzt verwende verwenden toujours jamais pas désormais utilise utiliser siempre nunca "
    "usa usar sempre não em всегда никогда не используй используем мы в на для "
)
_STOP = frozenset(_STOP_WORDS.split()) | support.terms(_STOP_WORDS)


_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Subject:
    """A statement reduced to what it is about."""

    wants: frozenset[tuple[str, str]]
    rejects: frozenset[tuple[str, str]]
    numbers: frozenset[tuple[str, str]]
    rejected_numbers: frozenset[str]
    topics: frozenset[str]
    words: frozenset[str]
    forbids: bool
    changes: bool

    @property
    def keys(self) -> frozenset[str]:
        """What another statement must share to be compared with this one."""
        families = {f"family:{family}" for family, _ in self.wants | self.rejects}
        nouns = {f"noun:{noun}" for noun, _ in self.numbers if noun} | ({"number"} if self.numbers else set())
        return frozenset({*families, *nouns, *(f"topic:{t}" for t in self.topics), *(f"word:{w}" for w in self.words)})


@lru_cache(maxsize=16384)
def subject(text: str) -> Subject:
    """Reduces a statement. Linear in its length."""
    plain = support.normalise(text)
    rejected = _rejected_spans(plain)
    wants: set[tuple[str, str]] = set()
    rejects: set[tuple[str, str]] = set()
    for match in _VALUE.finditer(plain):
        (rejects if _inside(match.start(), rejected) or _REJECT_AFTER.match(plain, match.end()) else wants).add(
            _VALUE_OF[match[0]]
        )
    numbers: set[tuple[str, str]] = set()
    rejected_numbers: set[str] = set()
    for match in _NUMBER.finditer(plain):
        if _inside(match.start(), rejected) or _REJECT_AFTER.match(plain, match.end()):
            rejected_numbers.add(match[1])
        else:
            numbers.add((_noun(plain, match), match[1]))
    topics = frozenset(_TOPIC_OF[match[0]] for match in _TOPIC.finditer(plain))
    bare = _STOP_DENSE.sub(" ", _TOPIC.sub(" ", _VALUE.sub(" ", _NUMBER.sub(" ", plain))))
    words = frozenset(word for word in support.terms(bare) if word not in _STOP and len(word) > 1)
    negative = bool(_FORBIDS.search(plain)) and not wants
    return Subject(
        frozenset(wants - rejects),
        frozenset(rejects - wants),
        frozenset(numbers),
        frozenset(rejected_numbers),
        topics,
        words,
        negative,
        bool(_CHANGE.search(plain)),
    )


def _rejected_spans(plain: str) -> list[tuple[int, int]]:
    spans = []
    for match in _REJECT_BEFORE.finditer(plain):
        end = _CLAUSE_END.search(plain, match.end(), match.end() + 40)
        spans.append((match.end(), end.start() if end else min(len(plain), match.end() + 40)))
    return spans


def _inside(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= place < max(end, start + 1) for start, end in spans)


def _noun(plain: str, match: re.Match[str]) -> str:
    """The quantity a number is a value of: `port 8000`, `8000 端口`, `40 lines`; "" for any other number (`module 3`
    names a module, it is no setting of it)."""
    for word in (_noun_after(plain, match.end()), _noun_before(plain[max(0, match.start() - 24) : match.start()])):
        topic = next((t for name, t in _TOPIC_OF.items() if word == name or (not name.isascii() and name in word)), "")
        if topic in {"port", "version"}:
            return topic
        if word in _QUANTITIES:
            return word
    return ""


def _noun_before(text: str) -> str:
    found = _NOUN_BEFORE.search(text)
    return found[1] if found else ""


def _noun_after(plain: str, start: int) -> str:
    found = _NOUN_AFTER.match(plain, start)
    return found[1] if found else ""


# -- two statements -----------------------------------------------------------------------------------


def same(left: str, right: str) -> bool:
    """Whether two statements say the same thing, in whatever words."""
    if support.normalise(left) == support.normalise(right):
        return True
    a, b = subject(left), subject(right)
    mine, theirs = set(_SPAN.findall(left)), set(_SPAN.findall(right))
    if mine and theirs and mine != theirs:
        return False
    if a.forbids != b.forbids or not _agree(a, b):
        return False
    if support.similarity(left, right) >= 0.72:
        return True
    tongue = {value for value in a.wants & b.wants if value[0] == "tongue"}
    if tongue and a.topics == b.topics and a.topics:
        return True
    shared, total = a.words & b.words, a.words | b.words
    named = bool(a.wants & b.wants) or bool(a.numbers & b.numbers)
    if not total:
        return named and a.topics == b.topics
    ratio = len(shared) / len(total)
    smaller = min(len(a.words), len(b.words))
    return ratio >= (0.5 if named else 0.65) or (smaller >= 3 and len(shared) >= 0.85 * smaller)


def _agree(a: Subject, b: Subject) -> bool:
    """No value of one family, and no number of one noun, differs; code and names they mention are not at odds."""
    if _clash(a.wants, b.wants) or a.wants & b.rejects or a.rejects & b.wants:
        return False
    return not a.numbers or not b.numbers or {value for _, value in a.numbers} == {value for _, value in b.numbers}


def _clash(left: frozenset[tuple[str, str]], right: frozenset[tuple[str, str]]) -> bool:
    """One key with different values on the two sides."""
    mine, theirs = _grouped(left), _grouped(right)
    return any(mine[key].isdisjoint(theirs[key]) for key in mine.keys() & theirs.keys())


def _grouped(pairs: frozenset[tuple[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return found


def replaces(new: str, old: str) -> bool:
    """Whether a later statement says otherwise on the earlier one's subject [M2 M39-M41 X9 O29]."""
    a, b = subject(new), subject(old)
    if a.rejects & b.wants and (_families(a.wants) & _families(a.rejects & b.wants) or _about_the_same(a, b)):
        return True
    if a.wants & b.rejects and not b.wants and _about_the_same(a, b):
        return True
    if a.rejected_numbers & {value for _, value in b.numbers}:
        return True
    shared = _families(a.wants) & _families(b.wants)
    if any(_values(a.wants, family).isdisjoint(_values(b.wants, family)) for family in shared):
        others_clash = any(not _values(a.wants, f).isdisjoint(_values(b.wants, f)) for f in shared)
        return not others_clash and _about_the_same(a, b)
    if _new_number(a, b):
        return True
    return a.forbids != b.forbids and bool(a.words | a.wants) and _overlap(a, b, new, old) >= 0.6


def _families(pairs: frozenset[tuple[str, str]]) -> set[str]:
    return {family for family, _ in pairs}


def _values(pairs: frozenset[tuple[str, str]], family: str) -> set[str]:
    return {value for key, value in pairs if key == family}


def _about_the_same(a: Subject, b: Subject) -> bool:
    """Their qualifiers do not tell them apart ("for billing" and "for analytics" do)."""
    if a.topics and b.topics and a.topics.isdisjoint(b.topics):
        return False
    return _compatible(a.words, b.words) or (a.changes and len(a.words) <= 2)


def _new_number(a: Subject, b: Subject) -> bool:
    """A quantity with a new value, or a bare number in a statement of change where the earlier one named one."""
    mine, theirs = _grouped(a.numbers), _grouped(b.numbers)
    for noun in mine.keys() & theirs.keys():
        if noun and mine[noun].isdisjoint(theirs[noun]) and _same_place(a, b, noun):
            return True
    bare = mine.get("", set())
    known = {value for noun, value in b.numbers if noun}
    free = len(a.words) <= 3 and not mine.keys() - {""}
    return bool(bare) and a.changes and len(known) == 1 and bare.isdisjoint(known) and free


def _same_place(a: Subject, b: Subject, noun: str) -> bool:
    return _compatible(a.words - {noun}, b.words - {noun})


def _compatible(left: frozenset[str], right: frozenset[str]) -> bool:
    """One of the two qualifies nothing, or they qualify mostly alike."""
    return not left or not right or len(left & right) >= 0.6 * min(len(left), len(right))


def _overlap(a: Subject, b: Subject, new: str, old: str) -> float:
    mine = a.words | {value for _, value in a.wants | a.rejects} | a.topics
    theirs = b.words | {value for _, value in b.wants | b.rejects} | b.topics
    return len(mine & theirs) / len(mine | theirs) if mine and theirs else support.similarity(new, old)
