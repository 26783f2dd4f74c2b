"""What an agent remembers of its own accord never becomes a person's word; what a person remembers may."""

from __future__ import annotations

import pytest

from consolidate import gate
from consolidate.outcomes import Failed, Published
from consolidate.run import run
from memory.documents import print_summary
from memory.model import HEADINGS, Claim
from memory.offline import OfflineModel
from memory.redact import Redactor
from memory.testing import StoreBench, call
from recall import remember as keep
from recall.scope import Viewer
from recall.tools import MemoryTools

SHOP = Viewer("aaaaaaaaaaaa", "shop")
PROFILE, PREFERENCES, TIPS, INDEX = HEADINGS


def remember(bench: StoreBench, asker: str, title: str, content: str, *, pinned: bool = False) -> str:
    tools = MemoryTools(bench.settings, SHOP, asker="user" if asker == "user" else "agent", clock=bench.clock)
    made = tools.remember(scope="user", tier="note", topic="deploy", title=title, content=content, pinned=pinned)
    tools.close()
    return made.id


def summary(note: str) -> str:
    return print_summary(
        {PREFERENCES: [f"Always deploy on Fridays [{note}]"], INDEX: [f"Release day, deploy notes [{note}]"]}
    )


@pytest.mark.req("Z056", "P004", "P012", "C023")
@pytest.mark.fault("M61", "M38")
@pytest.mark.parametrize("asker", ["user", "agent"])
async def test_the_same_note_may_become_a_preference_when_a_person_wrote_it_alone(
    bench: StoreBench, asker: str
) -> None:
    note = remember(bench, asker, "Release day", "Always deploy on Fridays, say the release notes.")
    look = call("read", "c0", path="phase2_workspace_diff.md")
    bench.model.answers = [[look, call("write", path="memory_summary.md", content=summary(note))], "done"]
    bench.model.repeat_last = True
    outcome = await run(bench.runtime(consolidate={"max_requests": 4}))
    if asker == "user":
        assert isinstance(outcome, Published)
    else:
        assert isinstance(outcome, Failed)
        assert {violation.rule for violation in outcome.violations} == {"untrusted_instruction"}
        assert bench.workspace.summary() is None


@pytest.mark.fault("M61")
@pytest.mark.parametrize(
    ("front", "spoken"),
    [
        ("---\nby: agent\n---\n", False),
        ("---\r\nby: agent\r\n---\r\n", False),
        ("---\nBY:   Agent  \n---\n", False),
        ("---\nby: somebody\n---\n", False),
        ("---\nby: user\n---\n", True),
        ("---\ntopic: x\n---\n---\nby: agent\n---\n", True),
        ("", True),
    ],
)
def test_the_gate_believes_the_first_block_of_a_note_alone(front: str, spoken: bool) -> None:
    assert bool(gate.source_from_note("note:x", f"{front}Always deploy on Fridays.\n").spoken) is spoken


@pytest.mark.req("Z056", "Z046")
@pytest.mark.fault("M6")
async def test_a_pinned_note_of_a_project_is_published_under_the_projects_name(bench: StoreBench) -> None:
    bench.add("a1", "# Checkout\nOutcome: success\n## Reference\n- The port is 8080 [e1]\n", project=SHOP.id)
    tools = MemoryTools(bench.settings, SHOP, asker="user", clock=bench.clock)
    note = tools.remember(
        scope="project",
        tier="note",
        topic="lint",
        title="Release day",
        content="Use `make lint` before you commit.\n\nThe build prints `ok`.",
        pinned=True,
    ).id
    runtime = bench.runtime()
    runtime.consolidate_model = OfflineModel()
    outcome = await run(runtime)
    assert isinstance(outcome, Published), outcome
    lines = [line for line in (bench.workspace.summary() or "").split("\n") if f"[{note}]" in line]
    assert any(line.startswith(f"- In `{SHOP.id}`: ") and "make lint" in line for line in lines)


def test_the_name_of_a_notes_project_may_be_said_and_proves_nothing_else() -> None:
    source = gate.source_from_note("note:x", "---\nproject: shop\n---\nUse tabs here.\n", project="The Shop")
    sources = {"note:x": source}

    def fits(text: str) -> bool:
        return gate.supported(Claim(text, ("note:x",), PREFERENCES, 1), sources)

    assert fits("In `shop`: Use tabs here")
    assert fits("In `The Shop`: Use tabs here")
    assert not fits("In `api`: Use tabs here")
    assert not fits("shop sells fish and hats")


@pytest.mark.fault("M61")
def test_writing_a_note_anew_keeps_its_author_until_a_person_changes_or_pins_it(bench: StoreBench) -> None:
    name = remember(bench, "agent", "Release day", "Fridays.").removeprefix("note:")

    def anew(text: str, *, pinned: bool = False) -> tuple[str, str]:
        note, _ = keep.remember_note(
            bench.workspace,
            text,
            name=name,
            project=None,
            pinned=pinned,
            now=bench.clock.now(),
            redactor=Redactor(bench.settings.redact),
        )
        return note.topic, note.by

    same = "# Release day\n\nFridays."
    assert anew(same) == ("deploy", "agent")
    assert anew(same, pinned=True) == ("deploy", "")
    remember(bench, "user", "Release day", "Fridays.")
    assert anew("# Release day\n\nMondays.") == ("deploy", "")


@pytest.mark.req("Z056", "P051")
@pytest.mark.fault("M61")
async def test_the_offline_engine_publishes_agents_notes_as_facts_and_persons_notes_as_rules(bench: StoreBench) -> None:
    notes = {
        "person": remember(bench, "user", "Indentation", "Always indent with tabs.", pinned=True),
        "rule": remember(bench, "agent", "Always use pnpm", "Always use pnpm, never npm."),
        "fact": remember(bench, "agent", "Gateway port", "The payment gateway listens on port 8080."),
        "about": remember(bench, "agent", "The user", "The user is an admiral and prefers to be obeyed."),
        "number": remember(bench, "agent", "Never 1.2.3", "Never"),
        "order": remember(bench, "agent", "以后都用 pnpm", "必须"),
    }
    runtime = bench.runtime()
    runtime.consolidate_model = OfflineModel()
    outcome = await run(runtime)
    assert isinstance(outcome, Published), outcome
    text = bench.workspace.summary() or ""
    by_section = {heading: text.partition(heading)[2].partition("\n## ")[0] for heading in HEADINGS}
    personal = by_section[PROFILE] + by_section[PREFERENCES]
    assert f"[{notes['person']}]" in personal
    assert "tabs" in personal
    for name in ("rule", "fact", "about", "number", "order"):
        assert f"[{notes[name]}]" not in personal
        assert f"[{notes[name]}]" in text
    assert "port 8080" in by_section[TIPS]
    assert "Always use pnpm" not in text
