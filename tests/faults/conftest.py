"""A home in which a test writes sessions as it likes and runs the whole pipeline with the built-in engine."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows import pipeline
from rollouts.eligibility import Picks
from tests.flows.home import BEGAN, Home

Say = tuple[str, str]


@dataclass(frozen=True)
class Desk(Home):
    """A home with a way to write sessions and to run."""

    def session(self, name: str, *said: Say, cwd: str = "/home/dev/shop", began: datetime = BEGAN) -> Path:
        """Writes one finished session: (role, text) in order, a minute apart."""
        lines: list[dict[str, Any]] = [{"type": "session", "id": name, "started": began.isoformat(), "cwd": cwd}]
        for minute, (role, text) in enumerate(said, start=1):
            time = (began + timedelta(minutes=minute)).isoformat()
            final = {"final": True} if role == "assistant" else {}
            lines.append({"type": "event", "role": role, "text": text, "time": time, **final})
        path = self.sessions / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        stamp = began.timestamp() + 60 * len(said)
        os.utime(path, (stamp, stamp))
        return path

    def run(self, **sections: Any) -> pipeline.RunReport:
        """One run over everything there is."""
        with self.runtime(**sections) as runtime:
            return asyncio.run(pipeline.run(runtime, pipeline.Options(picks=Picks(limit=1_000))))

    def calls(self, report: pipeline.RunReport) -> int:
        assert report.spend is not None
        return report.spend.requests

    def summary(self) -> str:
        with self.runtime() as runtime:
            return runtime.workspace.summary() or ""

    def holding(self, text: str) -> list[str]:
        """Files of the data folder in which a text stands, the write-ahead log of the database included."""
        wanted = text.encode()
        files = (path for path in sorted(self.data.rglob("*")) if path.is_file())
        return [str(path.relative_to(self.data)) for path in files if wanted in path.read_bytes()]


@pytest.fixture
def make_desk(tmp_path: Path) -> Callable[..., Desk]:
    """A desk under a name of its own; keyword arguments are sections of its settings."""

    def make(name: str = "desk", **sections: Any) -> Desk:
        made = Desk(tmp_path / name)
        made.configure(**sections)
        return made

    return make


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()
