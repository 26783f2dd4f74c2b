"""Who may ask, and what every answer carries."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import httpx
import pytest

from dashboard.pages import NAVIGATION, ROUTERS
from dashboard.security import HEADERS, MAX_BODY
from tests.plugins.dashboard_site import Site, serving

TOKEN = "a-long-token-of-the-test"


@pytest.mark.fault("O30")
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""])
def test_a_foreign_name_pointed_at_this_machine_reads_nothing(empty_site: Site, host: str) -> None:
    response = empty_site.get("/memory", host=host)
    assert response.status_code == 421
    assert "slowwave-memory" not in response.text


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1:80", "[::1]:8000", "LOCALHOST"])
def test_the_names_of_loopback_are_answered_on_every_port(empty_site: Site, host: str) -> None:
    assert empty_site.get("/memory", host=host).status_code == 200


def test_a_list_of_hosts_takes_the_place_of_the_names_of_loopback(tmp_path: Path) -> None:
    with serving(tmp_path / "data", allowed_hosts=["memory.example:8443"], token=TOKEN) as site:
        assert site.get("/login", host="memory.example:8443").status_code == 200
        assert site.get("/login", host="memory.example:9").status_code == 421
        assert site.get("/login").status_code == 421


@pytest.mark.fault("O30")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_a_request_with_a_foreign_origin_is_refused(empty_site: Site, method: str, origin: str) -> None:
    data = {"csrf": empty_site.csrf()} if method == "POST" else None
    response = empty_site.browser.request(method, "/language", data=data, headers={"origin": origin})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.fault("O30")
def test_what_a_foreign_page_fetches_or_sends_is_refused_and_a_link_from_it_is_not(empty_site: Site) -> None:
    fetched = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert empty_site.get("/memory", **fetched).status_code == 403
    assert empty_site.get("/memory", **{"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}).status_code == 403
    assert (
        empty_site.get("/memory", **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200
    )
    sent = empty_site.browser.post(
        "/language",
        data={"csrf": empty_site.csrf()},
        headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    )
    assert sent.status_code == 403


@pytest.mark.fault("O30")
@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_a_form_without_the_token_of_this_browser_changes_nothing(new_site: Site, token: str | None) -> None:
    new_site.csrf()
    fields = {"to": "zh", "back": "/memory"} | ({} if token is None else {"csrf": token})
    response = new_site.browser.post("/language", data=fields, headers={"origin": new_site.origin})
    assert response.status_code == 403
    assert "out of date" in response.text
    assert "slowwave_lang" not in new_site.browser.cookies


def test_the_token_of_another_browser_is_refused(empty_site: Site) -> None:
    with httpx.Client(base_url=empty_site.origin, trust_env=False) as other:
        stolen = Site(empty_site.home, empty_site.ports, empty_site.origin, other).csrf()
    empty_site.csrf()
    response = empty_site.browser.post("/language", data={"csrf": stolen, "to": "zh"})
    assert response.status_code == 403


@pytest.mark.parametrize(
    "path", ["/memory", "/nothing", "/static/style.css", "/api/v1/memory", "/api/v1/nothing", "/login"]
)
def test_every_answer_forbids_foreign_scripts_frames_and_caching(empty_site: Site, path: str) -> None:
    response = empty_site.get(path)
    for name, value in HEADERS.items():
        assert response.headers[name] == value, (path, name)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "server" not in response.headers


def test_no_page_has_a_script_a_style_or_a_handler_of_its_own(read_site: Site) -> None:
    for path in (
        "/login",
        "/nothing",
        "/new-note",
        "/short/user/new",
        "/history/1",
        *(address for _, address in NAVIGATION),
    ):
        text = read_site.get(path).text
        assert "<style" not in text, path
        assert " style=" not in text, path
        assert "<script>" not in text, path
        assert not re.search(r"<[^>]* on[a-z]+=", text), path
        for target in re.findall(r"""(?:src|href|action)=["']([^"']*)""", text):
            assert target.startswith(("/", "#", "?")), (path, target)
            assert not target.startswith("//"), (path, target)


def _posts() -> list[str]:
    """Every address of a page that takes a form, its variables filled in."""
    filled = {
        "key": "0" * 16,
        "source_id": "0" * 16,
        "number": "1",
        "name": "x",
        "scope": "user",
        "run_id": "r",
        "host": "pi",
    }
    routes = [
        route for router in ROUTERS for route in router.routes if "POST" in (getattr(route, "methods", None) or ())
    ]
    paths = [str(getattr(route, "path", "")) for route in routes]
    return [re.sub(r"{(\w+)(?::\w+)?}", lambda match: filled.get(match[1], "x"), path) for path in paths]


@pytest.mark.fault("O30")
@pytest.mark.parametrize("address", _posts())
def test_every_form_is_refused_without_its_token(empty_site: Site, address: str) -> None:
    response = empty_site.browser.post(address, data={"csrf": "0" * 64}, headers={"origin": empty_site.origin})
    assert response.status_code == 403, response.text[:300]
    assert empty_site.ports.asked == []


@pytest.mark.fault("O30")
def test_a_body_that_claims_or_has_more_than_the_limit_is_refused(empty_site: Site) -> None:
    large = {"csrf": empty_site.csrf(), "back": "x" * (MAX_BODY + 1)}
    assert empty_site.browser.post("/language", data=large).status_code == 413

    def chunks() -> object:
        yield b"csrf=1&back="
        for _ in range(MAX_BODY // 10_000 + 2):
            yield b"x" * 10_000

    response = empty_site.browser.post(
        "/language",
        content=chunks(),  # type: ignore[arg-type]
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert response.status_code == 413


def test_a_length_that_is_no_number_is_refused(empty_site: Site) -> None:
    port = int(empty_site.origin.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(b"POST /language HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n")
        assert raw.recv(200).split()[1] in {b"400", b"413"}


@pytest.mark.fault("O30")
def test_with_a_token_nothing_is_read_without_it(tmp_path: Path) -> None:
    with serving(tmp_path / "data", token=TOKEN) as site:
        assert site.get("/memory").status_code == 303
        assert site.get("/history?page=2").headers["location"] == "/login?back=%2Fhistory%3Fpage%3D2"
        assert site.get("/api/v1/memory").status_code == 401
        assert site.get("/api/v1/memory", authorization="Bearer wrong").status_code == 401
        assert site.get("/api/v1/memory", authorization=f"Bearer {TOKEN}").status_code == 200
        assert site.get("/static/style.css").status_code == 200


@pytest.mark.fault("O30")
def test_the_login_gives_a_cookie_that_is_not_the_token_and_logging_out_takes_it_back(tmp_path: Path) -> None:
    with serving(tmp_path / "data", token=TOKEN) as site:
        refused = site.post("/login", {"token": "wrong"})
        assert refused.status_code == 403
        assert "This is not the token" in refused.text
        assert site.post("/login", {"token": TOKEN, "back": "//evil.example/x"}).url.path == "/memory"
        assert site.post("/login", {"token": TOKEN, "back": "/history?page=2"}).url.path == "/history"
        assert TOKEN not in str(dict(site.browser.cookies))
        assert site.get("/memory").status_code == 200
        site.post("/logout")
        assert site.get("/memory").status_code == 303


def test_the_cookies_cannot_be_read_by_scripts_and_are_not_sent_by_other_sites(new_site: Site) -> None:
    set_cookies = new_site.get("/memory").headers.get_list("set-cookie")
    assert set_cookies
    for text in set_cookies:
        assert "HttpOnly" in text
        assert "SameSite=strict" in text


def test_malformed_cookies_of_other_programs_do_not_hide_ours(new_site: Site) -> None:
    token = new_site.csrf()
    odd = 'theirs={"a": [1, 2]}; bad name=x; =; ' + f'slowwave_csrf={new_site.browser.cookies["slowwave_csrf"]}; c="d'
    data = {"csrf": token, "to": "en"}
    assert (
        httpx.post(new_site.origin + "/language", data=data, headers={"cookie": odd}, trust_env=False).status_code
        == 303
    )


@pytest.mark.parametrize("back", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_switching_the_language_leads_to_no_other_site(empty_site: Site, back: str) -> None:
    data = {"csrf": empty_site.csrf(), "to": "en", "back": back}
    response = empty_site.browser.post("/language", data=data)
    assert response.headers["location"] == "/"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/memory/lines/..%2f..%2fx",
    ],
)
@pytest.mark.fault("O30")
def test_a_path_that_climbs_finds_nothing(empty_site: Site, path: str) -> None:
    port = int(empty_site.origin.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while chunk := raw.recv(65_536):
            answer += chunk
    assert answer.split()[1] in {b"404", b"422"}
    assert b"create_app" not in answer
