"""`slowwave up` with the state on a server: a run by hand, a run by a wake-up, pages; and the password nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from memory import live
from tests.flows.home import Home
from tests.flows.test_service import Service, until
from tests.plugins.postgres import PASSWORD, QUOTED, Server

pytestmark = [pytest.mark.server, pytest.mark.deep]

PAGES = (
    "memory",
    "sessions",
    "history",
    "runs",
    "costs",
    "settings",
    "settings/all",
    "doctor",
    "notes",
    "openapi.json",
)


@pytest.fixture
def service(postgres_server: Server, tmp_path: Path) -> Iterator[Service]:
    made = Service(Home(tmp_path))
    made.configure(state={"url": postgres_server.guarded("service")}, consolidate={"cooldown_minutes": 0})
    made.home.write("apples", "pears")
    try:
        code, _, err = made.type("up", "--detach")
        assert code == 0, err
        yield made
    finally:
        made.end()


@pytest.mark.req("Z061", "C055")
async def test_runs_by_hand_and_by_a_wake_up_and_pages_work_and_none_shows_the_password(
    service: Service, postgres_server: Server
) -> None:
    code, out, err = await service.typed("run")
    assert (code, "summary    version 1 published" in out) == (0, True), (out, err)

    service.home.write("figs")
    service.wake("one")
    await until(lambda: [row.trigger for row in service.rows() if row.finished] == ["hook", "manual"], 30)
    await until(lambda: not live.running(service.home.data), 10)
    assert [row.outcome for row in service.rows()] == ["ok", "ok"]
    assert service.attempts("figs") == ("done", 0)
    assert postgres_server.sql("SELECT count(*) FROM slowwave_default.versions", "service") == [(2,)]

    seen = [out, err]
    async with httpx.AsyncClient(base_url=service.state().dashboard, trust_env=False, timeout=30) as client:
        described = (await client.get("/api/v1/openapi.json")).json()["paths"]
        plain = [path for path, ways in described.items() if "get" in ways and "{" not in path and "events" not in path]
        assert len(plain) > 5
        for path in [*(f"/{page}" for page in PAGES), *plain]:
            reply = await client.get(path)
            assert reply.status_code != 500, path
            seen.append(reply.text)
    for command in ("status", "doctor", "logs"):
        seen += (await service.typed(command))[1:]
    pids = [one.pid for one in service.state().processes]
    seen += [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
    code, _, _ = await asyncio.to_thread(service.type, "down")
    assert code == 0
    files = [path for path in service.home.folder.rglob("*") if path.is_file() and path.name != "config.toml"]
    assert any(path.name == "prefect.db" for path in files)
    for word in (PASSWORD, QUOTED, "hunter2"):
        assert not any(word in text for text in seen)
        assert [path for path in files if word.encode() in path.read_bytes()] == []
