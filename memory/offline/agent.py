"""Stage 2 as a conversation: read everything, write once, mend what is refused, say done. No state but the messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory.documents import claims
from memory.llm.base import Message, ToolCall, ToolSpec
from memory.model import DIFF_NAME, SUMMARY_NAME
from memory.offline.contents import contents
from memory.offline.digest import candidates
from memory.offline.layout import Demands, compose
from memory.offline.sources import Row, Source, by_project, rows, source

BATCH = 128
"""Files asked for in one turn."""
MAX_ROUNDS = 12
DONE = "done"

_MORE = re.compile(r"\n?\[[\d,]+ more characters: read again with offset (\d+)\]\s*\Z")
_LEFT_OUT = re.compile(r"\A\[left out here[^\]]*\]\s*\Z")
_FINDING = re.compile(r"^- (?:line (\d+): )?(.*?)(?: \(([a-z_]+)\))?\s*$", re.MULTILINE)
_QUOTED = re.compile(r"«(.*?)»", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Turn:
    """The next assistant turn."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(slots=True)
class _Talk:
    """What the messages tell so far."""

    rows: list[Row]
    has_summary: bool
    read: dict[str, dict[int, str]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    last: Message | None = None
    written_ok: bool = True


def next_turn(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Turn:
    """Decides the next turn from the conversation alone. Never raises for what a file or a message may hold."""
    talk = _listen(messages)
    missing = _unread(talk)
    if missing:
        return Turn(
            "",
            tuple(
                _read_call(path, offset, len(messages), place, tools)
                for place, (path, offset) in enumerate(missing[:BATCH])
            ),
        )
    answered = talk.last is None or talk.last.role != "user" or not talk.written
    if talk.written and answered and talk.written_ok:
        return Turn(DONE)
    if len(talk.complaints) > MAX_ROUNDS:
        return Turn(DONE)
    previous = _whole(talk.read.get(SUMMARY_NAME, {})) if talk.has_summary else ""
    text = _compose(talk, previous)
    if text == (talk.written[-1] if talk.written else previous):
        return Turn(DONE)
    return Turn("", (_write_call(text, len(messages), tools),))


def _compose(talk: _Talk, previous: str) -> str:
    found: list[Source] = []
    for row in talk.rows:
        text = _whole(talk.read.get(row.path, {}))
        if row.path not in talk.refused and (read := source(row, text)) is not None:
            found.append(read)
    found = by_project(found)
    lines, overtaken = candidates(found)
    return compose([*lines, *contents(found, overtaken)], previous, found, _demands(talk, previous))


# -- listening ------------------------------------------------------------------------------------------------


def _listen(messages: Sequence[Message]) -> _Talk:
    told = [message.content for message in messages if message.role in {"system", "user"}]
    first = next((message.content for message in messages if message.role == "user"), "")
    talk = _Talk(
        rows(told[:2]) or rows(told),
        has_summary="does not exist yet" not in first,
        last=messages[-1] if messages else None,
    )
    asked: dict[str, tuple[str, dict[str, Any]]] = {}
    for message in messages:
        for call in message.tool_calls:
            asked[call.id] = (call.name, _arguments(call))
            if call.name == "write":
                talk.written.append(_text_argument(asked[call.id][1]))
        if message.role == "tool" and message.tool_call_id in asked:
            name, arguments = asked[message.tool_call_id or ""]
            if name == "read":
                _heard(talk, str(arguments.get("path", "")), int(arguments.get("offset", 0) or 0), message.content)
            elif name == "write":
                talk.written_ok = message.content.startswith("Written")
        elif message.role == "user" and talk.written:
            talk.complaints.append((message.content, talk.written[-1]))
    return talk


def _heard(talk: _Talk, path: str, offset: int, content: str) -> None:
    if not _LEFT_OUT.match(content):
        talk.read.setdefault(path, {})[offset] = content


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text_argument(arguments: Mapping[str, Any]) -> str:
    return str(next((value for key, value in arguments.items() if key != "path"), ""))


def _whole(parts: Mapping[int, str]) -> str:
    return "".join(_MORE.sub("", parts[offset]) for offset in sorted(parts))


def _unread(talk: _Talk) -> list[tuple[str, int]]:
    """Files, and later parts of files, that were not read yet: the diff first, then the summary, then the inputs."""
    paths = [DIFF_NAME, *([SUMMARY_NAME] if talk.has_summary else []), *(row.path for row in talk.rows)]
    found = []
    for path in paths:
        parts = talk.read.get(path)
        if parts is None:
            found.append((path, 0))
            continue
        last = parts[max(parts)]
        more = _MORE.search(last)
        if more is not None and path != DIFF_NAME and int(more[1]) not in parts:
            found.append((path, int(more[1])))
    return found


# -- speaking --------------------------------------------------------------------------------------------------


def _read_call(path: str, offset: int, turn: int, place: int, tools: Sequence[ToolSpec]) -> ToolCall:
    arguments: dict[str, Any] = {"path": path}
    if offset:
        arguments["offset"] = offset
    return ToolCall(f"offline-{turn}-{place}", "read", json.dumps(arguments, ensure_ascii=False))


def _write_call(text: str, turn: int, tools: Sequence[ToolSpec]) -> ToolCall:
    spec = next((tool for tool in tools if tool.name == "write"), None)
    names = list(spec.parameters.get("properties", {})) if spec else []
    field_name = next((name for name in names if name != "path"), "content")
    return ToolCall(
        f"offline-{turn}-w", "write", json.dumps({"path": SUMMARY_NAME, field_name: text}, ensure_ascii=False)
    )


def _demands(talk: _Talk, previous: str) -> Demands:
    """What the refusals so far ask for. A line that was refused goes; a line that was missed is kept; a text that was
    too long gets shorter."""
    dropped: set[str] = set()
    kept: set[str] = set()
    shrink = 0
    former = [claim.text for claim in claims(previous)]
    for message, candidate in talk.complaints:
        by_line = {claim.line: claim.text for claim in claims(candidate)}
        for number, text, rule in _FINDING.findall(message):
            if rule == "size" or ("bytes" in text and not number):
                shrink += 400
            elif number and int(number) in by_line:
                dropped.add(by_line[int(number)])
            elif quoted := _QUOTED.search(text):
                start = quoted[1].rstrip("…")
                kept.update(line for line in former if line.startswith(start))
    return Demands(frozenset(dropped - kept), frozenset(kept), shrink)
