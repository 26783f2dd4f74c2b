"""Which model answers: the one place that knows every adapter, each imported when it is needed.

A base URL or a key together with a model name means a provider; anything less means the embedded offline engine,
and a notice says why. Nobody is ever billed for a model he did not name [X7].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memory.errors import SettingsError
from memory.llm.base import Model, Tokens
from memory.settings import ModelSettings, Settings

Role = Literal["extract", "consolidate"]

ROLES: tuple[Role, ...] = ("extract", "consolidate")
OFFLINE_NAME = "offline-extractive-1"
FREE = frozenset({OFFLINE_NAME})
"""Names of models that cost nothing: the ledger books them without price."""


@dataclass(frozen=True, slots=True)
class Choice:
    """`provider` is `openai` or `offline`; `notice` is what the user should know about the choice, or empty."""

    provider: Literal["openai", "offline"]
    name: str
    notice: str = ""


def choose(settings: ModelSettings, role: Role) -> Choice:
    """The adapter and model name of a stage. Pure. Raises SettingsError where a provider is set but no name."""
    name = settings.extract_model() if role == "extract" else settings.consolidate_model()
    reachable = bool(settings.base_url or settings.api_key.get_secret_value())
    if settings.provider == "offline":
        return Choice("offline", OFFLINE_NAME, _notice("model.provider is offline"))
    if settings.provider == "openai":
        if not name:
            raise SettingsError(
                f"model.provider is openai, but no model is named for {role}.",
                hint=f"Set model.name or model.{role}_name.",
            )
        return Choice("openai", name)
    if reachable and name:
        return Choice("openai", name)
    if reachable:
        return Choice(
            "offline", OFFLINE_NAME, _notice(f"a key or base URL is set, but neither model.name nor model.{role}_name")
        )
    if name:
        return Choice(
            "offline", OFFLINE_NAME, _notice(f"{name} is named, but neither model.api_key nor model.base_url")
        )
    return Choice("offline", OFFLINE_NAME, _notice("no model is set"))


def build(settings: Settings, role: Role, tokens: Tokens | None = None) -> Model:
    """The model of a stage. Opens no connection and imports no client library yet."""
    choice = choose(settings.model, role)
    if choice.provider == "offline":
        from memory.offline import OfflineModel

        return OfflineModel()
    from memory.llm.openai import OpenAIModel

    return OpenAIModel(settings.model, choice.name, tokens=tokens)


def describe(settings: Settings) -> str:
    """`offline`, or `openai: NAME` (both names where the stages differ). Opens nothing."""
    try:
        names = dict.fromkeys(choose(settings.model, role) for role in ROLES)
    except SettingsError as error:
        return f"not set up: {error.message}"
    parts = dict.fromkeys(one.name if one.provider == "offline" else f"openai: {one.name}" for one in names)
    return ", ".join(parts)


def notice(settings: Settings) -> str:
    """One sentence about the choice of models, empty where there is nothing to say."""
    found = {choose(settings.model, "extract").notice, choose(settings.model, "consolidate").notice}
    return " ".join(sorted(found - {""}))


def _notice(why: str) -> str:
    return f"The built-in extractive engine answers, without network and without cost ({why})."
