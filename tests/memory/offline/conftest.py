"""Evidence by hand, and the two stages' conversations around the offline model, judged by the real rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel, ConfigDict

import prompts
from consolidate.gate import Case, Source, Verdict, judge, source_from_note, source_from_rollout
from consolidate.tools import MAX_RESULT_CHARS, TOOLS
from memory.documents import PrintedEvent, anchors, claims, parse_evidence, print_event, print_rollout_summary
from memory.llm.base import Message, ToolCall
from memory.model import (
    Boundary,
    EventKind,
    Host,
    InputFile,
    Manifest,
    Outcome,
    RolloutId,
    SummaryHeader,
    Tier,
)
from memory.offline import OfflineModel

START = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
SUMMARY, DIFF = "memory_summary.md", "phase2_workspace_diff.md"


class Answer(BaseModel):
    """The schema of stage 1."""

    model_config = ConfigDict(extra="forbid")
    rollout_summary: str
    rollout_slug: str


@dataclass
class Evidence:
    """Builds a print event by event; times are a minute apart."""

    day: int = 0
    events: list[PrintedEvent] = field(default_factory=list)

    def _add(self, tier: Tier, kind: EventKind, text: str, tool: str | None = None, ok: bool | None = None) -> Evidence:
        number = len(self.events) + 1
        moment = START + timedelta(days=self.day, minutes=number)
        self.events.append(PrintedEvent(number, tier, kind, text, moment, tool, ok))
        return self

    def human(self, text: str) -> Evidence:
        return self._add(Tier.HUMAN, EventKind.MESSAGE, text)

    def says(self, text: str) -> Evidence:
        return self._add(Tier.COMMENTARY, EventKind.MESSAGE, text)

    def closes(self, text: str) -> Evidence:
        return self._add(Tier.FINAL, EventKind.MESSAGE, text)

    def runs(self, command: str, output: str = "", *, ok: bool = True) -> Evidence:
        self._add(Tier.TOOL, EventKind.TOOL_CALL, command, "bash")
        return self._add(Tier.TOOL, EventKind.TOOL_RESULT, output, "bash", ok)

    def edits(self, path: str, text: str = "x") -> Evidence:
        self._add(Tier.TOOL, EventKind.TOOL_CALL, f"file_path: {path}\ncontent: {text}", "Write")
        return self._add(Tier.TOOL, EventKind.TOOL_RESULT, "written", "Write", True)

    def __str__(self) -> str:
        return "\n".join(print_event(event) for event in self.events) + "\n"


@dataclass(frozen=True)
class Record:
    """A stored rollout summary."""

    header: SummaryHeader
    text: str

    @property
    def citation(self) -> str:
        return self.header.citation

    @property
    def path(self) -> str:
        return f"rollout_summaries/{self.header.source.source_id}.md"


def ask(evidence: str, *, former: str = "", project: str = "shop", extra: Sequence[Message] = ()) -> Answer:
    """What the model answers to stage 1's messages."""
    user = prompts.render(
        "extract_input",
        rollout="codex:1",
        project=project,
        cwd=f"/home/dev/{project}",
        branch="main",
        started="",
        ended="",
        former=former,
        former_events=1 if former else 0,
        evidence=evidence,
    )
    messages = [Message("system", "record"), Message("user", user), *extra]
    return asyncio.run(OfflineModel().complete_structured(messages, Answer, max_output_tokens=4000)).value


def store(evidence: str, session: str, project: str = "shop", *, body: str | None = None) -> Record | None:
    """Runs stage 1 and stores its answer as the pipeline would; None where nothing is worth keeping."""
    answer = ask(evidence, project=project)
    body = answer.rollout_summary if body is None else body
    if not body:
        return None
    events = list(parse_evidence(evidence))
    times = [event.time.astimezone(UTC) for event in events if event.time]
    human = {event.number for event in events if event.tier is Tier.HUMAN}
    header = SummaryHeader(
        source=RolloutId(Host.CODEX, session),
        project=f"{project}-id",
        project_name=project,
        cwd=f"/home/dev/{project}",
        branch="main",
        started=times[0],
        ended=times[-1],
        boundary=Boundary(1, len(events), "0" * 64),
        outcome=Outcome(body.split("\n")[1].removeprefix("Outcome: ")),
        slug=answer.rollout_slug or "session",
        human=tuple(sorted(human.intersection(anchors(body)))),
    )
    return Record(header, print_rollout_summary(header, body))


@dataclass
class Workspace:
    """The files of one consolidation and what the gate knows of them."""

    files: dict[str, str]
    rows: list[prompts.InputRow]
    sources: dict[str, Source]
    inputs: list[InputFile]
    removed: tuple[str, ...] = ()

    def case(self, candidate: str, previous: str) -> Case:
        manifest = Manifest("g", tuple(self.inputs), (), self.removed)
        known = {citation for claim in claims(previous) for citation in claim.citations}
        return Case(candidate.encode(), manifest, self.sources, previous, fresh=frozenset(self.sources) - known)


@dataclass(frozen=True)
class Published:
    """How a consolidation ended. `messages` is the whole conversation."""

    text: str
    verdict: Verdict
    messages: list[Message]
    repairs: int

    def section(self, heading: str) -> list[str]:
        part = self.text.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
        return [line for line in part.split("\n") if line.startswith("- ")]


def workspace(
    records: Sequence[Record], notes: Sequence[tuple[str, str, bool]] = (), removed: Sequence[str] = ()
) -> Workspace:
    space = Workspace({DIFF: "diff"}, [], {}, [], tuple(removed))
    for record in records:
        space.files[record.path] = record.text
        day = f"{record.header.ended:%Y-%m-%d}"
        row = prompts.InputRow(record.citation, record.path, record.header.project_name, day, False, False)
        space.rows.append(row)
        space.sources[record.citation] = source_from_rollout(record.citation, record.text)
        space.inputs.append(InputFile(record.citation, record.path, "0", len(record.text), record.header.project))
    for name, text, pinned in notes:
        citation, path = f"note:{name}", f"extensions/ad_hoc/notes/{name}.md"
        space.files[path] = text
        space.rows.append(prompts.InputRow(citation, path, "all projects", "2026-11-20", pinned, True))
        space.sources[citation] = source_from_note(citation, text, order="2026-11-20", pinned=pinned)
        space.inputs.append(InputFile(citation, path, "0", len(text), "", True, pinned))
    return space


def consolidate(
    space: Workspace, previous: str = "", *, model: OfflineModel | None = None, turns: int = 40
) -> Published:
    """The conversation of stage 2 with tools over a dict, and the real gate."""
    model = model or OfflineModel()
    files = {**space.files, **({SUMMARY: previous} if previous else {})}
    names = {"summary_name": SUMMARY, "diff_name": DIFF}
    system = prompts.render("consolidate_system", **names, max_bytes=10_000, target_bytes=8_000)
    first = prompts.render(
        "consolidate_input",
        **names,
        has_summary=bool(previous),
        inputs=space.rows,
        removed=list(space.removed),
        left_out=0,
    )
    messages = [Message("system", system), Message("user", first)]
    candidate, repairs = previous, 0
    for _ in range(turns):
        reply = asyncio.run(model.chat(messages, TOOLS, max_output_tokens=16_000))
        messages.append(Message("assistant", reply.text, reply.tool_calls))
        messages += [Message("tool", carry_out(call, files), tool_call_id=call.id) for call in reply.tool_calls]
        candidate = files.get(SUMMARY, "")
        if reply.tool_calls:
            continue
        verdict = judge(space.case(candidate, previous))
        if verdict.passed:
            return Published(candidate, verdict, messages, repairs)
        repairs += 1
        listed = prompts.render(
            "consolidate_repair",
            summary_name=SUMMARY,
            size_bytes=len(candidate.encode()),
            violations=verdict.violations,
        )
        messages.append(Message("user", listed))
    return Published(candidate, judge(space.case(candidate, previous)), messages, repairs)


def carry_out(call: ToolCall, files: dict[str, str]) -> str:
    """The read and write tools, results cut as the pipeline cuts them."""
    arguments = json.loads(call.arguments)
    if call.name == "write":
        assert arguments["path"] == SUMMARY
        files[SUMMARY] = arguments["content"]
        return f"Written: {SUMMARY}, {len(arguments['content'].encode()):,} bytes."
    assert call.name == "read"
    text, start = files[arguments["path"]], arguments.get("offset", 0)
    part = text[start : start + MAX_RESULT_CHARS]
    rest = len(text) - start - len(part)
    return part + (f"\n[{rest:,} more characters: read again with offset {start + len(part)}]" if rest else "")


@pytest.fixture
def stage1() -> Callable[..., Answer]:
    return ask


@pytest.fixture
def stored() -> Callable[..., Record | None]:
    return store


@pytest.fixture
def evidence() -> type[Evidence]:
    return Evidence


@pytest.fixture
def space() -> Callable[..., Workspace]:
    return workspace


@pytest.fixture
def stage2() -> Callable[..., Published]:
    return consolidate
