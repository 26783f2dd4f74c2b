"""Killed anywhere in a publish, readers see the old summary or the new one, and the next start settles it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from consolidate import publish
from consolidate.outcomes import Published, Unchanged
from consolidate.run import run
from memory import failpoints
from memory.documents import print_summary
from memory.errors import StateBusyError
from memory.locks import WRITER, hold
from memory.model import HEADINGS
from memory.state import Store
from memory.testing import ScriptedModel, StoreBench, call, store_bench
from memory.workspace import Workspace

POINTS = sorted(point for point in failpoints.known() if point.startswith("publish."))
BODY = "# A\nOutcome: success\n## User preferences\n- Never force-push to `main` [e1]\n"
NEXT = "# B\nOutcome: success\n## User preferences\n- Use Vitest for all new tests [e1]\n"


def summary(*lines: str) -> str:
    return print_summary({HEADINGS[1]: lines})


def answers(text: str) -> list[Any]:
    look = call("read", "c0", path="phase2_workspace_diff.md")
    return [[look, call("write", path="memory_summary.md", content=text)], "done"]


def two_versions(folder: Path) -> tuple[str, str, StoreBench]:
    """A store with version 1 published and the answers for version 2 ready."""
    with store_bench(folder) as bench:
        one = bench.add("a1", BODY)
        old = summary(f"Never force-push to `main` [{one}]")
        bench.model.answers = answers(old)
        assert isinstance(asyncio.run(run(bench.runtime())), Published)
        two = bench.add("b2", NEXT)
        new = summary(f"Never force-push to `main` [{one}]", f"Use Vitest for all new tests [{two}]")
        bench.model.answers = answers(new)
        return old, new, bench


def in_child(bench: StoreBench, point: str) -> int:
    """Runs the second consolidation in a child that is killed at the point; returns its wait status."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            failpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL))
            with Store.open(bench.settings, bench.clock) as store:
                bench.store = store
                bench.workspace = Workspace.open(bench.settings.home, store.generation)
                asyncio.run(run(bench.runtime()))
        finally:
            os._exit(7)
    return os.waitpid(child, 0)[1]


@pytest.mark.req("Z103", "Z104", "Z105", "Z106")
@pytest.mark.fault("X47", "M82")
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_leaves_the_old_or_the_new_summary_and_the_next_run_finishes(
    tmp_path: Path, point: str
) -> None:
    old, new, bench = two_versions(tmp_path)
    status = in_child(bench, point)
    assert os.WIFSIGNALED(status), "the point was never reached"
    assert bench.workspace.summary_path.read_text() in {old, new}
    with Store.open(bench.settings, bench.clock) as store:
        bench.store, bench.workspace = store, Workspace.open(bench.settings.home, store.generation)
        publish.recover(bench.settings, store, bench.workspace, owner="next")
        assert store.intents.pending() == []
        latest = store.versions.latest()
        assert latest is not None
        assert latest.sha256 == bench.workspace.summary_sha()
        assert set(bench.workspace.versions()) == {row.number for row in store.versions.all()}
        bench.clock.advance(3_600)
        bench.model = ScriptedModel(answers(new))
        outcome = asyncio.run(run(bench.runtime()))
        assert isinstance(outcome, Published | Unchanged), outcome
        assert bench.workspace.summary() == new
        assert [row.number for row in store.versions.all()] == [1, 2]
        assert store.health().state == "ok"


def test_every_durable_step_of_a_publish_has_a_point_before_and_after() -> None:
    assert len(POINTS) >= 6


def test_recovery_leaves_a_publish_alone_that_is_still_running(tmp_path: Path) -> None:
    _, _, bench = two_versions(tmp_path)
    in_child(bench, "publish.after_intent")
    with Store.open(bench.settings, bench.clock) as store:
        workspace = Workspace.open(bench.settings.home, store.generation)
        with hold(bench.settings.home / WRITER, owner="the writer"):
            assert publish.recover(bench.settings, store, workspace, owner="next") == []
        assert len(store.intents.pending()) == 1
        assert len(publish.recover(bench.settings, store, workspace, owner="next")) == 1


def test_a_lock_names_its_holder_and_is_free_after_it(tmp_path: Path) -> None:
    def taken_by(owner: str) -> None:
        with hold(tmp_path / "w.lock", owner=owner):
            pass

    with hold(tmp_path / "w.lock", owner="alpha"), pytest.raises(StateBusyError, match="alpha"):
        taken_by("beta")
    with hold(tmp_path / "w.lock", owner="beta"):
        pass
