"""Writers of session files, line by line, in the forms of the hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.model import Event, Tier, Transcript
from rollouts.claude import ClaudeAdapter
from rollouts.codex import CodexAdapter

CODEX = CodexAdapter()
CLAUDE = ClaudeAdapter()
CODEX_SESSION = "01a0f1aa-0000-7000-8000-000000000001"
CLAUDE_SESSION = "5f0c0000-0000-4000-8000-0000000000aa"
OTHER = "5f0c0000-0000-4000-8000-0000000000bb"


class Rollout:
    """Writes a rollout line by line; time runs a second a line."""

    def __init__(self, path: Path, **meta: Any) -> None:
        self.path = path
        self.lines: list[str] = []
        self.meta(**meta)

    def meta(self, **fields: Any) -> Rollout:
        client = {"originator": "codex-tui", "cli_version": "0.155.0", "source": "cli"}
        payload = {"id": CODEX_SESSION, "cwd": "/w", **client}
        return self.line("session_meta", {**payload, **fields})

    def line(self, kind: str, payload: Mapping[str, Any], **extra: Any) -> Rollout:
        number = len(self.lines)
        stamp = f"2026-11-02T09:{number // 60:02d}:{number % 60:02d}.000Z"
        record = {"timestamp": stamp, "type": kind, "payload": payload, **extra}
        self.lines.append(json.dumps(record, separators=(",", ":")))
        return self

    def user(self, *texts: str, **extra: Any) -> Rollout:
        content = [{"type": "input_text", "text": text} for text in texts]
        return self.item(type="message", role="user", content=content, **extra)

    def assistant(self, text: str, **extra: Any) -> Rollout:
        return self.item(type="message", role="assistant", content=[{"type": "output_text", "text": text}], **extra)

    def item(self, **payload: Any) -> Rollout:
        return self.line("response_item", payload)

    def event(self, kind: str, **payload: Any) -> Rollout:
        return self.line("event_msg", {"type": kind, **payload})

    def call(self, name: str, arguments: Any, output: Any, call_id: str = "c1", **extra: Any) -> Rollout:
        self.item(type="function_call", name=name, arguments=json.dumps(arguments), call_id=call_id, **extra)
        return self.item(type="function_call_output", call_id=call_id, output=output)

    def read(self) -> Transcript:
        self.path.write_text("".join(line + "\n" for line in self.lines))
        return CODEX.read(self.path)

    def events(self) -> list[Event]:
        return list(self.read().events)

    def said(self) -> list[tuple[str, str]]:
        """Tier and text of every event that is evidence."""
        return [(event.tier.value, event.text) for event in self.read().events if event.tier is not Tier.DERIVED]


class Session:
    """Writes a transcript; each record hangs on the one before unless it is told otherwise."""

    def __init__(self, path: Path, **defaults: Any) -> None:
        self.path = path
        self.lines: list[str] = []
        self.last: str | None = None
        client = {"version": "2.1.332", "entrypoint": "cli"}
        self.defaults = {"cwd": "/w", "sessionId": CLAUDE_SESSION, **client, **defaults}

    def raw(self, **record: Any) -> Session:
        self.lines.append(json.dumps(record, separators=(",", ":"), ensure_ascii=False))
        return self

    def record(self, kind: str, **fields: Any) -> Session:
        number = len(self.lines)
        uuid = fields.pop("uuid", f"u{number}")
        parent = fields.pop("parent", self.last)
        stamp = f"2026-11-02T09:{number // 60:02d}:{number % 60:02d}.000Z"
        self.last = uuid
        record = {"parentUuid": parent, "isSidechain": False, **self.defaults, "type": kind, "uuid": uuid}
        return self.raw(**{**record, "timestamp": stamp, **fields})

    def user(self, content: Any, **fields: Any) -> Session:
        return self.record("user", message={"role": "user", "content": content}, **fields)

    def assistant(self, *blocks: Any, message: str | None = None, model: str = "claude-x", **fields: Any) -> Session:
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        body = {"id": message or f"msg_{len(self.lines)}", "role": "assistant", "model": model, "content": content}
        return self.record("assistant", message=body, **fields)

    def attachment(self, kind: str, **attachment: Any) -> Session:
        return self.record("attachment", attachment={"type": kind, **attachment})

    def call(self, name: str, output: Any, *, error: bool | None = None, **arguments: Any) -> Session:
        call_id = f"toolu_{len(self.lines)}"
        self.assistant({"type": "tool_use", "id": call_id, "name": name, "input": arguments})
        return self.user([result(call_id, output, error)])

    def write(self) -> Path:
        self.path.write_text("".join(line + "\n" for line in self.lines))
        return self.path

    def read(self) -> Transcript:
        return CLAUDE.read(self.write())

    def events(self) -> list[Event]:
        return list(self.read().events)

    def said(self) -> list[tuple[str, str]]:
        """Tier and text of every event that is evidence."""
        return [(event.tier.value, event.text) for event in self.read().events if event.tier is not Tier.DERIVED]


def result(call_id: str, content: Any, error: bool | None = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return block if error is None else {**block, "is_error": error}


def use(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def reasons(events: list[Event]) -> list[str | None]:
    """Why each event is no evidence; None where it is."""
    return [event.derived_from for event in events]
