"""The OpenAI adapter's other half: chat with tools, the context window, and what it does not import."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory.errors import InvalidAnswerError, PermanentModelError
from memory.llm.base import Message, ToolCall, ToolSpec
from memory.llm.openai import OpenAIModel
from tests.memory.llm.loopback import Provider, Say, completion, failure, tool_call

Connect = Callable[..., OpenAIModel]
ROOT = Path(__file__).parents[3]


ASK = (Message("system", "You keep the memory."), Message("user", "Bring it up to date."))


# -- chat with tools -------------------------------------------------------------------------------------

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


async def test_a_chat_turn_carries_tools_and_earlier_calls_and_returns_calls(
    provider: Provider, connect: Connect
) -> None:
    provider.script = [
        Say(completion("<think>x</think>On it.", tool_calls=[tool_call("read", '{"path": "a"}')], finish="tool_calls"))
    ]
    messages = (
        *ASK,
        Message("assistant", "", tool_calls=(ToolCall("c0", "read", '{"path": "b"}'),)),
        Message("tool", "text of b", tool_call_id="c0"),
    )
    reply = await connect().chat(messages, [READ], max_output_tokens=50)
    assert (reply.text, reply.finish) == ("On it.", "tool_calls")
    assert reply.tool_calls == (ToolCall("call_a", "read", '{"path": "a"}'),)
    body = provider.calls[0].body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read"]
    assert body["messages"][2]["tool_calls"][0]["function"]["name"] == "read"
    assert body["messages"][3] == {"role": "tool", "content": "text of b", "tool_call_id": "c0"}


async def test_odd_tool_calls_of_small_servers_are_understood(provider: Provider, connect: Connect) -> None:
    calls = [tool_call("read", {"path": "a"}, None), tool_call("read", None, "")]
    provider.script = [Say(completion(None, tool_calls=calls, usage=None))]
    reply = await connect().chat(ASK, [READ], max_output_tokens=50)
    assert [(c.id, c.arguments) for c in reply.tool_calls] == [("call_1", '{"path": "a"}'), ("call_2", "{}")]


async def test_a_model_without_tools_is_a_permanent_error_for_chat(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(failure("test-model does not support tools"), status=400)]
    with pytest.raises(PermanentModelError, match="consolidate_name"):
        await connect().chat(ASK, [READ], max_output_tokens=50)


async def test_a_chat_refusal_is_invalid_and_a_cut_turn_says_so(provider: Provider, connect: Connect) -> None:
    provider.script = [Say(completion(None, refusal="no")), Say(completion("half", finish="length"))]
    model = connect()
    with pytest.raises(InvalidAnswerError) as caught:
        await model.chat(ASK, [READ], max_output_tokens=50)
    assert caught.value.kind == "refusal"
    assert (await model.chat(ASK, [], max_output_tokens=50)).finish == "length"
    assert "tools" not in provider.calls[1].body


# -- window ------------------------------------------------------------------------------------------------


@pytest.mark.req("Z075", "Z076")
@pytest.mark.parametrize(
    ("listing", "window"),
    [
        ({"data": [{"id": "other", "max_model_len": 1000}, {"id": "test-model", "max_model_len": 4096}]}, 4096),
        ({"data": [{"id": "test-model", "context_window": 131072}]}, 131072),
        ({"data": [{"id": "test-model:latest", "context_length": 8192}]}, 8192),
        ({"data": [{"id": "test-model", "max_context_length": 32768, "loaded_context_length": 4096}]}, 4096),
        ({"data": [{"id": "/models/a.gguf", "meta": {"n_ctx": 2048, "n_ctx_train": 9999}}]}, 2048),
        ({"data": [{"id": "test-model"}]}, None),
        ({"data": [{"id": "test-model", "context_window": "many"}]}, None),
        ({"data": [{"id": "test-model", "context_window": 0}]}, None),
        ({"data": "x"}, None),
        ([], None),
    ],
)
async def test_the_window_comes_from_the_listing_where_it_is_said(
    provider: Provider, connect: Connect, listing: Any, window: int | None
) -> None:
    provider.models = Say(listing if isinstance(listing, dict) else json.dumps(listing))
    model = connect()
    assert await model.window() == window
    await model.window()
    assert len(provider.seen) == 1


@pytest.mark.req("Z076")
async def test_a_window_in_the_settings_asks_nobody_and_a_broken_listing_is_unknown(
    provider: Provider, connect: Connect
) -> None:
    assert await connect(window=9000).window() == 9000
    assert provider.seen == []
    provider.models = Say("<html>", status=404)
    assert await connect().window() is None


# -- imports ---------------------------------------------------------------------------------------------


def test_no_client_library_is_imported_before_the_first_call() -> None:
    code = (
        "import sys, memory.models, memory.llm.openai, memory.llm.calls\n"
        "from pathlib import Path\n"
        "from memory.settings import ModelSettings, Settings\n"
        "s = Settings(home=Path('/x'), model=ModelSettings(name='m', base_url='http://127.0.0.1:1/v1'))\n"
        "memory.models.build(s, 'extract')\n"
        "print([name for name in ('openai', 'instructor', 'httpx2', 'tiktoken') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
