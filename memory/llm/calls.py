"""Every model call of the product goes through here: deadline, budget, ledger, retries, repair rounds.

An adapter makes one provider call; this module decides whether there is another one. Order of a call: the meter
admits it, the deadline runs around it, the meter records it whatever came of it. Only transient errors are tried
again, at once and within seconds; everything longer is the caller's back-off.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from memory.clock import Clock
from memory.errors import (
    InvalidAnswerError,
    ModelError,
    QuotaModelError,
    TimeoutModelError,
    TransientModelError,
)
from memory.llm.base import (
    ByteTokens,
    CallContext,
    CallRecord,
    ChatReply,
    Message,
    Meter,
    Model,
    RenegotiatedError,
    StructuredReply,
    T,
    ToolSpec,
    Usage,
    usage_of,
)
from memory.llm.base import Tokens as Tokens  # part of this module's interface
from memory.settings import Settings

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0
MAX_TIMEOUTS = 2
"""A call that ran into its deadline was probably paid for: it is tried once more, not `model.retries` times."""
MAX_RENEGOTIATIONS = 8
"""More than any adapter has ways of asking: a guard, not a budget."""
MESSAGE_OVERHEAD_TOKENS = 16
"""Upper bound of what a chat format adds around one message."""


class HasUsage(Protocol):
    """Any reply."""

    @property
    def usage(self) -> Usage: ...


Reply = TypeVar("Reply", bound=HasUsage)


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms calls are made. `deadline_seconds` is for one provider call, the body included;
    `total_seconds`, where given, for all attempts and waits together."""

    context: CallContext
    meter: Meter
    clock: Clock
    settings: Settings
    deadline_seconds: float
    max_output_tokens: int
    tokens: Tokens
    total_seconds: float | None = None


async def ask_structured(
    model: Model,
    messages: Sequence[Message],
    schema: type[T],
    *,
    check: Callable[[T], list[str]],
    context: CallContext,
    meter: Meter,
    clock: Clock,
    settings: Settings,
    deadline_seconds: float,
    repairs: int,
    max_output_tokens: int,
    tokens: Tokens | None = None,
    total_seconds: float | None = None,
    repair: Callable[[Sequence[str]], str] | None = None,
) -> StructuredReply[T]:
    """An answer that fits `schema` and passes `check` [Z077 Z079 M13-M20].

    `check` returns the reasons against an answer, each fit to be sent to the model; none means accepted. An
    invalid answer is asked again with its reasons, at most `repairs` times; `repair` words that message.
    Exactly one provider call where the first answer is valid [M68].

    Raises BudgetExceeded (no call was made), InvalidAnswerError (repairs used up; `reasons` of the last round),
    TransientModelError (retries used up), QuotaModelError, OverflowModelError, PermanentModelError.
    """
    terms = Terms(
        context, meter, clock, settings, deadline_seconds, max_output_tokens, tokens or ByteTokens(), total_seconds
    )
    word = repair or _plain_repair
    size = _bound(messages, terms.tokens, extra=json.dumps(schema.model_json_schema()))
    conversation = list(messages)
    for left in range(repairs, -1, -1):
        try:
            reply = await _attempts(
                model,
                terms,
                await _within(model, size + _bound(conversation[len(messages) :], terms.tokens)),
                partial(model.complete_structured, conversation, schema, max_output_tokens=max_output_tokens),
            )
        except InvalidAnswerError as error:
            if not left:
                raise
            # The adapter's errors carry no answer text, so only the reasons can go back.
            conversation = [*messages, Message("user", word(error.reasons))]
            continue
        _calibrate(terms, model, conversation, reply.usage)
        reasons = check(reply.value)
        if not reasons:
            return reply
        if not left:
            raise InvalidAnswerError(
                f"The answer of {model.name} broke the local checks {repairs + 1} times in a row.",
                reasons=reasons,
                hint="Try a stronger model (model.extract_name).",
            )
        # Only the last answer goes back: the conversation must not grow with every round.
        conversation = [*messages, Message("assistant", reply.text), Message("user", word(reasons))]
    raise AssertionError("unreachable")


async def ask_chat(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    context: CallContext,
    meter: Meter,
    clock: Clock,
    settings: Settings,
    deadline_seconds: float,
    max_output_tokens: int,
    tokens: Tokens | None = None,
    total_seconds: float | None = None,
) -> ChatReply:
    """One assistant turn with tools, under the same terms as `ask_structured`. Raises the same errors."""
    terms = Terms(
        context, meter, clock, settings, deadline_seconds, max_output_tokens, tokens or ByteTokens(), total_seconds
    )
    declared = json.dumps([{"name": t.name, "text": t.description, "schema": dict(t.parameters)} for t in tools])
    size = await _within(model, _bound(messages, terms.tokens, extra=declared))
    return await _attempts(model, terms, size, lambda: model.chat(messages, tools, max_output_tokens=max_output_tokens))


# -- one answer: attempts ------------------------------------------------------------------------------


async def _attempts(model: Model, terms: Terms, size: int, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """Calls until there is an answer or an error that waiting a few seconds cannot cure."""
    started = terms.clock.monotonic()
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(TransientModelError),
        wait=_wait,
        stop=_Stop(terms, started),
        sleep=terms.clock.sleep,
        reraise=True,
    )
    async for attempt in retrying:
        with attempt:
            return await _once(model, terms, size, _remaining(terms, started), call)
    raise AssertionError("unreachable")


async def _once(model: Model, terms: Terms, size: int, seconds: float, call: Callable[[], Awaitable[Reply]]) -> Reply:
    """One provider call between `admit` and `record`."""
    terms.meter.admit(terms.context, model.name, input_tokens=size, output_tokens=terms.max_output_tokens)
    started, clock = terms.clock.now(), terms.clock.monotonic()
    outcome, usage = "cancelled", Usage(size, 0, reported=False)
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            reply = await call()
        outcome, usage = "ok", reply.usage
        return reply
    except TimeoutError:
        outcome = TimeoutModelError.code
        if not deadline.expired():
            raise
        raise TimeoutModelError(
            f"{model.name} did not finish its answer within {seconds:.0f} s.",
            hint=f"Raise {terms.context.role}.request_minutes or use a faster model.",
        ) from None
    except ModelError as error:
        outcome, usage = error.code, usage_of(error) or _presumed(error, size)
        raise _too_long_to_wait(error, terms) from None
    except Exception:
        outcome = "internal"
        raise
    finally:
        terms.meter.record(
            CallRecord(
                context=terms.context,
                provider=model.provider,
                model=model.name,
                started=started,
                seconds=terms.clock.monotonic() - clock,
                usage=usage,
                outcome=outcome,
            )
        )


def _presumed(error: ModelError, size: int) -> Usage:
    """What a failed call is booked with when nobody says: nothing after an HTTP error, else the whole input."""
    return Usage(0 if error.status is not None and error.status >= 400 else size, 0, reported=False)


def _too_long_to_wait(error: ModelError, terms: Terms) -> ModelError:
    """A Retry-After beyond `model.max_retry_after_seconds` pauses the batch instead of holding it [M11]."""
    limit = terms.settings.model.max_retry_after_seconds
    if isinstance(error, TransientModelError) and error.retry_after is not None and error.retry_after > limit:
        return QuotaModelError(
            f"The provider asks to wait {error.retry_after:.0f} s, more than model.max_retry_after_seconds.",
            status=error.status,
            retry_after=error.retry_after,
            hint="The batch pauses; run again later.",
        )
    return error


def _remaining(terms: Terms, started: float) -> float:
    if terms.total_seconds is None:
        return terms.deadline_seconds
    left = started + terms.total_seconds - terms.clock.monotonic()
    return max(0.0, min(terms.deadline_seconds, left))


def _wait(state: RetryCallState) -> float:
    """The provider's own Retry-After, else exponential with full jitter in its upper half [M73]."""
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, RenegotiatedError):
        return 0.0
    if isinstance(error, TransientModelError) and error.retry_after is not None:
        return error.retry_after
    longest: float = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (state.attempt_number - 1))
    return longest * random.uniform(0.5, 1.0)


class _Stop:
    """No further attempt: retries used up, a second time-out, or the next wait would pass the total."""

    def __init__(self, terms: Terms, started: float) -> None:
        self._terms = terms
        self._started = started
        self._timeouts = 0
        self._failures = 0
        self._renegotiations = 0

    def __call__(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, RenegotiatedError):
            self._renegotiations += 1
            return self._renegotiations > MAX_RENEGOTIATIONS
        self._failures += 1
        self._timeouts += isinstance(error, TimeoutModelError)
        if self._failures > self._terms.settings.model.retries or self._timeouts >= MAX_TIMEOUTS:
            return True
        total = self._terms.total_seconds
        spent = self._terms.clock.monotonic() - self._started
        return total is not None and spent + state.upcoming_sleep >= total


def _bound(messages: Sequence[Message], tokens: Tokens, *, extra: str = "") -> int:
    """Upper bound of the input, in tokens."""
    total = tokens.upper_bound(extra) if extra else 0
    for message in messages:
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        total += tokens.upper_bound(message.content + calls) + MESSAGE_OVERHEAD_TOKENS
    return total


async def _within(model: Model, size: int) -> int:
    """No provider reads, or bills, more than the model's window: a bound in bytes is four times too careful there."""
    window = await model.window()
    return size if window is None else min(size, window)


def _calibrate(terms: Terms, model: Model, messages: Sequence[Message], usage: Usage, *, extra: str = "") -> None:
    """What the provider counted teaches how many of its tokens ours stand for [X9]."""
    if not usage.reported or model.provider != "openai":
        return
    counted = terms.tokens.count(extra)
    for message in messages:
        calls = "".join(call.name + call.arguments for call in message.tool_calls)
        counted += terms.tokens.count(message.content + calls) + MESSAGE_OVERHEAD_TOKENS
    terms.tokens.calibrate(counted, usage.input_tokens, model.name)


def _plain_repair(reasons: Sequence[str]) -> str:
    listed = "\n".join(f"- {reason}" for reason in reasons)
    return f"Your answer was not accepted:\n{listed}\nAnswer again, complete and in the same form."
