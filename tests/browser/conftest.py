"""A browser for each file, homes to be copied, pages that note what went wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect

from memory.clock import SystemClock
from memory.settings import load
from tests.browser.stage import CHROMIUM, ShiftedClock, Stand, chromium, run_here, standing
from tests.plugins.command_line import CONFIG, SAMPLES


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one file, not for all: while it is open, Playwright's event loop runs in this thread and no test of another
    folder could start one."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed: run deploy/install_browser.sh")
    expect.set_options(timeout=30_000)  # milliseconds an expectation may take to come true, on a busy machine
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder after two runs of the sample sessions, each with a version; to be copied, never used."""
    home = tmp_path_factory.mktemp("filled") / "data"
    home.mkdir(mode=0o700)
    config = CONFIG.replace("batch = 20", "batch = 6")
    (home / "config.toml").write_text(config.format(samples=SAMPLES), encoding="utf-8")
    (home / "config.toml").chmod(0o600)
    for days in (-1, 0):
        run_here(load(environ={"SLOWWAVE_HOME": str(home), "HOME": str(home.parent)}), ShiftedClock(days))
    return home


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, filled: Path) -> Iterator[Stand]:
    """A filled dashboard for the tests of a file that only read."""
    with standing(Path(shutil.copytree(filled, tmp_path_factory.mktemp("shared") / "data"))) as stand:
        yield stand


@pytest.fixture
def stand(tmp_path: Path, filled: Path) -> Iterator[Stand]:
    """A filled dashboard of one's own."""
    with standing(Path(shutil.copytree(filled, tmp_path / "data")), clock=SystemClock()) as found:
        yield found


@dataclass
class Tab:
    """A page and what went wrong in it: errors of scripts, refusals of the content policy, dialogs."""

    page: Page
    wrong: list[str] = field(default_factory=list)


def _is_injected(text: str) -> bool:
    """Whether the content policy had to refuse something in our page; that it is not framed is as it should be."""
    return "Content Security" in text and "frame-ancestors" not in text


def _note(tab: Tab) -> None:
    def said(message: ConsoleMessage) -> None:
        if _is_injected(message.text):
            tab.wrong.append(message.text)

    def asked(dialog: Dialog) -> None:
        tab.wrong.append(dialog.message)
        dialog.dismiss()

    tab.page.on("pageerror", lambda error: tab.wrong.append(str(error)))
    tab.page.on("console", said)
    tab.page.on("dialog", asked)


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Opens a tab in a browser of its own (cookies, colours, width); a script that fails in it fails the test."""
    tabs: list[Tab] = []

    def make(**options: object) -> Tab:
        context = browser.new_context(**{"locale": "en-GB", **options})  # type: ignore[arg-type]
        context.set_default_timeout(60_000)
        tab = Tab(context.new_page())
        _note(tab)
        tabs.append(tab)
        return tab

    yield make
    for tab in tabs:
        tab.page.context.close()
    assert [wrong for tab in tabs for wrong in tab.wrong] == []


@pytest.fixture
def page(open_tab: Callable[..., Tab]) -> Page:
    return open_tab().page
