"""The policy with fakes for a host, its conversations and its files, all in memory but the settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memory import switches
from recall import inject
from recall.inject import Block, Request
from recall.policy import Answer, Call, MemoryPolicy
from recall.ports import History, ModelResolution, Persistence


class Models:
    """Names of models; `calls` counts how often somebody asked."""

    def __init__(self) -> None:
        self.names = {"extract": "small", "consolidate": "large"}
        self.calls = 0

    def resolve(self) -> Mapping[str, str]:
        self.calls += 1
        return self.names


class Records:
    """Conversations by path."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def holds(self, transcript: str, text: str) -> bool:
        return text in self.texts.get(transcript, "")


class Store:
    """Snapshots and spool in memory."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], dict[str, Any]] = {}
        self.blocks: dict[str, dict[str, Any]] = {}
        self.wakes: list[dict[str, Any]] = []
        self.uses: list[dict[str, float]] = []
        self.late: dict[tuple[str, str], dict[str, Any]] = {}

    def load(self, host: str, session: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.sessions.get((host, session)))

    def save(self, host: str, session: str, values: dict[str, Any]) -> None:
        self.sessions[host, session] = copy.deepcopy(values)

    def lock(self, host: str, session: str) -> Callable[[], None] | None:
        return lambda: None

    def load_late(self, host: str, session: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.late.get((host, session)))

    def save_late(self, host: str, session: str, values: dict[str, Any]) -> None:
        self.late[host, session] = copy.deepcopy(values)

    def load_block(self, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.blocks.get(name))

    def save_block(self, name: str, values: dict[str, Any]) -> None:
        self.blocks[name] = copy.deepcopy(values)

    def wake(self, host: str, session: str, values: dict[str, Any]) -> None:
        self.wakes.append(values)

    def used(self, host: str, session: str, citations: dict[str, float]) -> None:
        self.uses.append(citations)


class Rig:
    """One user with a memory of three parts; `said` is what each part says now."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models, self.records, self.store = Models(), Records(), Store()
        self.said = {"summary": "SUM", "user": "USR", "project": "PRJ"}
        self.built: list[Request] = []
        self.turn = 0
        self.now = 2_000_000_000.0
        (home / "watched").write_text("", "utf-8")
        self.set(mode="long")

    def set(self, **memory: Any) -> None:
        """Writes [memory] of config.toml, which CLI and API share."""
        lines = [
            f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in memory.items()
        ]
        (self.home / "config.toml").write_text("[memory]\n" + "\n".join(lines).replace("'", '"') + "\n", "utf-8")

    def say(self, **parts: str) -> None:
        """Memory changes: a file on disk does."""
        self.said.update(parts)
        (self.home / "watched").write_text(repr(self.said), "utf-8")

    def build(self, request: Request) -> Block:
        self.built.append(request)
        text = " ".join(self.said[part] for part in request.parts if self.said[part])
        body = inject._fenced(request.id, [text, f"(text {abs(hash(text)) % 16**12:012x})"]) if text else ""
        return Block(body, inject.digest_of(body), ("aaaa0001",) if body else (), depends=(str(self.home / "watched"),))

    def policy(self) -> MemoryPolicy:
        models: ModelResolution = self.models
        history: History = self.records
        store: Persistence = self.store
        return MemoryPolicy(
            lambda known: switches.load({"SLOWWAVE_HOME": str(self.home)}, known),
            models=models,
            history=history,
            store=store,
            now=self.now,
            build=self.build,
        )

    def send(self, kind: str, session: str = "s1", host: str = "claude", **more: Any) -> Answer:
        """One event, committed. A prompt gets a message id of its own unless it is given one."""
        self.now += 10
        if kind == "prompt" and "message" not in more:
            self.turn += 1
            more["message"] = f"m{self.turn}"
        answer = self.policy().handle(Call(kind, host, session, cwd=str(self.home), **more))
        answer.commit()
        return answer

    def prompt(self, session: str = "s1", host: str = "claude", **more: Any) -> str:
        return self.send("prompt", session, host, **more).text

    def state(self, session: str = "s1", host: str = "claude") -> dict[str, Any]:
        return self.store.sessions[host, session]
