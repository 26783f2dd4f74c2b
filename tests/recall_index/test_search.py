"""Search over a store: fresh at every question, within scope, and nothing forgotten in it."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from consolidate.run import run
from consolidate.service import LongMemory
from memory.documents import parse_rollout_summary, print_rollout_summary, print_summary
from memory.model import HEADINGS, Boundary, Header, Host, RolloutId
from memory.settings import Settings, load
from memory.state import RolloutRow, VersionRow
from memory.testing import StoreBench, call
from memory.workspace.layout import INDEX_NAME
from recall.index import fresh, making
from recall.index.build import Built, build
from recall.index.file import Rows
from recall.scope import NOBODY, Viewer
from recall.search import Searcher, View
from rollouts.adapters import ADAPTERS

SHOP, API = Viewer("aaaaaaaaaaaa", "shop"), Viewer("bbbbbbbbbbbb", "api")
CANARY = "zebra-umbrella"
SHOP_BODY = f"""# Checkout
Outcome: success
## User preferences
- Never force-push to `main` [e1]
## Reference
- The gateway listens on port 8080 [e2]
- Ship `{CANARY}` builds first [e3]
"""
API_BODY = """# Invoices
Outcome: success
## Reference
- Amounts are whole cents everywhere [e1]
"""


def searcher(bench: StoreBench) -> Searcher:
    return Searcher.of_settings(bench.settings, store=bench.store)


def shop(bench: StoreBench) -> View:
    return searcher(bench).view(SHOP)


def texts(view: View, asked: str) -> list[str]:
    return [hit.unit.text for hit in view.search(asked).hits]


async def two_sources(bench: StoreBench) -> tuple[str, str]:
    one = bench.add("a1", SHOP_BODY, human=(1, 2, 3), project=SHOP.id)
    two = bench.add("b2", API_BODY, project=API.id)
    text = print_summary(
        {
            HEADINGS[1]: [f"Never force-push to `main` [{one}]", f"Ship `{CANARY}` builds first [{one}]"],
            HEADINGS[2]: [f"Amounts are whole cents everywhere [{two}]"],
            HEADINGS[3]: [f"shop: Checkout, success [{one}]", f"api: Invoices, success [{two}]"],
        }
    )
    look = call("read", "c0", path="phase2_workspace_diff.md")
    bench.model.answers = [[look, call("write", path="memory_summary.md", content=text)], "done"]
    await run(bench.runtime())
    assert bench.workspace.summary() == text
    return one, two


def index_file(bench: StoreBench) -> Path:
    return fresh.index_path(bench.settings.home, bench.store.generation)


def traces(home: Path, text: str) -> list[str]:
    return [path.name for path in home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_the_writer_and_the_reader_mean_the_same_file(bench: StoreBench) -> None:
    assert index_file(bench) == bench.workspace.root.parent / INDEX_NAME


@pytest.mark.req("Z053", "P021", "P031")
@pytest.mark.fault("M93")
async def test_a_line_is_found_with_its_citation_source_and_date(bench: StoreBench) -> None:
    one, _ = await two_sources(bench)
    hits = shop(bench).search("may I force-push?").hits
    assert [(hit.unit.kind, hit.unit.text) for hit in hits] == [
        ("line", "Never force-push to `main`"),
        ("bullet", "Never force-push to `main`"),
    ]
    assert all(hit.unit.citations == (one,) for hit in hits)
    assert hits[1].unit.source == "codex:a1"
    assert hits[1].unit.time.startswith("2026-11-29")
    assert hits[1].unit.section == "User preferences"


@pytest.mark.req("P061", "P067")
def test_what_was_just_written_is_found_and_what_was_just_corrected_is_not(bench: StoreBench) -> None:
    view = shop(bench)
    assert texts(view, "package manager") == []
    bench.workspace.write_note("pm", "The package manager is npm.")
    assert texts(view, "package manager") == ["The package manager is npm."]
    bench.workspace.write_note("pm", "The package manager is pnpm.", replace=True)
    assert texts(view, "package manager") == ["The package manager is pnpm."]
    bench.workspace.remove_note("pm")
    assert texts(view, "package manager") == []


@pytest.mark.req("C023", "P017", "P034", "P067")
@pytest.mark.fault("O18", "M87")
async def test_another_project_sees_nothing_of_this_one(bench: StoreBench) -> None:
    await two_sources(bench)
    bench.workspace.write_note("everyone", "The office closes at six.")
    bench.workspace.write_note("mine", "The shop staging host is blue.", project=SHOP.id)
    made = searcher(bench)
    assert texts(made.view(SHOP), "port of the gateway") == ["The gateway listens on port 8080"]
    assert texts(made.view(SHOP), "staging host") == ["The shop staging host is blue."]
    for viewer in (API, NOBODY, Viewer("unknown", "unknown")):
        assert texts(made.view(viewer), "port of the gateway") == []
        assert texts(made.view(viewer), "staging host") == []
        assert texts(made.view(viewer), "when does the office close") == ["The office closes at six."]
        assert made.view(viewer).get("note:mine#1") is None
        assert made.view(viewer).around("note:mine#1") == []
        assert not [unit for unit in made.view(viewer).all() if "8080" in unit.text]


@pytest.mark.req("C023")
async def test_naming_another_project_narrows_and_is_logged_without_content(
    bench: StoreBench, caplog: pytest.LogCaptureFixture
) -> None:
    await two_sources(bench)
    made = searcher(bench)
    with caplog.at_level(logging.INFO, logger="slowwave.recall"):
        assert texts(made.view(API, only=SHOP.id), "port of the gateway") == []
        assert texts(made.view(API, only=SHOP.id), "whole cents") == []
        assert texts(made.view(SHOP, only="shop"), "port of the gateway") != []
    assert "another project" in caplog.text
    assert "8080" not in caplog.text
    assert SHOP.id not in caplog.text


async def test_only_the_users_setting_or_the_user_himself_sees_all(bench: StoreBench) -> None:
    await two_sources(bench)
    wide = bench.settings.model_copy(update={"inject": bench.settings.inject.model_copy(update={"scope": "all"})})
    assert texts(Searcher.of_settings(wide, store=bench.store).view(API), "port of the gateway")
    assert texts(searcher(bench).view_of_user(), "port of the gateway")
    assert texts(searcher(bench).view_of_user(API.id), "port of the gateway") == []


@pytest.mark.fault("M48", "M49", "M50")
@pytest.mark.req("Z116")
async def test_what_was_forgotten_is_in_no_file_and_no_search(bench: StoreBench) -> None:
    one, _ = await two_sources(bench)
    view = shop(bench)
    assert texts(view, CANARY)
    assert INDEX_NAME in traces(bench.settings.home, CANARY)
    LongMemory(bench.runtime()).forget(rollouts=[RolloutId.parse("codex:a1")])
    assert traces(bench.settings.home, CANARY) == []
    assert not index_file(bench).exists()
    for view_ in (view, searcher(bench).view_of_user()):
        assert texts(view_, CANARY) == []
        assert view_.get(f"{one}#1") is None
        assert not [
            group for group in view_.sessions("gateway port", answers_only=False).groups if "8080" in str(group)
        ]
    assert traces(bench.settings.home, CANARY) == []


@pytest.mark.fault("M50")
async def test_a_forgotten_text_is_found_nowhere_else_either(bench: StoreBench) -> None:
    await two_sources(bench)
    bench.workspace.write_note("other", "Something about cents.")
    LongMemory(bench.runtime()).forget(text=CANARY)
    bench.workspace.write_rollout_summary("0" * 16, "no front matter")
    assert texts(searcher(bench).view_of_user(), CANARY) == []


@pytest.mark.fault("M48", "M52")
@pytest.mark.req("Z110")
async def test_a_clear_takes_the_index_along(bench: StoreBench) -> None:
    await two_sources(bench)
    view = shop(bench)
    assert texts(view, CANARY)
    runtime = bench.runtime()
    LongMemory(runtime).clear()
    assert traces(bench.settings.home, CANARY) == []
    assert texts(view, CANARY) == []
    assert texts(searcher(bench).view_of_user(), "port cents force-push") == []


async def test_an_index_made_while_something_is_forgotten_is_not_left_behind(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two_sources(bench)
    calls = 0

    def slow(path: Path, rows: Rows) -> Built:
        nonlocal calls
        calls += 1
        if calls == 1:  # between reading and writing
            bench.remove("a1")
            bench.workspace.remove_summary(hashlib.sha256((bench.workspace.summary() or "").encode()).hexdigest())
        return build(path, rows)

    monkeypatch.setattr(making, "build", slow)
    assert texts(searcher(bench).view_of_user(), CANARY) == []
    assert calls == 2
    assert CANARY.encode() not in index_file(bench).read_bytes()


@pytest.mark.fault("M57", "M56")
@pytest.mark.req("C044")
async def test_a_secret_put_into_the_store_is_masked_in_search_and_index(bench: StoreBench) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    path = bench.workspace.root / "extensions/ad_hoc/notes/token.md"
    path.write_text(f"The deploy token is {secret} for now.\n", encoding="utf-8")
    found = searcher(bench).view_of_user().search("deploy token").hits
    assert found
    assert secret not in found[0].unit.text
    assert secret.encode() not in index_file(bench).read_bytes()


@pytest.mark.parametrize("damage", [b"", b"garbage" * 999])
async def test_a_damaged_index_is_made_anew_without_a_word_to_the_asker(
    bench: StoreBench, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await two_sources(bench)
    assert texts(shop(bench), "gateway port")
    index_file(bench).write_bytes(damage)
    with caplog.at_level(logging.INFO, logger="slowwave.recall"):
        assert texts(shop(bench), "gateway port") == ["The gateway listens on port 8080"]
    assert "made anew" in caplog.text


async def test_where_the_index_cannot_be_written_search_still_answers(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await two_sources(bench)

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(making, "build", refuse)
    assert texts(shop(bench), "gateway port") == ["The gateway listens on port 8080"]
    assert "could not be written" in caplog.text


@pytest.mark.req("P060")
async def test_searching_changes_nothing_but_the_index(bench: StoreBench) -> None:
    await two_sources(bench)

    def everything() -> dict[str, str]:
        home = bench.settings.home
        names = [
            path for path in home.rglob("*") if path.is_file() and not path.name.startswith(("index.db", "state.db"))
        ]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in names}

    before = everything()
    shop(bench).search("gateway port")
    assert everything() == before


@pytest.mark.req("P023", "P055")
async def test_from_a_hit_to_its_neighbours_to_the_whole_line(bench: StoreBench) -> None:
    one, _ = await two_sources(bench)
    view = shop(bench)
    (group,) = view.sessions("gateway port").groups
    ref = group.best[0].unit.ref
    assert ref == f"{one}#2"
    assert [unit.text for unit in view.around(ref, before=1, after=0)] == [
        "Never force-push to `main`",
        "The gateway listens on port 8080",
    ]
    whole = view.get(ref)
    assert whole is not None
    assert whole.text == "The gateway listens on port 8080"


@pytest.mark.fault("O29", "M41")
async def test_a_superseded_line_is_marked_in_the_session_it_came_from(bench: StoreBench) -> None:
    one = bench.add("old", "# Setup\n## Decisions\n- The package manager is npm here [e1]\n", project=SHOP.id)
    bench.add("new", "# Setup\n## Decisions\n- The package manager is pnpm from now on [e1]\n", project=SHOP.id)
    change = {"kind": "superseded", "text": "The package manager is npm here", "reason": "later", "into": "pnpm it is"}
    row = VersionRow(1, bench.store.generation, bench.clock.now(), "0" * 64, {"inputs": [], "left_out": []}, "m")
    with bench.store.write() as tx:
        bench.store.versions.add(replace(row, changes=[change]), tx)
    hits = shop(bench).search("which package manager").hits
    assert [(hit.unit.superseded, hit.unit.text) for hit in hits] == [
        (False, "The package manager is pnpm from now on"),
        (True, "The package manager is npm here"),
    ]
    assert hits[1].unit.successor == "pnpm it is"
    assert hits[1].unit.citations == (one,)


def test_short_entries_are_found_by_everyone_or_by_their_project(bench: StoreBench, tmp_path: Path) -> None:
    user = bench.settings.home / "short" / "user.md"
    user.parent.mkdir(mode=0o700)
    user.write_text("- [style] Answers come without preamble.\n", encoding="utf-8")
    assert texts(searcher(bench).view(NOBODY), "preamble of answers") == ["Answers come without preamble."]
    user.write_text("- [style] Broken\n bad line\n", encoding="utf-8")
    assert texts(searcher(bench).view(NOBODY), "preamble of answers") == []


@pytest.mark.parametrize(("which", "found"), [("off", []), ("user", ["human"]), ("all", ["human", "final"])])
@pytest.mark.fault("O17")
def test_what_was_said_is_searched_only_as_far_as_the_setting_says(
    bench: StoreBench, tmp_path: Path, which: str, found: list[str]
) -> None:
    path = tmp_path / "session.jsonl"
    lines = [
        {"type": "session", "version": 1, "id": "g1", "cwd": "/home/dev/shop", "started": "2026-11-28T09:00:00Z"},
        {"type": "event", "role": "user", "text": "please paint the lighthouse", "time": "2026-11-28T09:00:01Z"},
        {"type": "event", "role": "user", "derived": "memory", "text": "the lighthouse is old"},
        {"type": "event", "role": "assistant", "final": True, "text": "the lighthouse is painted"},
        {"type": "event", "role": "user", "text": "the lighthouse came after the boundary"},
    ]
    printed = [json.dumps(row) + "\n" for row in lines]
    path.write_text("".join(printed[:-1]), encoding="utf-8")
    settings = bench.settings.model_copy(update={"index": bench.settings.index.model_copy(update={"evidence": which})})
    _extracted(bench, path)
    path.write_text("".join(printed), encoding="utf-8")
    view = Searcher.of_settings(settings, store=bench.store).view(SHOP)
    hits = view.search("lighthouse", kinds={"evidence"}, answers_only=False).hits
    assert sorted(hit.unit.section for hit in hits) == sorted(found)


def _extracted(bench: StoreBench, path: Path) -> None:
    """A rollout summary of a generic session, and its row."""
    transcript = ADAPTERS[Host.GENERIC].read(path)
    header: Header = transcript.header
    bench.add("g", "# Paint\n## Reference\n- A thing was done [e1]\n", project=SHOP.id)
    source_id = RolloutId.parse("codex:g").source_id
    summary, body = parse_rollout_summary(bench.workspace.rollout_summary(source_id) or "")
    boundary = Boundary(transcript.boundary.offset, transcript.boundary.events, transcript.boundary.prefix_hash)
    text = print_rollout_summary(replace(summary, source=header.id, boundary=boundary), body)
    bench.workspace.write_rollout_summary(header.id.source_id, text)
    bench.workspace.remove_rollout_summary(source_id)
    status = path.stat()
    row = RolloutRow(id=header.id, path=path, size=status.st_size, mtime_ns=status.st_mtime_ns, inode=status.st_ino)
    bench.store.rollouts.upsert_many([row])


def test_an_empty_home_has_nothing_and_stays_empty(tmp_path: Path) -> None:
    settings = load(environ={"SLOWWAVE_HOME": str(tmp_path / "none"), "HOME": str(tmp_path)})
    assert Searcher.of_settings(settings).view(SHOP).search("anything").hits == ()
    assert not (tmp_path / "none").exists()


def test_other_settings_of_redaction_make_another_index(bench: StoreBench) -> None:
    bench.workspace.write_note("n", "The codename is bluefin.")
    assert texts(searcher(bench).view_of_user(), "codename") == ["The codename is bluefin."]
    stricter = bench.settings.redact.model_copy(update={"extra_patterns": ("bluefin",)})
    settings: Settings = bench.settings.model_copy(update={"redact": stricter})
    (shown,) = texts(Searcher.of_settings(settings, store=bench.store).view_of_user(), "codename")
    assert "bluefin" not in shown
    assert b"bluefin" not in index_file(bench).read_bytes()


def test_refresh_says_whether_anything_had_changed(bench: StoreBench) -> None:
    made = searcher(bench)
    assert made.refresh()
    assert not made.refresh()
    bench.workspace.write_note("n", "New.")
    assert made.refresh()
    assert index_file(bench).is_file()
