"""A run is started, watched and stopped on the page."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from memory import live
from memory.clock import SystemClock
from memory.settings import load
from memory.state import Store
from tests.browser.stage import Stand, standing
from tests.plugins.command_line import CONFIG
from tests.plugins.dashboard_live import going_on
from tests.plugins.pace import within

pytestmark = pytest.mark.browser


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Stand]:
    with standing(tmp_path / "data") as stand:
        yield stand


@pytest.fixture
def deaf_model(tmp_path: Path) -> Iterator[Stand]:
    """A dashboard whose model takes every call and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = CONFIG + f'[model]\nname = "deaf"\nbase_url = "http://127.0.0.1:{port}/v1"\nwindow = 32000\n'
        with standing(tmp_path / "data", config=config) as stand:
            yield stand


@pytest.mark.req("Z061")
@pytest.mark.fault("X14")
def test_a_new_user_starts_a_run_and_watches_it_finish(new_home: Stand, page: Page) -> None:
    page.goto(new_home.url("/"))
    expect(page.locator("main")).to_contain_text("slowwave run")
    page.get_by_role("navigation").get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator("#idle")).to_be_visible()
    expect(page.locator("#past")).to_contain_text("There has been no run yet")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status").first).to_contain_text("The run starts in a few seconds")
    expect(page.locator("#now [data-run]")).to_have_count(1, timeout=60_000)
    assert page.locator("#now [data-field=stage]").inner_text()
    # No reload from here on: the card goes and the row comes by themselves.
    expect(page.locator("#now [data-run]")).to_have_count(0, timeout=60_000)
    expect(page.locator("#past tbody tr")).to_have_count(1)
    expect(page.locator("#past tbody tr")).to_contain_text("done")
    expect(page.locator("#past tbody tr")).to_contain_text("you")  # who woke it
    page.locator("#past tbody th a").click()
    expect(page.locator("main")).to_contain_text("published")
    page.get_by_role("navigation").get_by_role("link", name="Memory", exact=True).click()
    assert page.locator(".claim").count() > 3


@pytest.mark.req("Z083")
def test_a_run_is_stopped_within_five_seconds_and_the_page_says_so(deaf_model: Stand, page: Page) -> None:
    page.goto(deaf_model.url("/runs"))
    page.get_by_role("button", name="Run now").click()
    card = page.locator("#now [data-run]")
    expect(card.locator("[data-field=stage]")).to_have_text("Reading sessions", timeout=60_000)
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("status").first).to_contain_text("Nothing new was started.")
    card.get_by_role("button", name="Stop this run").click()
    began = time.monotonic()
    expect(page.get_by_role("status").first).to_contain_text("is stopping")
    expect(card).to_have_count(0)
    assert time.monotonic() - began < within(5)
    expect(page.locator("#past tbody tr").first).to_contain_text("stopped")
    assert live.running(deaf_model.site.home) == []
    with Store.open(load(home=deaf_model.site.home), SystemClock()) as store:
        assert {job.attempts for job in store.jobs.all("extract")} == {0}


HIDE = """() => {
  Object.defineProperty(document, "hidden", { value: true, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
SHOW = HIDE.replace("value: true", "value: false")


def test_a_dozen_pages_that_watch_in_one_browser_do_not_block_each_other(new_home: Stand, page: Page) -> None:
    tabs = [page, *(page.context.new_page() for _ in range(11))]
    for tab in tabs:  # a browser has six connections for one server: a page nobody looks at must not hold one
        tab.goto(new_home.url("/runs"))
        tab.evaluate(HIDE)
    page.evaluate(SHOW)
    with going_on(new_home.site.home, stage="publish"):
        expect(page.locator("#now [data-run]")).to_have_count(1)
    expect(page.locator("#now [data-run]")).to_have_count(0)


def test_the_page_says_what_a_run_would_cost_before_it_is_started(new_home: Stand, page: Page) -> None:
    page.goto(new_home.url("/runs"))
    page.get_by_role("button", name="What would it cost?").click()
    expect(page.locator("h1")).to_have_text("What a run would cost")
    assert re.search(r"≤ \d", page.locator("main").inner_text())
    assert page.locator("main li a").count() == 11


def test_without_a_script_the_page_reloads_itself_while_something_runs(deaf_model: Stand, open_tab: object) -> None:
    tab = open_tab(java_script_enabled=False)  # type: ignore[operator]
    tab.page.goto(deaf_model.url("/runs"))
    tab.page.get_by_role("button", name="Run now").click()
    expect(tab.page.locator("#now [data-run]")).to_have_count(1, timeout=60_000)
    tab.page.get_by_role("button", name="Stop this run").click()
    expect(tab.page.locator("#past tbody")).to_contain_text("stopped", timeout=60_000)
