"""A run says where it is, in a file, and stops when a file asks it to."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory import live, processes
from memory.clock import SystemClock, iso
from memory.live import LiveRun
from memory.progress import Step, silent
from memory.runtime import Runtime
from tests.plugins.pace import within

NOW = SystemClock().now()
HERE = socket.gethostname()


def runtime(home: Path, run_id: str = "20261130T081400-1f2e3d4c") -> Runtime:
    """What the reporter takes of one."""
    made = SimpleNamespace(
        settings=SimpleNamespace(home=home), clock=SystemClock(), cancel=asyncio.Event(), progress=silent,
        run_id=run_id, trigger="hook", owner=f"{HERE}:{os.getpid()}:{run_id}",
    )  # fmt: skip
    return cast("Runtime", made)


def put(home: Path, **values: Any) -> Path:
    """The file of a run, written by hand."""
    run = LiveRun("run-1", "manual", f"{HERE}:{os.getpid()}:run-1", NOW, NOW)
    times = {name: iso(getattr(run, name)) for name in ("started", "updated", "deadline")}
    folder = home / live.FOLDER
    folder.mkdir(exist_ok=True)
    fields = asdict(run) | times | values
    path = folder / f"{fields['run_id']}.json"
    path.write_text(json.dumps(fields))
    return path


@pytest.fixture
def ended() -> int:
    """The number of a process that is no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


@pytest.mark.req("C055", "C059", "C068")
async def test_a_run_is_seen_with_its_stage_numbers_and_deadline_and_leaves_nothing_behind(tmp_path: Path) -> None:
    now = runtime(tmp_path)
    seen: list[Step] = []

    def draw(step: Step) -> None:
        seen.append(step)

    now.progress = draw
    spent = live.Spent(3, 100, 10, None)
    limits = {"consolidate": live.Limits(64, 900)}
    with live.reporting(now, spent=lambda: spent, limits=limits, prefect_run="abc"):
        (first,) = live.running(tmp_path)
        assert (first.run_id, first.trigger, first.stage, first.prefect_run) == (now.run_id, "hook", "start", "abc")
        now.progress(Step("extract", "2 sessions", 0, 2))
        now.progress(Step("consolidate", "request 1", 0, 64))
        spent = live.Spent(5, 300, 30, 0.5)
        now.progress(Step("publish", "publishing"))
        async with asyncio.timeout(60):
            while not (run := live.running(tmp_path)[0]).requests:
                await asyncio.sleep(0.02)
        assert (run.stage, run.what) == ("publish", "publishing")
        assert (run.requests, run.request_limit, run.input_tokens, run.money) == (2, 64, 300, 0.5)
        assert run.deadline is not None
        assert timedelta(seconds=890) < run.deadline - run.started < timedelta(seconds=910)
        path = tmp_path / live.FOLDER / f"{now.run_id}.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [step.stage for step in seen] == ["extract", "consolidate", "publish"]
    assert now.progress is draw
    assert not list((tmp_path / live.FOLDER).iterdir())


@pytest.mark.req("Z083")
async def test_a_cancel_file_sets_the_stop_flag_within_a_second(tmp_path: Path) -> None:
    now = runtime(tmp_path)
    with live.reporting(now):
        assert live.request_cancel(tmp_path, now.run_id)
        asked = time.monotonic()
        async with asyncio.timeout(60):
            await now.cancel.wait()
        assert time.monotonic() - asked < within(1)
    assert not list((tmp_path / live.FOLDER).iterdir())


async def test_steps_in_a_flood_are_written_at_most_four_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[LiveRun] = []
    put_file = live._put

    def noted(folder: Path, run: LiveRun) -> None:
        written.append(run)
        put_file(folder, run)

    monkeypatch.setattr(live, "_put", noted)
    now = runtime(tmp_path)
    began = time.monotonic()
    with live.reporting(now):
        for number in range(200):
            now.progress(Step("extract", "one more", number, 200))
            await asyncio.sleep(0.005)
    # The first, the change of stage, and what came with every tick meanwhile.
    assert 2 <= len(written) <= 3 + (time.monotonic() - began) / live.TICK_SECONDS < 200
    assert written[-1].done > 100


def test_only_a_run_that_is_going_on_can_be_asked_to_stop(tmp_path: Path) -> None:
    for name in ("20261130T081400-00000000", "../secret", "", "a/b"):
        assert not live.request_cancel(tmp_path, name)
    assert not (tmp_path / live.FOLDER).exists()


@pytest.mark.fault("O37")
def test_a_killed_run_and_one_whose_number_another_process_has_now_are_dead(tmp_path: Path, ended: int) -> None:
    put(tmp_path, run_id="killed", owner=f"{HERE}:{ended}:killed")
    put(tmp_path, run_id="recycled", process="another-birth")
    put(tmp_path, run_id="here", process=processes.born(os.getpid()))
    assert [run.run_id for run in live.running(tmp_path)] == ["here"]
    assert sorted(run.run_id for run in live.sweep(tmp_path)) == ["killed", "recycled"]
    assert [path.name for path in (tmp_path / live.FOLDER).iterdir()] == ["here.json"]


def test_a_run_of_another_machine_is_believed_until_it_is_silent_for_long(tmp_path: Path) -> None:
    put(tmp_path, owner="elsewhere:1:run-1")
    assert live.running(tmp_path, now=NOW + timedelta(seconds=299))
    assert not live.running(tmp_path, now=NOW + timedelta(seconds=301))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"run_id": 1}', "\x00", "{" * 50_000])
def test_a_file_of_another_form_is_no_run(tmp_path: Path, text: str) -> None:
    put(tmp_path).write_text(text)
    assert live.running(tmp_path) == []


def test_a_link_and_a_file_of_another_name_are_no_run(tmp_path: Path) -> None:
    path = put(tmp_path)
    path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(tmp_path / "elsewhere.json")
    (path.parent / "other.json").write_bytes((tmp_path / "elsewhere.json").read_bytes())
    assert live.running(tmp_path) == []


async def test_a_run_whose_file_cannot_be_written_goes_on(tmp_path: Path) -> None:
    (tmp_path / live.FOLDER).write_text("in the way")
    now = runtime(tmp_path)
    with live.reporting(now, spent=lambda: 1 / 0):  # type: ignore[arg-type, return-value]
        now.progress(Step("extract", "2 sessions", 0, 2))
        await asyncio.sleep(0.3)
    assert live.running(tmp_path) == []
