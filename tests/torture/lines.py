"""A model that takes down every word of a person and writes one line for each: what must stand in the summary is then
known without asking a model. It keeps a log, one line for each answer, across processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memory.documents import anchors, parse_evidence, parse_rollout_summary, print_summary, sections, without_marks
from memory.llm.base import ChatReply, Message, StructuredReply, T, ToolCall, ToolSpec, Usage
from memory.model import DIFF_NAME, HEADINGS, SUMMARY_NAME, SUMMARY_SECTIONS, Tier
from memory.testing import call

_ROW = re.compile(r"^\| \[([^\]]+)\] \| (\S+) \|", re.MULTILINE)
_FORMER = re.compile(r"<former-record>\n(.*?)\n</former-record>", re.DOTALL)
_EVIDENCE = re.compile(r"<evidence>\n(.*?)\n</evidence>", re.DOTALL)
USAGE = Usage(input_tokens=100, output_tokens=20)


def nothing() -> None:
    """What happens at a call unless a test says otherwise."""


@dataclass(slots=True)
class LineModel:
    """`during` is called inside every request (a test stops or clears there); `seconds` is how long one takes."""

    log: Path
    seconds: float = 0.0
    during: Callable[[], None] = nothing
    name: str = "line-model"
    provider: str = "scripted"
    paths: dict[str, str] = field(default_factory=dict)

    async def window(self) -> int | None:
        return 32_000

    async def close(self) -> None:
        return None

    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        await self._work()
        text = messages[1].content
        session = re.search(r"^Session: (\S+)$", text, re.MULTILINE)
        former, evidence = _FORMER.search(text), _EVIDENCE.search(text)
        assert session is not None
        assert evidence is not None
        events = list(parse_evidence(evidence[1]))
        bullets = list(_bullets(former[1])) if former else []
        bullets += [f"{event.text} [e{event.number}]" for event in events if event.tier is Tier.HUMAN]
        wanted = [bullet for bullet in dict.fromkeys(bullets) if "worth nothing" not in bullet]
        body = f"# {session[1]}\nOutcome: success\n\n{SUMMARY_SECTIONS[1]}\n" + "".join(f"- {b}\n" for b in wanted)
        answer = {"rollout_summary": body if wanted else "", "rollout_slug": "session" if wanted else ""}
        if len(messages) == 2:
            self.note("extract", session[1], str(max((event.number for event in events), default=0)))
        return StructuredReply(schema.model_validate(answer), USAGE, json.dumps(answer))

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, max_output_tokens: int
    ) -> ChatReply:
        await self._work()
        if len(messages) == 2:
            self.note("begin", str(time.monotonic()), "")
            self.paths = {path: citation for citation, path in _ROW.findall(messages[1].content)}
            looks = [call("read", "c0", path=DIFF_NAME)]
            looks += [call("read", f"c{n}", path=path) for n, path in enumerate(self.paths, start=1)]
            return ChatReply("", tuple(looks), USAGE, finish="tool_calls")
        asked = {made.id: str(json.loads(made.arguments).get("path")) for m in messages for made in m.tool_calls}
        texts = {asked[m.tool_call_id]: m.content for m in messages if m.role == "tool" and m.tool_call_id in asked}
        if texts.get(SUMMARY_NAME, "").startswith("Written"):
            self.note("end", str(time.monotonic()), "")
            return ChatReply("done", (), USAGE)
        write: ToolCall = call("write", "w1", path=SUMMARY_NAME, content=self._summary(texts))
        return ChatReply("", (write,), USAGE, finish="tool_calls")

    def _summary(self, texts: dict[str, str]) -> str:
        """One line for each thing said, with every source that says it."""
        found: dict[str, list[str]] = {}
        for path, citation in self.paths.items():
            for line in said_in(path, texts[path]):
                found.setdefault(line, []).append(citation)
        lines = [f"{line} {' '.join(f'[{citation}]' for citation in sources)}" for line, sources in found.items()]
        return print_summary({HEADINGS[1]: lines})

    async def _work(self) -> None:
        self.during()
        if self.seconds:
            await asyncio.sleep(self.seconds)

    def note(self, *words: str) -> None:
        """One line of the log, appended whole."""
        line = " ".join([words[0], str(os.getpid()), *words[1:]]) + "\n"
        fd = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line.encode())
        finally:
            os.close(fd)


def _bullets(body: str) -> list[str]:
    return [bullet for found in sections(body).values() for bullet in found if anchors(bullet)]


def said_in(path: str, text: str) -> list[str]:
    """What the person said, line by line, as an input of stage 2 has it."""
    if not path.startswith("rollout_summaries/"):
        body = re.sub(r"\A---\n.*?\n---\n", "", text, count=1, flags=re.DOTALL)
        return [line.strip() for line in body.split("\n") if line.strip()]
    try:
        _, body = parse_rollout_summary(text)
    except ValueError:
        return []
    return [without_marks(bullet).strip() for found in sections(body).values() for bullet in found]
