"""Stage 1 in front of a real HTTP server: real openai and instructor clients, real files, real state."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from extract.outcomes import Deferred, Failed, Kept, Stopped
from memory.llm import openai as adapter
from memory.settings import ModelSettings
from tests.extract.conftest import Bench
from tests.extract.samples import BODY, GOOD, TALK
from tests.memory.llm.loopback import KEY, Provider, Say, completion, failure

SECRET = "ghp_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA2bC4"
ANSWER = completion(json.dumps(GOOD))


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    server = Provider()
    await server.start()
    adapter.forget_manners()
    yield server
    await server.stop()


@pytest.fixture
async def connect(provider: Provider) -> AsyncIterator[Callable[..., adapter.OpenAIModel]]:
    made: list[adapter.OpenAIModel] = []

    def build(**settings: Any) -> adapter.OpenAIModel:
        values = {"base_url": provider.url, "api_key": KEY, "name": "m", **settings}
        made.append(adapter.OpenAIModel(ModelSettings(**values), "m"))
        return made[-1]

    yield build
    for model in made:
        await model.close()


Connect = Callable[..., adapter.OpenAIModel]


@pytest.mark.req("Z077", "Z078", "Z079")
@pytest.mark.fault("M12", "M13", "M16", "M68")
async def test_one_session_costs_one_request_and_its_ledger_row_is_what_the_provider_said(
    bench: Bench, provider: Provider, connect: Connect
) -> None:
    rollout = bench.write("a", *TALK)
    provider.script = [Say(completion(f"```json\n{json.dumps(GOOD)}\n```", usage=(2100, 150)))]
    outcome = await bench.one(connect())
    assert isinstance(outcome, Kept)
    assert len(provider.calls) == 1
    body = provider.calls[0].body
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert set(body["response_format"]["json_schema"]["schema"]["required"]) == {"rollout_summary", "rollout_slug"}
    assert BODY in (bench.text(rollout) or "")
    spend = bench.spend()
    assert (spend.requests, spend.input_tokens, spend.output_tokens) == (1, 2100, 150)


@pytest.mark.req("Z075")
async def test_the_window_of_the_listing_bounds_the_request(bench: Bench, provider: Provider, connect: Connect) -> None:
    bench.write("a", *TALK, *(("tool", f"{n} " + "lorem ipsum " * 150) for n in range(100)))
    provider.models = Say({"data": [{"id": "m", "max_model_len": 6000}]})
    provider.script = [Say(completion(json.dumps({"rollout_summary": "", "rollout_slug": ""})))]
    await bench.run(connect())
    runtime = bench.runtime(connect())
    sent = sum(runtime.tokens.count(message["content"]) for message in provider.calls[0].body["messages"])
    assert 3000 < sent <= 4200
    assert provider.calls[0].body["max_tokens"] == 1500


@pytest.mark.fault("M70", "M73")
async def test_a_rate_limit_then_an_answer_ends_stored(bench: Bench, provider: Provider, connect: Connect) -> None:
    bench.write("a", *TALK)
    provider.script = [Say(failure("slow down"), status=429, headers={"retry-after": "3"}), Say(ANSWER)]
    assert isinstance(await bench.one(connect()), Kept)
    assert bench.clock.slept == [3.0]
    assert len(provider.calls) == 2


@pytest.mark.fault("X7", "X13")
@pytest.mark.parametrize(
    ("status", "body", "setting"),
    [
        (404, failure("The model `m` does not exist", code="model_not_found"), "model.name"),
        (401, failure("Incorrect API key provided"), "model.api_key"),
    ],
)
async def test_a_wrong_setting_costs_one_request_for_the_whole_batch(
    bench: Bench, provider: Provider, connect: Connect, status: int, body: dict[str, Any], setting: str
) -> None:
    for name in "abc":
        bench.write(name, *TALK)
    provider.script = [Say(body, status=status)]
    report = await bench.run(connect(), extract={"concurrency": 1})
    assert len(provider.calls) == 1
    assert all(isinstance(outcome, Stopped) and setting in outcome.message for outcome in report.outcomes)


@pytest.mark.fault("M11", "X4")
async def test_a_used_up_quota_costs_one_request_for_the_whole_batch(
    bench: Bench, provider: Provider, connect: Connect
) -> None:
    for name in "abc":
        bench.write(name, *TALK)
    provider.script = [Say(failure("no credit", code="insufficient_quota"), status=429)]
    report = await bench.run(connect(), extract={"concurrency": 1})
    assert len(provider.calls) == 1
    assert all(isinstance(outcome, Deferred) for outcome in report.outcomes)


@pytest.mark.fault("M1", "X9")
async def test_a_window_smaller_than_said_is_met_by_halving(bench: Bench, provider: Provider, connect: Connect) -> None:
    bench.write("a", *TALK, *(("tool", f"{n} " + "lorem ipsum " * 100) for n in range(60)))
    short = {**GOOD, "rollout_summary": BODY.split("\n\n## What failed")[0]}

    def small(seen: Any) -> Say:
        if len(json.dumps(seen.body)) > 20_000:
            return Say(failure("This model's maximum context length is 4096 tokens."), status=400)
        return Say(completion(json.dumps(short)))

    provider.script = [small]
    outcome = await bench.one(connect())
    assert isinstance(outcome, Kept)
    assert outcome.shrinks >= 1
    assert len(provider.calls) == outcome.shrinks + 1


@pytest.mark.fault("X10")
async def test_sessions_that_time_out_are_counted_by_class(bench: Bench, provider: Provider, connect: Connect) -> None:
    bench.write("a", *TALK)
    provider.script = [Say(ANSWER, wait=30)]
    report = await bench.run(connect(), extract={"request_minutes": 0.2 / 60})
    assert report.counts() == {"failed:timeout": 1}
    assert isinstance(report.outcomes[0], Failed)


@pytest.mark.req("C021", "C022")
@pytest.mark.fault("X35")
async def test_a_secret_of_the_session_reaches_no_request_no_file_and_no_log(
    bench: Bench, provider: Provider, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    bench.write("a", *TALK, ("user", f"export GITHUB_TOKEN={SECRET}"), ("tool", f"GITHUB_TOKEN={SECRET}"))
    provider.script = [Say(failure("broken"), status=500), Say(completion("no json at all")), Say(ANSWER)]
    report = await bench.run(connect())
    assert report.kept == 1
    assert len(provider.calls) == 3
    sent = json.dumps([seen.body for seen in provider.calls])
    files = "".join(path.read_text(errors="replace") for path in bench.settings.home.rglob("*") if path.is_file())
    for place in (sent, files, caplog.text, json.dumps(report.detail())):
        assert SECRET not in place
        assert KEY not in place
    assert "always run" not in caplog.text
