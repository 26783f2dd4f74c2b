"""Pictures of every page, light and dark, from the sample sessions: `python -m tests.browser.screenshots [FOLDER]`.

A store of its own is filled by real runs of the built-in engine, a day apart.
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page

from memory.clock import SystemClock
from memory.redact import Redactor
from memory.state import Store
from memory.workspace import Workspace
from recall.remember import remember_note
from tests.browser.stage import ShiftedClock, Stand, chromium, run_here, standing
from tests.plugins.command_line import CONFIG, SAMPLES
from tests.plugins.dashboard_live import going_on

WIDTH, HEIGHT = 1_200, 860
MAX_BYTES = 150_000
DAYS = 4
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
AT_HOME = """folders => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    for (const [here, there] of folders) texts.currentNode.data = texts.currentNode.data.replaceAll(here, there);
  }
}"""
"""The pictures are made in folders of this checkout and of a moment; a person's are not there."""
NOTE = "Deployments of the shop go out on Tuesdays; ask before changing the date."


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dev-") as place, ExitStack() as stack:
        person = Path(place)
        home = person / ".local" / "share" / "slowwave"
        (person / ".codex").mkdir()
        (person / ".pi" / "agent").mkdir(parents=True)
        config = CONFIG.replace("batch = 20", "batch = 3")
        clock = ShiftedClock(DAYS - 1)
        stand = stack.enter_context(standing(home, config=config, clock=clock, person=person))
        _fill(stand)
        browser = stack.enter_context(chromium())
        for scheme in SCHEMES:
            _shoot(stand, browser, scheme, folder, clock)


def _fill(stand: Stand) -> None:
    for day in range(DAYS):
        settings, clock = stand.load(), ShiftedClock(day)
        run_here(settings, clock, trigger=("manual", "schedule", "hook")[day % 3])
        if day == 1:
            with Store.open(settings, clock) as store:
                workspace = Workspace.open(settings.home, store.generation)
                secrets, now = Redactor(settings.redact), clock.now()
                remember_note(workspace, NOTE, name="deployments", project=None, pinned=True, now=now, redactor=secrets)


def _shoot(stand: Stand, browser: Browser, scheme: Scheme, folder: Path, clock: SystemClock) -> None:
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme=scheme,
        locale="en-GB",
        timezone_id="UTC",
    )
    page = context.new_page()

    folders = {f"{SAMPLES}/{host}": f"/home/dev/.{host}" for host in ("codex", "claude", "pi")}
    folders[str(stand.site.home.parents[2])] = "/home/dev"

    def take(name: str, path: str) -> None:
        page.goto(stand.url(path), wait_until="load")
        page.evaluate(AT_HOME, [*folders.items()])
        page.wait_for_timeout(150)
        _save(page, folder / f"{name}-{scheme}.png")

    source = _first(stand, "/memory", r'href="(/sources/[0-9a-f]{8})"')
    line = _first(stand, source, r'href="(/memory/lines/[0-9a-f]{16})"')
    session = _first(stand, source, r'href="(/sessions/[0-9a-f]{16})"')
    run = _first(stand, "/runs", r'href="(/runs/\d{8}T[\w-]+)"')
    for name, path in (
        ("memory", "/memory"), ("line", line), ("source", source), ("sessions", "/sessions"), ("session", session),
        ("events", _first(stand, source, r'href="(/sessions/[0-9a-f]{8,16}/events\?e=[^"#]*)')),
        ("run", run), ("history", "/history"), ("compare", "/history/compare?a=1&b=2"), ("notes", "/notes"),
        ("costs", "/costs?days=7"), ("settings", "/settings"), ("hosts", "/settings/hosts"),
        ("doctor", "/settings/doctor"), ("clear", "/settings/clear"),
    ):  # fmt: skip
        take(name, path)
    numbers: dict[str, Any] = {
        "stage": "extract",
        "what": "codex:01a22b7d",
        "done": 3,
        "total": 8,
        "requests": 4,
        "input_tokens": 48_211,
    }
    with going_on(stand.site.home, clock=clock, **numbers, output_tokens=2_950, money=0.0):
        take("runs", "/runs")
    context.close()


def _first(stand: Stand, path: str, pattern: str) -> str:
    found = re.search(pattern, stand.site.text(path))
    assert found, (path, pattern)
    return found[1].replace("&amp;", "&")


def _save(page: Page, path: Path) -> None:
    """The top of the page, as much of it as fits the size."""
    end = page.evaluate("Math.ceil(document.querySelector('footer').getBoundingClientRect().bottom)")
    height = min(HEIGHT, end)
    while len(data := page.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": height})) > MAX_BYTES:
        height -= 40
    path.write_bytes(data)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
