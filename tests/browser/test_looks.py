"""Every page: for screen readers, in the dark, on a narrow screen, in Chinese."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect

from tests.browser.stage import Stand
from tests.plugins.dashboard_live import going_on

pytestmark = pytest.mark.browser

AXE = Axe()
PAGES = (
    "/memory", "/memory?project={project}", "{line}", "{line}/forget", "{source}", "/sessions",
    "/sessions?text=nothing", "{session}", "{session}/events", "{session}/forget", "/runs", "{run}", "/history",
    "/history/1", "/history/compare?a=1&b=2", "/history/1/restore", "/notes", "/notes/new", "/short/user/new",
    "/costs", "/settings", "/settings/all", "/settings/hosts", "/settings/hosts/codex/install", "/settings/doctor",
    "/settings/clear", "/login", "/nothing",
)  # fmt: skip


@pytest.fixture(scope="module")
def paths(shared: Stand) -> Iterator[list[str]]:
    """Every page, with something that runs on it."""
    text = shared.site.text

    def first(path: str, pattern: str) -> str:
        found = re.search(pattern, text(path))
        assert found, path
        return found[1]

    names = {
        "project": first("/memory", r'<option value="([0-9a-f]{12})"'),
        "line": first("/memory", r'href="(/memory/lines/[0-9a-f]{16})"'),
        "source": first("/memory", r'href="(/sources/[0-9a-f]{8})"'),
        "session": first("/sessions", r'href="(/sessions/[0-9a-f]{16})"'),
        "run": first("/runs", r'href="(/runs/\d{8}T[\w-]+)"'),
    }
    with going_on(shared.site.home, stage="consolidate", done=3, total=64):
        yield [path.format(**names) for path in PAGES]


def _violations(page: Page, options: dict[str, Any]) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.axe_script)
    run = "options => axe.run(document, options).then(found => found.violations)"
    found = page.evaluate(run, {"resultTypes": ["violations"], **options})
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def test_axe_finds_nothing_on_any_page_in_light_and_dark(
    shared: Stand, paths: list[str], open_tab: Callable[..., Any]
) -> None:
    page: Page = open_tab(viewport={"width": 1_200, "height": 900}).page
    found: dict[str, list[str]] = {}
    for path in paths:
        page.goto(shared.url(path))
        page.emulate_media(color_scheme="light")
        problems = _violations(page, {})
        page.emulate_media(color_scheme="dark")
        problems += _violations(page, {"runOnly": ["color-contrast"]})
        if problems:
            found[path] = problems
    assert found == {}


def test_axe_finds_nothing_on_what_follows_a_form(shared: Stand, open_tab: Callable[..., Any]) -> None:
    page: Page = open_tab().page
    found: dict[str, list[str]] = {}

    def look(name: str) -> None:
        problems = _violations(page, {})
        if problems:
            found[name] = problems

    page.goto(shared.url("/runs"))
    page.get_by_role("button", name="What would it cost?").click()
    expect(page.locator("h1")).to_have_text("What a run would cost")
    look("plan")
    page.goto(shared.url("/settings"))
    page.get_by_label("Sessions a run").fill("many")
    page.locator("section", has=page.locator("#windows")).get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_be_visible()
    look("a refused setting")
    page.get_by_role("button", name="Test the model").click()
    expect(page.get_by_role("status").first).to_contain_text("built-in engine")
    look("the model's test")
    page.goto(shared.url("/settings/clear"))
    page.get_by_role("button", name="Clear long memory for good").click()
    expect(page.get_by_role("alert")).to_be_visible()
    look("a refused clear")
    page.goto(shared.url("/settings/doctor"))
    page.get_by_role("button", name="Mend what is safe").click()
    expect(page.locator("#mended")).to_be_visible()
    look("what was mended")
    assert found == {}


def test_no_page_scrolls_sideways_on_a_narrow_screen(
    shared: Stand, paths: list[str], open_tab: Callable[..., Any]
) -> None:
    page: Page = open_tab(viewport={"width": 320, "height": 640}).page
    wide = {}
    for path in paths:
        page.goto(shared.url(path))
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 320:
            wide[path] = width
    assert wide == {}


def test_a_chinese_browser_gets_chinese_pages_and_a_person_may_switch(
    shared: Stand, paths: list[str], open_tab: Callable[..., Any]
) -> None:
    page: Page = open_tab(locale="zh-CN").page
    for path in paths:
        page.goto(shared.url(path))
        assert page.locator("html").get_attribute("lang") == "zh-Hans"
        assert re.search(r"[\u4e00-\u9fff]", page.locator("h1").inner_text()) or path.startswith(
            ("/sessions/", "/runs/")
        ), path
    page.get_by_role("button", name="English").click()
    page.goto(shared.url("/runs"))
    expect(page.locator("h1")).to_have_text("Runs")


def test_a_machine_that_wants_little_motion_gets_none(shared: Stand, open_tab: Callable[..., Any]) -> None:
    page: Page = open_tab(reduced_motion="reduce").page
    page.goto(shared.url("/memory"))
    moving = "[...document.querySelectorAll('*')].filter(e => getComputedStyle(e).transitionDuration !== '0s').length"
    assert page.evaluate(moving) == 0
