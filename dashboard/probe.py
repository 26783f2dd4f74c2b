"""One tiny call to see whether a model answers, admitted and written down like any other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pydantic import BaseModel, Field

from memory import models
from memory.clock import Clock
from memory.llm.base import CallContext, Message
from memory.llm.calls import ask_structured
from memory.models import Role
from memory.runtime import new_run_id
from memory.settings import Settings
from memory.state import Ledger, Spend, Store
from memory.tokens import TokenCounter

SECONDS = 45.0
MAX_OUTPUT = 1_000
"""Room for models that think before they answer; the answer itself is a word."""
STAGE = "test"


class Ready(BaseModel):
    """The shape of the answer: that a model keeps to one is what extraction needs of it."""

    ready: bool = Field(description="Always true.")


@dataclass(frozen=True, slots=True)
class Answered:
    """`network` is False for the engine that is built in: there is nothing to reach."""

    model: str
    network: bool
    seconds: float
    spend: Spend


def probe(settings: Settings, store: Store, clock: Clock, role: Role) -> Answered:
    """Asks the model of a stage. Raises what the model port raises, without keys; BudgetExceeded when a ceiling is used
    up."""
    choice = models.choose(settings.model, role)
    run_id = new_run_id(clock)
    ledger = Ledger(store, settings.budget, clock, run_id, free=models.FREE)
    began = clock.monotonic()
    if choice.provider != "offline":
        asyncio.run(_ask(settings, ledger, clock, role, run_id))
    return Answered(choice.name, choice.provider != "offline", clock.monotonic() - began, ledger.run_total())


async def _ask(settings: Settings, ledger: Ledger, clock: Clock, role: Role, run_id: str) -> None:
    tokens = TokenCounter(settings.model.vocabulary)
    model = models.build(settings, role, tokens)
    try:
        await ask_structured(
            model,
            [Message("user", "This is a test of the connection. Answer that you are ready.")],
            Ready,
            check=lambda answer: [],
            context=CallContext(STAGE, run_id),
            meter=ledger,
            clock=clock,
            settings=settings,
            deadline_seconds=SECONDS,
            total_seconds=SECONDS,
            repairs=0,
            max_output_tokens=MAX_OUTPUT,
            tokens=tokens,
        )
    finally:
        await model.close()
