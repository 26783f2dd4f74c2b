"""A provider on loopback that does the work well: the built-in engine behind the wire of OpenAI, with a bill."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from extract.record import RolloutRecord
from memory.llm.base import Message, ToolCall
from memory.offline import OfflineModel
from tests.memory.llm.loopback import Provider, Say, Seen, completion, failure, tool_call


@dataclass
class Scribe:
    """Answers both stages. `usage` bills every call with the same tokens; None bills by the length of the texts.

    `instead` are answers given first, whatever is asked.
    """

    usage: tuple[int, int] | None = None
    instead: list[Say] = field(default_factory=list)
    billed: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, seen: Seen) -> Say:
        if self.instead:
            return self.instead.pop(0)
        messages = [_message(one) for one in seen.body["messages"]]
        engine = OfflineModel()
        names = {tool["function"]["name"] for tool in seen.body.get("tools", ())}
        if "write" in names:
            reply = _now(engine.chat(messages, (), max_output_tokens=8_000))
            calls = [tool_call(call.name, call.arguments, call.id) for call in reply.tool_calls]
            text = reply.text
        else:
            answer = _now(engine.complete_structured(messages, RolloutRecord, max_output_tokens=4_000))
            calls, text = [], answer.text
        usage = self.usage or (sum(len(m.content) for m in messages) // 4, (len(text) + len(json.dumps(calls))) // 4)
        self.billed.append(usage)
        return Say(completion(text, tool_calls=calls or None, finish="tool_calls" if calls else "stop", usage=usage))


def _message(body: dict[str, Any]) -> Message:
    calls = tuple(
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in body.get("tool_calls") or ()
    )
    content = body.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return Message(body["role"], text, calls, body.get("tool_call_id", ""))


def _now(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, from inside another loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


__all__ = ["Provider", "Say", "Scribe", "completion", "failure"]
