"""What hooks left on disk reaches the state once: uses keep sources, wake-ups are answered, old files go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consolidate.run import gather
from consolidate.run import run as consolidate
from flows import hook_work, pipeline
from flows.hook_work import HookWork, collect
from memory import failpoints, switches
from memory.documents import print_summary
from memory.model import HEADINGS
from memory.project import project_of
from memory.switches import Switches
from memory.testing import StoreBench, call, store_bench
from recall import snapshot, spool
from recall.policy import Call, MemoryPolicy
from recall.snapshot import Files
from rollouts.eligibility import Picks
from tests.flows.home import Home

DAY = 86_400


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StoreBench]:
    with store_bench(tmp_path) as made:
        yield made


def files(bench: StoreBench) -> Files:
    return Files(str(bench.settings.home))


def left(bench: StoreBench) -> list[str]:
    folder = bench.settings.home / "spool"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def body(tool: str) -> str:
    return f"## Preferences\n- The user prefers {tool}. [e1]\n"


# -- counted once -----------------------------------------------------------------------------------------


@pytest.mark.req("Z016")
def test_a_use_a_hook_left_is_counted_with_its_time_and_the_file_is_gone(bench: StoreBench) -> None:
    one = bench.add("one", body("vitest"))
    at = bench.clock.now() - timedelta(hours=2)
    files(bench).used("claude", "s1", {one: at.timestamp()})
    files(bench).used("codex", "s2", {one: (at + timedelta(hours=1)).timestamp()})
    assert collect(bench.runtime(), whole=True).uses == 2
    assert bench.store.usage.last_used() == {one: at + timedelta(hours=1)}
    assert bench.store.usage.counts() == {one: 2}
    assert left(bench) == []
    assert collect(bench.runtime(), whole=True).uses == 0


@pytest.mark.fault("M35")
@pytest.mark.parametrize("point", ["state.commit.before", "state.commit.after"])
def test_killed_between_two_steps_a_use_is_neither_lost_nor_counted_twice(bench: StoreBench, point: str) -> None:
    one, two = bench.add("one", body("vitest")), bench.add("two", body("pnpm"))
    now = bench.clock.now().timestamp()
    files(bench).used("claude", "s1", {one: now - 5, two: now - 4})
    files(bench).used("pi", "s2", {one: now - 3})

    class Killed(BaseException):
        pass

    def kill() -> None:
        failpoints.disarm(point)
        raise Killed

    failpoints.arm(point, kill)
    try:
        with pytest.raises(Killed):
            hook_work.count_uses(bench.runtime(), bench.clock.now())
    finally:
        failpoints.disarm(point)
    files(bench).used("claude", "s1", {one: now - 5})  # by a hook that had read the file before it was moved
    collect(bench.runtime(), whole=True)
    assert bench.store.usage.counts() == {one: 2, two: 1}
    assert left(bench) == []


def test_two_runs_at_once_count_a_use_once(bench: StoreBench) -> None:
    one = bench.add("one", body("vitest"))
    files(bench).used("claude", "s1", {one: bench.clock.now().timestamp()})
    both = [spool.take_uses(bench.settings.home), spool.take_uses(bench.settings.home)]
    assert [len(taken) for taken in both] == [1, 1]
    for (taken,) in both:
        bench.store.usage.count(taken.session, {name: bench.clock.now() for name in taken.uses})
        taken.done()
    assert bench.store.usage.counts() == {one: 1}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 60_000,
        b"x" * 100_000,
        b'{"version": 1, "citations": {"ONE": 1}}',
        b'{"version": 2, "citations": ["ONE"]}',
        b'{"version": 2, "citations": {"ONE": "now", "../../etc": 1}}',
        b'{"version": 2, "citations": {"ONE": true}}',
        b'{"version": 2, "citations": {"ONE": NaN}}',
        b'{"version": 2, "citations": {"ONE": 1e300}}',
        b'{"version": 2, "citations": {"ONE": -5}}',
        b'{"version": 2, "citations": {"00000000": 1700000000, "note:none": 1700000000}}',
    ],
)
def test_a_file_that_says_nothing_sensible_counts_nothing_and_is_gone(bench: StoreBench, content: bytes) -> None:
    one = bench.add("one", body("vitest"))
    folder = bench.settings.home / "spool"
    folder.mkdir()
    (folder / "used-claude-s.json").write_bytes(content.replace(b"ONE", one.encode()))
    assert collect(bench.runtime(), whole=True) == HookWork()
    assert bench.store.usage.counts() == {}
    assert left(bench) == []


def test_a_time_to_come_keeps_a_source_no_longer_than_a_use_now(bench: StoreBench) -> None:
    one = bench.add("one", body("vitest"))
    files(bench).used("claude", "s1", {one: bench.clock.now().timestamp() + 1_000 * DAY})
    collect(bench.runtime(), whole=True)
    assert bench.store.usage.last_used() == {one: bench.clock.now()}


def test_a_source_cited_by_its_whole_id_is_the_same_source(bench: StoreBench) -> None:
    one = bench.add("one", body("vitest"))
    whole = next(name for name in bench.workspace.rollout_summaries() if name.startswith(one))
    files(bench).used("claude", "s1", {whole: bench.clock.now().timestamp()})
    collect(bench.runtime(), whole=True)
    assert bench.store.usage.counts() == {one: 1}


@pytest.mark.req("Z110")
def test_a_clear_forgets_what_was_counted(bench: StoreBench) -> None:
    one = bench.add("one", body("vitest"))
    bench.store.usage.count("claude-s1", {one: bench.clock.now()})
    bench.store.meta.new_generation(bench.clock.now())
    assert bench.store.usage.forget_counted(bench.clock.now() + timedelta(days=1)) == 0


# -- used sources stay, unused ones leave ---------------------------------------------------------------


def session(bench: StoreBench, name: str, kind: str, **more: Any) -> str:
    """One event of a session of Claude Code at the clock's time, in a project named shop; returns its text."""

    def settings(known: object) -> Switches:
        return switches.load({"SLOWWAVE_HOME": str(bench.settings.home), "SLOWWAVE_MEMORY_MODE": "long"})

    policy = MemoryPolicy(
        settings, models=NoModels(), history=NoHistory(), store=files(bench), now=bench.clock.now().timestamp()
    )
    answer = policy.handle(Call(kind, "claude", name, **more))
    answer.commit()
    return answer.text


class NoModels:
    def resolve(self) -> dict[str, str]:
        return {}


class NoHistory:
    def holds(self, transcript: str, text: str) -> bool:
        return False


@pytest.mark.req("Z016", "Z085", "Z086")
@pytest.mark.fault("M8")
def test_a_source_used_by_injection_or_by_a_read_stays_and_an_unused_one_leaves_after_thirty_days(
    bench: StoreBench, tmp_path: Path
) -> None:
    shop, docs = tmp_path / "shop", tmp_path / "docs"
    for folder in (shop, docs):
        folder.mkdir()
    here, there = project_of(shop).id, project_of(docs).id
    shown = bench.add("shown", body("vitest"), project=here)
    read = bench.add("read", body("pnpm"), project=there)
    unused = bench.add("unused", body("ruff"), project=there)
    lines = [
        f"- The user prefers {tool}. [{name}]" for name, tool in ((shown, "vitest"), (read, "pnpm"), (unused, "ruff"))
    ]
    write = print_summary({HEADINGS[1]: [line[2:] for line in lines]})
    bench.model.answers = [
        [call("read", f"r{number}", path=path) for number, path in enumerate(inputs(bench))],
        [call("write", "w", path="memory_summary.md", content=write)],
        "done",
    ]
    published = asyncio.run(consolidate(bench.runtime()))
    assert published.code == "published", published
    bench.clock.advance(20 * DAY)
    assert "vitest" in session(bench, "s1", "prompt", cwd=str(shop), message="m1")
    session(bench, "s1", "tool", cwd=str(shop), reads=(read,))
    collect(bench.runtime(), whole=True)
    assert set(bench.store.usage.last_used()) == {shown, read}
    bench.clock.advance(20 * DAY)
    left_out = {item.citation: item.reason for item in gather(bench.runtime(), None).manifest.left_out}
    assert left_out == {unused: "unused"}
    bench.clock.advance(20 * DAY)
    left_out = {item.citation: item.reason for item in gather(bench.runtime(), None).manifest.left_out}
    assert left_out == {shown: "unused", read: "unused", unused: "unused"}


def inputs(bench: StoreBench) -> list[str]:
    return [bench.workspace.rollout_summary_path(name) for name in bench.workspace.rollout_summaries()]


# -- wake-ups and old files -----------------------------------------------------------------------------


@pytest.mark.req("Z015")
def test_a_run_over_everything_answers_the_wake_ups_that_lie_there_and_a_part_of_one_does_not(home: Home) -> None:
    Files(str(home.data)).wake("claude", "s1", {"host": "claude", "session": "s1", "time": 1.0})
    (one,) = home.write("one")
    folder = home.data / "spool"
    parts = [
        pipeline.Options(extract=False),
        pipeline.Options(consolidate=False),
        pipeline.Options(picks=Picks(rollouts=frozenset({one}))),
    ]
    for options in parts:
        with home.runtime("manual") as runtime:
            assert asyncio.run(pipeline.run(runtime, options)).hooks.wakes == 0
        assert len(list(folder.iterdir())) == 1
    with home.runtime("hook") as runtime:
        report = asyncio.run(pipeline.run(runtime))
    assert report.hooks.wakes == 1
    assert pipeline.detail(report)["hooks"] == {"uses": 0, "wakes": 1}
    assert list(folder.iterdir()) == []
    with home.store() as store:
        assert store.runs.last(1)[0].trigger == "hook"


def test_snapshots_no_hook_came_from_for_thirty_days_are_deleted_and_others_stay(bench: StoreBench) -> None:
    now = bench.clock.now()
    for name, days in (("old", 31), ("young", 29)):
        files(bench).save("claude", name, {"host": "claude", "session": name})
        stamp = (now - timedelta(days=days)).timestamp()
        os.utime(files(bench).path("claude", name), (stamp, stamp))
    one = bench.add("one", body("vitest"))
    bench.store.usage.count("claude-old", {one: now - timedelta(days=31)})
    assert collect(bench.runtime(), whole=False).pruned == 1
    assert [values["session"] for values in snapshot.snapshots(str(bench.settings.home))] == ["young"]
    assert bench.store.usage.forget_counted(now) == 0
    assert bench.store.usage.counts() == {one: 1}


def test_a_home_no_hook_ever_wrote_to_is_no_error(bench: StoreBench) -> None:
    assert collect(bench.runtime(), whole=True) == HookWork()
    (bench.settings.home / "spool").write_text("a file", "utf-8")
    assert collect(bench.runtime(), whole=True) == HookWork()
