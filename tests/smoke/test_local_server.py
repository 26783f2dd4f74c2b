"""The wire to a REAL model server: HTTP, tokens, schema constraint, deadline. What a 135M model says is worthless:
every answer is either fit for its schema or a failure with a name, every token is accounted for, the pipeline survives
and publishes only what the gate passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from consolidate import gate
from consolidate.run import gather
from flows import pipeline
from memory.clock import SystemClock
from memory.errors import InvalidAnswerError, TimeoutModelError
from memory.llm import openai as adapter
from memory.llm.base import CallContext, Message, ToolSpec
from memory.llm.calls import ask_chat, ask_structured
from memory.runtime import Runtime, open_runtime
from memory.settings import Settings, load
from memory.testing import OpenMeter
from rollouts.eligibility import Picks
from tests.smoke import local_server
from tests.smoke.wire import Wire

pytestmark = pytest.mark.smoke

ASKED = [
    Message("system", "You summarise a session in one short sentence. Answer with JSON. The slug is two words."),
    Message("user", "[e1 human] Please use Vitest in this project.\n[e2 final] Done: Vitest is set up."),
]
READ = ToolSpec(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False},
)


class Verdict(BaseModel):
    """So narrow that a constrained decoder cannot miss it."""

    tool: Literal["vitest", "jest"]


@pytest.fixture
def settings(wire: Wire) -> Settings:
    return load(
        overrides={
            "model": {"base_url": wire.url, "name": "smollm2", "retries": 0, "temperature": 0.0, "mode": "json_schema"}
        }
    )


@pytest.fixture
async def model(settings: Settings) -> AsyncIterator[adapter.OpenAIModel]:
    adapter.forget_manners()
    opened = adapter.OpenAIModel(settings.model, settings.model.name)
    yield opened
    await opened.close()


@pytest.fixture
def terms(settings: Settings) -> dict[str, Any]:
    """On which terms these tests call."""
    return {
        "context": CallContext("extract", "smoke"),
        "meter": OpenMeter(),
        "clock": SystemClock(),
        "settings": settings,
        "deadline_seconds": 110,
    }


async def test_the_window_is_the_one_the_server_says(model: adapter.OpenAIModel) -> None:
    assert await model.window() == local_server.CONTEXT_TOKENS


@pytest.mark.req("Z078")
@pytest.mark.fault("M16")
async def test_a_real_server_holds_the_model_to_the_schema_and_its_token_counts_are_kept(
    model: adapter.OpenAIModel, wire: Wire, terms: dict[str, Any]
) -> None:
    reply = await ask_structured(model, ASKED, Verdict, check=lambda _: [], repairs=0, max_output_tokens=40, **terms)
    assert reply.value.tool in {"vitest", "jest"}
    assert reply.usage.reported
    assert [(reply.usage.input_tokens, reply.usage.output_tokens)] == wire.tokens()
    assert wire.calls[0].request["response_format"]["json_schema"]["schema"]["required"] == ["tool"]


@pytest.mark.fault("M21", "M18")
async def test_the_schema_of_stage_1_is_kept_or_fails_by_name_and_the_ledger_has_every_call(
    model: adapter.OpenAIModel, wire: Wire, terms: dict[str, Any]
) -> None:
    from extract.record import RolloutRecord

    kind = outcome = "ok"
    try:
        await ask_structured(model, ASKED, RolloutRecord, check=lambda _: [], repairs=1, max_output_tokens=120, **terms)
    except InvalidAnswerError as error:
        kind, outcome = error.kind, error.code
    assert kind in {"ok", "truncated", "parse", "schema", "empty"}
    records = terms["meter"].records
    assert 1 <= len(wire.calls) <= 2
    assert [(row.usage.input_tokens, row.usage.output_tokens) for row in records] == wire.tokens()
    assert all(row.usage.reported and row.usage.output_tokens > 0 for row in records)
    assert records[-1].outcome == outcome


async def test_a_turn_with_tools_reaches_the_server_and_comes_back_counted(
    model: adapter.OpenAIModel, wire: Wire, terms: dict[str, Any]
) -> None:
    asked = [Message("system", "You can call tools."), Message("user", "Read notes.md with the read tool.")]
    reply = await ask_chat(model, asked, [READ], max_output_tokens=40, **terms)
    assert wire.calls[0].request["tools"][0]["function"]["name"] == "read"
    assert reply.text or reply.tool_calls
    assert all(call.name and call.id for call in reply.tool_calls)
    assert [(reply.usage.input_tokens, reply.usage.output_tokens)] == wire.tokens()


@pytest.mark.req("Z098")
async def test_our_own_deadline_ends_a_call_that_goes_on_and_it_is_still_paid_for(
    model: adapter.OpenAIModel, wire: Wire, terms: dict[str, Any]
) -> None:
    terms["deadline_seconds"] = 0.5
    started = time.monotonic()
    with pytest.raises(TimeoutModelError):
        await ask_chat(model, [Message("user", "Count to one thousand in words.")], [], max_output_tokens=3000, **terms)
    assert time.monotonic() - started < 5
    assert [(row.outcome, row.usage.reported) for row in terms["meter"].records] == [("timeout", False)]


# -- the whole pipeline -------------------------------------------------------------------------------------

SAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sessions"
TIGHT = {
    "extract": {
        "idle_hours": 0,
        "max_age_days": 36_500,
        "repairs": 0,
        "request_minutes": 0.75,
        "max_output_tokens": 64,
        "lease_minutes": 2,
    },
    "consolidate": {
        "unused_days": 36_500,
        "max_requests": 3,
        "batch_minutes": 1,
        "request_minutes": 0.75,
        "max_output_tokens": 64,
    },
}
"""A few seconds for each stage: what a tiny model says longer is not better."""


def sampled(home: Path, host: str, **model: object) -> Settings:
    """One host's sample sessions at a time, so that each run has new ones."""
    rollouts = {"hosts": [host], f"{host}_roots": [str(SAMPLES / host)]}
    return load(home=home, overrides={"memory": {"mode": "long"}, "rollouts": rollouts, **TIGHT, "model": model})


def run(chosen: Settings, *, limit: int, extract: bool = True, consolidate: bool = True) -> pipeline.RunReport:
    options = pipeline.Options(extract=extract, consolidate=consolidate, picks=Picks(limit=limit))
    with open_runtime(chosen) as runtime:
        return asyncio.run(pipeline.run_until_stopped(runtime, options))


def judged_again(runtime: Runtime) -> gate.Verdict:
    """The confirmed summary under the rules, with nothing taken from the run that published it."""
    selection = gather(runtime, None)
    sources = {
        item.citation: gate.source_from_rollout(item.citation, item.text) for item in selection.chosen if not item.note
    }
    text = runtime.workspace.summary_path.read_bytes()

    def secrets(text: str) -> list[str]:
        return [finding.rule for finding in runtime.redactor.findings(text)]

    return gate.judge(gate.Case(text, selection.manifest, sources, secrets=secrets))


@pytest.mark.req("Z079", "Z100", "Z103", "C022")
@pytest.mark.fault("M21")
def test_a_model_that_knows_nothing_publishes_nothing_unverified_and_every_call_is_in_the_ledger(
    wire: Wire, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    embedded = sampled(home, "codex", provider="offline")
    assert run(embedded, limit=2).outcome == "ok"
    assert run(sampled(home, "claude", provider="offline"), limit=2, consolidate=False).outcome == "ok"
    with open_runtime(embedded) as runtime:
        before = runtime.workspace.summary_path.read_bytes()
        versions = len(runtime.store.versions.all())
    assert wire.calls == [], "the embedded engine uses no network"

    served = sampled(home, "pi", provider="openai", base_url=wire.url, name="smollm2", window=3000, retries=0)
    report: Any = pipeline.detail(run(served, limit=1))

    assert report["outcome"] in {"ok", "failed", "nothing"}
    stage2 = report["consolidate"]
    with open_runtime(served) as runtime:
        if stage2["code"] == "published":
            assert len(runtime.store.versions.all()) == versions + 1
        else:
            assert stage2["code"] == "failed", stage2
            assert stage2["error"]
            assert runtime.workspace.summary_path.read_bytes() == before
        assert judged_again(runtime).violations == ()
    assert {call.request["model"] for call in wire.calls} == {"smollm2"}
    assert report["spend"]["requests"] == len(wire.calls) >= 2
    if all(call.status == 200 for call in wire.calls):
        total_in, total_out = (sum(column) for column in zip(*wire.tokens(), strict=True))
        assert (report["spend"]["input_tokens"], report["spend"]["output_tokens"]) == (total_in, total_out)
