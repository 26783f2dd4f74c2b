"""One session's evidence, read once: what every part of a record is made from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from memory.documents import PrintedEvent
from memory.model import Tier
from memory.offline.classify import Statement, statements
from memory.offline.commands import Step, steps
from memory.offline.commands import read as read_parts
from memory.offline.language import main_language
from memory.offline.prose import Prose
from memory.offline.prose import read as read_prose
from memory.offline.trouble import Run, runs

MAX_ANCHORS = 4


@dataclass(slots=True)
class Session:
    """`code` is the language the person mostly uses; `said` holds their statements by event, in order of time."""

    events: list[PrintedEvent]
    steps: list[Step]
    runs: list[Run]
    prose: dict[int, Prose]
    said: dict[int, list[Statement]]
    code: str
    by_number: dict[int, PrintedEvent]
    humans: list[PrintedEvent]
    calls: list[int]
    """Numbers of the tool calls, ascending."""

    def work_after(self, event: PrintedEvent) -> int:
        """How many calls followed a person's event before their next one."""
        place = bisect_right(self.humans, event.number, key=lambda human: human.number)
        following = self.humans[place].number if place < len(self.humans) else 1 << 31
        return bisect_left(self.calls, following) - bisect_right(self.calls, event.number)


def read(evidence: str) -> Session:
    """Reads a print. Linear; tolerates any text."""
    parts = list(read_parts(evidence))
    events = [event for part in parts for event in part]
    found = steps(parts)
    humans = [event for event in events if event.tier is Tier.HUMAN]
    prose = {event.number: read_prose(event.text) for event in humans}
    said: dict[int, list[Statement]] = {}
    answered = False
    for event in events:
        if event.tier is Tier.HUMAN:
            said[event.number] = statements(prose[event.number], event.number, answered=answered)
        elif event.tier in {Tier.FINAL, Tier.COMMENTARY, Tier.AGENT}:
            answered = True
    code = main_language([event.text for event in humans])
    by_number = {event.number: event for event in events}
    calls = sorted(step.call.number for step in found)
    return Session(events, found, runs(found), prose, said, code, by_number, humans, calls)


def bullet(text: str, marks: Iterable[str]) -> str:
    """A line with its anchors, at most four: the first and the last ones."""
    cited = list(dict.fromkeys(marks))
    half = MAX_ANCHORS // 2
    cited = cited if len(cited) <= MAX_ANCHORS else [*cited[:half], *cited[-half:]]
    return f"{text} {' '.join(f'[{mark}]' for mark in cited)}"
