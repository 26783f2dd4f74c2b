"""A home with sessions of its own, and a child process that works in it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.clock import SystemClock
from memory.model import RolloutId
from memory.runtime import Runtime, open_runtime
from memory.settings import Settings, load
from memory.state import Store

ROOT = Path(__file__).resolve().parents[2]
CANARY = "CANARY-7f3e-zebra"
"""Stands in every session, as a word of each speaker: it must turn up nowhere outside the home."""
BEGAN = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Home:
    """One data folder, its settings file and the folder its sessions lie in."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    def configure(self, **sections: dict[str, Any]) -> None:
        """Writes config.toml: sessions of any age, idle at once, long memory, and what is given here."""
        values: dict[str, dict[str, Any]] = {
            "memory": {"mode": "long"},
            "rollouts": {"hosts": ["generic"], "generic_roots": [str(self.sessions)]},
            "extract": {"idle_hours": 0, "max_age_days": 36_500, "batch": 100},
            "consolidate": {"unused_days": 36_500},
        }
        for section, keys in sections.items():
            values.setdefault(section, {}).update(keys)
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.sessions.mkdir(parents=True, exist_ok=True)
        lines = []
        for section, keys in values.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
        (self.data / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def write(self, *names: str) -> list[RolloutId]:
        """One small session for each name, an hour apart; the first is the youngest."""
        self.sessions.mkdir(parents=True, exist_ok=True)
        for place, name in enumerate(names):
            began = BEGAN - timedelta(hours=place)
            lines: list[dict[str, Any]] = [
                {
                    "type": "session",
                    "id": name,
                    "host_name": "test",
                    "started": began.isoformat(),
                    "cwd": "/home/dev/api",
                }
            ]
            said = [
                ("user", f"From now on always run the suite of {name} with vitest, never jest. {CANARY}"),
                ("assistant", f"I changed the script of {name}. {CANARY}"),
                ("user", f"We use pnpm in {name}, not npm. {CANARY}"),
            ]
            for second, (role, text) in enumerate(said, start=1):
                time = (began + timedelta(seconds=second)).isoformat()
                lines.append({"type": "event", "role": role, "text": text, "time": time})
            path = self.sessions / f"{name}.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            stamp = began.timestamp() + 10
            os.utime(path, (stamp, stamp))
        return [RolloutId.parse(f"generic:{name}") for name in names]

    def settings(self, **sections: dict[str, Any]) -> Settings:
        """As a process in this home would load them."""
        return load(environ={"SLOWWAVE_HOME": str(self.data), "HOME": str(self.folder)}, overrides=sections)

    @contextmanager
    def runtime(self, trigger: str = "manual", /, **sections: Any) -> Iterator[Runtime]:
        with open_runtime(self.settings(**sections), trigger=trigger) as runtime:
            yield runtime

    @contextmanager
    def store(self) -> Iterator[Store]:
        with Store.open(self.settings(), SystemClock()) as store:
            yield store

    def environment(self, **more: str) -> dict[str, str]:
        """For a child: this home and nothing of the person who runs the tests."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "SYSTEMROOT") if name in os.environ}
        return {**kept, "HOME": str(self.folder), "SLOWWAVE_HOME": str(self.data), "PYTHONUNBUFFERED": "1", **more}


@asynccontextmanager
async def child(home: Home, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`python ARGUMENTS` in the home; ended by its id whatever the test does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=ROOT, env=home.environment(),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
