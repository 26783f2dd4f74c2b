"""The page Memory."""

from __future__ import annotations

import html
import itertools
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import httpx
import pytest

from consolidate.byhand import change_by_hand
from dashboard import confirmed
from dashboard.shown import prose
from memory import locks
from memory.clock import SystemClock
from memory.documents import claims, print_summary
from memory.errors import StorageError
from memory.model import RolloutId
from memory.project import project_of
from memory.redact import Redactor
from memory.runtime import open_runtime
from memory.settings import RedactSettings, load
from memory.state import Lease, RolloutRow, Store
from recall import scope
from tests.plugins.dashboard_site import Site, serving
from tests.plugins.hook_runner import run
from tests.plugins.published import HERE, PREFERENCES, THERE, publish


def test_a_new_user_is_told_the_command_to_begin_with(empty_site: Site) -> None:
    text = empty_site.text("/memory")
    assert "Nothing has been remembered yet" in text
    assert "<code>slowwave run</code>" in text


@pytest.mark.req("Z105")
def test_a_new_user_finds_the_next_steps_as_buttons_and_links(empty_site: Site) -> None:
    for path in ("/memory", "/sessions", "/history"):
        assert 'action="/runs/start"' in empty_site.text(path), path
    page = empty_site.text("/memory")
    assert 'href="/settings/hosts"' in page
    assert 'href="/notes"' in page
    assert "<select" not in empty_site.text("/sessions")


def test_the_page_shows_every_line_of_the_confirmed_summary_with_its_citations(read_site: Site) -> None:
    lines = read_site.get("/api/v1/memory").json()["lines"]
    text = read_site.text("/memory")
    assert len(lines) > 3
    for line in lines:
        assert f"/memory/lines/{line['key']}" in text
        assert all(f"/{name}" in text for name in line["citations"] if not name.startswith("note:"))


@pytest.mark.req("Z105")
def test_a_text_that_was_never_published_is_not_shown(site: Site) -> None:
    path = next(site.home.glob("generations/*/memories_v2/memory_summary.md"))
    path.write_text(path.read_text("utf-8").replace("## General Tips", "## General Tips\n- Under revision. [aaaaaaaa]"))
    text = site.text("/memory")
    assert "Under revision" not in text
    assert "is not a text that was published" in text


def test_the_switch_of_the_language_holds_for_the_next_page(new_site: Site) -> None:
    new_site.post("/language", {"to": "zh", "back": "/memory"})
    text = new_site.text("/memory")
    assert '<html lang="zh-Hans">' in text
    assert "还没有任何记忆" in text


def _printed(line: object) -> str:
    """A line as pages print it."""
    return str(prose(str(line), Redactor(RedactSettings())))


def _first_line(site: Site) -> dict[str, object]:
    lines = site.get("/api/v1/memory").json()["lines"]
    return next(line for line in lines if any(not name.startswith("note:") for name in line["citations"]))


def test_a_line_leads_to_its_source_and_to_the_very_events_of_the_session(read_site: Site) -> None:
    line = _first_line(read_site)
    page = read_site.text(f"/memory/lines/{line['key']}")
    assert _printed(line["text"]) in page
    link = re.search(r'href="(/sessions/[0-9a-f]{8}/events\?e=([0-9,]+))"', page)
    assert link, page
    events = read_site.text(link[1])
    for number in link[2].split(","):
        assert re.search(rf'class="event [a-z]+ cited" id="e{number}"', events)
    citation = next(name for name in cast("list[str]", line["citations"]) if not name.startswith("note:"))
    source = read_site.text(f"/sources/{citation}")
    assert f"/memory/lines/{line['key']}" in source
    assert re.search(r"/events\?e=\d+#e\d+", source)


def test_what_stands_in_backticks_is_shown_as_code(read_site: Site) -> None:
    lines = read_site.get("/api/v1/memory").json()["lines"]
    text = next(line["text"] for line in lines if "`" in line["text"])
    code = html.escape(text.split("`")[1])
    page = read_site.text("/memory")
    assert f"<code>{code}</code>" in page
    assert f"`{code}`" not in page


@pytest.mark.req("Z105")
def test_forgetting_a_line_shows_what_goes_asks_and_then_it_is_gone(site: Site) -> None:
    line = _first_line(site)
    text = _printed(line["text"])
    address = f"/memory/lines/{line['key']}"
    preview = site.text(f"{address}/forget")
    assert text in preview
    assert text in site.text("/memory")
    after = site.post(f"{address}/forget")
    assert after.url.path == "/memory"
    assert "Forgotten for good" in after.text
    assert text not in after.text
    gone = site.get(address)
    assert gone.status_code == 404
    assert "not in the summary any more" in gone.text


def test_a_line_is_pinned_by_a_note_and_unpinned_through_it(site: Site) -> None:
    line = _first_line(site)
    address = f"/memory/lines/{line['key']}"
    pinned = site.post(f"{address}/pin", {"place": "note"})
    assert "Pinned by the note" in pinned.text
    notes = [
        path.read_text("utf-8") for path in site.home.glob("generations/*/memories_v2/extensions/ad_hoc/notes/*.md")
    ]
    assert len(notes) == 1
    assert "pinned: true" in notes[0]
    assert str(line["text"]) in notes[0]
    assert ("project: " in notes[0]) is (not line["everywhere"] and len(cast("list[str]", line["projects"])) == 1)
    assert "not pinned any more" in site.post(f"{address}/pin", {"place": "unpin"}).text
    left = next(site.home.glob("generations/*/memories_v2/extensions/ad_hoc/notes/*.md"))
    assert "pinned" not in left.read_text("utf-8")


def test_a_pin_shows_a_line_to_nobody_who_did_not_see_it(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as site:
        site.text("/memory")
        publish(site.home, {PREFERENCES: ["Of one [aaaaaaaa] [bbbbbbbb]"]}, {"aaaaaaaa": HERE, "bbbbbbbb": "unknown"})
        line = site.get("/api/v1/memory").json()["lines"][0]
        assert not line["everywhere"]
        site.post(f"/memory/lines/{line['key']}/pin", {"place": "note"})
        (note,) = site.get("/api/v1/notes").json()["notes"]
        assert (note["project"], note["everywhere"], note["pinned"]) == (HERE, False, True)


def test_a_line_is_kept_in_the_short_file_too(site: Site) -> None:
    line = _first_line(site)
    said = site.post(f"/memory/lines/{line['key']}/pin", {"place": "user"})
    assert "Kept as the entry" in said.text
    assert str(line["text"]) in (site.home / "short" / "user.md").read_text("utf-8")


def test_a_line_is_made_global_by_a_note_and_given_to_one_project_again(site: Site) -> None:
    line = _first_line(site)
    address = f"/memory/lines/{line['key']}"
    project = site.get("/api/v1/projects").json()[0]["id"]
    refused = site.post(f"{address}/scope", {"project": project})
    assert refused.status_code == 400
    assert "sessions belong to the project" in refused.text
    assert "holds for every project now" in site.post(f"{address}/scope", {"project": ""}).text
    note = next(site.home.glob("generations/*/memories_v2/extensions/ad_hoc/notes/*.md"))
    assert "scope: global" in note.read_text("utf-8")
    assert "belongs to this project alone" in site.post(f"{address}/scope", {"project": project}).text
    assert f"project: {project}" in note.read_text("utf-8")


@pytest.mark.req("C063")
def test_the_view_of_a_project_marks_what_it_does_not_see_and_shows_the_very_block(read_site: Site) -> None:
    projects = read_site.get("/api/v1/projects").json()
    page = read_site.text(f"/memory?project={projects[0]['id']}")
    assert "What sessions in" in page
    assert "&lt;slowwave-memory id=" in page
    block = html.unescape(page.split('<pre class="block"')[1].split("</pre>")[0])
    lines = read_site.get("/api/v1/memory").json()["lines"]
    hidden = [line["text"] for line in lines if line["projects"] == [projects[1]["id"]] and not line["everywhere"]]
    assert hidden
    assert all(text not in block for text in hidden)
    assert page.count("not shown to this project") == page.count('class="claim unseen"') > 0


@pytest.mark.req("C063")
def test_every_project_is_said_to_see_a_line_only_where_every_project_does() -> None:
    sources = {"aaaaaaaa": HERE, "bbbbbbbb": THERE, "cccccccc": "unknown", "note:n": ""}
    known = {name: scope.Source(project, not project) for name, project in sources.items()}
    marks = [names for count in (1, 2, 3) for names in itertools.combinations(known, count)]
    text = print_summary(
        {PREFERENCES: [f"Line {at} " + " ".join(f"[{one}]" for one in m) for at, m in enumerate(marks)]}
    )
    viewers = [scope.Viewer(project, project) for project in (HERE, THERE, "eeeeeeeeeeee")]
    for one in confirmed.lines(scope.Published(text=text, sources=known)):
        line = next(line for line in scope.lines_of(text) if line.number == one.claim.line)
        assert one.everywhere is all(scope.is_visible(line, known, viewer) for viewer in viewers), one.claim.text


@pytest.mark.parametrize("project", ["ffffffffffff", "../x", "a" * 13])
def test_an_unknown_project_is_refused_with_a_sentence(read_site: Site, project: str) -> None:
    response = read_site.get(f"/memory?project={project}")
    assert response.status_code in {404, 422}
    assert "Traceback" not in response.text


@pytest.mark.fault("O30")
def test_text_of_memory_makes_no_markup_and_hides_nothing(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script> <b>x</b> javascript:alert(1) https://evil.example \u202egnp.exe\u200b \x1b[31mred"
    with serving(tmp_path / "data") as site:
        site.text("/memory")  # which makes the state
        publish(site.home, {PREFERENCES: [f"{evil} 用中文回答 [aaaaaaaa]"]}, {"aaaaaaaa": HERE})
        text = site.text("/memory")
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert 'href="https' not in text
    assert "U+202E" in text
    assert "\u202e" not in text
    assert "U+200B" in text
    assert "U+001B" in text
    assert "用中文回答" in text


def test_a_secret_that_came_into_a_published_text_is_not_shown(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with serving(tmp_path / "data") as site:
        site.text("/memory")  # which makes the state
        publish(site.home, {PREFERENCES: [f"The token is {secret} [aaaaaaaa]"]}, {"aaaaaaaa": HERE})
        assert secret not in site.text("/memory")
        assert secret not in site.get("/api/v1/memory").text


@pytest.mark.req("Z105")
def test_the_block_the_page_shows_is_the_one_the_hook_gives(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "AGENTS.md").write_text("Use tabs.\n")
    project = project_of(root)
    with serving(tmp_path / "data") as site:
        site.text("/memory")
        (site.home / "config.toml").write_text('[memory]\nmode = "long"\n')
        publish(
            site.home,
            {PREFERENCES: ["In `shop` use pnpm [aaaaaaaa]", "In another use npm [bbbbbbbb]"]},
            {"aaaaaaaa": project.id, "bbbbbbbb": HERE},
        )
        row = RolloutRow(
            RolloutId.parse("codex:x"), root, 1, 1, 1, cwd=str(root), project=project.id, project_name=project.name
        )
        with Store.open(load(home=site.home), SystemClock()) as store:
            store.rollouts.upsert_many([row])
        site.post("/short/user/new", {"text": "Answer in English.", "id": "lang"})
        site.post(f"/short/project/new?project={project.id}", {"text": "Tests use Vitest.", "id": "tests"})
        given = {one["host"]: one for one in site.get(f"/api/v1/projects/{project.id}/given").json()}
        for host in ("claude", "codex"):
            payload = {
                "session_id": f"s-{host}",
                "cwd": str(root),
                "hook_event_name": "UserPromptSubmit",
                "prompt": "x",
            }
            said = run(site.home, payload | {"prompt_id": "m1", "turn_id": "1"}, host).text
            assert re.sub(r' id="\w+"', "", said) == re.sub(r' id="\w+"', "", given[host]["text"])
            assert "use pnpm" in said
            assert "use npm" not in said
        assert given["claude"]["tokens"] > 50


@pytest.mark.req("Z105")
def test_who_looks_while_versions_are_published_sees_one_whole_version_at_a_time(site: Site) -> None:
    wholes: set[tuple[str, ...]] = set()
    seen: set[tuple[str, ...]] = set()
    stop, looked = threading.Event(), threading.Semaphore(0)
    before = {tuple(line["text"] for line in site.get("/api/v1/memory").json()["lines"])}

    def poll() -> None:
        with httpx.Client(base_url=site.origin, trust_env=False) as other:
            while not stop.is_set():
                found = other.get("/api/v1/memory").json()
                assert not found["problem"], found["problem"]
                seen.add(tuple(line["text"] for line in found["lines"]))
                looked.release()

    def publish_both() -> None:
        with open_runtime(load(home=site.home)) as runtime:
            version = runtime.workspace.read_version(1)
            texts = [version.summary, version.summary.rsplit("\n- ", 1)[0] + "\n"]
            wholes.update(tuple(claim.text for claim in claims(text)) for text in texts)
            for number in range(12):
                text = texts[(number + 1) % 2]
                with locks.hold(site.home / locks.WRITER, owner="test"):
                    change_by_hand(runtime, text, version.manifest, version.texts, (), model="test")
                while looked.acquire(blocking=False):
                    pass
                assert looked.acquire(timeout=30)  # however busy the machine is, somebody looks between two versions
                assert looked.acquire(timeout=30)

    with ThreadPoolExecutor(2) as pool:
        looking = [pool.submit(poll)]
        try:
            publish_both()
        finally:
            stop.set()
        for one in looking:
            one.result()
    assert len(wholes) == 2
    assert seen - before == wholes - before


@pytest.mark.fault("X23")
def test_a_failed_consolidation_a_running_one_and_nothing_to_remember_are_told_apart(new_site: Site) -> None:
    new_site.text("/memory")
    with Store.open(load(home=new_site.home), SystemClock()) as store:

        def claim(boundary: str) -> Lease:
            found = store.jobs.claim(
                "consolidate", "default", boundary=boundary, owner="test", lease_seconds=60, max_failures=9
            )
            assert isinstance(found, Lease)
            return found

        assert "A consolidation is at work" not in new_site.text("/memory")
        lease = claim("a")
        assert "A consolidation is at work" in new_site.text("/memory")
        store.jobs.fail(lease, StorageError("The disk is full.", hint="Free some space."), None)
        failed = new_site.text("/memory")
        assert "The last consolidation failed (storage)" in failed
        assert "The disk is full." in failed
        store.jobs.succeed(claim("b"))
        assert "found nothing to remember" in new_site.text("/memory")


def test_memory_that_is_switched_off_is_said_to_be(site: Site) -> None:
    path = site.home / "config.toml"
    path.write_text(path.read_text("utf-8").replace('mode = "long"', 'mode = "long"\nenabled = false'))
    project = site.get("/api/v1/projects").json()[0]["id"]
    text = site.text(f"/memory?project={project}")
    assert "Memory is switched off" in text
    assert "are given nothing now" in text
