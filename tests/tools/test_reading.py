"""Reading in steps: search names sessions, timeline what stands around, get whole texts; within scope, bounded."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from consolidate.run import run
from flows import hook_work, pipeline
from memory.documents import print_summary
from memory.errors import UnknownReference, UsageError
from memory.model import HEADINGS
from memory.testing import StoreBench, call
from recall import spool, stepwise
from recall.answers import as_plain
from recall.index import fresh
from recall.scope import Viewer
from recall.tools import MemoryTools

SHOP, API = Viewer("aaaaaaaaaaaa", "shop"), Viewer("bbbbbbbbbbbb", "api")
BODY = """# Checkout
Outcome: success
## User preferences
- Never force-push to `main` [e1]
## Reference
- The payment gateway listens on port 8080 [e2]
- Refunds go through the nightly batch [e3]
- The gateway wants `Idempotency-Key` on every request [e4]
"""
OTHER = """# Invoices
Outcome: success
## Reference
- The payment gateway of invoices listens on port 9999 [e1]
"""
LATER = """# Refunds
Outcome: success
## Reference
- Refund totals are whole cents [e1]
"""


def tools(bench: StoreBench, viewer: Viewer = SHOP) -> MemoryTools:
    return MemoryTools(bench.settings, viewer, clock=bench.clock, session="s1")


def filled(bench: StoreBench) -> tuple[str, str, str]:
    day = timedelta(days=1)
    one = bench.add("a1", BODY, human=(1, 2, 3, 4), project=SHOP.id, ended=bench.clock.now() - 3 * day)
    two = bench.add("a2", LATER, project=SHOP.id, ended=bench.clock.now() - 2 * day)
    other = bench.add("b1", OTHER, project=API.id, ended=bench.clock.now() - 2.5 * day)
    return one, two, other


@pytest.mark.req("P055", "P023", "P021", "Z053")
def test_ids_flow_from_search_to_timeline_to_get_and_each_step_returns_more_text(bench: StoreBench) -> None:
    one, two, _ = filled(bench)
    memory = tools(bench)
    found = memory.search("payment gateway port")
    assert [session.id for session in found.sessions] == [one]
    best = found.sessions[0].best[0]
    around = memory.timeline(best.id, before=1, after=1)
    assert [line.text for line in around.lines] == [
        "Never force-push to `main`",
        "The payment gateway listens on port 8080",
        "Refunds go through the nightly batch",
    ]
    assert (around.at, around.cut, around.session.lines) == (1, True, 4)
    assert [session.id for session in around.later] == [two]
    assert around.earlier == ()
    whole = memory.get([found.sessions[0].id]).texts[0]
    assert whole.text == BODY.strip("\n")
    assert not whole.cut
    assert len(best.text) < sum(len(line.text) for line in around.lines) < len(whole.text)


@pytest.mark.req("P023", "P067")
@pytest.mark.fault("M9")
def test_recall_gives_excerpts_with_ids_and_an_id_gives_the_text(bench: StoreBench) -> None:
    one, _, _ = filled(bench)
    memory = tools(bench)
    hits = memory.recall("which port does the gateway listen on").hits
    assert hits[0].text == "The payment gateway listens on port 8080"
    assert hits[0].citations == (one,)
    text = memory.recall(id=hits[0].id).text
    assert text is not None
    assert text.text == hits[0].text
    summary = memory.recall(id=f"[{one}]").text
    assert summary is not None
    assert summary.text == BODY.strip("\n")


@pytest.mark.req("P023")
def test_where_nothing_answers_it_is_said_whether_something_comes_near(bench: StoreBench) -> None:
    filled(bench)
    memory, question = tools(bench), "gateway certificate expiry alarm threshold"
    assert memory.recall(question).says == "Nothing in memory answers this. With near = true it shows what comes near."
    assert memory.recall(question, near=True).hits
    assert memory.search(question).says.endswith("With near = true it shows what comes near.")
    assert memory.recall("zebra").says == "Nothing in memory answers this."
    assert memory.search("zebra").says == "No session or note answers this."


@pytest.mark.req("P017", "P034", "C023")
@pytest.mark.fault("O18", "M5")
def test_nothing_of_another_project_is_found_by_any_step(bench: StoreBench) -> None:
    one, _, other = filled(bench)
    mine, theirs = tools(bench), tools(bench, API)
    assert {session.id for session in mine.search("payment gateway", near=True).sessions} == {one}
    assert other not in json.dumps(as_plain(mine.recall("invoices", near=True)))
    assert mine.recall(id=other).text is None
    assert mine.get([other, f"{other}#1", one]).missing == (other, f"{other}#1")
    with pytest.raises(UnknownReference):
        mine.timeline(f"{other}#1")
    assert other not in json.dumps(as_plain(mine.timeline(one)))
    assert theirs.recall(id=other).text is not None
    with pytest.raises(UsageError, match="another project cannot be named"):
        mine.recall("gateway", scope=API.id)


@pytest.mark.req("C023", "Z053")
@pytest.mark.fault("M93", "M5")
async def test_why_shows_a_line_that_two_projects_support_without_the_words_of_the_other(bench: StoreBench) -> None:
    one, two, other = filled(bench)
    text = print_summary(
        {
            HEADINGS[1]: [f"Never force-push to `main` [{one}]"],
            HEADINGS[2]: [f"The payment gateway listens on a port [{one}] [{other}]"],
            HEADINGS[3]: [
                f"Checkout, success [{one}]",
                f"Refunds, success [{two}]",
                f"Invoices, success [{other}]",
            ],
        }
    )
    look = call("read", "c0", path="phase2_workspace_diff.md")
    bench.model.answers = [[look, call("write", path="memory_summary.md", content=text)], "done"]
    await run(bench.runtime())
    assert bench.workspace.summary() == text
    found = tools(bench).why("payment gateway listens").reasons
    assert [(len(reason.because), reason.elsewhere) for reason in found] == [(1, 1)]
    assert "9999" not in json.dumps(as_plain(found))
    assert [reason.text for reason in tools(bench).why(one).reasons]
    with pytest.raises(UnknownReference) as unseen:
        tools(bench).why("Invoices, success")
    with pytest.raises(UnknownReference) as unknown:
        tools(bench).why("never said anywhere")
    assert str(unseen.value) == str(unknown.value)
    assert "9999" not in json.dumps(as_plain(tools(bench).status()))
    assert tools(bench).status().sessions == 2


@pytest.mark.req("Z053", "Z016")
def test_reading_whole_texts_counts_as_use_of_their_sources_and_excerpts_do_not(bench: StoreBench) -> None:
    one, two, _ = filled(bench)
    memory = tools(bench)
    memory.recall("payment gateway")
    memory.search("payment gateway")
    assert spool.take_uses(bench.settings.home) == []
    memory.get([one])
    memory.recall(id=f"{two}#1")
    uses = spool.take_uses(bench.settings.home)
    assert [sorted(used.uses) for used in uses] == [sorted([one, two])]


@pytest.mark.req("Z016", "Z053")
def test_the_next_run_counts_each_reading_once(bench: StoreBench) -> None:
    one, _, _ = filled(bench)
    memory = tools(bench)
    runtime = bench.runtime()
    for _ in range(2):
        memory.get([one, f"{one}#1"])
        bench.clock.advance(60)
        assert hook_work.count_uses(runtime, bench.clock.now()) == 1
        assert hook_work.count_uses(runtime, bench.clock.now()) == 0
    assert bench.store.usage.counts() == {one: 2}


@pytest.mark.req("P061")
async def test_a_publish_leaves_the_index_made_for_the_next_question(bench: StoreBench) -> None:
    one = bench.add("a1", BODY, human=(1, 2, 3, 4), project=SHOP.id)
    text = print_summary({HEADINGS[1]: [f"Never force-push to `main` [{one}]"], HEADINGS[3]: [f"Checkout [{one}]"]})
    look = call("read", "c0", path="phase2_workspace_diff.md")
    bench.model.answers = [[look, call("write", path="memory_summary.md", content=text)], "done"]
    report = await pipeline.run(bench.runtime(), pipeline.Options(extract=False))
    assert report.outcome == "ok"
    path = fresh.index_path(bench.settings.home, bench.store.generation)
    made = path.stat().st_ino
    assert tools(bench).recall("force-push").hits[0].kind == "line"
    assert path.stat().st_ino == made


@pytest.mark.req("Z053")
def test_a_long_text_is_cut_visibly_and_read_on_from_where_it_stopped(bench: StoreBench) -> None:
    long = "\n\n".join(f"Paragraph {number} about deployment {'x' * 90}" for number in range(200))
    bench.workspace.write_note("long", long, is_global=True)
    memory = tools(bench)
    first = memory.get("note:long").texts[0]
    assert (first.cut, len(first.text), first.total) == (True, stepwise.MAX_TEXT, len(long))
    parts, at = [first.text], first.next_offset
    while at is not None:
        part = memory.get("note:long", offset=at).texts[0]
        parts.append(part.text)
        at = part.next_offset
    assert "".join(parts) == long


@pytest.mark.req("Z053")
def test_an_answer_of_many_texts_says_which_had_no_room(bench: StoreBench) -> None:
    names = [f"n{number}" for number in range(5)]
    for name in names:
        bench.workspace.write_note(name, "\n\n".join(["deploy " * 100] * 12), is_global=True)
    found = tools(bench).get([f"note:{name}" for name in names])
    assert sum(len(text.text) for text in found.texts) <= stepwise.MAX_TOTAL
    assert len(found.texts) + len(found.left_out) == 5
    assert found.left_out


@pytest.mark.req("P060", "P059", "P041")
@pytest.mark.fault("O32")
def test_reading_writes_nothing_but_the_index_and_the_count_of_uses(bench: StoreBench) -> None:
    one, _, _ = filled(bench)
    memory = tools(bench)
    entry = memory.remember(scope="project", tier="log", topic="ports", title="Gateway", content="The gateway: 8080")

    def files() -> dict[str, tuple[int, int]]:
        found = {str(path): path.stat() for path in bench.settings.home.rglob("*") if path.is_file()}
        return {path: (status.st_mtime_ns, status.st_ino) for path, status in found.items()}

    before = files()
    memory.recall("gateway")
    memory.search("gateway")
    memory.timeline(one)
    memory.timeline(entry.id)
    memory.get([one, entry.id])
    memory.list()
    memory.titles()
    memory.status()
    changed = {Path(path).name for path, status in files().items() if before.get(path) != status}
    assert changed <= {"index.db", "used-tools-s1.json", "state.db-wal", "state.db-shm"}
    assert set(before) <= set(files())


def test_any_id_may_be_asked_for(bench: StoreBench) -> None:
    filled(bench)
    for asked in ("", "\x00", "../../state.db", "note:../x", "x" * 100_000, "[", "mem:zzz", "line:"):
        assert tools(bench).get([asked]).texts == ()
        with pytest.raises(UnknownReference):
            tools(bench).timeline(asked)


def test_a_home_that_was_never_used_is_left_as_it_is(bench: StoreBench, tmp_path: object) -> None:
    empty = bench.settings.model_copy(update={"home": bench.settings.home.parent / "never"})
    memory = MemoryTools(empty, SHOP, clock=bench.clock)
    assert memory.search("anything").sessions == ()
    assert memory.recall("anything").hits == ()
    assert memory.get(["3f9a1c2e"]).missing == ("3f9a1c2e",)
    assert memory.status().state == "never_used"
    assert not empty.home.exists()
