"""A provider on loopback and adapters connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from memory.llm import openai as adapter
from memory.settings import ModelSettings
from tests.memory.llm.loopback import KEY, Provider


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    server = Provider()
    await server.start()
    adapter.forget_manners()
    yield server
    await server.stop()


@pytest.fixture
async def connect(provider: Provider) -> AsyncIterator[Callable[..., adapter.OpenAIModel]]:
    """Builds an adapter for the loopback server; keyword arguments are settings of [model]."""
    made: list[adapter.OpenAIModel] = []

    def build(**settings: Any) -> adapter.OpenAIModel:
        values = {"base_url": provider.url, "api_key": KEY, "name": "test-model", **settings}
        model = adapter.OpenAIModel(ModelSettings(**values), values["name"])
        made.append(model)
        return model

    yield build
    for model in made:
        await model.close()
