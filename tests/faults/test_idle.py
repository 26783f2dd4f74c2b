"""Nothing looks at sessions of its own accord: a person asks, a hook's wake-up, or the schedule of a service."""

from __future__ import annotations

import ast
import asyncio
import signal
import threading
from pathlib import Path

import pytest

from flows import pipeline
from memory.clock import SystemClock
from memory.project import project_of
from memory.runtime import open_runtime
from memory.state import Store
from memory.testing import FrozenClock
from recall.scope import Viewer
from recall.tools import MemoryTools
from tests.faults.conftest import Desk
from tests.hosts.payloads import CLAUDE_EVENTS, claude
from tests.plugins.hook_runner import ROOT
from tests.plugins.hook_runner import run as hook
from tests.rollouts.machine import opened

WEEK = 7
ROOMS = ("memory", "rollouts", "prompts", "extract", "consolidate", "recall", "hosts", "cli", "dashboard")


@pytest.mark.req("Z062")
@pytest.mark.fault("X52")
def test_a_week_of_open_memory_tools_and_hooks_looks_at_no_session(desk: Desk, tmp_path: Path) -> None:
    desk.session("one", ("user", "From now on always run the tests with vitest."), ("assistant", "Done."))
    project = project_of(tmp_path)
    clock = FrozenClock()
    before = set(threading.enumerate())
    with open_runtime(desk.settings(), clock=clock) as runtime, opened(desk.sessions) as looked_at:
        tools = MemoryTools(runtime.settings, Viewer(project.id, project.name), clock=clock)
        for day in range(WEEK):
            clock.advance(86_400)
            assert tools.recall("which test runner").hits == ()
            assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
            timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
            assert (day, timers, set(threading.enumerate()) - before) == (day, [], set())
        for number, event in enumerate(CLAUDE_EVENTS):
            hook(desk.data, claude(event, tmp_path, prompt_id=f"p{number}"), "claude")
        tools.close()
        assert runtime.store.rollouts.all() == []
        assert looked_at == []
    with Store.open(desk.settings(), SystemClock()) as store:
        assert store.runs.last(9) == []
    with desk.runtime("hook") as runtime:  # what the hook left wakes whoever takes it, and that one looks
        assert asyncio.run(pipeline.run(runtime)).outcome == "ok"


@pytest.mark.req("Z062")
def test_no_room_but_that_of_the_service_keeps_a_timer() -> None:
    """The one clock that starts runs is the schedule Prefect keeps for a service that was started."""
    kept = []
    for path in (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            used = isinstance(node, ast.Attribute) and node.attr in {"Timer", "call_later", "call_at", "repeat_every"}
            if used or "Timer" in names or {"sched", "apscheduler"} & {module, *names}:
                kept.append(str(path.relative_to(ROOT)))
    assert kept == []
