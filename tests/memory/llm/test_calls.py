"""Deadline, budget, ledger, retries and repair rounds around the model port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from memory.clock import SystemClock
from memory.errors import (
    BudgetExceeded,
    InvalidAnswerError,
    ModelError,
    OverflowModelError,
    PermanentModelError,
    QuotaModelError,
    TimeoutModelError,
    TransientModelError,
)
from memory.llm import calls
from memory.llm.base import (
    CallContext,
    ChatReply,
    Message,
    Model,
    RenegotiatedError,
    StructuredReply,
    T,
    ToolSpec,
    Usage,
    with_usage,
)
from memory.llm.openai import OpenAIModel
from memory.settings import ModelSettings, Settings
from memory.testing import FrozenClock, OpenMeter, ScriptedModel
from tests.memory.llm.loopback import Provider, Say, completion, failure

ASK = (Message("system", "S"), Message("user", "U"))
CONTEXT = CallContext(role="extract", run_id="r1", job="codex:1")
GOOD = {"text": "fine"}


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str


def settings(**model: Any) -> Settings:
    return Settings(home=Path("/nowhere"), model=ModelSettings(**model))


class Asking:
    """One set of terms; `ask` and `chat` with everything but the model filled in."""

    def __init__(self, **model: Any) -> None:
        self.meter, self.clock, self.settings = OpenMeter(), FrozenClock(), settings(**model)
        self.deadline = 60.0

    async def ask(
        self,
        model: Model,
        *,
        check: Callable[[Answer], list[str]] = lambda _: [],
        repairs: int = 2,
        **more: Any,
    ) -> StructuredReply[Answer]:
        return await calls.ask_structured(
            model,
            ASK,
            Answer,
            check=check,
            context=CONTEXT,
            meter=self.meter,
            clock=more.pop("clock", self.clock),
            settings=self.settings,
            deadline_seconds=self.deadline,
            repairs=repairs,
            max_output_tokens=500,
            **more,
        )

    @property
    def outcomes(self) -> list[str]:
        return [record.outcome for record in self.meter.records]


@pytest.mark.fault("M68")
async def test_a_valid_answer_costs_exactly_one_metered_call() -> None:
    asking, model = Asking(), ScriptedModel([GOOD])
    reply = await asking.ask(model)
    assert reply.value.text == "fine"
    assert len(model.requests) == len(asking.meter.admitted) == len(asking.meter.records) == 1
    record = asking.meter.records[0]
    assert (record.outcome, record.model, record.usage.input_tokens) == ("ok", "scripted-model", 100)
    assert record.context == CONTEXT


async def test_a_budget_that_refuses_stops_the_call_before_it_is_made() -> None:
    class Closed(OpenMeter):
        def admit(self, context: CallContext, model: str, *, input_tokens: int, output_tokens: int) -> None:
            raise BudgetExceeded("Nothing left.", budget="budget.run_tokens")

    asking, model = Asking(), ScriptedModel([GOOD])
    asking.meter = Closed()
    with pytest.raises(BudgetExceeded):
        await asking.ask(model)
    assert model.requests == []
    assert asking.meter.records == []


@given(st.lists(st.text(max_size=200), max_size=4))
@hypothesis_settings(max_examples=30, deadline=None)
def test_the_admitted_size_is_never_below_the_bytes_sent(texts: list[str]) -> None:
    async def run() -> None:
        asking = Asking()
        await calls.ask_chat(
            ScriptedModel(["done"]),
            [Message("user", text) for text in texts],
            [ToolSpec("read", "Read.", {"type": "object"})],
            context=CONTEXT,
            meter=asking.meter,
            clock=asking.clock,
            settings=asking.settings,
            deadline_seconds=5,
            max_output_tokens=77,
        )
        (_, size, output) = asking.meter.admitted[0]
        assert size >= sum(len(text.encode()) for text in texts)
        assert output == 77

    asyncio.run(run())


# -- transient errors ------------------------------------------------------------------------------------


@pytest.mark.fault("M73", "M70")
async def test_a_blip_delays_seconds_and_every_attempt_is_in_the_ledger() -> None:
    asking = Asking()
    model = ScriptedModel([TransientModelError("busy", status=503), TransientModelError("busy", status=503), GOOD])
    await asking.ask(model)
    assert asking.outcomes == ["transient", "transient", "ok"]
    assert len(asking.meter.admitted) == 3
    assert 0 < sum(asking.clock.slept) <= 3
    assert [record.usage.input_tokens for record in asking.meter.records] == [0, 0, 100]


async def test_retries_end_with_the_setting_and_waits_grow_up_to_their_limit() -> None:
    asking = Asking(retries=9)
    model = ScriptedModel([TransientModelError("busy", status=503)], repeat_last=True)
    with pytest.raises(TransientModelError):
        await asking.ask(model)
    assert len(model.requests) == 10
    assert max(asking.clock.slept) <= calls.LONGEST_WAIT_SECONDS
    assert asking.clock.slept[5] > asking.clock.slept[0]


async def test_no_retries_means_one_call() -> None:
    asking, model = Asking(retries=0), ScriptedModel([TransientModelError("busy", status=503)])
    with pytest.raises(TransientModelError):
        await asking.ask(model)
    assert len(model.requests) == 1
    assert asking.clock.slept == []


async def test_retry_after_is_honoured_to_the_second_and_beyond_the_limit_pauses_as_quota() -> None:
    asking = Asking(max_retry_after_seconds=120)
    await asking.ask(ScriptedModel([TransientModelError("later", status=429, retry_after=61.0), GOOD]))
    assert asking.clock.slept == [61.0]
    model = ScriptedModel([TransientModelError("later", status=429, retry_after=121.0)])
    with pytest.raises(QuotaModelError) as caught:
        await asking.ask(model)
    assert caught.value.retry_after == 121.0
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "error",
    [
        QuotaModelError("used up", status=429),
        OverflowModelError("too long", status=400),
        PermanentModelError("no key", status=401),
    ],
)
async def test_other_errors_are_raised_at_once_and_recorded(error: ModelError) -> None:
    asking, model = Asking(), ScriptedModel([error])
    with pytest.raises(type(error)):
        await asking.ask(model)
    assert asking.outcomes == [error.code]
    assert len(model.requests) == 1
    assert asking.clock.slept == []


async def test_an_adapter_that_asks_differently_is_called_again_even_without_retries() -> None:
    asking = Asking(retries=0)
    await asking.ask(
        ScriptedModel([RenegotiatedError("no schema", status=400), RenegotiatedError("x", status=400), GOOD])
    )
    assert asking.outcomes == ["renegotiated", "renegotiated", "ok"]
    assert sum(asking.clock.slept) == 0


async def test_the_total_ends_retries_whose_wait_would_pass_it() -> None:
    asking = Asking(retries=20)
    model = ScriptedModel([TransientModelError("busy", status=503)], repeat_last=True)
    with pytest.raises(TransientModelError):
        await asking.ask(model, total_seconds=20)
    assert sum(asking.clock.slept) < 20


# -- deadlines and cancelling -----------------------------------------------------------------------------


class Hanging(ScriptedModel):
    async def complete_structured(
        self, messages: Sequence[Message], schema: type[T], *, max_output_tokens: int
    ) -> StructuredReply[T]:
        self.requests.append(tuple(messages))
        await asyncio.sleep(3600)
        raise AssertionError


@pytest.mark.req("Z098")
@pytest.mark.fault("X10")
async def test_a_hanging_call_is_cut_at_its_deadline_tried_once_more_and_recorded() -> None:
    asking, model = Asking(), Hanging()
    asking.deadline = 0.02
    with pytest.raises(TimeoutModelError, match="request_minutes"):
        await asking.ask(model)
    assert asking.outcomes == ["timeout", "timeout"]
    assert all(record.usage.input_tokens > 0 and not record.usage.reported for record in asking.meter.records)


@pytest.mark.fault("X10")
async def test_a_body_that_drips_for_ever_is_cut_too(provider: Provider) -> None:
    provider.script = [Say(completion('{"text": "fine"}'), drip=0.05)]
    model = OpenAIModel(ModelSettings(base_url=provider.url, name="m"), "m")
    asking = Asking(retries=0)
    asking.deadline = 0.5
    with pytest.raises(TimeoutModelError):
        await asking.ask(model, clock=SystemClock())
    await model.close()
    assert asking.outcomes == ["timeout"]
    assert 0.4 < asking.meter.records[0].seconds < 20


@pytest.mark.req("Z083")
async def test_cancelling_ends_a_call_at_once_and_the_ledger_knows_of_it() -> None:
    asking, model = Asking(), Hanging()
    task = asyncio.create_task(asking.ask(model))
    async with asyncio.timeout(60):
        while not model.requests:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asking.outcomes == ["cancelled"]


async def test_an_unexpected_exception_still_reaches_the_ledger() -> None:
    asking = Asking()
    with pytest.raises(ZeroDivisionError):
        await asking.ask(ScriptedModel([ZeroDivisionError()]))
    assert asking.outcomes == ["internal"]


# -- repair rounds -----------------------------------------------------------------------------------------


def refuse(*bad: str) -> Callable[[Answer], list[str]]:
    return lambda answer: [f"{answer.text} is bad"] if answer.text in bad else []


@pytest.mark.req("Z079")
async def test_an_answer_that_fails_the_checks_is_asked_again_with_its_reasons() -> None:
    asking, model = Asking(), ScriptedModel([{"text": "one"}, {"text": "two"}, GOOD])
    reply = await asking.ask(model, check=refuse("one", "two"))
    assert reply.value.text == "fine"
    last = model.requests[-1]
    assert [message.role for message in last] == ["system", "user", "assistant", "user"]
    assert "two is bad" in last[-1].content
    assert "one is bad" not in last[-1].content
    assert asking.outcomes == ["ok", "ok", "ok"]


@pytest.mark.fault("M15", "M18", "M20")
async def test_an_answer_that_cannot_be_read_is_asked_again_without_its_text() -> None:
    asking, model = Asking(), ScriptedModel(["no json", {"wrong": 1}, GOOD])
    await asking.ask(model, repair=lambda reasons: f"MEND {len(reasons)}")
    assert [message.role for message in model.requests[-1]] == ["system", "user", "user"]
    assert model.requests[-1][-1].content.startswith("MEND")
    assert asking.outcomes == ["invalid", "invalid", "ok"]


@pytest.mark.parametrize("repairs", [0, 1, 2])
async def test_repairs_end_with_an_invalid_answer_and_the_last_reasons(repairs: int) -> None:
    asking, model = Asking(), ScriptedModel([{"text": "one"}], repeat_last=True)
    with pytest.raises(InvalidAnswerError) as caught:
        await asking.ask(model, check=refuse("one"), repairs=repairs)
    assert caught.value.reasons == ("one is bad",)
    assert caught.value.kind == "checks"
    assert len(model.requests) == repairs + 1


async def test_a_paid_refusal_is_booked_with_what_it_cost() -> None:
    asking = Asking()
    paid = with_usage(InvalidAnswerError("no", reasons=["r"], kind="refusal"), Usage(900, 12))
    with pytest.raises(InvalidAnswerError) as caught:
        await asking.ask(ScriptedModel([paid]), repairs=0)
    assert caught.value.kind == "refusal"
    assert asking.meter.records[0].usage == Usage(900, 12)


@pytest.mark.req("Z078")
async def test_a_server_without_json_schema_costs_one_more_call_and_no_retry(provider: Provider) -> None:
    provider.script = [
        Say(failure("response_format is not supported"), status=400),
        Say(failure("tools are not supported"), status=400),
        Say(completion('{"text": "fine"}')),
    ]
    model = OpenAIModel(ModelSettings(base_url=provider.url, name="m", retries=0), "m")
    asking = Asking(retries=0)
    reply = await asking.ask(model)
    await model.close()
    assert reply.value.text == "fine"
    assert len(provider.calls) == len(asking.meter.records) == 3


async def test_a_chat_turn_is_metered_like_any_call() -> None:
    asking, model = (
        Asking(),
        ScriptedModel([TransientModelError("busy", status=500), lambda _: ChatReply("done", (), Usage(5, 1))]),
    )
    reply = await calls.ask_chat(
        model,
        ASK,
        [],
        context=CONTEXT,
        meter=asking.meter,
        clock=asking.clock,
        settings=asking.settings,
        deadline_seconds=5,
        max_output_tokens=10,
    )
    assert reply.text == "done"
    assert asking.outcomes == ["transient", "ok"]
