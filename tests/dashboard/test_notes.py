"""The pages of notes and short files."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from memory.clock import SystemClock
from memory.model import RolloutId
from memory.project import project_of
from memory.settings import load
from memory.state import RolloutRow, Store
from recall.tools import MemoryTools
from tests.plugins.dashboard_site import Site

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def _project(site: Site, root: Path) -> str:
    """A project on this machine that a session knows; returns its id."""
    root.mkdir()
    site.text("/notes")
    found = project_of(root)
    row = RolloutRow(
        RolloutId.parse("codex:x"), Path("/tmp/x"), 1, 1, 1, cwd=str(root), project=found.id, project_name=found.name
    )
    with Store.open(load(home=site.home), SystemClock()) as store:
        store.rollouts.upsert_many([row])
    return found.id


def _notes(site: Site) -> dict[str, str]:
    folder = next(site.home.glob("generations/*/memories_v2/extensions/ad_hoc/notes"))
    return {path.stem: path.read_text("utf-8") for path in folder.glob("*.md")}


def test_a_new_user_is_told_how_to_keep_something(empty_site: Site) -> None:
    text = empty_site.text("/notes")
    assert "There are no notes yet" in text
    assert "/new-note" in text
    assert "/short/user/new" in text


@pytest.mark.req("Z056")
def test_a_note_is_added_changed_and_forgotten(new_site: Site) -> None:
    added = new_site.post("/new-note", {"text": "New tests use Vitest.", "name": "tests", "pinned": "yes"})
    assert "The note tests is kept" in added.text
    assert "pinned: true" in _notes(new_site)["tests"]
    page = new_site.text("/notes/tests")
    assert "New tests use Vitest." in page
    new_site.post("/notes/tests", {"text": "New tests use Jest."})
    assert "Jest" in _notes(new_site)["tests"]
    assert "pinned" not in _notes(new_site)["tests"]
    assert "Jest" in new_site.text("/notes/tests/forget")
    assert "is forgotten" in new_site.post("/notes/tests/forget").text
    assert _notes(new_site) == {}


def test_a_note_that_cannot_be_comes_back_with_what_is_wrong_and_what_was_typed(new_site: Site) -> None:
    refused = new_site.post("/new-note", {"text": "Kept words", "name": ".hidden"})
    assert refused.status_code == 400
    assert "Kept words" in refused.text
    assert 'aria-invalid="true"' in refused.text
    assert new_site.post("/new-note", {"text": "  "}).status_code == 400
    new_site.post("/new-note", {"text": "One", "name": "one"})
    again = new_site.post("/new-note", {"text": "Two", "name": "one"})
    assert "There is a note one already" in again.text
    assert "One" in _notes(new_site)["one"]


def test_a_secret_is_taken_out_of_a_note_before_it_is_written_and_the_page_says_so(new_site: Site) -> None:
    said = new_site.post("/new-note", {"text": f"The token is {SECRET}", "name": "token"})
    assert "without what looked like a secret" in said.text
    assert SECRET not in "".join(_notes(new_site).values())


def test_a_note_of_one_project_stays_its_note_when_it_is_edited(new_site: Site, tmp_path: Path) -> None:
    project = _project(new_site, tmp_path / "shop")
    new_site.post("/new-note", {"text": "Uses pnpm.", "name": "pm", "project": project})
    assert f"project: {project}" in _notes(new_site)["pm"]
    new_site.post("/notes/pm", {"text": "Uses npm.", "project": project})
    assert f"project: {project}" in _notes(new_site)["pm"]
    new_site.post("/notes/pm", {"text": "Uses npm.", "project": ""})
    assert "scope: global" in _notes(new_site)["pm"]


@pytest.mark.req("P025", "Z026")
def test_an_entry_of_the_short_file_is_added_changed_and_deleted(new_site: Site) -> None:
    path = new_site.home / "short" / "user.md"
    assert "The entry tests is kept" in new_site.post("/short/user/new", {"text": "Use Vitest.", "id": "tests"}).text
    assert "- [tests] Use Vitest." in path.read_text("utf-8")
    assert "Use Vitest." in new_site.text("/short/user/entry?entry=tests")
    new_site.post("/short/user/entry", {"text": "Use Jest.\nAlways.", "id": "tests"})
    assert "- [tests] Use Jest.\n  Always." in path.read_text("utf-8")
    assert "is deleted" in new_site.post("/short/user/delete", {"id": "tests"}).text
    assert "tests" not in path.read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600


def _was(page: str) -> str:
    found = re.search(r'name="was" value="([0-9a-f]{16})"', page)
    assert found
    return found[1]


def test_what_was_changed_elsewhere_since_the_page_was_loaded_is_not_overwritten(new_site: Site) -> None:
    new_site.post("/new-note", {"text": "One", "name": "note"})
    new_site.post("/short/user/new", {"text": "One", "id": "entry"})
    pages = {
        path: _was(new_site.text(path)) for path in ("/notes/note", "/short/user/entry?entry=entry", "/short/user/file")
    }
    note, entry, file = pages.values()
    new_site.post("/notes/note", {"text": "Two", "was": note})
    new_site.post("/short/user/entry", {"text": "Two", "id": "entry", "was": entry})
    for path, fields in {
        "/notes/note": {"text": "Mine", "was": note},
        "/short/user/entry": {"text": "Mine", "id": "entry", "was": entry},
        "/short/user/file": {"text": "- [entry] Mine", "was": file},
    }.items():
        refused = new_site.post(path, fields)
        assert refused.status_code == 409, path
        assert "changed by something else" in refused.text
        assert "Mine" in refused.text
    assert "Two" in _notes(new_site)["note"]
    assert "Two" in (new_site.home / "short" / "user.md").read_text("utf-8")


def test_an_entry_whose_id_is_two_dots_is_edited_like_any_other(new_site: Site) -> None:
    new_site.post("/short/user/new", {"text": "Odd.", "id": ".."})
    assert "entry?entry=.." in new_site.text("/notes")
    new_site.post("/short/user/entry", {"text": "Odder.", "id": ".."})
    assert "[..] Odder." in (new_site.home / "short" / "user.md").read_text("utf-8")


def test_the_short_file_of_a_project_lies_in_its_folder(new_site: Site, tmp_path: Path) -> None:
    project = _project(new_site, tmp_path / "shop")
    new_site.post(f"/short/project/new?project={project}", {"text": "Uses pnpm.", "id": "pm"})
    assert "[pm] Uses pnpm." in (tmp_path / "shop" / ".slowwave" / "memory.md").read_text("utf-8")
    assert "Uses pnpm." in new_site.text(f"/notes?project={project}")


def test_a_project_whose_folder_is_gone_has_no_short_file_here(new_site: Site, tmp_path: Path) -> None:
    project = _project(new_site, tmp_path / "shop")
    (tmp_path / "shop").rmdir()
    assert "not on this machine any more" in new_site.text(f"/notes?project={project}")
    assert new_site.post(f"/short/project/new?project={project}", {"text": "x"}).status_code == 404


@pytest.mark.req("Z027")
def test_a_short_file_with_a_fault_is_shown_with_its_line_and_mended_whole(new_site: Site) -> None:
    path = new_site.home / "short" / "user.md"
    path.parent.mkdir(mode=0o700)
    path.write_text("- [a] One\n- [a] Two\n")
    page = new_site.text("/notes")
    assert "line 2" in page
    assert "this id stands twice" in page
    assert "Line 2: this id stands twice in the file." in new_site.text("/short/user/file")
    refused = new_site.post("/short/user/file", {"text": "- [a] One\nbroken\n"})
    assert refused.status_code == 400
    assert "broken" in refused.text
    assert path.read_text() == "- [a] One\n- [a] Two\n"
    assert "is saved" in new_site.post("/short/user/file", {"text": "- [a] One\r\n- [b] Two"}).text
    assert path.read_text() == "- [a] One\n- [b] Two\n"


def _check(site: Site, path: str, **values: str) -> tuple[bool, str]:
    token = site.csrf()
    response = site.browser.post(
        path, content=json.dumps(values), headers={"content-type": "application/json", "x-csrf-token": token}
    )
    assert response.status_code == 200, response.text
    return response.json()["ok"], response.json()["says"]


def test_what_is_typed_is_checked_without_being_saved(empty_site: Site) -> None:
    assert _check(empty_site, "/api/v1/checks/note", text="Fine.", name="", csrf="x", pinned="yes") == (True, "Fine.")
    assert _check(empty_site, "/api/v1/checks/note", text="", name="")[0] is False
    assert _check(empty_site, "/api/v1/checks/note", text="x", name="../x")[0] is False
    ok, says = _check(empty_site, "/api/v1/checks/note", text=f"key {SECRET}", name="")
    assert ok
    assert "secret" in says
    assert SECRET not in says
    assert _check(empty_site, "/api/v1/checks/entry", text="Fine.", id="a", scope="user", new="yes")[0] is True
    assert "2,000" in _check(empty_site, "/api/v1/checks/entry", text="x" * 2_001, id="a")[1]
    assert _check(empty_site, "/api/v1/checks/entry", text="Fine.", id="a b")[0] is False
    assert _check(empty_site, "/api/v1/checks/file", text="- [a] One\n- [b] Two")[0] is True
    assert "Line 2" in _check(empty_site, "/api/v1/checks/file", text="- [a] One\nx")[1]
    assert not (empty_site.home / "short" / "user.md").exists()


@pytest.mark.fault("M23")
def test_a_short_chinese_text_is_as_good_as_any_other(new_site: Site) -> None:
    text = "以后都用中文回答我"
    assert _check(new_site, "/api/v1/checks/entry", text=text, id="")[0]
    new_site.post("/short/user/new", {"text": text})
    new_site.post("/new-note", {"text": text})
    assert new_site.text("/notes").count(text) == 2


@pytest.mark.fault("O30")
def test_a_text_that_looks_like_markup_stays_text_in_its_field(new_site: Site) -> None:
    evil = "</textarea><script>alert(1)</script>"
    new_site.post("/new-note", {"text": evil, "name": "evil"})
    for path in ("/notes", "/notes/evil", "/notes/evil/forget"):
        text = new_site.text(path)
        assert "<script>alert" not in text
        assert html.escape(evil) in text


def test_a_field_names_the_signs_in_it_that_cannot_be_seen(new_site: Site) -> None:
    new_site.post("/new-note", {"text": "pay\u202e\u200bload", "name": "odd"})
    assert "cannot be seen: U+202E, U+200B" in new_site.text("/notes/odd")


def test_while_another_process_writes_the_page_says_that_and_keeps_what_was_typed(
    new_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl
    import os

    monkeypatch.setattr("recall.remember.LOCK_WAIT_SECONDS", 0.1)
    folder = new_site.home / "short"
    folder.mkdir(mode=0o700)
    new_site.text("/notes")
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        busy = new_site.post("/short/user/new", {"text": "Typed words", "id": "a"})
    finally:
        os.close(descriptor)
    assert busy.status_code == 409
    assert "Another process is writing" in busy.text
    assert "Typed words" in busy.text


def test_entries_of_topics_are_listed_read_and_forgotten(new_site: Site) -> None:
    new_site.text("/notes")
    tools = MemoryTools.of_folder(load(home=new_site.home), None, asker="agent")
    try:
        kept = tools.remember(
            scope="user", tier="log", topic="testing", title="Framework <b>", content="New tests use Vitest.\nAlways."
        )
    finally:
        tools.close()
    text = new_site.text("/notes")
    assert "Framework &lt;b&gt;" in text
    assert "by an agent" in text
    address = f"/entries/{kept.id.removeprefix('mem:')}"
    assert "Always." in new_site.text(address)
    (entry,) = new_site.get("/api/v1/entries").json()["entries"]
    assert (entry["id"], entry["by"], entry["scope"]) == (kept.id, "agent", "user")
    assert "is forgotten" in new_site.post(f"{address}/forget").text
    assert "Framework" not in new_site.text("/notes")
    assert new_site.get(address).status_code == 404
