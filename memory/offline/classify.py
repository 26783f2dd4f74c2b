"""What one sentence of a person is: a preference, a correction, a decision, a choice for one task, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from memory.offline.cues import Cues, cues, shared
from memory.offline.language import language, weight
from memory.offline.prose import Prose, Sentence, clip, lead_trimmed
from memory.offline.subjects import subject

MIN_WEIGHT = 7.0
"""A shorter sentence is an answer or an exclamation, not a statement ("yes", 好的)."""
MIN_CORRECTION = 16.0
"""A shorter correction ("no, left") means nothing outside its conversation."""
BARE_WEIGHT = 40.0
"""A correction or decision this short ("no, that's horrible") says what is wanted in the sentence after it."""
STATEMENT_BYTES = 420
REASON_BYTES = 260


class Kind(StrEnum):
    PREFERENCE = "preference"
    CORRECTION = "correction"
    DECISION = "decision"
    FACT = "fact"
    PROFILE = "profile"
    ONE_TASK = "one-task"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Finding:
    """`strength` 3: asked to remember or dated ("from now on"); 2: by its own words; 1: by its form."""

    kind: Kind
    strength: int = 0
    rule: bool = False
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """Something a person said that may outlive its session; `number` is the event it stands in."""

    text: str
    kind: Kind
    strength: int
    number: int
    everywhere: bool = False
    place: int = 0


NOTHING = Finding(Kind.NONE)

_HORIZON = shared("horizon")
_HEDGE = shared("hedge")
_REPORTED = shared("reported")
_POINTING = shared("pointing")
_POINTING_CJK = shared("pointing_cjk")
_ABOUT_THIS = shared("about_this")
_DEFINITE = re.compile(
    r"^\W*(?:\w+\W+){0,2}?the (?!user|repo|project|main|master|production|prod|default)\w", re.IGNORECASE
)
_FORBIDDING = re.compile(r"do(?:n['’]?t| not) |\bno |only |exclusively ", re.IGNORECASE)
_LIST_HEAD = shared("list_head")


def classify(sentence: Sentence, *, hint: str = "en", answered: bool = True, brief: bool = False) -> Finding:
    """Judges one sentence alone. `hint` is the language of its message; `answered`: the assistant has spoken before,
    so that there is something to correct; `brief`: the sentence stands in a task sheet or a pasted document."""
    text = lead_trimmed(sentence.masked)
    if weight(text) < MIN_WEIGHT or _REPORTED.search(text):
        return NOTHING
    tables = _tables(sentence.text, hint)
    horizon = _HORIZON.search(text) is not None
    everywhere = _hits(tables, "everywhere", text)
    if _hits(tables, "ask", text):
        return _asked(tables, text, horizon, everywhere, answered)
    if _HEDGE.search(text) and not horizon:
        return NOTHING
    standing = _hits(tables, "standing", text)
    if _hits(tables, "once", text) and not horizon:
        return Finding(Kind.ONE_TASK)
    if _hits(tables, "remember", text) or (standing and horizon):
        return Finding(Kind.PREFERENCE, 3, True, everywhere)
    if standing:
        return Finding(Kind.PREFERENCE, 2, True, everywhere)
    if brief:
        return NOTHING
    return _by_form(tables, sentence.masked, text, answered, everywhere)


def _by_form(tables: list[Cues], whole: str, text: str, answered: bool, everywhere: bool) -> Finding:
    rule = _general_rule(tables, text)
    if answered and _corrects(tables, whole, text, rule):
        return Finding(Kind.CORRECTION, 2 if rule else 1, rule, everywhere)
    if rule:
        return Finding(Kind.PREFERENCE, 1, True, everywhere)
    for field, kind in (("profile", Kind.PROFILE), ("decide", Kind.DECISION), ("fact", Kind.FACT)):
        if _hits(tables, field, text):
            return Finding(kind, 1, False, everywhere)
    return NOTHING


def _corrects(tables: list[Cues], whole: str, text: str, rule: bool) -> bool:
    """A rule that only contrasts ("X, not Y") stays a rule; one that opens with a "no" corrects."""
    places = [match.start() for table in tables for said in (text, whole) if (match := table.correct.search(said))]
    return bool(places) and (not rule or min(places) == 0)


def _asked(tables: list[Cues], text: str, horizon: bool, everywhere: bool, answered: bool) -> Finding:
    """A question is no rule, unless it is the polite form of one ("could you always …?", 以后能不能…)."""
    if _hits(tables, "polite", text) and (horizon or _hits(tables, "standing", text)):
        once = _hits(tables, "once", text) and not horizon
        return Finding(Kind.ONE_TASK) if once else Finding(Kind.PREFERENCE, 2, True, everywhere)
    corrected = any(match and match.start() == 0 for match in (table.correct.search(text) for table in tables))
    return Finding(Kind.CORRECTION, 1) if answered and corrected and weight(text) >= 30 else NOTHING


def _general_rule(tables: list[Cues], text: str) -> bool:
    """A rule by form counts only where it is not about one thing in sight ("don't touch this")."""
    for table in tables:
        match = table.rule.search(text)
        if match is None:
            continue
        after = text[match.end() : match.end() + 40]
        if _ABOUT_THIS.search(text[: match.start()]) or _POINTING.match(after):
            continue
        if _POINTING_CJK.search(text[max(0, match.start() - 6) : match.end() + 8]):
            continue
        if _FORBIDDING.search(match[0]) and _DEFINITE.match(after):
            continue
        return True
    return False


def _hits(tables: list[Cues], field: str, text: str) -> bool:
    return any(getattr(table, field).search(text) is not None for table in tables)


def _tables(text: str, hint: str) -> list[Cues]:
    """The sentence's own language, and its message's where the sentence is too short to tell."""
    code = language(text)
    codes = [code or hint] if code and weight(text) >= 60 else [code or hint, hint]
    if code in {"zh", "ja", "ko", "ru"} and code != hint:
        codes = [code]
    return [cues(name) for name in dict.fromkeys(codes)]


def has_reason(text: str) -> bool:
    """Whether a statement says why."""
    return _hits(_tables(text, "en"), "reason", text)


# -- a whole message ----------------------------------------------------------------------------------


def statements(prose: Prose, number: int, *, answered: bool) -> list[Statement]:
    """Everything a message states that may outlive its session, each with the explanation that follows it."""
    hint = language(" ".join(sentence.masked for sentence in prose.sentences[:12])) or "en"
    strict = prose.brief or prose.document
    found = list(_judged(prose, hint, answered, strict))
    result: list[Statement] = []
    taken = -1
    for place, (_, finding) in enumerate(found):
        if finding.kind in {Kind.NONE, Kind.ONE_TASK} or place <= taken:
            continue
        text, taken = _with_reason(found, place, hint)
        result.append(Statement(text, finding.kind, finding.strength, number, finding.everywhere, len(result)))
    kept = [s for s in result if weight(s.text) >= (MIN_CORRECTION if s.kind is Kind.CORRECTION else MIN_WEIGHT)]
    return [statement for statement in kept if not _said_better(statement, kept)]


def _said_better(statement: Statement, others: list[Statement]) -> bool:
    """A correction that a rule of the same message repeats in full ("no, we moved to X. From now on use X")."""
    if statement.kind is not Kind.CORRECTION:
        return False
    wanted = subject(statement.text).wants
    return any(
        wanted and wanted <= subject(o.text).wants
        for o in others
        if o.kind is Kind.PREFERENCE and o.place > statement.place
    )


def _judged(prose: Prose, hint: str, answered: bool, strict: bool) -> Iterator[tuple[Sentence, Finding]]:
    listing = False
    for sentence in prose.sentences:
        if _LIST_HEAD.search(sentence.masked):
            listing = True
            yield sentence, NOTHING
            continue
        listing = listing and sentence.listed
        finding = classify(sentence, hint=hint, answered=answered, brief=strict)
        if listing and finding.kind not in {Kind.ONE_TASK, Kind.PREFERENCE}:
            finding = Finding(Kind.PREFERENCE, 3, True)
        yield sentence, finding


def _with_reason(found: list[tuple[Sentence, Finding]], place: int, hint: str) -> tuple[str, int]:
    """The statement and, where the next sentence explains it, that too. Returns the text and the last place used."""
    sentence = found[place][0]
    whole = found[place][1].kind is not Kind.PREFERENCE
    text = clip(lead_trimmed(sentence.text) if whole else rule_clause(sentence, hint), STATEMENT_BYTES)
    if place + 1 >= len(found) or text.endswith("…"):
        return text, place
    follower, finding = found[place + 1]
    near = follower.paragraph == sentence.paragraph and not follower.listed
    short = weight(sentence.text) < BARE_WEIGHT and found[place][1].kind in {Kind.CORRECTION, Kind.DECISION}
    joinable = {Kind.NONE, Kind.CORRECTION, Kind.FACT} | ({Kind.DECISION} if short else set())
    if not near or finding.kind not in joinable or len(follower.text.encode()) > REASON_BYTES:
        return text, place
    tables = _tables(follower.text, hint)
    if _hits(tables, "ask", follower.masked) or _hits(tables, "once", follower.masked):
        return text, place
    if short or _hits(tables, "reason", follower.masked) or _shared_name(sentence.text, follower.text):
        joint = "" if text[-1] in "。！？；" else " "
        return f"{text}{joint}{follower.text}", place + 1
    return text, place


_CLAUSE = re.compile(
    r"[，；：。]\s*|[,;:]\s+|\s[-–—]\s|\s(?:and|but|und|aber|et|mais|y|pero|e|и|но) (?=\w)|(?<=[てで])、"
)
_CONDITION = shared("condition")


_RULE_HEAD = re.compile(
    r"^[^:：,，]{0,24}(?:\b(?:rules?|conventions?|preferences?|notes?)\b|规则|规矩|约定|规范|偏好|ルール|규칙)[^:：,，]{0,30}[:：]\s*",
    re.IGNORECASE,
)


def rule_clause(sentence: Sentence, hint: str) -> str:
    """The part of a sentence that states its rule, where a request stands before it ("update the docs, never …")."""
    text, masked = lead_trimmed(sentence.text), lead_trimmed(sentence.masked)
    head = _RULE_HEAD.match(masked)
    if head and len(text) == len(masked) and weight(text[head.end() :]) >= 16:
        return lead_trimmed(text[head.end() :])
    if len(text) != len(masked) or weight(text) < 60 or _CONDITION.match(masked):
        return text
    places = [
        match.start()
        for table in _tables(sentence.text, hint)
        for name in ("standing", "rule", "remember")
        for match in getattr(table, name).finditer(masked)
    ]
    if not places or min(places) < 24:
        return text
    cuts = [match.end() for match in _CLAUSE.finditer(masked, 0, min(places) + 3) if match.end() <= min(places) + 3]
    if not cuts or weight(text[cuts[-1] :]) < 16:
        return text
    return lead_trimmed(text[cuts[-1] :])


def _shared_name(left: str, right: str) -> bool:
    names = re.compile(
        r"`[^`]+`|\d{2,}|[A-Za-z][\w.+#-]{2,}" if re.search(r"[\u3040-\u9fff]", left) else r"`[^`]+`|\d{2,}", re.ASCII
    )
    return bool({m[0].lower() for m in names.finditer(left)} & {m[0].lower() for m in names.finditer(right)})
