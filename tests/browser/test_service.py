"""The service as a user starts it, driven from its page: Prefect's own server carries out what is asked there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.stage import CHROMIUM
from tests.plugins.command_line import CONFIG, SAMPLES

pytestmark = [pytest.mark.browser, pytest.mark.server]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the dashboard of a running service is."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed: run deploy/install_browser.sh")
    home = tmp_path / "data"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(CONFIG.format(samples=SAMPLES) + "[service]\nport = 0\n", encoding="utf-8")
    (home / "config.toml").chmod(0o600)
    environment = {"SLOWWAVE_HOME": str(home), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    try:
        found = re.search(r"open (http://127\.0\.0\.1:\d+)", command("up", "--detach"))
        assert found
        yield found[1]
    finally:
        command("down")


@pytest.mark.req("Z061")
@pytest.mark.fault("X14")
def test_a_run_asked_for_on_the_page_is_done_by_the_service_and_leads_to_prefect(address: str, page: Page) -> None:
    page.goto(f"{address}/runs")
    expect(page.locator("#service")).to_contain_text("service running")
    expect(page.locator("#service")).to_contain_text("every 30 minutes")
    page.get_by_role("button", name="Run now").click()
    expect(page.locator("#past tbody tr")).to_have_count(1, timeout=60_000)
    expect(page.locator("#now [data-run]")).to_have_count(0, timeout=60_000)
    expect(page.locator("#past tbody tr")).to_contain_text("done")
    page.locator("#past tbody th a").click()
    link = page.get_by_role("link", name="Show it in Prefect")
    expect(link).to_have_attribute("href", re.compile(r"^http://127\.0\.0\.1:\d+/runs/flow-run/[0-9a-f-]{36}$"))
    page.get_by_role("navigation").get_by_role("link", name="Memory", exact=True).click()
    assert page.locator(".claim").count() > 3
