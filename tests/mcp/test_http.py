"""The memory tools over HTTP: for who knows the token, from this machine, under the server's own name."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ListRootsResult, Root

from hosts import mcp_http
from memory.errors import StorageError, UsageError
from tests.mcp.conftest import Home, ask, talk
from tests.plugins.pace import within

BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Site:
    """A running server: where it is and what its token is."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, token: str) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rsplit(":", 1)[1].split("/")[0])
        self.token = token

    def post(self, path: str = "/mcp", **headers: str) -> int:
        """The status a bare request gets; `host` takes the place of the right one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest("POST", path, skip_host=True)
            connection.putheader("Host", headers.pop("host", f"127.0.0.1:{self.port}"))
            for name, value in {**HEADERS, "Content-Length": str(len(BODY)), **headers}.items():
                connection.putheader(name, value)
            connection.endheaders(BODY.encode())
            return connection.getresponse().status
        finally:
            connection.close()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        """What the SDK's client connects by."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            create_mcp_http_client(headers=headers) as carrier,
            streamable_http_client(self.url, http_client=carrier) as streams,
        ):
            yield streams


@pytest.fixture
def site(home: Home) -> Iterator[Site]:
    process = subprocess.Popen(
        home.command("--http", "--port", "0"),
        cwd=home.shop,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().split()[-1]
        assert "token is in" in process.stdout.readline().decode()
        kept = home.bench.settings.home / mcp_http.TOKEN_FILE
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        yield Site(process, url, kept.read_text("utf-8").strip())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.req("P013")
def test_clients_with_the_token_have_the_tools_each_in_the_project_of_its_root(home: Home, site: Site) -> None:
    def seen(folder: Path | None, mode: Any = "legacy") -> str:
        async def answer(context: Any) -> ListRootsResult:
            return ListRootsResult(roots=[Root.model_validate({"uri": folder.as_uri()})] if folder else [])

        async def steps(client: Client) -> str:
            return await ask(client, "memory_recall", query="gateway port canary invoices", near=True)

        return talk(site.client(), steps, mode=mode, list_roots_callback=answer)

    for mode in ("legacy", "2026-07-28"):
        assert "8080" in seen(home.shop, mode)
        assert "zebra-umbrella" in seen(home.api, mode)
        assert "8080" not in seen(home.api, mode)
        without = seen(None, mode)
        assert "8080" not in without
        assert "zebra-umbrella" not in without


def test_who_does_not_know_the_token_or_comes_by_another_name_is_refused(home: Home, site: Site) -> None:
    right = {"Authorization": f"Bearer {site.token}"}
    assert site.post(**right) not in {401, 403, 421}
    assert site.post() == 401
    for wrong in ("Bearer x", f"Basic {site.token}", f"Bearer {site.token}x", "Bearer ", site.token):
        assert site.post(Authorization=wrong) == 401
    for name in (
        "evil.example",
        f"evil.example:{site.port}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"localhost.evil:{site.port}",
    ):
        assert site.post(host=name, **right) == 421
    for origin in ("http://evil.example", f"https://127.0.0.1:{site.port}", "null", f"http://localhost:{site.port}.x"):
        assert site.post(Origin=origin, **right) == 403
    assert site.post(Origin=f"http://localhost:{site.port}", **right) not in {401, 403, 421}
    assert site.post("/other") == 401
    begun = time.monotonic()
    site.process.send_signal(signal.SIGTERM)
    _, told = site.process.communicate(timeout=60)
    assert time.monotonic() - begun < within(2)
    assert site.process.returncode == 0
    assert b"its token is missing or wrong" in told
    assert site.token.encode() not in told
    assert b"evil" not in told


def test_a_request_larger_than_any_question_is_refused(home: Home, site: Site) -> None:
    with socket.create_connection(("127.0.0.1", site.port), 60) as wire:
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nAuthorization: Bearer {site.token}\r\n"
        wire.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
        assert b" 413 " in wire.recv(4096).split(b"\r\n", 1)[0]


# -- the token ---------------------------------------------------------------------------------------------------------


def test_a_token_is_made_once_and_kept_for_its_owner_alone(tmp_path: Path) -> None:
    token = mcp_http.token_for(tmp_path / "new", "", "127.0.0.1")
    assert len(token) > 40
    assert mcp_http.token_for(tmp_path / "new", "", "::1") == token
    assert mcp_http.token_for(tmp_path, "a-token-of-the-users-own", "0.0.0.0") == "a-token-of-the-users-own"


def test_a_token_others_can_read_a_short_one_and_none_where_others_reach_us_are_refused(tmp_path: Path) -> None:
    mcp_http.token_for(tmp_path, "", "127.0.0.1")
    kept = tmp_path / mcp_http.TOKEN_FILE
    kept.chmod(0o644)
    with pytest.raises(StorageError, match="not yours alone"):
        mcp_http.token_for(tmp_path, "", "127.0.0.1")
    kept.unlink()
    kept.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot be used"):
        mcp_http.token_for(tmp_path, "", "127.0.0.1")
    with pytest.raises(UsageError, match="fewer than"):
        mcp_http.token_for(tmp_path, "short", "127.0.0.1")
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.com"):
        with pytest.raises(UsageError, match="no token is set"):
            mcp_http.token_for(tmp_path, "", host)


def test_an_address_that_cannot_be_had_is_a_sentence() -> None:
    with mcp_http.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="Nothing can listen"):
            mcp_http.listen("127.0.0.1", port)
