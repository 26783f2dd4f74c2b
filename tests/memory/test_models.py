"""Which model answers, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from memory import models
from memory.errors import SettingsError
from memory.settings import ModelSettings, Settings


@pytest.mark.fault("X7")
@pytest.mark.parametrize(
    ("values", "provider", "name", "said"),
    [
        ({}, "offline", models.OFFLINE_NAME, "no model is set"),
        ({"api_key": "k"}, "offline", models.OFFLINE_NAME, "model.name"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "offline", models.OFFLINE_NAME, "model.name"),
        ({"name": "m"}, "offline", models.OFFLINE_NAME, "model.api_key"),
        ({"name": "m", "api_key": "k"}, "openai", "m", ""),
        ({"name": "m", "base_url": "http://127.0.0.1:1/v1"}, "openai", "m", ""),
        ({"extract_name": "e", "base_url": "http://127.0.0.1:1/v1"}, "openai", "e", ""),
        ({"name": "m", "extract_name": "e", "api_key": "k"}, "openai", "e", ""),
        ({"provider": "offline", "name": "m", "api_key": "k"}, "offline", models.OFFLINE_NAME, "model.provider"),
        ({"provider": "openai", "name": "m"}, "openai", "m", ""),
    ],
)
def test_a_provider_is_called_only_with_a_model_the_user_named(
    values: dict[str, Any], provider: str, name: str, said: str
) -> None:
    choice = models.choose(ModelSettings(**values), "extract")
    assert (choice.provider, choice.name) == (provider, name)
    assert said in choice.notice
    assert bool(choice.notice) == bool(said)


def test_each_stage_has_its_own_model_and_a_half_set_one_is_said() -> None:
    settings = Settings(home=Path("/x"), model=ModelSettings(extract_name="e", base_url="http://127.0.0.1:1/v1"))
    assert models.build(settings, "extract").name == "e"
    assert "consolidate_name" in models.notice(settings)


def test_an_explicit_provider_without_a_model_name_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(SettingsError, match=r"model\.name"):
        models.choose(ModelSettings(provider="openai", api_key=SecretStr("k")), "consolidate")


def test_the_offline_engine_has_the_name_the_ledger_books_as_free(tmp_path: Path) -> None:
    model = models.build(Settings(home=tmp_path), "extract")
    assert model.provider == "offline"
    assert model.name in models.FREE
