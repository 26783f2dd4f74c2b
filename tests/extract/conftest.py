"""A real home, real rollout files in the generic format, real state and workspace, and a scripted model in front."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import extract
from extract.outcomes import ExtractOutcome, ExtractReport
from memory.llm.base import Model
from memory.model import RolloutId
from memory.redact import Redactor
from memory.runtime import Runtime
from memory.settings import Settings, load
from memory.state import Ledger, OutputRow, Spend, Store
from memory.testing import FrozenClock
from memory.tokens import TokenCounter
from memory.workspace import Workspace
from rollouts.discover import discover
from rollouts.eligibility import NO_PICKS, Picks


@dataclass
class Bench:
    """One home under test."""

    settings: Settings
    clock: FrozenClock
    store: Store
    workspace: Workspace
    folder: Path
    redactor: Redactor
    runs: int = 0
    steps: list[str] = field(default_factory=list)

    def write(
        self, name: str, *events: tuple[str, str], ago_hours: float = 24, cwd: str = "/home/dev/api"
    ) -> RolloutId:
        """Writes, or appends to, the rollout `generic:<name>`. An event is (role, text); roles: `user`, `final`,
        `assistant`, `tool`, `call`, `web`."""
        path = self.folder / f"{name}.jsonl"
        lines: list[dict[str, Any]] = []
        # Equal talk at equal times is a copy: sessions of different names began at different minutes.
        moment = self.clock.now() - timedelta(hours=ago_hours, minutes=ord(name[-1]) - ord("a"))
        if not path.exists():
            lines.append(
                {"type": "session", "id": name, "host_name": "test", "started": moment.isoformat(), "cwd": cwd}
            )
        for place, (role, text) in enumerate(events):
            lines.append(_event(role, text, moment + timedelta(seconds=place)))
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        stamp = moment.timestamp() + len(events)
        os.utime(path, (stamp, stamp))
        return RolloutId.parse(f"generic:{name}")

    def runtime(self, model: Model, /, *, trigger: str = "manual", **sections: Any) -> Runtime:
        self.runs += 1
        settings = self.settings
        for section, keys in sections.items():
            settings = settings.model_copy(update={section: getattr(settings, section).model_copy(update=keys)})
        run_id = f"run-{self.runs}"
        return Runtime(
            settings=settings,
            clock=self.clock,
            store=self.store,
            workspace=self.workspace,
            extract_model=model,
            consolidate_model=model,
            meter=Ledger(self.store, settings.budget, self.clock, run_id),
            tokens=TokenCounter(),
            run_id=run_id,
            owner=f"test:{run_id}",
            trigger=trigger,
            progress=lambda step: self.steps.append(step.what),
            redactor=self.redactor,
        )

    async def run(self, model: Model, /, *, picks: Picks = NO_PICKS, **sections: Any) -> ExtractReport:
        """Discovers and extracts once."""
        runtime = self.runtime(model, **sections)
        discover(runtime.settings, self.clock, self.store)
        return await extract.run(runtime, picks=picks)

    async def one(self, model: Model, /, **sections: Any) -> ExtractOutcome:
        """A run that takes exactly one rollout: how it ended."""
        (outcome,) = (await self.run(model, **sections)).outcomes
        return outcome

    def spend(self) -> Spend:
        """What the last run cost, as the ledger has it."""
        return Ledger(self.store, self.settings.budget, self.clock, f"run-{self.runs}").run_total()

    def output(self, rollout: RolloutId) -> OutputRow | None:
        return self.store.outputs.get(rollout)

    def text(self, rollout: RolloutId) -> str | None:
        return self.workspace.rollout_summaries().get(rollout.source_id)


def _event(role: str, text: str, moment: datetime) -> dict[str, Any]:
    event: dict[str, Any] = {"type": "event", "role": role, "text": text, "time": moment.isoformat()}
    if role == "final":
        event |= {"role": "assistant", "final": True}
    elif role == "call":
        event |= {"role": "assistant", "tool": "bash", "call_id": "c1"}
    elif role == "web":
        event |= {"role": "tool", "tool": "web_search", "call_id": "c9", "ok": True}
    elif role == "tool":
        event |= {"tool": "bash", "call_id": "c1", "ok": True}
    return event


@pytest.fixture
def bench(tmp_path: Path, redactor: Redactor) -> Iterator[Bench]:
    home, folder = tmp_path / "home", tmp_path / "rollouts"
    folder.mkdir()
    settings = load(
        environ={"SLOWWAVE_HOME": str(home), "HOME": str(tmp_path)},
        overrides={
            "rollouts": {"hosts": ("generic",), "generic_roots": (folder,)},
            "memory": {"mode": "long"},
            "extract": {"batch": 20},
        },
    )
    clock = FrozenClock()
    with Store.open(settings, clock) as store:
        workspace = Workspace.open(settings.home, store.generation)
        yield Bench(settings, clock, store, workspace, folder, redactor)


@pytest.fixture(scope="session")
def redactor() -> Redactor:
    from memory.settings import RedactSettings

    return Redactor(RedactSettings(), quick=True)
