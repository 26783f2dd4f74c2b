"""Evidence: what a model may see of a rollout, within a budget of tokens, frozen up to a boundary [Z071-Z076].

Of a transcript only what somebody said or a tool answered is evidence; `derived` events never are. The budget is filled
tier by tier (human, final, agent, commentary, tool), newest first inside a tier. One exception: the first human message
is taken before all others, because it sets the task, and without it the latest corrections have nothing to correct.
Then everything is printed in the order of the source, every gap and cut visible, every secret replaced.

The same transcript and settings give the same bytes. A transcript read up to an earlier boundary gives what it gave
then, however the file has grown since.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from itertools import pairwise

from memory.documents import PrintedEvent, print_event, print_gap
from memory.model import Boundary, Event, EventKind, Tier, Transcript
from memory.redact import Redactor
from memory.settings import ExtractSettings, Settings
from memory.tokens import TokenCounter
from rollouts.clean import clean, join, mend_reader_cut, shorten, size
from rollouts.drafts import is_own_tool

_TIERS = (Tier.HUMAN, Tier.FINAL, Tier.AGENT, Tier.COMMENTARY, Tier.TOOL)
_LABEL_TOKENS = 30
_GAP_TOKENS = 34
_FILL = 0.9
"""How much of the budget is filled by estimates; the rest covers their error, so that few prints are trimmed."""
_WELL_FILLED = 0.7
_ROUNDS = 3
"""Where events print much shorter than they are (encoded data, colours), another round takes more of them."""
_MISSES = 24
"""Events of a tier that may be too large for what is left before the older ones are given up."""
_SMALLEST = 48
"""Tokens below which nothing worth printing fits."""
_SAMPLE = 100
_SURE = 1.7
"""How far an estimate of text with ordinary words may lie below the count."""
_DENSE = re.compile(r"\S{100}")
_TOOL_NAME = 80
_MARGIN = 2_048
"""Characters beyond a cut that are searched for secrets which reach over it."""


@dataclass(frozen=True)
class Evidence:
    """One snapshot. `text` is what the model sees; `events` are its events, redacted, as they were printed.

    `coverage` counts events: `events` (evidence after `since`), `kept`, `left_out`, `cut`, `derived`, `before` (taken
    earlier) and `<tier>_kept` / `<tier>_total` for each tier. `no_user_text` says that no person said anything in the
    whole rollout; `tainted` names the tools of other origin (web, MCP) whose answers are among the events [M64 X38].
    """

    text: str
    events: tuple[PrintedEvent, ...]
    boundary: Boundary
    since: Boundary
    gaps: int
    coverage: dict[str, int]
    budget_tokens: int
    no_user_text: bool
    tainted: tuple[str, ...]
    _tokens: TokenCounter = field(repr=False, compare=False)

    @cached_property
    def tokens(self) -> int:
        """Exact count of `text`, made when first asked for; never more than the budget."""
        return self._tokens.count(self.text)


def build(
    transcript: Transcript,
    *,
    budget_tokens: int,
    settings: ExtractSettings | Settings,
    tokens: TokenCounter,
    redactor: Redactor,
    since: Boundary | None = None,
    tz: tzinfo | None = None,
) -> Evidence:
    """The evidence of a transcript after `since`, in at most `budget_tokens` tokens of `tokens`.

    Times are printed in `tz` (default UTC), always with their offset [M32]. A `since` that lies beyond the transcript
    belongs to a file that was rewritten: then everything is new. Never raises over what the events hold.
    """
    limits = settings.extract if isinstance(settings, Settings) else settings
    start = since if since is not None and since.offset <= transcript.boundary.offset else Boundary()
    found = [e for e in transcript.events if e.number > start.events and e.tier is not Tier.DERIVED and e.text]
    header = _header(start)
    printer = _Printer(transcript, limits, tokens, redactor, tz or UTC)
    made = _fill(header, found, limits, budget_tokens, tokens, printer)
    events = made.events
    return Evidence(
        text=made.text,
        events=events,
        boundary=transcript.boundary,
        since=start,
        gaps=made.gaps,
        coverage=_coverage(transcript, start, found, events),
        budget_tokens=budget_tokens,
        no_user_text=not any(e.tier is Tier.HUMAN and e.text.strip() for e in transcript.events),
        tainted=tuple(sorted({event.tool for event in events if event.tool and is_external(event.tool)})),
        _tokens=tokens,
    )


def is_external(tool: str) -> bool:
    """Whether a tool's answers come from outside the user's machine: web pages, MCP servers; ours is none of them."""
    if is_own_tool(tool):
        return False
    name = tool.lower()
    return name.startswith(("mcp_", "mcp:", "mcp.")) or "web" in name or "fetch" in name or "browser" in name


def _header(since: Boundary) -> str:
    if not since.events:
        return ""
    return f"[before: events 1 to {since.events} were taken earlier; only what came after them follows]"


# -- choosing -----------------------------------------------------------------------------------------


class _Selection:
    """Which events fit: costs by estimate, the gaps they leave counted as they arise.

    `order` holds indexes, strongest first; `caps` the bytes that those are cut to which fit no other way.
    """

    def __init__(self, events: Sequence[Event], limits: ExtractSettings, tokens: TokenCounter, budget: int) -> None:
        self.events = events
        self.order: list[int] = []
        self.caps: dict[int, int] = {}
        self._limits = limits
        self._tokens = tokens
        ranked = self._ranked()
        if sum(size(event.text) + 2 * _LABEL_TOKENS for event in events) <= budget:
            self.order = [index for indexes in ranked for index in indexes]
            return
        self._kept = bytearray(len(events) + 2)  # with a kept neighbour at either end
        self._kept[0] = self._kept[-1] = 1
        self._left = int(budget * _FILL) - _GAP_TOKENS
        self._density = self._sampled_density()
        human, *others = ranked
        self._take(human[:1], largest=self._left // 2)
        self._take(human[1:2], largest=self._left // 2)
        self._take(human[2:], largest=self._left)
        for indexes in others:
            self._take(indexes)

    def _ranked(self) -> list[list[int]]:
        """Indexes of each tier in the order they are taken: newest first, but the first human message before all."""
        by_tier: dict[Tier, list[int]] = {tier: [] for tier in _TIERS}
        for index, event in enumerate(self.events):
            by_tier[event.tier].append(index)
        ranked = [indexes[::-1] for indexes in by_tier.values()]
        ranked[0] = ranked[0][-1:] + ranked[0][:-1]
        return ranked

    def _sampled_density(self) -> float:
        """Tokens per byte of these events: costs need no more, for the print is checked at the end."""
        step = max(1, len(self.events) // _SAMPLE)
        sample = "\n".join(event.text[: 4 * _SAMPLE] for event in self.events[::step])
        return self._tokens.quick(sample) / max(1, size(sample))

    def _take(self, indexes: Sequence[int], *, largest: int = 0) -> None:
        """Takes in the order given. What is too large is cut to `largest` tokens where that is given, else passed."""
        misses = 0
        for index in indexes:
            if self._left < _SMALLEST or misses > _MISSES:
                break
            event = self.events[index]
            around = _LABEL_TOKENS + _GAP_TOKENS * (1 - self._kept[index] - self._kept[index + 2])
            shown = min(size(event.text), self._limits.event_bytes)
            cost = shown * self._density
            if event.kind is EventKind.TOOL_RESULT:
                cost = min(cost, self._limits.tool_output_tokens)
            room = min(self._left, largest or self._left) - around
            if cost > room:
                if not largest or room < _SMALLEST:
                    misses += 1
                    continue
                self.caps[index] = min(self._limits.event_bytes, int(shown * room / cost))
                cost = room
            self._kept[index + 1] = 1
            self.order.append(index)
            self._left -= int(cost) + around


# -- printing -----------------------------------------------------------------------------------------

_Print = tuple[PrintedEvent, str]


class _Printer:
    """Texts of the chosen events: cleaned, redacted, cut, labelled."""

    def __init__(
        self, transcript: Transcript, limits: ExtractSettings, tokens: TokenCounter, redactor: Redactor, tz: tzinfo
    ) -> None:
        self._transcript = transcript
        self._limits = limits
        self._tokens = tokens
        self._redactor = redactor
        self._tz = tz

    def print(self, chosen: _Selection) -> dict[int, _Print]:
        """Index -> event and its print. All texts are redacted in one pass."""
        order = sorted(chosen.order)
        events = [chosen.events[index] for index in order]
        caps = [chosen.caps.get(index, self._limits.event_bytes) for index in order]
        printed: dict[int, _Print] = {}
        for index, event, (text, cut) in zip(order, events, self._texts(events, caps), strict=True):
            shown = PrintedEvent(
                number=event.number,
                tier=event.tier,
                kind=event.kind,
                text=text,
                time=self._local(event.time),
                tool=self._tool(event),
                ok=event.ok if event.kind is EventKind.TOOL_RESULT else None,
                cut=cut,
            )
            printed[index] = shown, print_event(shown)
        return printed

    def _texts(self, events: Sequence[Event], caps: Sequence[int]) -> Iterator[tuple[str, bool]]:
        """Redacted texts with whether they were cut. Of a long one only the ends are cleaned and redacted."""
        pieces: list[str] = []
        keeps: list[tuple[int, int]] = []
        for event, cap in zip(events, caps, strict=True):
            if _is_long(event.text, cap):
                head, tail = clean(event.text[: cap + _MARGIN]), clean(event.text[-cap - _MARGIN :])
                pieces += [head, tail]
                keeps += [(max(0, min(cap, len(head) - _MARGIN)), 0), (0, max(0, min(cap, len(tail) - _MARGIN)))]
            else:
                text = clean(mend_reader_cut(event.text))
                pieces.append(text)
                keeps.append((len(text), 0))
        redacted = iter(self._redactor.redact_cut(pieces, keeps))
        for event, cap in zip(events, caps, strict=True):
            text, tail = next(redacted)[0], ""
            absent = max(0, event.full_chars - len(event.text))
            if _is_long(event.text, cap):
                tail = next(redacted)[1]
                absent += len(event.text) - len(text) - len(tail)
            room = self._room(event, text + tail, cap)
            if size(text) + size(tail) > room:
                yield self._shortened(event, text + tail, room, absent), True
            elif tail:
                yield join(text, tail, absent), True
            else:
                yield text, absent > 0

    def _room(self, event: Event, text: str, cap: int) -> int:
        """How many bytes to print: for one tool output those of so many tokens, by estimate [M67 O6]."""
        limit = self._limits.tool_output_tokens
        if event.kind is not EventKind.TOOL_RESULT or size(text) <= limit:
            return cap
        rough = self._tokens.quick(text)
        if rough * _SURE <= limit and not _DENSE.search(text):
            return cap
        if rough <= limit * 1.1 and self._tokens.at_most(text, limit):
            return cap
        return min(cap, int(size(text) * limit * 0.85 / max(rough, limit)))

    def _shortened(self, event: Event, text: str, room: int, absent: int) -> str:
        """Head and tail; the estimate of a tool output is put right by counting until it fits."""
        shorter, limit = shorten(text, room, missing=absent), self._limits.tool_output_tokens
        while event.kind is EventKind.TOOL_RESULT and not self._tokens.at_most(shorter, limit):
            room = min(room * 9 // 10, int(size(shorter) * limit * 0.97 / self._tokens.count(shorter)))
            shorter = shorten(text, room, missing=absent)
        return shorter

    def _local(self, time: datetime | None) -> datetime | None:
        if time is None:
            return None
        try:
            aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
            return aware.astimezone(self._tz).replace(second=0, microsecond=0)
        except (OverflowError, ValueError):
            return None

    @cached_property
    def _calls(self) -> dict[str, str]:
        return {e.call_id: e.tool for e in self._transcript.events if e.call_id and e.tool}

    def _tool(self, event: Event) -> str | None:
        """An answer bears the name of the tool that was called, so that what came from outside shows it [M64]."""
        if event.kind is EventKind.MESSAGE:
            return None
        return (event.tool or self._calls.get(event.call_id or "") or "unknown")[:_TOOL_NAME]


def _is_long(text: str, cap: int) -> bool:
    return len(text) > 2 * (cap + _MARGIN)


# -- laying out ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Made:
    text: str = ""
    events: tuple[PrintedEvent, ...] = ()
    gaps: int = 0


def _fill(
    header: str,
    found: Sequence[Event],
    limits: ExtractSettings,
    budget: int,
    tokens: TokenCounter,
    printer: _Printer,
) -> _Made:
    """Chooses, prints and fits; again with more room where the prints came out much shorter than the events."""
    room = budget - tokens.upper_bound(header) // 2
    made = _Made()
    for _ in range(_ROUNDS):
        chosen = _Selection(found, limits, tokens, room)
        made = _fitted(header, chosen, printer.print(chosen), budget, tokens)
        if len(made.events) == len(found):
            break
        used = tokens.count(made.text)
        if used > _WELL_FILLED * budget:
            break
        room = int(room * min(_FILL * budget / max(used, 1), 3.0))
    return made


def _fitted(header: str, chosen: _Selection, printed: dict[int, _Print], budget: int, tokens: TokenCounter) -> _Made:
    """What the estimates let in too much goes, weakest first."""
    order = list(chosen.order)
    while True:
        kept = sorted(order)
        text, gaps = _layout(header, chosen.events, kept, printed)
        if tokens.at_most(text, budget):
            return _Made(text, tuple(printed[index][0] for index in kept), gaps)
        if not order:
            return _Made()
        excess = tokens.count(text) - budget
        while order and excess > 0:
            excess -= int(tokens.quick(printed[order.pop()][1]))


def _layout(header: str, events: Sequence[Event], kept: Sequence[int], printed: dict[int, _Print]) -> tuple[str, int]:
    lines = [header] if header else []
    gaps = 0
    for before, index in pairwise([-1, *kept, len(events)]):
        if index > before + 1:
            lines.append(_gap(events[before + 1 : index]))
            gaps += 1
        if index < len(events):
            lines.append(printed[index][1])
    return "\n".join(lines), gaps


def _gap(events: Sequence[Event]) -> str:
    counts = Counter(event.tier for event in events)
    tokens = sum(max(len(e.text), e.full_chars) * (0.29 if e.text.isascii() else 0.6) for e in events)
    return print_gap({tier: counts[tier] for tier in _TIERS if counts[tier]}, round(tokens))


def _coverage(
    transcript: Transcript, since: Boundary, found: Sequence[Event], kept: Sequence[PrintedEvent]
) -> dict[str, int]:
    total, taken = Counter(e.tier for e in found), Counter(e.tier for e in kept)
    coverage = {
        "events": len(found),
        "kept": len(kept),
        "left_out": len(found) - len(kept),
        "cut": sum(event.cut for event in kept),
        "derived": sum(e.tier is Tier.DERIVED and e.number > since.events for e in transcript.events),
        "before": sum(e.number <= since.events for e in transcript.events),
    }
    for tier in _TIERS:
        coverage[f"{tier.value}_kept"], coverage[f"{tier.value}_total"] = taken[tier], total[tier]
    return coverage
