"""The adapter for every server that speaks OpenAI's chat completions: one provider call per method call.

What a server can do is learnt from its refusals and remembered for the process (`_Manner`): native JSON schema,
then a forced tool call, then JSON mode, then plain text. The libraries' exceptions and logs carry prompts and
answers; none of them leaves this module, not even as the context of ours.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from memory.clock import Clock, SystemClock
from memory.errors import InvalidAnswerError, ModelError, PermanentModelError, QuotaModelError
from memory.llm import answers, classify
from memory.llm.base import (
    ByteTokens,
    ChatReply,
    Message,
    RenegotiatedError,
    StructuredReply,
    T,
    Tokens,
    ToolCall,
    ToolSpec,
    Usage,
    with_usage,
)
from memory.llm.classify import Refused
from memory.settings import ModelSettings

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion, ChatCompletionMessage

OFFICIAL_URL = "https://api.openai.com/v1"
LISTING_SECONDS = 10.0
CONNECT_SECONDS = 20.0
MODES = ("json_schema", "tools", "json", "md_json")
"""Ways of asking for structure, best first."""
WINDOW_FIELDS = (
    "loaded_context_length",
    "max_model_len",
    "context_window",
    "context_length",
    "max_context_length",
    "max_context_window",
    "max_input_tokens",
    "input_token_limit",
    "n_ctx",
)
SMALLEST_WINDOW = 512
"""A smaller number in a listing is taken for a mistake."""


@dataclass(slots=True)
class _Manner:
    """How one server and model want to be asked; every change is one-way, so learning ends."""

    mode: str
    tokens_field: str
    other_field_tried: bool = False
    temperature: bool = True


_LEARNT: dict[tuple[str, str, str], _Manner] = {}


def forget_manners() -> None:
    """Forgets what was learnt about servers; for tests and after a change of settings."""
    _LEARNT.clear()


@dataclass(slots=True)
class _Held:
    """What one call left behind before instructor wrapped it."""

    failure: ModelError | None = None
    completion: ChatCompletion | None = None


class OpenAIModel:
    """Implements `memory.llm.base.Model` for a base URL, key and model name from the settings."""

    def __init__(
        self, settings: ModelSettings, name: str, *, tokens: Tokens | None = None, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._name = name
        self._tokens = tokens or ByteTokens()
        self._clock = clock or SystemClock()
        self._client: AsyncOpenAI | None = None
        self._window: int | None = settings.window or None
        self._window_known = settings.window > 0

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r})"

    @property
    def provider(self) -> str:
        return "openai"

    @property
    def name(self) -> str:
        return self._name

    async def window(self) -> int | None:
        """Settings, else the provider's listing (asked once), else None."""
        if not self._window_known:
            self._window = await self._listed_window()
            self._window_known = True
        return self._window

    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        manner, held = self._manner(), _Held()
        value = await self._through_instructor(messages, schema, manner, held, max_output_tokens)
        if held.failure is not None:
            # The traceback would hold frames with the prompt.
            raise held.failure.with_traceback(None)
        if held.completion is None:
            raise PermanentModelError(
                f"The request for {self._name} could not be built.", hint="Check the settings of [model]."
            )
        usage = self._usage(held.completion, messages)
        text = _answer_text(held.completion)
        if value is None:
            value = self._salvaged(text, schema, usage)
        return StructuredReply(value, usage, text)

    async def chat(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, max_output_tokens: int
    ) -> ChatReply:
        manner, held = self._manner(), _Held()
        request: dict[str, Any] = {"messages": [_wire(message) for message in messages]}
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": dict(t.parameters)},
                }
                for t in tools
            ]
        request |= self._parameters(manner, max_output_tokens)
        completion = await self._call(held, manner, request, structure=None)
        failure = self._unusable(completion, messages, structured=False, limit=max_output_tokens)
        if failure is not None:
            raise failure
        choice = completion.choices[0]
        return ChatReply(
            text=answers.without_thinking(choice.message.content or ""),
            tool_calls=tuple(_tool_calls(choice.message)),
            usage=self._usage(completion, messages),
            finish=choice.finish_reason or "stop",
        )

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    # -- one request ---------------------------------------------------------------------------------

    async def _through_instructor(
        self, messages: Sequence[Message], schema: type[T], manner: _Manner, held: _Held, limit: int
    ) -> T | None:
        """instructor builds the request and parses the answer; None where it could not, see `held`."""
        import instructor

        _silence("instructor")
        mode = manner.mode

        async def create(**request: Any) -> ChatCompletion:
            if mode == "json_schema":
                request["response_format"]["json_schema"]["strict"] = True
            completion = await self._call(held, manner, request, structure=_PARTS.get(mode))
            held.completion = completion
            held.failure = self._unusable(completion, messages, structured=True, limit=limit)
            if held.failure is not None:
                raise held.failure
            return completion

        patched: Any = instructor.patch(create=create, mode=instructor.Mode[mode.upper()])
        try:
            value = await patched(
                response_model=schema,
                max_retries=0,
                strict=True,
                messages=[_wire(message) for message in messages],
                **self._parameters(manner, limit),
            )
        except Exception:  # noqa: BLE001 - all of instructor's errors carry the prompt; `held` knows what happened
            return None
        if mode == "md_json":
            # Of several objects instructor takes the last; we take none, see `answers.json_object`.
            return None
        # A fresh value: instructor hangs the raw response on its own.
        return schema.model_validate(value.model_dump())

    async def _call(
        self, held: _Held, manner: _Manner, request: dict[str, Any], *, structure: Refused | None
    ) -> ChatCompletion:
        """The one HTTP call. Raises a ModelError without context, and leaves it in `held` as well.

        `structure` is the part of the request that asks for structure, if a server may refuse it.
        """
        import openai

        client = self._connected()
        used = tuple(part for part in (*self._parts(request), structure) if part is not None)
        try:
            raw = await client.chat.completions.with_raw_response.create(model=self._name, **request)
            body = raw.text
            completion = raw.parse()
            if _is_completion(completion):
                return completion
            failure = classify.body_error(body[: classify.MAX_LOOKED_AT], model=self._name)
        except openai.APIStatusError as error:
            failure = self._status_failure(error, manner, used, tools="tools" in request)
        except (openai.OpenAIError, UnicodeError) as error:
            failure = classify.connection_error(_names(error), model=self._name)
        except Exception as error:  # noqa: BLE001 - broken JSON and whatever else a server makes of a success
            failure = classify.body_error(type(error).__name__, model=self._name)
        held.failure = failure
        raise failure

    def _status_failure(
        self, error: APIStatusError, manner: _Manner, used: tuple[Refused, ...], *, tools: bool
    ) -> ModelError:
        text = classify.searchable(error.body, error.message)
        part = classify.refused_part(error.status_code, text, used)
        if part is not None and self._learn(manner, part):
            return RenegotiatedError(
                f"{self._name} does not take {part.value} (HTTP {error.status_code}); asking differently from now on.",
                status=error.status_code,
            )
        if part is None and tools and classify.refused_part(error.status_code, text, (Refused.TOOLS,)):
            return PermanentModelError(
                f"{self._name} cannot call tools (HTTP {error.status_code}).",
                hint="Set model.consolidate_name to a model that can.",
                status=error.status_code,
            )
        if part is not None:
            return PermanentModelError(
                f"{self._name} does not take {part.value} (HTTP {error.status_code}).",
                hint="Set model.mode to auto.",
                status=error.status_code,
            )
        return classify.http_error(
            error.status_code, text, dict(error.response.headers), model=self._name, now=self._clock.now()
        )

    def _learn(self, manner: _Manner, part: Refused) -> bool:
        """Changes how this server is asked; False where there is no other way. Safe when two calls learn at once."""
        if part is Refused.TEMPERATURE:
            manner.temperature = False
            return True
        if part in {Refused.MAX_TOKENS, Refused.MAX_COMPLETION_TOKENS}:
            if manner.tokens_field == part.value:
                if manner.other_field_tried:
                    return False
                other = Refused.MAX_TOKENS if part is Refused.MAX_COMPLETION_TOKENS else Refused.MAX_COMPLETION_TOKENS
                manner.tokens_field, manner.other_field_tried = other.value, True
            return True
        if self._settings.mode != "auto":
            return False
        if manner.mode == part.value:
            manner.mode = MODES[MODES.index(manner.mode) + 1]
        return True

    def _unusable(
        self, completion: ChatCompletion, messages: Sequence[Message], *, structured: bool, limit: int
    ) -> ModelError | None:
        """Why an answer with a success status is none, or None."""
        choice = completion.choices[0]
        text = choice.message.content or ""
        failure: ModelError | None = None
        if getattr(choice.message, "refusal", None) or choice.finish_reason == "content_filter":
            failure = answers.refusal(self._name)
        elif structured and choice.finish_reason == "length":
            failure = answers.truncated(self._name, limit)
        elif not choice.message.tool_calls and classify.is_quota_prose(answers.without_thinking(text)):
            failure = QuotaModelError(
                f"The provider answered with a notice about the quota for {self._name} in place of an answer.",
                hint="Raise the limit at the provider; nothing is lost, the next run goes on.",
            )
        elif structured and not choice.message.tool_calls and not answers.without_thinking(text):
            failure = answers.empty(self._name)
        return None if failure is None else with_usage(failure, self._usage(completion, messages))

    def _salvaged(self, text: str, schema: type[T], usage: Usage) -> T:
        """What instructor could not parse, once more with wrappers off [M13 M14]."""
        try:
            return answers.parse(text, schema, model=self._name)
        except InvalidAnswerError as error:
            failure = with_usage(error, usage)
        raise failure.with_traceback(None)

    # -- pieces --------------------------------------------------------------------------------------

    def _connected(self) -> AsyncOpenAI:
        if self._client is None:
            import openai

            _silence("openai", "httpx", "httpx2", "httpcore", "httpcore2")
            self._client = openai.AsyncOpenAI(
                # Servers without keys still want a header; an empty one would make the SDK look elsewhere.
                api_key=self._settings.api_key.get_secret_value() or "none",
                base_url=self._settings.base_url or OFFICIAL_URL,
                max_retries=0,
                timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
            )
        return self._client

    def _manner(self) -> _Manner:
        base, fixed = self._settings.base_url or OFFICIAL_URL, self._settings.mode
        official = base.startswith(OFFICIAL_URL)
        return _LEARNT.setdefault(
            (base, self._name, fixed),
            _Manner(
                mode=MODES[0] if fixed == "auto" else fixed,
                tokens_field=(Refused.MAX_COMPLETION_TOKENS if official else Refused.MAX_TOKENS).value,
            ),
        )

    def _parameters(self, manner: _Manner, limit: int) -> dict[str, Any]:
        parameters: dict[str, Any] = {manner.tokens_field: limit}
        if self._settings.temperature is not None and manner.temperature:
            parameters["temperature"] = self._settings.temperature
        return parameters

    @staticmethod
    def _parts(request: Mapping[str, Any]) -> list[Refused]:
        return [
            part
            for part in (Refused.MAX_TOKENS, Refused.MAX_COMPLETION_TOKENS, Refused.TEMPERATURE)
            if part.value in request
        ]

    def _usage(self, completion: ChatCompletion, messages: Sequence[Message]) -> Usage:
        """As reported; estimated where the server reports nothing."""
        reported = completion.usage
        if reported is not None and (reported.prompt_tokens or 0) > 0:
            details = getattr(reported, "prompt_tokens_details", None)
            return Usage(
                input_tokens=int(reported.prompt_tokens),
                output_tokens=int(reported.completion_tokens or 0),
                cached_tokens=int(getattr(details, "cached_tokens", None) or 0),
            )
        sent = "\n".join(message.content for message in messages)
        return Usage(self._tokens.count(sent), self._tokens.count(_answer_text(completion)), reported=False)

    async def _listed_window(self) -> int | None:
        try:
            async with asyncio.timeout(LISTING_SECONDS):
                raw = await self._connected().models.with_raw_response.list()
                listing = json.loads(raw.text)
        except Exception:  # noqa: BLE001 - a server without a listing is normal: the window is then unknown
            return None
        return window_in_listing(listing, self._name)


_PARTS = {"json_schema": Refused.JSON_SCHEMA, "tools": Refused.TOOLS, "json": Refused.JSON}


def window_in_listing(listing: object, name: str) -> int | None:
    """The context window of a model in the JSON of `GET /models`; None where it is not said [Z076]."""
    data = listing.get("data") if isinstance(listing, dict) else listing
    items = [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []
    matching = [item for item in items if _same_model(item.get("id"), name)] or (items if len(items) == 1 else [])
    for item in matching:
        places = [item, *(value for value in item.values() if isinstance(value, dict))]
        for key in WINDOW_FIELDS:
            for place in places:
                value = place.get(key)
                if isinstance(value, int) and not isinstance(value, bool) and value >= SMALLEST_WINDOW:
                    return value
    return None


def _same_model(listed: object, name: str) -> bool:
    return isinstance(listed, str) and (listed == name or listed.removesuffix(":latest") == name)


def _wire(message: Message) -> dict[str, Any]:
    """A message in the provider's form. Lone surrogates cannot travel and are replaced."""
    wire: dict[str, Any] = {"role": message.role, "content": _clean(message.content)}
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": _clean(c.arguments)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _is_completion(completion: object) -> TypeGuard[ChatCompletion]:
    """The SDK builds its types without checking: an error body or a web page can pass for an answer."""
    choices = getattr(completion, "choices", None)
    return isinstance(choices, list) and bool(choices) and getattr(choices[0], "message", None) is not None


def _answer_text(completion: ChatCompletion) -> str:
    message = completion.choices[0].message
    for call in _tool_calls(message):
        return call.arguments
    return message.content or ""


def _tool_calls(message: ChatCompletionMessage) -> list[ToolCall]:
    """Tolerant: arguments as an object, a missing id and a missing name are all met in the field."""
    calls = []
    for number, call in enumerate(message.tool_calls or (), start=1):
        function = getattr(call, "function", None)
        arguments = getattr(function, "arguments", None)
        calls.append(
            ToolCall(
                id=getattr(call, "id", None) or f"call_{number}",
                name=getattr(function, "name", None) or "",
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments or {}),
            )
        )
    return calls


def _names(error: BaseException) -> tuple[str, ...]:
    """Class names of an exception and what caused it."""
    names: list[str] = []
    current: BaseException | None = error
    while current is not None and len(names) < 8:
        names.append(type(current).__name__)
        current = current.__cause__ or current.__context__
    return tuple(names)


def _silence(*loggers: str) -> None:
    """These libraries log prompts, answers and headers on their lower levels, instructor even as errors [C021]."""
    for name in loggers:
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1 if name == "instructor" else logging.WARNING)
