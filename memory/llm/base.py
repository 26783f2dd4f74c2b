"""The model port: what the stages may ask of a model, and nothing about who answers.

An adapter makes exactly one provider call per method call: no retries, no repair. Retries, deadlines,
budgets, the ledger and repair rounds live in `memory.llm.calls`, once for all adapters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from memory.errors import ModelError, TransientModelError

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; `reported` is False where it did not and we estimated."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reported: bool = True


def with_usage(error: ModelError, usage: Usage | None) -> ModelError:
    """Notes on an error what the failed call cost, so that a paid refusal still reaches the ledger."""
    if usage is not None:
        error.__dict__["usage"] = usage
    return error


def usage_of(error: BaseException) -> Usage | None:
    """What `with_usage` noted, else None."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, Usage) else None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is the model's raw JSON text: it may be malformed, the tool loop decides."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `tool_calls` only on assistant messages, `tool_call_id` only on tool messages."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class StructuredReply(Generic[T]):
    """A parsed answer; `text` is the raw answer for repair rounds (never logged)."""

    value: T
    usage: Usage
    text: str


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One assistant turn. `finish` is the provider's word: `stop`, `tool_calls`, `length`, ..."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    finish: str = "stop"


class Tokens(Protocol):
    """What a call needs to know about tokens; `memory.tokens.TokenCounter` is one."""

    def count(self, text: str) -> int:
        """Best estimate."""
        ...

    def upper_bound(self, text: str) -> int:
        """Never less than any model counts."""
        ...

    def calibrate(self, estimated: int, reported: int, model: str = "") -> float:
        """Learns from one call what a model counts where we count `estimated`; returns the model's factor."""
        ...


class ByteTokens:
    """Without a vocabulary one UTF-8 byte per token is the only proven upper bound."""

    def count(self, text: str) -> int:
        return -(-self.upper_bound(text) // 3)

    def upper_bound(self, text: str) -> int:
        return len(text.encode("utf-8", "surrogatepass"))

    def calibrate(self, estimated: int, reported: int, model: str = "") -> float:
        """Bytes bound any model: there is nothing to learn."""
        return 1.0


class RenegotiatedError(TransientModelError):
    """The server refused how the adapter asked; the adapter has learnt and asks differently from now on.

    Ask again at once. An adapter raises it a bounded number of times, so it does not count as a retry.
    """

    code = "renegotiated"


class Model(Protocol):
    """An adapter. Raises only the ModelError classes of `memory.errors`, redacted."""

    @property
    def provider(self) -> str:
        """`openai`, `offline`, `scripted`."""
        ...

    @property
    def name(self) -> str:
        """The model's name as the ledger and prices know it."""
        ...

    async def window(self) -> int | None:
        """Context window in tokens, None when nobody says."""
        ...

    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        """One call that must answer with `schema`. Raises InvalidAnswerError with `kind` and reasons."""
        ...

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, max_output_tokens: int
    ) -> ChatReply:
        """One assistant turn with tools."""
        ...

    async def close(self) -> None:
        """Releases connections."""
        ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who pays for a call. `role` is `extract` or `consolidate`; ids only, no content."""

    role: str
    run_id: str
    job: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One ledger row: a model call's cost and outcome, no content [C022].

    `outcome` is `ok` or the code of the error; `money` is None where the price is unknown.
    """

    context: CallContext
    provider: str
    model: str
    started: datetime
    seconds: float
    usage: Usage
    outcome: str
    money: float | None = None
    detail: Mapping[str, int] = field(default_factory=dict)


class Meter(Protocol):
    """Budget and ledger around every call."""

    def admit(self, context: CallContext, model: str, *, input_tokens: int, output_tokens: int) -> None:
        """Raises BudgetExceeded when this call's upper bound would pass a ceiling. Checked before each call."""
        ...

    def record(self, record: CallRecord) -> None:
        """Writes the ledger row; called once for every admitted call, whatever came of it."""
        ...
