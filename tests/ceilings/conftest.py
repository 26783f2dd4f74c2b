"""A home, a clock that moves when told, a provider on loopback, and a way to run."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows import pipeline
from memory.llm import openai as adapter
from memory.runtime import Runtime, open_runtime
from memory.settings import Settings, load
from memory.state import Ledger, Store
from memory.testing import FrozenClock
from recall.status import Status, read_status
from tests.ceilings.scribe import Provider, Scribe

EVENING = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
EVERYTHING = pipeline.Options()


@dataclass
class Purse:
    """Sessions, settings and runs of one user whose provider counts every token."""

    folder: Path
    provider: Provider
    scribe: Scribe
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(EVENING))

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    def session(
        self, name: str, *, cwd: str = "/home/dev/shop", wish: str = "", began: datetime | None = None, padding: int = 0
    ) -> None:
        """One finished session; `padding` adds so many long messages of the person."""
        start = began or self.clock.now() - timedelta(hours=8)
        said = wish or f"From now on always run the suite of {name} with vitest, never jest."
        lines: list[dict[str, Any]] = [
            {"type": "session", "id": name, "started": start.isoformat(), "cwd": cwd},
            {"type": "event", "role": "user", "text": said, "time": start.isoformat()},
            *(
                {
                    "type": "event",
                    "role": "user",
                    "text": f"{part}: {'The sky was blue. ' * 400}",
                    "time": start.isoformat(),
                }
                for part in range(padding)
            ),
            {"type": "event", "role": "assistant", "text": "Noted.", "time": start.isoformat(), "final": True},
        ]
        self.sessions.mkdir(exist_ok=True)
        path = self.sessions / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (start.timestamp(), start.timestamp()))

    def settings(self, **sections: Any) -> Settings:
        """`model` and `budget` may be given; the default budget is in force where they are not."""
        values: dict[str, dict[str, Any]] = {
            "memory": {"mode": "long"},
            "rollouts": {"hosts": ["generic"], "generic_roots": [str(self.sessions)]},
            "extract": {"idle_hours": 0, "max_age_days": 3_650, "batch": 50, "concurrency": 1},
            "consolidate": {"unused_days": 3_650},
            "model": {"base_url": self.provider.url, "api_key": "k", "name": "m", "window": 32_000},
        }
        for section, keys in sections.items():
            values.setdefault(section, {}).update(keys)
        environ = {"SLOWWAVE_HOME": str(self.folder / "home"), "HOME": str(self.folder)}
        return load(environ=environ, overrides=values)

    @contextmanager
    def runtime(self, trigger: str = "manual", **sections: Any) -> Iterator[Runtime]:
        with open_runtime(self.settings(**sections), clock=self.clock, trigger=trigger) as runtime:
            yield runtime

    async def run(
        self, options: pipeline.Options = EVERYTHING, *, trigger: str = "manual", **sections: Any
    ) -> pipeline.RunReport:
        with self.runtime(trigger, **sections) as runtime:
            try:
                return await pipeline.run(runtime, options)
            finally:
                await runtime.close()

    @contextmanager
    def store(self, **sections: Any) -> Iterator[Store]:
        with Store.open(self.settings(**sections), self.clock) as store:
            yield store

    def status(self, **sections: Any) -> Status:
        with self.store(**sections) as store:
            return read_status(store.settings, store, self.clock, provider="m")

    def ledger(self, store: Store) -> Ledger:
        return Ledger(store, store.settings.budget, self.clock, "test")


@pytest.fixture
async def purse(tmp_path: Path) -> AsyncIterator[Purse]:
    provider, scribe = Provider(), Scribe()
    provider.script = [scribe]
    await provider.start()
    adapter.forget_manners()
    yield Purse(tmp_path, provider, scribe)
    await provider.stop()
