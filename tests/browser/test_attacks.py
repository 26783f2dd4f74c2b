"""What a foreign page, a foreign name and hostile text try, in a real browser."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from memory.clock import SystemClock
from memory.model import Reason, RolloutId
from memory.settings import load
from memory.state import RolloutRow, Store
from tests.browser.stage import Stand, standing
from tests.plugins.published import publish

pytestmark = [pytest.mark.browser, pytest.mark.fault("O30")]
HOSTILE = (
    "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    '"><svg onload="document.title=1"> [click](javascript:alert(1)) \u202etxt.exe \x1b[31m'
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """A dashboard whose session titles, notes and summary are written by an enemy."""
    home = tmp_path_factory.mktemp("hostile") / "data"
    home.mkdir(mode=0o700)
    line = HOSTILE.replace("\u202e", "").replace("\x1b", "")
    with standing(home) as stand:
        stand.site.text("/memory")
        with Store.open(load(home=home), SystemClock()) as store:
            store.rollouts.upsert_many(
                [
                    RolloutRow(
                        RolloutId.parse("codex:evil"), Path("/tmp/evil"), 1, 1, 1,
                        title=HOSTILE, cwd=f"/tmp/{line}", branch=HOSTILE, project="aaaaaaaaaaaa",
                        project_name=line, reason=Reason.TOO_OLD, detail=HOSTILE,
                    )
                ]
            )  # fmt: skip
            store.runs.start("r-evil", "hook", models={"extract": line})
            store.runs.finish(
                "r-evil", "failed", {"error": HOSTILE, "consolidate": {"code": line, "transcript": [line]}}
            )
        publish(home, {"User preferences": [f"{line} [aaaaaaaa]"]}, {"aaaaaaaa": "aaaaaaaaaaaa"})
        yield stand


def test_hostile_text_is_shown_as_text_on_every_page(hostile: Stand, page: Page) -> None:
    source = RolloutId.parse("codex:evil").source_id
    for path in (
        "/memory",
        "/sessions",
        f"/sessions/{source}",
        "/runs",
        "/runs/r-evil",
        "/notes",
        "/costs",
        "/settings",
    ):
        page.goto(hostile.url(path))
        assert page.title().endswith("slowwave"), path
        assert page.locator("main img, main svg[onload], main script").count() == 0, path
        assert page.locator("a[href^='javascript']").count() == 0, path
    page.goto(hostile.url("/sessions"))
    expect(page.locator("#found")).to_contain_text("<script>document.title='pwned'</script>")
    expect(page.locator("#found .hidden-sign").first).to_contain_text("U+202E")


def test_what_the_search_finds_as_one_types_makes_no_markup_either(hostile: Stand, page: Page) -> None:
    page.goto(hostile.url("/sessions"))
    with page.expect_response("**/sessions?*"):
        page.get_by_label("Contains").fill("onerror")
    page.wait_for_timeout(200)
    expect(page.locator("#found")).to_contain_text("onerror")
    assert page.locator("main img").count() == 0


def test_a_foreign_page_can_neither_send_a_form_nor_read_nor_frame(shared: Stand, page: Page, tmp_path: Path) -> None:
    page.goto(shared.url("/memory"))  # this browser has our cookies
    with _elsewhere(
        f"""<title>elsewhere</title><form id=f method=post action="{shared.url("/settings/clear")}">
        <input name=name value=default></form><iframe src="{shared.url("/memory")}"></iframe>
        <img src="{shared.url("/runs/stream")}">"""
    ) as origin:
        page.goto(origin)
        read = page.evaluate(
            "address => fetch(address, {credentials: 'include'}).then(r => r.text()).catch(() => 'refused')",
            shared.url("/api/v1/memory"),
        )
        assert read == "refused"
        assert "slowwave" not in (page.frames[1].content() if len(page.frames) > 1 else "")
        with page.expect_navigation():
            page.evaluate("document.getElementById('f').submit()")
        assert "Another site sent this request" in page.content()
    page.goto(shared.url("/memory"))
    assert page.locator(".claim").count() > 3


def test_a_foreign_name_that_points_here_reads_nothing(shared: Stand, page: Page) -> None:
    port = shared.site.origin.rpartition(":")[2]
    answer = page.goto(f"http://evil.example:{port}/memory")
    assert answer is not None
    assert answer.status == 421
    assert "Vitest" not in page.content()


@pytest.mark.parametrize(
    "path",
    ["/sources/..%2f..%2fconfig", "/sessions/..%2f..%2f..%2fetc%2fpasswd", "/runs/..%2fx", "/notes/..%2f..%2fstate.db",
     "/static/..%2f..%2fdesk.py", "/settings/hosts/..%2fx/install"],
)  # fmt: skip
def test_an_id_that_leaves_its_folder_finds_nothing(shared: Stand, page: Page, path: str) -> None:
    answer = page.goto(shared.url(path))
    assert answer is not None
    assert answer.status in {404, 422}
    assert "root:" not in page.content()


class _elsewhere:
    """A page of another origin."""

    def __init__(self, body: str) -> None:
        data = body.encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
