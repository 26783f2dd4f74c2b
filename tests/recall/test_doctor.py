"""Doctor says what is wrong, what it means and what mends it; 0 is clean or warnings alone, 1 is an error."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from cli import look
from consolidate.outcomes import Published
from flows import pipeline
from memory import failpoints, locks
from memory.runtime import open_runtime
from memory.state import Lease, Store
from memory.testing import FrozenClock, StoreBench
from recall.doctor import FIX, examine
from recall.surroundings import Finding
from tests.recall.desk import Desk

pytestmark = pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
BODY = "## What happened\n- The user prefers vitest. [e1]\n"


def findings(bench: StoreBench) -> list[Finding]:
    found = examine(bench.settings, bench.store, bench.workspace, bench.clock)
    return [finding for finding in found if finding.level != "ok"]


def doctor(desk: Desk, monkeypatch: pytest.MonkeyPatch, *, fix: bool = False) -> int:
    """The exit code of the command."""
    monkeypatch.setenv("SLOWWAVE_HOME", str(desk.data))
    monkeypatch.setenv("HOME", str(desk.folder))
    try:
        look.doctor(fix=fix, as_json=True)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_a_good_home_is_in_order_in_every_check(desk: Desk) -> None:
    found = desk.findings()
    assert {finding.level for finding in found} == {"ok"}
    assert {finding.check for finding in found} == {
        "home", "file system", "permissions", "disk", "quarantine", "hosts", "state", "summary", "rollout summaries",
        "versions", "baseline", "notes", "topics", "leases", "left-overs", "clock", "locks",
    }  # fmt: skip


def private(path: Path, data: bytes) -> None:
    path.touch(0o600)
    path.write_bytes(data)


BREAK: dict[str, tuple[Callable[[Desk], object], str, str]] = {
    "summary gone": (lambda desk: desk.summary.unlink(), "summary", "error"),
    "summary edited": (lambda desk: desk.summary.write_text(desk.summary.read_text() + "\n"), "summary", "warning"),
    "record gone": (
        lambda desk: next((desk.memories / "rollout_summaries").iterdir()).unlink(),
        "rollout summaries",
        "error",
    ),
    "version damaged": (
        lambda desk: (desk.memories.parent / "versions" / "1" / "memory_summary.md").write_text("v1\n"),
        "versions",
        "error",
    ),
    "note unreadable": (
        lambda desk: private(desk.memories / "extensions" / "ad_hoc" / "notes" / "x.md", b"\xff\xfe"),
        "notes",
        "warning",
    ),
    "no session folder": (lambda desk: shutil.rmtree(desk.sessions), "hosts", "warning"),
    "other version": (lambda desk: (desk.data / "generation.json").write_text('{"version": 1}'), "state", "error"),
    "old generation": (lambda desk: (desk.data / "generations" / "0ld").mkdir(), "left-overs", "error"),
}


@pytest.mark.fault("M4", "M7", "X11")
@pytest.mark.parametrize("name", BREAK)
def test_each_finding_says_what_it_means_and_what_mends_it(
    desk: Desk, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, check, level = BREAK[name]
    damage(desk)
    found = [finding for finding in desk.problems() if finding.check == check]
    assert [finding.level for finding in found] == [level]
    assert all(finding.says and finding.means and finding.mend for finding in found), found
    assert doctor(desk, monkeypatch) == (1 if level == "error" else 0)
    shown = json.loads(capsys.readouterr().out)
    assert {one["check"] for one in shown if one["level"] == level} == {check}


@pytest.mark.fault("M4", "X11")
def test_outputs_that_a_killed_consolidation_left_are_named_and_the_next_run_takes_them(tmp_path: Path) -> None:
    """Killed between the end of the worker and the publish: the summary must not be claimed, the next run does it."""
    desk = Desk(tmp_path)
    desk.configure()
    desk.write("one", "two", "three")
    child = os.fork()
    if not child:
        failpoints.arm("publish.before_intent", lambda: os._exit(9))
        with suppress(BaseException):
            desk.run()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    said = " ".join(finding.says for finding in desk.problems())
    assert "3 outputs not in the published set" in said
    later = FrozenClock(desk.clock.now() + timedelta(minutes=6))  # its claim has run out
    with open_runtime(desk.settings(), clock=later) as runtime:
        report = asyncio.run(pipeline.run(runtime))
    assert isinstance(report.consolidated, Published)
    assert desk.errors() == []
    assert "not in the published set" not in " ".join(finding.says for finding in desk.problems())


@pytest.mark.fault("M4")
def test_success_with_nothing_taken_is_an_error_while_outputs_wait(bench: StoreBench) -> None:
    lease = bench.store.jobs.claim("consolidate", "default", boundary="", owner="o", lease_seconds=60, max_failures=3)
    assert isinstance(lease, Lease)
    bench.store.jobs.succeed(lease)
    bench.add("one", BODY)
    found = [finding for finding in findings(bench) if finding.check == "state"]
    assert {finding.level for finding in found} == {"error"}
    assert "0 inputs although 1 output waits" in found[0].says
    assert {finding.mend for finding in found} == {"slowwave run"}


def test_a_claim_whose_process_is_silent_and_a_clock_set_back_are_told(bench: StoreBench) -> None:
    bench.store.jobs.claim("extract", "codex:x", boundary="b", owner="gone", lease_seconds=60, max_failures=3)
    assert "leases" not in {finding.check for finding in findings(bench)}
    bench.store.runs.start("r", "manual")
    bench.clock.advance(61)
    assert [finding.mend for finding in findings(bench) if finding.check == "leases"] == [FIX]
    bench.clock.set(bench.clock.now() - timedelta(days=1))
    assert "clock" in {finding.check for finding in findings(bench)}


def test_while_a_writer_is_at_work_it_is_named_and_its_folder_is_no_left_over(bench: StoreBench) -> None:
    (bench.workspace.root / "workspace" / "run-1").mkdir()
    assert "left-overs" in {finding.check for finding in findings(bench)}
    with locks.hold(bench.settings.home / locks.WRITER, owner="somebody"):
        found = {finding.check: finding for finding in findings(bench)}
    assert "somebody" in found["locks"].says
    assert "left-overs" not in found


def test_a_check_that_fails_is_a_finding_and_no_traceback(bench: StoreBench) -> None:
    bench.add("one", BODY)
    path = bench.workspace.root / "rollout_summaries" / "0123456789abcdef.md"
    path.write_bytes(b"\xff")
    found = {finding.check: finding for finding in findings(bench)}
    assert found["rollout summaries"].level == "error"
    assert str(path) in found["rollout summaries"].says


def test_the_fix_ends_well_and_a_second_one_has_nothing_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk.data / "state.db").write_bytes(b"x" * 5000)
    assert doctor(desk, monkeypatch) == 1
    capsys.readouterr()
    assert doctor(desk, monkeypatch, fix=True) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {one["check"] for one in shown["mended"]} == {"state"}
    assert doctor(desk, monkeypatch, fix=True) == 0
    assert json.loads(capsys.readouterr().out)["mended"] == []


def test_a_database_that_looks_back_from_the_future_is_told(desk: Desk) -> None:
    with Store.open(desk.settings(), FrozenClock(desk.clock.now() + timedelta(days=3))) as store:
        store.runs.start("later", "manual")
    assert [finding.check for finding in desk.problems()] == ["clock"]
