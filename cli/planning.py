"""The dry run as the dashboard asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dashboard.ports import Planned, Planner
from flows import pipeline
from flows.choices import picks_of
from memory.clock import SystemClock
from memory.runtime import Runtime, open_runtime
from memory.settings import Settings
from memory.wishes import Stage


def planner(load: Callable[[], Settings]) -> Planner:
    """`dashboard.ports.Planner` over `flows.pipeline.plan`, with the settings of each moment."""

    def plan(*, stage: Stage, rollouts: Sequence[str]) -> Planned:
        settings = load()
        picks = picks_of(settings, SystemClock().now(), since="", limit=None, host="", rollouts=list(rollouts))
        options = pipeline.Options(extract=stage != "consolidate", consolidate=stage != "extract", picks=picks)
        with open_runtime(settings) as runtime:
            found = asyncio.run(_plan(runtime, options))
        return Planned(
            rollouts=tuple(str(row.id) for row in found.rollouts),
            waiting=found.waiting,
            skipped=found.skipped,
            sources=found.sources,
            model=found.model,
            requests=found.requests,
            input_tokens=found.input_tokens,
            output_tokens=found.output_tokens,
            money=found.money,
        )

    return plan


async def _plan(runtime: Runtime, options: pipeline.Options) -> pipeline.Plan:
    try:
        return await pipeline.plan(runtime, options)
    finally:
        await runtime.close()
