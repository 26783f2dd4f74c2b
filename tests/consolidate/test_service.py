"""Clear, forget and restore: what goes is gone everywhere, what stays is untouched, nothing comes back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from consolidate.outcomes import Deferred, Empty, Failed, Published, Unchanged
from consolidate.run import run
from consolidate.service import LongMemory
from memory.documents import print_summary
from memory.errors import FencedError, UnknownReference
from memory.model import HEADINGS, RolloutId
from memory.state import Lease
from memory.testing import StoreBench, call

CANARY = "zebra-umbrella"
HEAD = "Outcome: success\n## User preferences\n- Never force-push to `main` [e1]\n"
ONE = f"# A\n{HEAD}- Ship `{CANARY}` builds first [e2]\n"
TWO = f"# B\n{HEAD}- Use Vitest for new tests [e3]\n"


def summary(one: str, two: str) -> str:
    return print_summary(
        {
            HEADINGS[1]: [
                f"Never force-push to `main` [{one}] [{two}]",
                f"Ship `{CANARY}` builds first [{one}]",
                f"Use Vitest for new tests [{two}]",
            ],
            HEADINGS[3]: [f"shop: A, success [{one}]", f"shop: B, success [{two}]"],
        }
    )


async def publish(bench: StoreBench, text: str) -> None:
    look = call("read", "c0", path="phase2_workspace_diff.md")
    bench.model.answers = [[look, call("write", path="memory_summary.md", content=text)], "done"]
    outcome = await run(bench.runtime())
    assert isinstance(outcome, Published), outcome


async def two_sources(bench: StoreBench) -> tuple[str, str]:
    one, two = bench.add("a1", ONE, human=(1, 2)), bench.add("b2", TWO, human=(1, 3))
    await publish(bench, summary(one, two))
    return one, two


def traces(home: Path, text: str) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.req("Z110", "Z111", "Z112", "Z113", "Z114", "Z115", "Z024")
@pytest.mark.fault("M52", "M55")
async def test_clear_leaves_nothing_of_long_memory_and_fences_its_writers(bench: StoreBench) -> None:
    await two_sources(bench)
    lease = bench.store.jobs.claim("extract", "codex:c3", boundary="1", owner="old", lease_seconds=60, max_failures=3)
    assert isinstance(lease, Lease)
    service = LongMemory(bench.runtime())
    assert service.preview_clear().sources == 2
    report = service.clear()
    assert report.clean, report
    assert traces(bench.settings.home, CANARY) == []
    with pytest.raises(FencedError):
        bench.store.jobs.succeed(lease)
    assert bench.store.clear_watermark == bench.clock.now()
    assert service.history() == []
    bench.workspace = service.runtime.workspace
    assert isinstance(await run(bench.runtime()), Empty)


@pytest.mark.fault("M55")
async def test_a_consolidation_that_began_before_a_clear_cannot_publish_after_it(bench: StoreBench) -> None:
    one, two = bench.add("a1", ONE, human=(1, 2)), bench.add("b2", TWO, human=(1, 3))

    def clear(_: object) -> object:
        LongMemory(bench.runtime()).clear()
        return [
            call("read", "c0", path="phase2_workspace_diff.md"),
            call("write", path="memory_summary.md", content=text),
        ]

    text = summary(one, two)
    bench.model.answers = [clear, "done"]
    bench.model.repeat_last = True
    outcome = await run(bench.runtime(consolidate={"max_requests": 4}))
    assert isinstance(outcome, Failed), outcome
    assert (outcome.error, outcome.requests) == ("fenced", 1), "nothing more is asked once it cannot be published"
    assert traces(bench.settings.home, CANARY) == []


@pytest.mark.fault("M48", "M49", "M50", "X40", "O44")
async def test_forgetting_a_session_purges_it_everywhere_and_neighbours_survive(bench: StoreBench) -> None:
    _, two = await two_sources(bench)
    report = LongMemory(bench.runtime()).forget(rollouts=[RolloutId.parse("codex:a1")])
    assert traces(bench.settings.home, CANARY) == []
    text = bench.workspace.summary() or ""
    assert f"Never force-push to `main` [{two}]" in text
    assert f"Use Vitest for new tests [{two}]" in text
    assert report.kept == 1
    assert report.versions == 1
    assert bench.store.health().problems == ()
    assert isinstance(await run(bench.runtime()), Unchanged)
    refused = bench.store.jobs.claim("extract", "codex:a1", boundary="9", owner="x", lease_seconds=60, max_failures=3)
    assert not isinstance(refused, Lease)
    assert refused.reason == "forgotten"


@pytest.mark.fault("M54")
def test_forgetting_what_is_not_there_is_an_error(bench: StoreBench) -> None:
    service = LongMemory(bench.runtime())
    with pytest.raises(UnknownReference):
        service.forget(rollouts=[RolloutId.parse("codex:nobody")])
    with pytest.raises(UnknownReference):
        service.forget(notes=["nothing"])
    with pytest.raises(UnknownReference):
        service.forget(text="no such words")
    assert bench.store.tombstones.all() == set()


async def test_forgetting_a_text_takes_its_lines_and_no_other(bench: StoreBench) -> None:
    one, _ = await two_sources(bench)
    service = LongMemory(bench.runtime())
    found = service.find("Zebra-Umbrella builds")
    assert [claim.line for claim in found.lines] != []
    assert list(found.bullets) == [RolloutId.parse("codex:a1")]
    service.forget(text="Zebra-Umbrella builds")
    assert traces(bench.settings.home, CANARY) == []
    text = bench.workspace.summary() or ""
    assert "Never force-push" in text
    assert f"[{one}]" in text
    assert bench.store.health().problems == ()


def set_aside(bench: StoreBench) -> Path:
    """What doctor would have put into quarantine: the database and both records."""
    aside = bench.settings.home / "quarantine" / "20261130T120000"
    records = bench.workspace.root / "rollout_summaries"
    shutil.copytree(records, aside / records.relative_to(bench.settings.home))
    (aside / "state.db").write_bytes(f"SQLite {CANARY}".encode())
    return aside


@pytest.mark.req("Z111", "Z114")
async def test_clear_takes_what_doctor_had_set_aside(bench: StoreBench) -> None:
    await two_sources(bench)
    set_aside(bench)
    service = LongMemory(bench.runtime())
    assert service.preview_clear().set_aside == 3
    assert service.clear().clean
    assert traces(bench.settings.home, CANARY) == []
    assert not (bench.settings.home / "quarantine").exists()


@pytest.mark.fault("M48", "X40")
async def test_forgetting_reaches_what_doctor_had_set_aside_and_says_so(bench: StoreBench) -> None:
    one, two = await two_sources(bench)
    aside = set_aside(bench)
    report = LongMemory(bench.runtime()).forget(rollouts=[RolloutId.parse("codex:a1")])
    assert traces(bench.settings.home, CANARY) == []
    left = [path for path in aside.rglob("*") if path.is_file()]
    assert [path.stem for path in left] == [RolloutId.parse("codex:b2").source_id]
    assert len(report.set_aside) == 2
    assert one != two


@pytest.mark.fault("M54")
async def test_a_text_that_only_stands_in_what_was_set_aside_is_found_and_goes(bench: StoreBench) -> None:
    await two_sources(bench)
    service = LongMemory(bench.runtime())
    aside = bench.settings.home / "quarantine" / "20261130T120000" / "notes.md"
    aside.parent.mkdir(parents=True)
    aside.write_text("the walrus knows")
    assert service.find("Walrus knows").set_aside == ("quarantine/20261130T120000/notes.md",)
    assert service.forget(text="Walrus knows").set_aside == ("quarantine/20261130T120000/notes.md",)
    assert not aside.exists()


async def test_forgetting_takes_the_blocks_hooks_have_built(bench: StoreBench) -> None:
    bench.workspace.write_note("deploy", f"Deploy on {CANARY} only", pinned=True)
    await publish(bench, print_summary({HEADINGS[1]: [f"Deploy on {CANARY} only [note:deploy]"]}))
    blocks = bench.settings.home / "generations" / bench.store.generation / "blocks"
    blocks.mkdir()
    (blocks / "0123abcd.json").write_text(CANARY, "utf-8")
    LongMemory(bench.runtime()).forget(notes=["deploy"])
    assert traces(bench.settings.home, CANARY) == []


async def test_forgetting_a_note_takes_its_lines(bench: StoreBench) -> None:
    bench.workspace.write_note("deploy", f"Deploy on {CANARY} only", pinned=True)
    await publish(bench, print_summary({HEADINGS[1]: [f"Deploy on {CANARY} only [note:deploy]"]}))
    LongMemory(bench.runtime()).forget(notes=["deploy"])
    assert traces(bench.settings.home, CANARY) == []


@pytest.mark.req("Z116", "Z117", "Z118")
async def test_restore_brings_a_version_and_its_inputs_back_and_the_next_run_keeps_it(bench: StoreBench) -> None:
    one = bench.add("a1", ONE, human=(1, 2))
    first = print_summary(
        {
            HEADINGS[1]: [f"Never force-push to `main` [{one}]", f"Ship `{CANARY}` builds first [{one}]"],
            HEADINGS[3]: [f"shop: A, success [{one}]"],
        }
    )
    await publish(bench, first)
    bench.clock.advance(60)
    two = bench.add("b2", TWO, human=(1, 3))
    bench.clock.advance(60)
    await publish(bench, summary(one, two))
    bench.clock.advance(60)
    service = LongMemory(bench.runtime())
    report = service.restore(1)
    assert bench.workspace.summary() == first
    assert report.set_aside == (two,)
    assert [row.number for row in service.history()] == [3, 2, 1]
    assert isinstance(await run(bench.runtime()), Unchanged)
    assert bench.workspace.summary() == first
    assert bench.store.health().state == "ok"


async def test_restore_never_brings_a_forgotten_source_back(bench: StoreBench) -> None:
    one, two = await two_sources(bench)
    service = LongMemory(bench.runtime())
    service.forget(rollouts=[RolloutId.parse("codex:a1")])
    service.restore(1)
    assert traces(bench.settings.home, CANARY) == []
    assert f"[{one}]" not in (bench.workspace.summary() or "")
    assert f"[{two}]" in (bench.workspace.summary() or "")


async def test_restore_never_crosses_a_clear(bench: StoreBench) -> None:
    await two_sources(bench)
    service = LongMemory(bench.runtime())
    service.clear()
    with pytest.raises(UnknownReference):
        service.restore(1)


async def test_a_restore_does_not_wait_for_a_back_off(bench: StoreBench) -> None:
    one, two = await two_sources(bench)
    bench.add("c3", ONE, human=(1, 2))
    bench.model.answers = ["done"]
    bench.model.repeat_last = True
    assert isinstance(await run(bench.runtime(consolidate={"max_requests": 2})), Failed)
    assert isinstance(await run(bench.runtime()), Deferred)
    LongMemory(bench.runtime()).restore(1)
    assert bench.workspace.summary() == summary(one, two)
