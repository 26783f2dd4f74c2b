"""How a session ended, by rules: what the person said of it first, then what the last checks showed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from memory.documents import PrintedEvent
from memory.model import Outcome, Tier
from memory.offline.cues import cues, shared
from memory.offline.language import language, weight
from memory.offline.prose import Prose, lead_trimmed, read
from memory.offline.trouble import Run

_GAVE_UP = shared("gave_up")
_DONE = shared("done")


LONG_WEIGHT = 500.0
"""A longer message is a request; what praise or complaint stands in it is about something else."""


REQUEST_WEIGHT = 24.0
"""A shorter message without praise or complaint ("hm", "go on") asks for nothing new."""


class Verdict(StrEnum):
    """What one message of a person says of the work."""

    GOOD = "good"
    BAD = "bad"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The label, and the person's event that decided it (None where checks or nothing did)."""

    outcome: Outcome
    number: int | None = None


def verdict(text: str) -> Verdict:
    """Praise or complaint in a message; a mixed one counts by its last word. Questions and long briefs say neither."""
    prose = read(text)
    if prose.document or weight(text) > LONG_WEIGHT:
        return Verdict.NONE
    found = Verdict.NONE
    for sentence in prose.sentences:
        table = cues(language(sentence.text) or "en")
        good, bad = table.praise.search(sentence.masked), table.complain.search(sentence.masked)
        if bad is not None:
            found = Verdict.BAD
        elif good is not None and not sentence.masked.rstrip().endswith(("?", "？")):
            found = Verdict.GOOD
    return found


def praise(prose: Prose) -> str:
    """The sentence with which a person confirmed something in particular; "" for mere thanks."""
    for sentence in prose.sentences:
        table = cues(language(sentence.text) or "en")
        said = lead_trimmed(sentence.text)
        if (
            table.praise.search(sentence.masked)
            and not table.ask.search(sentence.masked)
            and weight(table.praise.sub("", said)) >= 9
        ):
            return sentence.text
    return ""


def judge(events: list[PrintedEvent], found: list[Run]) -> Judgement:
    """The label of the last task. `uncertain` where nothing speaks either way."""
    humans = [event for event in events if event.tier is Tier.HUMAN]
    if not humans:
        return Judgement(Outcome.UNCERTAIN)
    for event in reversed(humans[1:][-3:]):
        said = verdict(event.text)
        if said is Verdict.GOOD:
            return Judgement(Outcome.SUCCESS, event.number)
        if said is Verdict.BAD:
            return _after_complaint(event, events, found)
        if _substantive(event):
            break
    asked = next((event for event in reversed(humans) if weight(event.text) >= REQUEST_WEIGHT), humans[0])
    return Judgement(_by_checks(events, found, asked.number))


def _substantive(event: PrintedEvent) -> bool:
    """A new request: what was said before it judged another task."""
    return weight(event.text) >= 40


def _after_complaint(complaint: PrintedEvent, events: list[PrintedEvent], found: list[Run]) -> Judgement:
    """The person was not content; what happened after that was not confirmed by anyone."""
    later = [event for event in events if event.number > complaint.number]
    worked = any(event.tier is Tier.TOOL for event in later)
    if not worked:
        return Judgement(Outcome.FAIL, complaint.number)
    by_checks = _by_checks(events, found, complaint.number)
    return Judgement(
        Outcome.PARTIAL
        if by_checks is Outcome.SUCCESS
        else Outcome.UNCERTAIN
        if by_checks is not Outcome.FAIL
        else Outcome.FAIL,
        complaint.number,
    )


def _by_checks(events: list[PrintedEvent], found: list[Run], since: int) -> Outcome:
    last = [run for run in found if run.step.call.number > since and run.ok is not None]
    checks = [
        run
        for run in last
        if any(p.purpose in {"test", "lint", "types", "build", "commit", "push"} for p in run.programs)
    ]
    closing = next((event.text for event in reversed(events) if event.tier is Tier.FINAL and event.number > since), "")
    gave_up, done = _GAVE_UP.search(closing[:1500]) is not None, _DONE.search(closing[:1500]) is not None
    if checks and checks[-1].ok is False:
        return Outcome.PARTIAL if done and not gave_up else Outcome.FAIL
    if gave_up:
        return Outcome.PARTIAL if checks and done else Outcome.FAIL if not done else Outcome.UNCERTAIN
    if checks and checks[-1].ok and (done or not closing):
        return Outcome.SUCCESS
    return Outcome.UNCERTAIN
