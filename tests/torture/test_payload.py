"""What a model is sent is one thing, what is kept another: neither finds its way into the other by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memory.llm.base import Message
from tests.torture.deeds import part
from tests.torture.lines import LineModel
from tests.torture.world import World


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text a model was sent, in order."""
    texts: list[str] = []

    def spied(name: str) -> None:
        ask = getattr(LineModel, name)

        async def spy(self: LineModel, messages: Sequence[Message], *rest: Any, **options: Any) -> Any:
            texts.append("\n".join(message.content for message in messages))
            return await ask(self, messages, *rest, **options)

        monkeypatch.setattr(LineModel, name, spy)

    spied("complete_structured")
    spied("chat")
    return texts


@pytest.mark.req("C067", "C047")
def test_what_a_model_was_sent_is_kept_nowhere_unless_it_became_a_verified_line(
    tmp_path: Path, sent: list[str]
) -> None:
    world = World(tmp_path)
    world.say("a1", part("a1", 1), "This line is worth nothing, says the walrus.")
    world.run()
    assert world.lines() == {part("a1", 1)}
    assert any("walrus" in text for text in sent)
    assert world.traces("walrus") == []


@pytest.mark.req("C064")
def test_a_run_in_the_background_sees_the_session_it_works_on_and_nothing_that_was_remembered_for_sessions(
    tmp_path: Path, sent: list[str]
) -> None:
    world = World(tmp_path)
    world.say("a1", part("a1", 1))
    world.run()
    short = world.home / "short" / "user.md"
    short.parent.mkdir(mode=0o700, exist_ok=True)
    short.write_text("- The walrus is on holiday.\n", encoding="utf-8")
    world.say("b1", part("b1", 1))
    sent.clear()
    world.run()
    extraction, *consolidation = sent
    assert "part-b1-1" in extraction
    assert "part-a1-1" not in extraction, "another session's memory"
    assert consolidation
    assert not any("walrus" in text for text in sent), "a short file is for sessions"
