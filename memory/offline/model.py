"""The embedded model: both stages through the model port, deterministic, without network or weights."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

from pydantic import ValidationError

from memory.documents import LABEL
from memory.errors import InvalidAnswerError
from memory.llm.base import ChatReply, Message, StructuredReply, T, ToolSpec, Usage
from memory.offline.agent import next_turn
from memory.offline.record import Record, mended, record

NOTICE = (
    "The built-in offline model is extractive: it quotes what the user said, decided and ran, and understands nothing. "
    "Set a model endpoint (model.base_url, or a key) for summaries that are written."
)
WINDOW_TOKENS = 1_000_000
_FORMER = re.compile(r"<former-record>\n(.*?)\n</former-record>", re.DOTALL)
_LINE = re.compile(r"^- line (\d+): ", re.MULTILINE)
_TOO_LONG = re.compile(r"\(size\)|bytes too long|too long", re.IGNORECASE)


class OfflineModel:
    """`memory.llm.base.Model` without a provider behind it.

    `notice` is what a run says about this model, once, to the person (never in the summary). Tokens are counted
    roughly and marked as estimated; nothing costs money.
    """

    provider = "offline"
    name = "offline-extractive-1"
    notice = NOTICE

    async def window(self) -> int | None:
        return WINDOW_TOKENS

    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        """The record of the session in the messages. Raises InvalidAnswerError for any other schema."""
        if not {"rollout_summary", "rollout_slug"} <= set(schema.model_fields):
            raise InvalidAnswerError(
                "The offline model answers with rollout_summary and rollout_slug only.",
                reasons=["The schema has other fields."],
                kind="schema",
            )
        answer = await asyncio.to_thread(_answer, tuple(messages))
        text = json.dumps({"rollout_summary": answer.body, "rollout_slug": answer.slug}, ensure_ascii=False)
        try:
            value = schema.model_validate_json(text)
        except ValidationError as error:
            reasons = [
                f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}"
                for item in error.errors(include_input=False)
            ]
            raise InvalidAnswerError("The answer does not fit the schema.", reasons=reasons, kind="schema") from None
        return StructuredReply(value, _usage(messages, text), text)

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, max_output_tokens: int
    ) -> ChatReply:
        """The next turn of a consolidation: reads, the summary, or the closing word."""
        turn = await asyncio.to_thread(next_turn, tuple(messages), tuple(tools))
        said = turn.text + "".join(call.arguments for call in turn.calls)
        return ChatReply(turn.text, turn.calls, _usage(messages, said), "tool_calls" if turn.calls else "stop")

    async def close(self) -> None:
        return None


def _answer(messages: tuple[Message, ...]) -> Record:
    """The record; after a refusal, without the bullets that were refused."""
    users = [message.content for message in messages if message.role == "user"]
    evidence = max(users, key=_labels, default="")
    former = _FORMER.search(evidence)
    said = former[1] if former else ""
    inside = evidence[former.end() :] if former else evidence
    answers = [message.content for message in messages if message.role == "assistant"]
    complaint = users[-1] if len(users) > 1 and users[-1] is not evidence else ""
    body, slug = _answered(answers[-1]) if answers else ("", "")
    if not complaint or not body:
        return record(inside, said, keep=bool(complaint))
    refused = frozenset(int(number) for number in _LINE.findall(complaint))
    return mended(body, slug, refused, shorter=_TOO_LONG.search(complaint) is not None)


def _labels(text: str) -> int:
    return sum(1 for line in text.split("\n") if LABEL.match(line))


def _answered(answer: str) -> tuple[str, str]:
    try:
        value = json.loads(answer)
    except ValueError:
        return "", ""
    if not isinstance(value, dict):
        return "", ""
    return str(value.get("rollout_summary", "")), str(value.get("rollout_slug", ""))


def _usage(messages: Sequence[Message], said: str) -> Usage:
    asked = sum(
        _tokens(message.content) + sum(_tokens(call.arguments) for call in message.tool_calls) for message in messages
    )
    return Usage(asked, _tokens(said), reported=False)


def _tokens(text: str) -> int:
    """About four ASCII characters to a token, one of any other script: good enough for what costs nothing."""
    plain = sum(1 for char in text if char.isascii())
    return (plain + 3) // 4 + len(text) - plain
