"""What a page says when something is in the way."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from consolidate.service import LongMemory
from dashboard.security import Guard, Wall
from memory import locks
from memory.runtime import open_runtime
from memory.settings import load
from tests.plugins.dashboard_site import Site
from tests.plugins.ports import reserved

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("path", ["/memory/lines/{key}/forget", "/sessions/{source}/forget", "/history/1/restore"])
def test_while_another_process_replaces_the_summary_a_change_is_refused_with_a_sentence(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("consolidate.service.LOCK_WAIT_SECONDS", 0.1)
    before = site.get("/api/v1/memory").json()
    line = before["lines"][0]
    address = path.format(key=line["key"], source=line["citations"][0])
    with locks.hold(site.home / locks.WRITER, owner="another run"):
        refused = site.post(address)
    assert refused.status_code == 409
    assert "Another process is at work" in refused.text
    assert "another run" in refused.text
    assert site.get("/api/v1/memory").json() == before


def test_after_a_clear_elsewhere_the_next_click_tells_what_is_so_now(site: Site) -> None:
    line = site.get("/api/v1/memory").json()["lines"][0]
    with open_runtime(load(home=site.home)) as runtime:
        assert LongMemory(runtime).clear().clean
    assert "Nothing has been remembered yet" in site.text("/memory")
    gone = site.get(f"/memory/lines/{line['key']}")
    assert gone.status_code == 404
    assert site.post(f"/memory/lines/{line['key']}/forget").status_code == 404
    assert site.get(f"/sources/{line['citations'][0]}").status_code == 404
    assert "No session has been seen yet" in site.text("/sessions")


def test_a_damaged_summary_is_named_and_the_other_pages_go_on(site: Site) -> None:
    next(site.home.glob("generations/*/memories_v2/memory_summary.md")).write_bytes(b"\xff\xfe broken")
    assert "is not a text that was published" in site.text("/memory")
    assert site.get("/sessions").status_code == 200
    assert site.get("/history").status_code == 200


def test_a_state_that_cannot_be_used_is_an_error_page_with_its_mend(site: Site) -> None:
    for path in site.home.glob("state.db*"):
        path.unlink()
    response = site.get("/sessions")
    assert response.status_code == 500
    assert "slowwave doctor --fix" in response.text
    assert site.get("/api/v1/sessions").json()["code"] == "state_corrupt"


def test_a_data_folder_that_is_not_there_yet_is_made_by_the_first_click(tmp_path: Path) -> None:
    from tests.plugins.dashboard_site import serving

    with serving(tmp_path / "nowhere" / "data") as site:
        assert "Nothing has been remembered yet" in site.text("/memory")
        assert site.home.stat().st_mode & 0o777 == 0o700


@pytest.mark.req("C055", "C059")
def test_what_went_wrong_inside_is_logged_by_its_place_and_never_by_what_it_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: Request) -> Response:
        raise ValueError(f"{request.query_params['q']} {SECRET}")

    app = Starlette(routes=[Route("/broken", broken)])
    client = TestClient(Wall(app, Guard(None, ["testserver"])), raise_server_exceptions=False)
    with caplog.at_level(logging.DEBUG):
        response = client.get("/broken?q=private")
    assert response.status_code == 500
    assert response.headers["cache-control"] == "no-store"
    (record,) = (one for one in caplog.records if one.name == "slowwave.dashboard")
    assert "ValueError" in record.getMessage()
    assert "test_troubles.py" in record.getMessage()
    for text in (SECRET, "private"):
        assert text not in record.getMessage()
        assert text not in response.text


def test_the_evidence_of_a_session_is_what_would_be_sent_and_nothing_is(site: Site) -> None:
    source = site.get("/api/v1/sessions?state=remembered").json()["sessions"][0]["source"]
    text = site.text(f"/sessions/{source}/evidence")
    assert "[e" in text
    assert "offline-extractive-1" in text
    assert site.ports.asked == []
    site.post(f"/sessions/{source}/forget")
    assert site.get(f"/sessions/{source}/evidence").status_code == 404


def test_the_module_serves_by_itself_on_loopback(tmp_path: Path) -> None:
    environment = {**os.environ, "SLOWWAVE_HOME": str(tmp_path / "data")}
    with reserved() as port:
        child = subprocess.Popen(
            [sys.executable, "-m", "dashboard", str(port)], env=environment, stderr=subprocess.PIPE, text=True
        )
        try:
            end, text = time.monotonic() + 60, ""
            while not text and time.monotonic() < end and child.poll() is None:
                try:
                    text = httpx.get(f"http://127.0.0.1:{port}/memory", trust_env=False).text
                except httpx.TransportError:
                    time.sleep(0.1)
            assert "Nothing has been remembered yet" in text
        finally:
            child.terminate()
            _, printed = child.communicate(timeout=60)
    assert printed.strip() == f"http://127.0.0.1:{port}/"


@pytest.mark.fault("O30")
def test_no_address_however_odd_breaks_the_server(read_site: Site) -> None:
    odd = ["%00%ED%A0%80", "..%2f..%2f%0d%0aX:1", "9" * 40, "%D9%A3%3Cscript%3E"]
    places = [
        "/memory?project=", "/sessions?text=", "/sessions?page=", "/sessions/aaaaaaaa/events?e=", "/history?page=",
        "/short/user/entry?entry=", "/memory/lines/", "/sources/", "/notes/", "/memory?said=", "/static/",
        "/api/v1/sessions?offset=", "/api/v1/notes/", "/api/v1/short/",
    ]  # fmt: skip
    for address in (place + text for place in places for text in odd):
        response = read_site.get(address)
        assert response.status_code < 500, (address, response.text[:500])
        assert "<script>" not in response.text


@pytest.mark.fault("O30")
def test_no_form_however_odd_breaks_the_server(new_site: Site) -> None:
    token = b"csrf=" + new_site.csrf().encode()
    bodies = [
        b"&text=%ED%A0%80x",
        b"&text=%00&name=b",
        b"&text=a%0bb&id=c",
        b"&text=\xff\xfe",
        b"&a=1" * 100,
        b"&text=x&project=zzz",
    ]
    for path in ("/new-note", "/short/user/file", "/short/user/delete"):
        for body in bodies:
            for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
                response = new_site.browser.post(path, content=token + body, headers={"content-type": kind})
                assert response.status_code < 500, (path, body, kind, response.text[:500])
