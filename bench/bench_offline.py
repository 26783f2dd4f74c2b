"""Offline model: both stages against 1, 2, 4 and 8 times the input, and over the evidence of a corpus."""

from __future__ import annotations

import asyncio
import json
import statistics
from datetime import UTC, datetime, timedelta

from bench.timing import ROUNDS, Row, corpus, growth, seconds, timed
from memory.documents import PrintedEvent, print_event, print_rollout_summary
from memory.llm.base import Message, ToolSpec
from memory.model import Boundary, EventKind, Host, Outcome, RolloutId, SummaryHeader, Tier
from memory.offline import OfflineModel
from memory.offline.record import record

SIZES = (1, 2, 4, 8)
BOUND = 1.35
"""Exponent of time over size: 1 is linear, 2 quadratic."""
ROUNDS_PER_SESSION = 40
RECORDS = 32
START = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
TOOLS = (ToolSpec("read", "", {}), ToolSpec("write", "", {"properties": {"path": {}, "content": {}}}))


def turns(number: int) -> list[tuple[Tier, EventKind, str, str | None, bool | None]]:
    """One round of a session: a request, a rule, a correction, failing and passing commands, a report."""
    message, call, result = EventKind.MESSAGE, EventKind.TOOL_CALL, EventKind.TOOL_RESULT
    output = "\n".join(f"  at step{n} (src/part{number}/file{n}.ts:{n}:7)" for n in range(60))
    asked = f"add the export of part {number} to src/part{number}.ts. Always test part{number} first."
    corrected = f"不对，第 {number} 个端口不是 {8000 + number}，是 {9000 + number}。以后第 {number} 部分统一用 pnpm。"
    return [
        (Tier.HUMAN, message, asked, None, None),
        (Tier.COMMENTARY, message, "Reading the code first.", None, None),
        (Tier.TOOL, call, f"npm test part{number}", "bash", None),
        (Tier.TOOL, result, f"Error: Cannot find module './part{number}'\n{output}", "bash", False),
        (Tier.TOOL, call, f"file_path: /home/dev/shop/src/part{number}.ts\nold_string: a", "Edit", None),
        (Tier.TOOL, result, "ok", "Edit", True),
        (Tier.TOOL, call, f"pnpm test part{number}", "bash", None),
        (Tier.TOOL, result, "12 passed", "bash", True),
        (Tier.FINAL, message, f"Part {number} is exported; `pnpm test part{number}` passes.", None, None),
        (Tier.HUMAN, message, corrected, None, None),
    ]  # fmt: skip


def evidence(rounds: int, first: int = 0, day: int = 0) -> str:
    """A print of that many rounds."""
    lines: list[str] = []
    for number in range(first, first + rounds):
        for tier, kind, text, tool, ok in turns(number):
            place = len(lines) + 1
            moment = START + timedelta(days=day, minutes=place)
            lines.append(print_event(PrintedEvent(place, tier, kind, text, moment, tool, ok)))
    return "\n".join(lines) + "\n"


def records(count: int) -> dict[str, str]:
    """Rollout summaries of that many sessions: path -> text."""
    files = {}
    for number in range(count):
        body = record(evidence(3, first=number * 3, day=number)).body
        header = SummaryHeader(
            source=RolloutId(Host.CODEX, f"bench-{number}"),
            project=f"p{number % 7}",
            project_name=f"p{number % 7}",
            cwd=None,
            branch=None,
            started=START + timedelta(days=number),
            ended=START + timedelta(days=number, hours=1),
            boundary=Boundary(1, 1, "0"),
            outcome=Outcome.SUCCESS,
            slug="bench",
            human=tuple(range(1, 32)),
        )
        files[f"rollout_summaries/{header.source.source_id}.md"] = print_rollout_summary(header, body)
    return files


def consolidate(files: dict[str, str]) -> str:
    """The whole conversation of stage 2 over files in memory; the summary it writes."""
    model, written = OfflineModel(), ""
    table = "\n".join(f"| [{path[18:26]}] | {path} | p | 2026-11-01 |  |" for path in files)
    messages = [Message("system", "x"), Message("user", f"`memory_summary.md` does not exist yet.\n{table}")]
    while True:
        reply = asyncio.run(model.chat(messages, TOOLS, max_output_tokens=10_000))
        if not reply.tool_calls:
            return written
        messages.append(Message("assistant", reply.text, reply.tool_calls))
        for call in reply.tool_calls:
            arguments = json.loads(call.arguments)
            written = arguments.get("content", written)
            answer = "Written." if call.name == "write" else files.get(arguments["path"], "")
            messages.append(Message("tool", answer, tool_call_id=call.id))


def run() -> list[Row]:
    sessions = [evidence(ROUNDS_PER_SESSION * size) for size in SIZES]
    inputs = [records(RECORDS * size) for size in SIZES]
    first: list[list[float]] = [[] for _ in SIZES]
    second: list[list[float]] = [[] for _ in SIZES]
    # The sizes take turns, so that a busy machine slows them all; the first turn only fills caches.
    for turn in range(ROUNDS + 1):
        for place in range(len(SIZES)):
            one = timed(lambda place=place: record(sessions[place]))  # type: ignore[misc]
            two = timed(lambda place=place: consolidate(inputs[place]))  # type: ignore[misc]
            if turn:
                first[place].append(one)
                second[place].append(two)
    rows = []
    for name, times, sizes in (
        ("stage 1, growth of time with evidence", first, [len(text) for text in sessions]),
        ("stage 2, growth of time with records", second, [len(files) for files in inputs]),
    ):
        exponent = growth(sizes, [statistics.median(values) for values in times])
        biggest, smallest = seconds(times[-1]), seconds(times[0])
        rows.append(Row(name, exponent, BOUND, "exponent", f"{sizes[-1]:,}: {biggest}", f"{sizes[0]:,}: {smallest}"))
    return [*rows, *over_corpus()]


def over_corpus() -> list[Row]:
    """Stage 1 over the real sessions at hand, evidence built beforehand."""
    root = corpus()
    if root is None:
        return []
    from bench.bench_evidence import evidence as build
    from bench.bench_evidence import read, sessions

    prints = [build(transcript).text for transcript in read(sessions(root))]
    times = [timed(lambda: [record(text) for text in prints]) for _ in range(ROUNDS + 1)][1:]
    each = statistics.median(times) / max(1, len(prints)) * 1000
    return [Row("stage 1, a real session", each, None, "ms", seconds(times), f"{len(prints)} sessions of the corpus")]
