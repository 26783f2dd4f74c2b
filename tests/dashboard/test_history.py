"""The pages of the history."""

from __future__ import annotations

import html
from typing import cast

import pytest

from dashboard.diffing import Row, backwards, marked, side_by_side
from memory.clock import SystemClock
from memory.documents import print_summary
from memory.model import Claim
from memory.redact import Redactor
from memory.settings import RedactSettings
from memory.state.browse import VersionHead
from tests.plugins.dashboard_site import Site
from tests.plugins.published import PREFERENCES, TIPS


def _forget_one(site: Site) -> str:
    """Makes a second version; returns the line that is gone."""
    lines = site.get("/api/v1/memory").json()["lines"]
    line = next(one for one in lines if any(not name.startswith("note:") for name in one["citations"]))
    site.post(f"/memory/lines/{line['key']}/forget")
    return str(line["text"])


def _gone_by_hand(site: Site) -> str:
    """A second version in which a line is missing that a restore can bring back: its note was forgotten."""
    return _forget_one(site)


def test_a_new_user_is_told_how_versions_come_to_be(empty_site: Site) -> None:
    text = empty_site.text("/history")
    assert "Nothing has been published yet" in text
    assert "slowwave run" in text


def test_the_history_lists_every_version_with_what_changed_and_why(site: Site) -> None:
    gone = _forget_one(site)
    text = site.text("/history")
    assert 'id="v1"' in text
    assert 'id="v2"' in text
    assert "forgotten at the user&#39;s wish" in text
    assert html.escape(gone) not in text
    first = site.get("/api/v1/history").json()
    assert first["total"] == 2
    assert [one["number"] for one in first["versions"]] == [2, 1]


def test_two_versions_stand_side_by_side(site: Site) -> None:
    _forget_one(site)
    page = site.text("/history/compare?a=2&b=1")
    assert "Version 1 beside version 2" in page
    rows = site.get("/api/v1/history/1/diff/2").json()
    assert {row["kind"] for row in rows} <= {"same", "removed", "added", "changed"}
    assert len(rows) >= 3


@pytest.mark.req("Z116", "Z117")
def test_a_version_is_restored_after_it_was_shown_what_that_changes(site: Site) -> None:
    before = {line["text"] for line in site.get("/api/v1/memory").json()["lines"]}
    _forget_one(site)
    preview = site.text("/history/1/restore")
    assert "Restore version 1" in preview
    after = site.post("/history/1/restore")
    assert after.url.path == "/history"
    assert "was restored as version 3" in after.text
    assert {line["text"] for line in site.get("/api/v1/memory").json()["lines"]} <= before
    assert site.get("/api/v1/history").json()["total"] == 3


@pytest.mark.parametrize("path", ["/history/99", "/history/99/restore", "/history/compare?a=1&b=99"])
def test_a_version_that_is_not_there_is_said_to_be_missing(read_site: Site, path: str) -> None:
    response = read_site.get(path)
    assert response.status_code == 404
    assert "There is no version 99" in response.text


@pytest.mark.parametrize(
    "path", ["/history/0", "/history/-1", "/history/x", "/history/99999999999", "/history/compare?a=1"]
)
def test_a_number_that_is_none_is_refused(read_site: Site, path: str) -> None:
    assert read_site.get(path).status_code == 422


def _head(number: int, *changes: tuple[str, str, str, str]) -> VersionHead:
    made = [{"kind": k, "text": text, "reason": why, "into": into} for k, text, why, into in changes]
    return VersionHead(number, SystemClock().now(), "m", 1, 1, 1, None, made)


def test_a_line_stands_beside_the_one_that_took_it_up_with_the_reason_of_every_step() -> None:
    old = print_summary({PREFERENCES: ["Tabs [aaaaaaaa]", "Stays [aaaaaaaa]"], TIPS: ["Goes [aaaaaaaa]"]})
    new = print_summary({PREFERENCES: ["Spaces, four [bbbbbbbb]", "Stays [aaaaaaaa]", "Comes [bbbbbbbb]"]})
    heads = [
        _head(2, ("superseded", "Tabs", "a later source", "Spaces"), ("removed", "Goes", "no room", "")),
        _head(3, ("reworded", "Spaces", "other words", "Spaces, four"), ("added", "Comes", "new", "")),
    ]
    rows = side_by_side(old, new, heads)
    shown = [(row.kind, row.before and row.before.text, row.after and row.after.text) for row in rows]
    assert shown == [
        ("changed", "Tabs", "Spaces, four"),
        ("same", "Stays", "Stays"),
        ("added", None, "Comes"),
        ("removed", "Goes", None),
    ]
    assert rows[0].reasons == ((2, "superseded", "a later source"), (3, "reworded", "other words"))
    assert rows[3].reasons == ((2, "removed", "no room"),)
    assert [row.kind for row in backwards(rows)] == ["changed", "same", "removed", "added"]
    assert cast("object", backwards(rows)[2].before) is rows[2].after


def test_of_a_line_that_changed_the_words_that_did_are_marked() -> None:
    def claim(text: str) -> Claim:
        return Claim(text, ("aaaaaaaa",), TIPS, 1)

    redactor = Redactor(RedactSettings(), quick=True)
    row = Row("changed", TIPS, claim("Use <tabs> 用四个空格 here"), claim("Use spaces 用两个空格 here"))
    before, after = marked(row, redactor)
    assert before == "Use <del>&lt;tabs&gt;</del> 用<del>四</del>个空格 here"
    assert after == "Use <ins>spaces</ins> 用<ins>两</ins>个空格 here"
    assert marked(Row("added", TIPS, None, claim("New")), redactor) == ("", "New")
