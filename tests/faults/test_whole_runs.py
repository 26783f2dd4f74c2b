"""Reported faults that only show in whole runs: sessions on disk, both stages, the gate, the published summary."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import prompts
from consolidate.outcomes import Published
from flows import pipeline
from memory.documents import claims
from memory.runtime import open_runtime
from memory.settings import load
from memory.testing import FrozenClock
from tests.faults.conftest import Desk
from tests.flows.home import BEGAN

DONE = ("assistant", "Done, all tests pass.")


@pytest.mark.fault("O3")
def test_twelve_quiet_hours_cost_no_call(desk: Desk) -> None:
    desk.session("one", ("user", "From now on always run the tests with vitest."), DONE)
    clock = FrozenClock()
    with open_runtime(desk.settings(), clock=clock) as runtime:
        assert asyncio.run(pipeline.run(runtime)).outcome == "ok"
    for _ in range(12):
        clock.advance(3600)
        with open_runtime(desk.settings(), clock=clock) as runtime:
            report = asyncio.run(pipeline.run(runtime))
        assert (report.outcome, desk.calls(report)) == ("nothing", 0)


@pytest.mark.fault("X52", "O26")
def test_a_session_is_found_without_any_hook_and_a_second_wake_up_takes_it_no_second_time(desk: Desk) -> None:
    desk.session("one", ("user", "From now on always run the tests with vitest."), DONE)
    with desk.runtime("schedule") as runtime:
        first = asyncio.run(pipeline.run(runtime))
    with desk.runtime("hook") as runtime:
        second = asyncio.run(pipeline.run(runtime))
    assert first.extracted is not None
    assert [outcome.code for outcome in first.extracted.outcomes] == ["kept"]
    assert second.extracted is not None
    assert second.extracted.outcomes == ()
    assert desk.calls(second) == 0


@pytest.mark.fault("O17")
def test_words_of_our_own_prompts_are_stored_nowhere_but_in_the_instructions(desk: Desk) -> None:
    desk.session("one", ("user", "From now on always run the tests with vitest."), DONE)
    assert desk.run().outcome == "ok"
    template = (Path(prompts.__file__).parent / "extract_system.md").read_text(encoding="utf-8")
    sentences = sorted((line.strip("- ") for line in template.splitlines() if "{" not in line), key=len)[-5:]
    assert len(sentences[0]) > 60
    for sentence in sentences:
        assert [name for name in desk.holding(sentence) if "/instructions/" not in name] == []


@pytest.mark.fault("X27")
def test_two_stores_of_one_home_share_nothing(desk: Desk) -> None:
    mine = desk.folder / "mine"
    mine.mkdir()
    desk.session("one", ("user", "From now on always run ZEBRAFISH with vitest."), DONE)
    assert desk.run().outcome == "ok"
    other = load(
        environ={"SLOWWAVE_HOME": str(desk.data), "SLOWWAVE_STORE": "team", "HOME": str(desk.folder)},
        overrides={"rollouts": {"generic_roots": [str(mine)]}},
    )
    with open_runtime(other) as runtime:
        report = asyncio.run(pipeline.run(runtime))
        assert report.outcome == "nothing"
        assert runtime.store.rollouts.all() == []
        assert runtime.workspace.summary() is None
    assert "ZEBRAFISH" in desk.summary()
    assert [name for name in desk.holding("ZEBRAFISH") if name.startswith("stores/")] == []


@pytest.mark.fault("O21")
def test_sixty_variants_of_one_wish_do_not_crowd_out_an_old_one(desk: Desk) -> None:
    began = BEGAN - timedelta(days=40)
    desk.session("old", ("user", "Never deploy on Fridays: the release manager is away."), DONE, began=began)
    for number in range(60):
        asked = f"Task {number} first. From now on always run the tests with vitest, also for module m{number}."
        desk.session(f"new{number}", ("user", asked), DONE, began=BEGAN + timedelta(hours=number))
    report = desk.run()
    assert isinstance(report.consolidated, Published), report.consolidated
    assert "Never deploy on Fridays" in desk.summary()


@pytest.mark.fault("M44")
def test_merging_destroys_no_source_and_can_be_undone(desk: Desk) -> None:
    """Five sessions say the same; the summary says it once, and every record stays as it was."""
    wish = "From now on always run the tests with vitest, never jest."
    desk.session("first", ("user", wish), DONE)
    assert desk.run().outcome == "ok"
    before = desk.summary()
    for number in range(4):
        desk.session(f"more{number}", ("user", f"Part {number}, please."), ("user", wish), DONE)
    with desk.runtime() as runtime:
        asyncio.run(pipeline.run(runtime, pipeline.Options(consolidate=False)))
        records = runtime.workspace.rollout_summaries()
    report = desk.run()
    assert isinstance(report.consolidated, Published), report.consolidated
    wishes = [claim for claim in claims(desk.summary()) if claim.section == "## User preferences"]
    assert [len(claim.citations) for claim in wishes] == [5]
    with desk.runtime() as runtime:
        assert runtime.workspace.rollout_summaries() == records
        latest, former = runtime.workspace.read_version(2), runtime.workspace.read_version(1)
    assert former.summary == before
    assert sorted(latest.texts.values()) == sorted(records.values())


@pytest.mark.fault("M7")
@pytest.mark.parametrize("damage", [b"", b"hello\n", b"v1\n\xff\n", b"v1\n\n## User Profile\n", None])
def test_a_damaged_edited_or_missing_summary_does_not_go_unnoticed(desk: Desk, damage: bytes | None) -> None:
    desk.session("one", ("user", "From now on always run the tests with vitest."), DONE)
    assert desk.run().outcome == "ok"
    with desk.runtime() as runtime:
        path = runtime.workspace.summary_path
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    doctor = slowwave(desk, "doctor", "--json")
    finding = next(line for line in json.loads(doctor.stdout) if line["check"] == "summary")
    assert str(path) in finding["says"]
    edited = damage is not None and damage.startswith(b"v1\n\n##")
    assert (finding["level"], doctor.returncode) == (("warning", 0) if edited else ("error", 1))


@pytest.mark.fault("O47")
def test_the_off_switch_in_the_environment_is_enough(desk: Desk) -> None:
    desk.session("one", ("user", "From now on always run the tests with vitest."), DONE)
    done = slowwave(desk, "run", "--json", SLOWWAVE_MEMORY_ENABLED="false")
    assert done.returncode == 0, done.stderr
    assert '"requests": 0' in done.stdout
    assert [name for name in desk.holding("vitest") if "/instructions/" not in name] == []


@pytest.mark.fault("O37")
def test_a_run_starts_no_process_that_could_survive_it(make_desk: Callable[..., Desk]) -> None:
    """Watched by the interpreter itself: no audit event of a new process in a whole run."""
    desk = make_desk()
    desk.session("one", ("user", "From now on always run the tests with vitest."), DONE)
    watched = (
        "import sys\n"
        "new = {'subprocess.Popen', 'os.system', 'os.fork', 'os.forkpty', 'os.exec', 'os.posix_spawn', 'os.spawn'}\n"
        "sys.addaudithook(lambda event, args: event in new and sys.exit(f'started a process: {event}'))\n"
        "from cli.main import main\n"
        "sys.argv = ['slowwave', 'run', '--json']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", watched], env=desk.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert '"outcome": "ok"' in done.stdout


def slowwave(desk: Desk, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "slowwave"
    return subprocess.run(
        [program, *arguments], env=desk.environment(**more), capture_output=True, text=True, check=False, timeout=60
    )
