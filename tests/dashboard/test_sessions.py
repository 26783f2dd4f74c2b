"""The pages of sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.clock import SystemClock
from memory.model import Reason, RolloutId
from memory.project import project_of
from memory.settings import load
from memory.state import RolloutRow, Store
from tests.plugins.dashboard_site import Site, serving

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def _add(site: Site, *rows: RolloutRow) -> None:
    with Store.open(load(home=site.home), SystemClock()) as store:
        store.rollouts.upsert_many(rows)


def _row(session: str, **values: object) -> RolloutRow:
    return RolloutRow(RolloutId.parse(f"codex:{session}"), Path(f"/tmp/{session}"), 1, 1, 1, **values)  # type: ignore[arg-type]


def _links(text: str) -> list[str]:
    return re.findall(r'href="/sessions/([0-9a-f]{16})"', text)


def test_a_new_user_is_told_how_sessions_come_to_be_seen(new_site: Site) -> None:
    text = new_site.text("/sessions")
    assert "No session has been seen yet" in text
    assert "slowwave run" in text


def test_every_session_is_listed_once_with_its_state(read_site: Site) -> None:
    with Store.open(load(home=read_site.home), SystemClock()) as store:
        known = {row.id.source_id for row in store.rollouts.all()}
    text = read_site.text("/sessions")
    assert sorted(_links(text)) == sorted(known)
    assert "remembered" in text


def test_the_list_is_leafed_through_without_a_gap(new_site: Site) -> None:
    new_site.text("/sessions")
    _add(new_site, *(_row(f"s{number:03d}", reason=Reason.TOO_OLD) for number in range(120)))
    pages = [_links(new_site.text(f"/sessions?page={page}")) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert len({link for page in pages for link in page}) == 120
    assert "120 sessions: 1 to 50" in new_site.text("/sessions")
    assert "No session matches" in new_site.text("/sessions?page=4")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A dashboard of three sessions."""
    with serving(tmp_path_factory.mktemp("three") / "data") as site:
        site.text("/sessions")
        _add(
            site,
            _row("a", title="Mend the parser", project="aaaaaaaaaaaa", project_name="shop", reason=Reason.ELIGIBLE),
            _row("b", title="100% done", reason=Reason.TOO_OLD),
            _row("c", title="修复测试"),
        )
        yield site


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("host=codex", {"a", "b", "c"}),
        ("host=pi", set()),
        ("project=aaaaaaaaaaaa", {"a"}),
        ("reason=too_old", {"b"}),
        ("state=waiting", {"a", "c"}),
        ("state=skipped", {"b"}),
        ("text=PARSER", {"a"}),
        ("text=100%25", {"b"}),
        ("text=_", set()),
        ("text=测试", {"c"}),
    ],
)
def test_the_list_is_narrowed_by_each_filter(three: Site, query: str, expected: set[str]) -> None:
    names = {RolloutId.parse(f"codex:{name}").source_id: name for name in "abc"}
    assert {names[link] for link in _links(three.text(f"/sessions?{query}"))} == expected


@pytest.mark.fault("O30")
@pytest.mark.parametrize(
    "query", ["host=evil", "project=../..", "reason=nothing", "page=0", "page=x", "text=" + "x" * 201]
)
def test_a_filter_that_is_none_is_refused_with_a_page(empty_site: Site, query: str) -> None:
    response = empty_site.get(f"/sessions?{query}")
    assert response.status_code == 422
    assert "The request is not valid" in response.text


@pytest.mark.fault("O30")
def test_a_title_makes_no_markup_shows_no_secret_and_hides_nothing(new_site: Site) -> None:
    new_site.text("/sessions")
    title = f"<img src=x onerror=alert(1)> {SECRET} \u202etxt.exe </title><script>alert(2)</script>"
    _add(new_site, _row("evil", title=title, cwd="/tmp/<svg onload=alert(3)>", branch='"><b>'))
    for path in ("/sessions", f"/sessions/{RolloutId.parse('codex:evil').source_id}"):
        text = new_site.text(path)
        assert "<img" not in text
        assert "<svg" not in text
        assert "<script>alert" not in text
        assert '"><b>' not in text
        assert SECRET not in text
        assert "\u202e" not in text
        assert "U+202E" in text


@pytest.mark.fault("O30")
def test_the_name_of_a_project_is_as_harmless_as_a_title_wherever_it_stands(new_site: Site, tmp_path: Path) -> None:
    new_site.text("/sessions")
    (tmp_path / "shop").mkdir()
    project = project_of(tmp_path / "shop").id
    name = f"shop\u202e\u200b<b> {SECRET}"
    _add(new_site, _row("a", project=project, project_name=name, cwd=str(tmp_path / "shop")))
    for path in (
        "/sessions",
        f"/memory?project={project}",
        f"/notes?project={project}",
        f"/short/project/new?project={project}",
    ):
        text = new_site.text(path)
        assert not {"\u202e", "\u200b"}.intersection(text), path
        assert "<b>" not in text
        assert SECRET not in text


def test_every_reason_is_explained_in_a_sentence(new_site: Site) -> None:
    new_site.text("/sessions")
    _add(new_site, *(_row(reason.value, reason=reason, detail="the detail") for reason in Reason))
    for reason in Reason:
        text = new_site.text(f"/sessions/{RolloutId.parse(f'codex:{reason.value}').source_id}")
        why = text.split('id="why"')[1].split("</section>")[0]
        assert re.search(r"<p>[A-Z].+\.</p>", why), why
        assert "the detail" in why


@pytest.mark.fault("X14")
def test_a_session_that_was_read_whole_offers_no_reading_and_says_in_words_what_it_is(read_site: Site) -> None:
    link = _links(read_site.text("/sessions?state=remembered"))[0]
    page = read_site.text(f"/sessions/{link}")
    assert "/extract" not in page
    assert "with a person" in page
    assert "all read <code>up_to_date</code>" in page
    sent = read_site.text(f"/sessions/{link}/evidence")
    assert re.search(r"<dt>Events</dt><dd>(\d+) of \1", sent)
    assert "human_kept" not in sent


def test_extract_now_asks_the_service_for_this_session_alone(site: Site) -> None:
    link = _links(site.text("/sessions"))[0]
    answer = site.post(f"/sessions/{link}/extract")
    assert "A run was started." in answer.text
    ((stage, rollouts),) = site.ports.asked
    assert stage == "extract"
    assert [RolloutId.parse(one).source_id for one in rollouts] == [link]  # type: ignore[attr-defined]


def test_a_forgotten_session_is_gone_from_memory_and_none_of_its_events_is_shown(site: Site) -> None:
    line = next(one for one in site.get("/api/v1/memory").json()["lines"] if len(one["citations"]) == 1)
    citation = line["citations"][0]
    preview = site.text(f"/sessions/{citation}/forget")
    assert "goes" in preview
    after = site.post(f"/sessions/{citation}/forget")
    assert "Forgotten for good" in after.text
    assert "You had it forgotten" in after.text
    assert line["key"] not in site.text("/memory")
    events = site.get(f"/sessions/{citation}/events")
    assert events.status_code == 404
    assert "This session was forgotten" in events.text


def test_a_session_whose_file_is_gone_says_so(new_site: Site) -> None:
    new_site.text("/sessions")
    _add(new_site, _row("gone"))
    response = new_site.get(f"/sessions/{RolloutId.parse('codex:gone').source_id}/events")
    assert response.status_code == 404
    assert "can no longer be read" in response.text


@pytest.mark.fault("O30")
@pytest.mark.parametrize(
    "path", ["/sessions/zzzz", "/sessions/..%2f..%2fetc", "/sessions/aaaaaaaa%00", "/sources/../x", "/sources/AAAAAAAA"]
)
def test_an_id_that_is_none_is_refused(empty_site: Site, path: str) -> None:
    assert empty_site.get(path).status_code in {404, 422}


def test_all_events_of_a_session_can_be_read_page_by_page(read_site: Site) -> None:
    link = _links(read_site.text("/sessions?state=remembered"))[0]
    address, seen, text = f"/sessions/{link}/events", 0, ""
    for _ in range(20):
        text = read_site.text(address)
        seen += text.count("<article")
        following = re.search(r'rel="next" href="([^"]+)"', text)
        if following is None:
            break
        address = following[1].replace("&amp;", "&")
    total = re.search(r"(\d+) events;", text)
    assert total
    assert seen == int(total[1])
