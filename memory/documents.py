"""The two Markdown documents and the evidence print, parsed and written in one place.

Rollout summary file: front matter, then a body of `SUMMARY_SECTIONS` whose bullets end with anchors `[e12]`.
Main summary: line `v1`, the four `HEADINGS`, bullets that end with citations `[3f9a1c2e]` or `[note:NAME]`.
Evidence print: one label per event, later lines of its text indented by two spaces, so that no text inside an
event can pass for a label. Everything a reader may take for a line break counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from memory.clock import iso, parse_iso
from memory.model import (
    ANCHOR,
    CITATION,
    HEADINGS,
    Boundary,
    Claim,
    EventKind,
    Outcome,
    RolloutId,
    SummaryHeader,
    Tier,
)

# -- evidence print -----------------------------------------------------------------------------------

LABEL = re.compile(
    r"^\[e(?P<number>[1-9]\d*) (?P<tier>human|final|agent|commentary|tool) (?P<time>\S+)"
    r"(?: (?P<kind>call|result) (?P<tool>\S+)(?: (?P<ok>ok|error))?)?(?P<cut> cut)?\](?: (?P<text>.*))?$"
)
GAP = re.compile(r"^\[gap: .*\]$")


@dataclass(frozen=True, slots=True)
class PrintedEvent:
    """One event as a model sees it. `time` keeps the printed offset; None where the session had no time."""

    number: int
    tier: Tier
    kind: EventKind
    text: str
    time: datetime | None = None
    tool: str | None = None
    ok: bool | None = None
    cut: bool = False


def print_event(event: PrintedEvent) -> str:
    """`[e12 human 2026-11-28T09:14+01:00] text`, tool events with `call NAME` or `result NAME ok|error`.

    The time is local time with its offset, minutes precision; `-` where unknown. Space at the ends of lines and
    empty lines at the end of the text are not kept.
    """
    parts = [f"e{event.number}", event.tier.value, _minutes(event.time)]
    if event.kind is not EventKind.MESSAGE:
        name = re.sub(r"[\s\]]+", "_", event.tool or "unknown") or "unknown"
        parts += ["call" if event.kind is EventKind.TOOL_CALL else "result", name]
        if event.kind is EventKind.TOOL_RESULT and event.ok is not None:
            parts.append("ok" if event.ok else "error")
    if event.cut:
        parts.append("cut")
    first, *rest = event.text.rstrip().splitlines() or [""]
    return "\n".join([f"[{' '.join(parts)}] {first}".rstrip(), *[f"  {line}".rstrip() for line in rest]])


def print_gap(left_out: dict[Tier, int], tokens: int) -> str:
    """The visible mark of what the budget left out between two events [C066]."""
    total = sum(left_out.values())
    kinds = ", ".join(f"{count} {tier.value}" for tier, count in left_out.items() if count)
    return f"[gap: {total} event{'s' if total != 1 else ''} left out ({kinds}), about {tokens:,} tokens]"


def parse_evidence(text: str) -> Iterator[PrintedEvent]:
    """The inverse of `print_event` over a whole print; gaps, headers and other lines are passed over."""
    current: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        match = LABEL.match(line)
        if match or not line.startswith("  "):
            if current is not None:
                if not match and line == "":
                    lines.append("")
                    continue
                yield _printed(current, lines)
            current, lines = match, [match["text"] or ""] if match else []
        elif current is not None:
            lines.append(line[2:])
    if current is not None:
        yield _printed(current, lines)


def _printed(match: re.Match[str], lines: list[str]) -> PrintedEvent:
    kind = {None: EventKind.MESSAGE, "call": EventKind.TOOL_CALL, "result": EventKind.TOOL_RESULT}[match["kind"]]
    return PrintedEvent(
        number=int(match["number"]),
        tier=Tier(match["tier"]),
        kind=kind,
        text="\n".join(lines).rstrip("\n"),
        time=None if match["time"] == "-" else _parse_offset(match["time"]),
        tool=match["tool"],
        ok=None if match["ok"] is None else match["ok"] == "ok",
        cut=match["cut"] is not None,
    )


def _parse_offset(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _minutes(moment: datetime | None) -> str:
    return "-" if moment is None else moment.isoformat(timespec="minutes")


# -- rollout summary files ----------------------------------------------------------------------------

BULLET = re.compile(r"^- (?P<text>\S.*)$")


def print_rollout_summary(header: SummaryHeader, body: str) -> str:
    """The whole file: front matter, blank line, body, one final newline."""
    fields = {
        "source": str(header.source),
        "id": header.source.source_id,
        "project": header.project,
        "project_name": header.project_name,
        "cwd": header.cwd or "",
        "branch": header.branch or "",
        "started": iso(header.started) or "",
        "ended": iso(header.ended) or "",
        "boundary": f"{header.boundary.offset}:{header.boundary.events}:{header.boundary.prefix_hash}",
        "outcome": header.outcome.value,
        "slug": header.slug,
        "human": " ".join(map(str, header.human)),
    }
    front = "\n".join(f"{key}: {_one_line(value)}" for key, value in fields.items())
    return f"---\n{front}\n---\n\n{body.strip()}\n"


def parse_rollout_summary(text: str) -> tuple[SummaryHeader, str]:
    """Header and body. Raises ValueError naming what is missing."""
    match = re.match(r"\A---\n(.*?)\n---\n(.*)\Z", text, re.DOTALL)
    if match is None:
        raise ValueError("no front matter")
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in match[1].split("\n"))}
    try:
        offset, events, digest = _three(fields["boundary"])
        header = SummaryHeader(
            source=RolloutId.parse(fields["source"]),
            project=fields["project"],
            project_name=fields.get("project_name", ""),
            cwd=fields.get("cwd") or None,
            branch=fields.get("branch") or None,
            started=parse_iso(fields.get("started")),
            ended=parse_iso(fields.get("ended")),
            boundary=Boundary(int(offset), int(events), digest),
            outcome=Outcome(fields["outcome"]),
            slug=fields["slug"],
            human=tuple(int(number) for number in fields.get("human", "").split()),
        )
    except KeyError as error:
        raise ValueError(f"front matter lacks {error.args[0]}") from None
    return header, match[2].strip()


def _three(boundary: str) -> tuple[str, str, str]:
    parts = boundary.split(":")
    if len(parts) != 3:
        raise ValueError("front matter has a boundary that is not offset:events:hash")
    return parts[0], parts[1], parts[2]


def sections(body: str) -> dict[str, list[str]]:
    """`## Heading` -> its bullets (text with anchors, continuation lines joined by a blank)."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in body.split("\n"):
        if line.startswith("## "):
            heading = line.strip()
            found.setdefault(heading, [])
        elif match := BULLET.match(line):
            found.setdefault(heading, []).append(match["text"].strip())
        elif line.startswith("  ") and line.strip() and found.get(heading):
            found[heading][-1] += " " + line.strip()
    return found


def anchors(text: str) -> tuple[int, ...]:
    """Event numbers cited in a text, in order, once each."""
    return tuple(dict.fromkeys(int(number) for number in ANCHOR.findall(text)))


def citations(text: str) -> tuple[str, ...]:
    """Sources and notes cited in a text, in order, once each."""
    return tuple(dict.fromkeys(CITATION.findall(text)))


def without_marks(text: str) -> str:
    """A bullet's text without its anchors and citations."""
    return re.sub(r"\s{2,}", " ", CITATION.sub("", ANCHOR.sub("", text))).strip()


# -- the main summary ---------------------------------------------------------------------------------


def claims(summary: str) -> list[Claim]:
    """Every bullet of a main summary with its citations; tolerant, the gate judges form."""
    found: list[Claim] = []
    section = ""
    for number, line in enumerate(summary.split("\n"), start=1):
        if line in HEADINGS:
            section = line
        elif match := BULLET.match(line):
            text = match["text"]
            found.append(Claim(without_marks(text), citations(text), section, number))
        elif line.startswith("  ") and line.strip() and found:
            last = found[-1]
            text = line.strip()
            found[-1] = Claim(
                f"{last.text} {without_marks(text)}".strip(),
                tuple(dict.fromkeys(last.citations + citations(text))),
                last.section,
                last.line,
            )
    return found


def print_summary(bullets: Mapping[str, Iterable[str]]) -> str:
    """`v1` and the four headings with the given bullets (text with citations, without the dash)."""
    lines = ["v1"]
    for heading in HEADINGS:
        lines += ["", heading, *(f"- {_one_line(text)}" for text in bullets.get(heading, ()))]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(part for line in text.splitlines() if (part := line.strip()))
