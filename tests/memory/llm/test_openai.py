"""The OpenAI adapter against a real HTTP server on loopback, through the real openai and instructor clients."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from memory.errors import (
    InvalidAnswerError,
    ModelError,
    OverflowModelError,
    PermanentModelError,
    QuotaModelError,
    TransientModelError,
)
from memory.llm.base import Message, RenegotiatedError, usage_of
from memory.llm.openai import OpenAIModel
from tests.memory.llm.loopback import KEY, Provider, Say, completion, failure, tool_call

Connect = Callable[..., OpenAIModel]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rollout_summary: str
    rollout_slug: str


GOOD = {"rollout_summary": "# T\nOutcome: success\n", "rollout_slug": "t"}
GOOD_TEXT = json.dumps(GOOD)
PROMPT = "PROMPT-CANARY {{ 7 * 7 }} {% raw %} \ud800"
ASK = (Message("system", "You are a recorder."), Message("user", PROMPT))
LEAKS = ("PROMPT-CANARY", "ANSWER-CANARY", KEY, "CANARYKEY")


async def structured(model: OpenAIModel) -> Any:
    return await model.complete_structured(ASK, Answer, max_output_tokens=900)


async def fails(model: OpenAIModel, kind: type[ModelError]) -> Any:
    with pytest.raises(kind) as caught:
        await structured(model)
    return caught.value


# -- what is sent -------------------------------------------------------------------------------------


@pytest.mark.req("Z077", "Z078")
@pytest.mark.fault("M12", "M16")
async def test_a_structured_call_is_one_request_with_system_user_and_schema(
    provider: Provider, connect: Connect
) -> None:
    provider.script = [Say(completion(GOOD_TEXT))]
    reply = await structured(connect(temperature=0.2))
    assert reply.value == Answer(**GOOD)
    assert json.loads(reply.text) == GOOD
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (120, 30, 7)
    (seen,) = provider.calls
    assert [m["role"] for m in seen.body["messages"]] == ["system", "user"]
    assert seen.body["messages"][1]["content"] == PROMPT.replace("\ud800", "?")
    wanted = seen.body["response_format"]["json_schema"]
    assert wanted["strict"] is True
    assert set(wanted["schema"]["required"]) == set(GOOD)
    assert wanted["schema"]["additionalProperties"] is False
    assert (seen.body["model"], seen.body["max_tokens"], seen.body["temperature"]) == ("test-model", 900, 0.2)
    assert seen.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.fault("M16")
@pytest.mark.parametrize("mode", ["tools", "json", "md_json"])
async def test_every_mode_sends_the_schema_and_the_whole_conversation(
    provider: Provider, connect: Connect, mode: str
) -> None:
    answer = completion(None, tool_calls=[tool_call("Answer", GOOD_TEXT)]) if mode == "tools" else completion(GOOD_TEXT)
    provider.script = [Say(answer)]
    reply = await structured(connect(mode=mode))
    assert reply.value == Answer(**GOOD)
    (seen,) = provider.calls
    text = json.dumps(seen.body)
    assert "rollout_slug" in text
    assert "You are a recorder." in text
    assert "{{ 7 * 7 }} {% raw %}" in text


async def test_a_server_without_keys_is_called_without_looking_for_one_elsewhere(
    provider: Provider, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    provider.script = [Say(completion(GOOD_TEXT))]
    await structured(connect(api_key=""))
    assert "somebody" not in provider.calls[0].headers["authorization"]


# -- learning how a server wants to be asked ------------------------------------------------------------


@pytest.mark.req("Z078")
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "'response_format.type' must be 'json_object'"),
        (404, "No endpoints found that can handle the requested parameters."),
        (500, "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type')}]"),
        (422, "response_format: Input should be 'text' or 'json_object'"),
    ],
)
async def test_a_server_without_json_schema_is_asked_with_tools_from_then_on(
    provider: Provider, connect: Connect, status: int, message: str
) -> None:
    provider.script = [
        Say(failure(message), status=status),
        Say(completion(None, tool_calls=[tool_call("Answer", GOOD_TEXT)])),
    ]
    model = connect()
    await fails(model, RenegotiatedError)
    assert len(provider.calls) == 1
    assert (await structured(model)).value == Answer(**GOOD)
    assert (await structured(connect())).value == Answer(**GOOD), "another adapter of the process knows it too"
    assert "response_format" not in provider.calls[1].body
    assert provider.calls[1].body["tool_choice"]["function"]["name"] == "Answer"
    assert len(provider.calls) == 3


async def test_json_mode_and_plain_text_come_last(provider: Provider, connect: Connect) -> None:
    provider.script = [
        Say(failure("json_schema is not supported"), status=400),
        Say(failure("tool_choice is not supported"), status=400),
        Say(failure("response_format is not supported"), status=400),
        Say(completion(f"Here you are:\n```json\n{GOOD_TEXT}\n```")),
    ]
    model = connect()
    for _ in range(3):
        await fails(model, RenegotiatedError)
    assert (await structured(model)).value == Answer(**GOOD)
    assert provider.calls[2].body["response_format"] == {"type": "json_object"}
    assert "response_format" not in provider.calls[3].body
    assert "tools" not in provider.calls[3].body


async def test_two_calls_that_learn_at_once_step_down_only_once(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(failure("response_format is not supported"), status=400, wait=0.05)]
    model = connect()
    results = await asyncio.gather(*(structured(model) for _ in range(4)), return_exceptions=True)
    assert all(isinstance(result, RenegotiatedError) for result in results)
    provider.script = [Say(completion(None, tool_calls=[tool_call("Answer", GOOD_TEXT)]))]
    await structured(model)
    assert "tools" in provider.calls[-1].body


async def test_a_fixed_mode_is_not_changed_and_the_error_names_the_setting(
    provider: Provider, connect: Connect
) -> None:
    provider.script = [Say(failure("response_format is not supported"), status=400)]
    error = await fails(connect(mode="json_schema"), PermanentModelError)
    assert "model.mode" in str(error)


async def test_the_name_of_the_output_limit_and_the_temperature_are_learnt(
    provider: Provider, connect: Connect
) -> None:
    provider.script = [
        Say(failure("Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'."), status=400),
        Say(failure("Unsupported value: 'temperature' does not support 0.2. Only the default is."), status=400),
        Say(completion(GOOD_TEXT)),
    ]
    model = connect(temperature=0.2)
    await fails(model, RenegotiatedError)
    await fails(model, RenegotiatedError)
    await structured(model)
    body = provider.calls[-1].body
    assert body["max_completion_tokens"] == 900
    assert "max_tokens" not in body
    assert "temperature" not in body
    assert "response_format" in body


# -- answers that need unwrapping, and answers that are none ---------------------------------------------


@pytest.mark.fault("M13", "M14")
@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD_TEXT}\n```",
        f"<think>First {{x}} then\n```json\n{{}}\n```</think>\n{GOOD_TEXT}",
        f"still thinking</think>{GOOD_TEXT}",
        f"Sure! Here is the record of set {{a, b}}:\n{GOOD_TEXT}\nHope this helps.",
        GOOD_TEXT.replace("\\n", "\n"),
    ],
    ids=["fence", "think", "open-think", "prose", "raw-newlines"],
)
async def test_wrappers_around_one_object_are_taken_off(provider: Provider, connect: Connect, text: str) -> None:
    provider.script = [Say(completion(text))]
    assert (await structured(connect())).value == Answer(**GOOD)
    assert len(provider.calls) == 1


@pytest.mark.fault("M14", "M15", "M18", "M20", "M70")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (completion(""), "empty"),
        (completion(None), "empty"),
        (completion("   \n"), "empty"),
        (completion("<think>hm</think>"), "empty"),
        (completion("Sure! Here is ANSWER-CANARY"), "parse"),
        (completion('{"rollout_summary": "ANSWER-CANARY'), "parse"),
        (completion(f"{GOOD_TEXT} or {json.dumps({**GOOD, 'rollout_slug': 'u'})}"), "parse"),
        (completion('{"rollout_summary": "ANSWER-CANARY'[:20], finish="length"), "truncated"),
        (completion(GOOD_TEXT, finish="length"), "truncated"),
        (completion('{"rollout_summary": "ANSWER-CANARY"}'), "schema"),
        (completion('{"rollout_summary": ["ANSWER-CANARY"], "rollout_slug": ""}'), "schema"),
        (completion(json.dumps({**GOOD, "ANSWER-CANARY": 1})), "schema"),
        (completion('["ANSWER-CANARY"]'), "parse"),
        (completion(None, refusal="ANSWER-CANARY I can't"), "refusal"),
        (completion("I'm sorry, I can't help with ANSWER-CANARY."), "refusal"),
        (completion("抱歉，我无法处理 ANSWER-CANARY"), "refusal"),
        (completion("ANSWER-CANARY", finish="content_filter"), "refusal"),
    ],
)
@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
async def test_an_answer_that_is_none_is_invalid_with_its_kind_its_cost_and_one_call(
    provider: Provider, connect: Connect, answer: dict[str, Any], kind: str, mode: str
) -> None:
    provider.script = [Say(answer)]
    error = await fails(connect(mode=mode), InvalidAnswerError)
    assert error.kind == kind
    assert error.reasons
    usage = usage_of(error)
    assert usage is not None
    assert usage.input_tokens == 120
    assert len(provider.calls) == 1
    assert_no_leak(error)


@pytest.mark.fault("M18")
async def test_tool_arguments_cut_off_are_never_half_taken(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(completion(None, tool_calls=[tool_call("Answer", GOOD_TEXT[:20])]))]
    error = await fails(connect(mode="tools"), InvalidAnswerError)
    assert error.kind == "parse"


@pytest.mark.fault("X4")
@pytest.mark.parametrize(
    "text",
    [
        "You have exceeded your current quota, please check your plan and billing details.",
        "Insufficient balance. Please top up.",
        "You've hit your usage limit. Try again at 3:00 PM.",
        "账户余额不足，请充值。",
    ],
)
async def test_quota_prose_in_place_of_an_answer_is_quota(provider: Provider, connect: Connect, text: str) -> None:
    provider.script = [Say(completion(text))]
    await fails(connect(), QuotaModelError)


async def test_missing_usage_is_estimated_and_marked(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(completion(GOOD_TEXT, usage=None)), Say(completion(GOOD_TEXT, usage=(0, 0)))]
    for _ in range(2):
        usage = (await structured(connect())).usage
        assert not usage.reported
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0


# -- HTTP and transport --------------------------------------------------------------------------------

OVERFLOWS = [
    (400, failure("This model's maximum context length is 8192 tokens. However…", code="context_length_exceeded")),
    (400, failure("prompt is too long: 250000 tokens > 200000 maximum")),
    (
        400,
        failure("the request exceeds the available context size, try increasing it", kind="exceed_context_size_error"),
    ),
    (400, failure("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000")),
    (400, failure("Requested tokens (9000) exceed context window of 8192")),
    (400, failure("The input token count (40000) exceeds the maximum number of tokens allowed (32768).")),
    (400, failure("Please reduce the length of the messages or completion.")),
    (400, failure("Invalid 'input': string too long.", code="string_above_max_length")),
    (400, failure("Range of input length should be [1, 30720]")),
    (400, failure("输入内容过长，超出模型最大上下文长度")),
    (400, {"message": "Input is longer than the model's context length"}),
    (413, failure("Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000")),
    (413, "<html>413 Request Entity Too Large</html>"),
    (
        422,
        failure("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096, context length exceeded"),
    ),
    (500, failure("Context size has been exceeded.")),
]


@pytest.mark.fault("M1", "X9")
@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
async def test_overflow_is_known_in_its_many_wordings(
    provider: Provider, connect: Connect, status: int, body: Any
) -> None:
    provider.script = [Say(body, status=status, kind="application/json" if isinstance(body, dict) else "text/html")]
    error = await fails(connect(), OverflowModelError)
    assert len(provider.calls) == 1
    assert_no_leak(error)


@pytest.mark.fault("X7", "X13")
@pytest.mark.parametrize(
    ("status", "body", "setting"),
    [
        (401, failure("Incorrect API key provided: sk-test-CANARYKEY"), "model.api_key"),
        (403, failure("You may not use this. PROMPT-CANARY"), "model.api_key"),
        (404, failure("The model `test-model` does not exist", code="model_not_found"), "model.name"),
        (404, "<html>Not Found</html>", "model.base_url"),
        (405, "", "model.base_url"),
        (400, failure("Invalid model name: test-model"), "model.name"),
        (400, failure("messages: field PROMPT-CANARY is wrong"), "model.name"),
        (400, failure("max_tokens is too large: 900. This model supports at most 100 completion tokens"), "max_output"),
        (301, "", "model.base_url"),
    ],
)
async def test_what_waiting_cannot_cure_is_permanent_and_names_the_setting(
    provider: Provider, connect: Connect, status: int, body: Any, setting: str
) -> None:
    provider.script = [Say(body, status=status)]
    error = await fails(connect(), PermanentModelError)
    assert setting in str(error)
    assert error.status == status
    assert len(provider.calls) == 1
    assert_no_leak(error)


@pytest.mark.fault("M70", "X13")
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_passing_troubles_are_transient_and_not_retried_inside(
    provider: Provider, connect: Connect, status: int
) -> None:
    provider.script = [Say(failure("PROMPT-CANARY busy"), status=status, headers={"retry-after": "7"})]
    error = await fails(connect(), TransientModelError)
    assert (error.status, error.retry_after) == (status, 7.0)
    assert len(provider.calls) == 1
    assert_no_leak(error)


@pytest.mark.fault("M11", "X4", "M65")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, failure("You exceeded your current quota", code="insufficient_quota", kind="insufficient_quota")),
        (402, failure("Payment required")),
        (429, failure("Weekly usage limit reached")),
        (403, failure("Your credit balance is too low to access the API.")),
        (429, failure("账户余额不足")),
    ],
)
async def test_a_used_up_quota_is_no_transient_trouble(
    provider: Provider, connect: Connect, status: int, body: Any
) -> None:
    provider.script = [Say(body, status=status, headers={"retry-after": "3600"})]
    error = await fails(connect(), QuotaModelError)
    assert error.retry_after == 3600
    assert len(provider.calls) == 1


async def test_a_limit_per_minute_is_transient_even_when_it_says_quota(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(failure("Quota exceeded for requests per minute: usage limit 15"), status=429)]
    error = await fails(connect(), TransientModelError)
    assert error.code == "transient"


@pytest.mark.fault("M70")
@pytest.mark.parametrize(
    "say",
    [
        Say("<html>Please log in. PROMPT-CANARY</html>", kind="text/html"),
        Say("<html>200 but JSON says the header</html>"),
        Say('{"id": "x", "choi'),
        Say(""),
        Say("[]"),
        Say("null"),
        Say({"id": "x", "object": "chat.completion", "choices": []}),
        Say({"choices": [{"index": 0}]}),
        Say(failure("upstream is broken PROMPT-CANARY")),
        Say(completion(GOOD_TEXT), cut=40),
        Say(completion(GOOD_TEXT), cut=0),
    ],
    ids=["html", "html-as-json", "broken", "empty", "list", "null", "no-choice", "no-message", "error", "reset", "cut"],
)
async def test_a_success_without_a_completion_is_transient(provider: Provider, connect: Connect, say: Say) -> None:
    provider.script = [say]
    error = await fails(connect(), TransientModelError)
    assert error.code == "transient"
    assert len(provider.calls) == 1
    assert_no_leak(error)


async def test_an_error_hidden_in_a_success_keeps_its_meaning(provider: Provider, connect: Connect) -> None:
    provider.script = [
        Say(failure("maximum context length is 10 tokens")),
        Say(failure("insufficient_quota")),
    ]
    model = connect()
    await fails(model, OverflowModelError)
    await fails(model, QuotaModelError)


async def test_an_unreachable_server_is_transient_and_a_senseless_address_permanent(connect: Connect) -> None:
    error = await fails(connect(base_url="http://127.0.0.1:9/v1"), TransientModelError)
    assert "model.base_url" in str(error)
    error = await fails(connect(base_url="not-an-address"), PermanentModelError)
    assert "model.base_url" in str(error)
    error = await fails(connect(api_key="sk-schlüssel"), PermanentModelError)
    assert "model.api_key" in str(error)


async def test_a_dripping_body_can_be_cut_by_the_callers_deadline(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(completion(GOOD_TEXT), drip=0.05)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.4):
            await structured(connect())


# -- nothing leaks -------------------------------------------------------------------------------------


def assert_no_leak(error: BaseException) -> None:
    """Neither the error, nor what it hangs on to, knows prompt, answer or key [C021 X35]."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None:
        seen.append(current)
        current = current.__cause__ or current.__context__
    assert len(seen) == 1, "an exception of a library hangs on"
    printed = "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format())
    for text in (printed, str(error), repr(error), repr(error.__dict__)):
        for leak in LEAKS:
            assert leak not in text


@pytest.mark.req("C021", "C022")
@pytest.mark.fault("X35")
async def test_no_log_record_of_any_library_carries_prompt_answer_or_key(
    provider: Provider, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider.script = [
        Say(completion("ANSWER-CANARY")),
        Say(failure("PROMPT-CANARY"), status=500),
        Say(completion(GOOD_TEXT)),
    ]
    model = connect()
    for _ in range(2):
        with pytest.raises(ModelError):
            await structured(model)
    await structured(model)
    for leak in LEAKS:
        assert leak not in caplog.text
    assert KEY not in repr(model)
    assert KEY not in repr(vars(model))
