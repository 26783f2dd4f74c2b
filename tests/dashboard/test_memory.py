"""The page Memory."""

from __future__ import annotations

import pytest

from tests.plugins.dashboard_site import Site


def test_a_new_user_is_told_the_command_to_begin_with(new_site: Site) -> None:
    text = new_site.text("/memory")
    assert "Nothing has been remembered yet" in text
    assert "<code>slowwave run</code>" in text


@pytest.mark.req("Z105")
def test_the_page_shows_every_line_of_the_confirmed_summary_with_its_citations(site: Site) -> None:
    lines = site.get("/api/v1/memory").json()["lines"]
    text = site.text("/memory")
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
