"""What the extractor would send for a rollout, without sending it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from extract.asking import Task, budgets, evidence_of
from extract.one import header_of
from extract.reading import Kin, read
from memory.runtime import Runtime
from memory.state import RolloutRow
from rollouts.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Preview:
    """Both messages word for word, the evidence in them, its budget in tokens and the model they are for.

    `whole` says that the rollout was extracted to its end, so that this is what a first extraction would see.
    """

    system: str
    user: str
    evidence: Evidence
    budget: int
    model: str
    whole: bool


async def preview(runtime: Runtime, row: RolloutRow) -> Preview:
    """Same reading, budget and print as an extraction now. Raises UnreadableRollout."""
    window = await runtime.extract_model.window() or runtime.settings.extract.fallback_window
    found = read(runtime, row, Kin(runtime.store))
    done = found.former is not None and found.former.boundary == found.transcript.boundary
    if done:
        found = replace(found, former=None)
    task = Task(runtime, row, found, header_of(row, found))
    budget, _ = budgets(task, window)
    evidence = evidence_of(task, budget)
    return Preview(task.system(), task.user(evidence.text), evidence, budget, runtime.extract_model.name, done)
