"""The HTTP API: what it says it answers is what it answers, whatever it is asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.dashboard import described
from tests.plugins.dashboard_site import Site, serving

PROBLEM = "application/problem+json"


schema = described.schema(boundaries=False)


@schema.parametrize()  # type: ignore[untyped-decorator]
@described.examples(4)  # type: ignore[untyped-decorator]
def test_every_answer_is_one_the_description_names(case: Any, target: Site) -> None:
    described.judge(case, target)


def test_every_operation_is_versioned_and_names_its_errors() -> None:
    paths = schema.raw_schema["paths"]
    assert len(paths) > 15
    for path, operations in paths.items():
        assert path.startswith("/api/v1/")
        for method, operation in operations.items():
            for status in ("400", "403", "404", "409", "422"):
                content = operation["responses"][status]["content"]
                assert list(content) == [PROBLEM], (path, method, status)
            success = next(one for status, one in operation["responses"].items() if status.startswith("2"))
            assert success["content"]["application/json"]["schema"], (path, method)


@pytest.mark.fault("O30")
def test_every_change_is_refused_without_the_token_of_this_client(empty_site: Site) -> None:
    count = 0
    for path, operations in schema.raw_schema["paths"].items():
        address = path
        for name, value in {
            "key": "0" * 16, "source": "0" * 16, "number": "1", "other": "1", "name": "x", "entry": "mem:" + "0" * 12,
            "scope": "user", "project": "0" * 12,
        }.items():  # fmt: skip
            address = address.replace("{" + name + "}", value)
        for method in operations:
            if method == "get":
                continue
            count += 1
            response = empty_site.browser.request(method, address, json={"text": "x"})
            assert response.status_code in {403, 422}, (method, address, response.status_code)
            assert response.headers["content-type"] == PROBLEM
    assert count >= 10


def test_the_token_of_the_session_allows_a_change(new_site: Site) -> None:
    token = new_site.get("/api/v1/session").json()["csrf_token"]
    made = new_site.browser.put("/api/v1/notes/tests", json={"text": "Use Vitest."}, headers={"x-csrf-token": token})
    assert made.status_code == 200
    assert made.json() == {"id": "tests", "replaced": False, "redacted": []}
    assert new_site.get("/api/v1/notes").json()["notes"][0]["text"] == "Use Vitest."


def test_an_error_is_a_problem_with_a_hint(empty_site: Site) -> None:
    response = empty_site.get("/api/v1/sessions/" + "0" * 16)
    assert response.status_code == 404
    assert response.headers["content-type"] == PROBLEM
    found = response.json()
    assert found["code"] == "unknown_reference"
    assert found["hint"]
    assert empty_site.get("/api/v1/nothing").headers["content-type"] == PROBLEM


def test_settings_that_are_not_valid_are_named_and_every_page_still_answers(tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text('[memory]\nmode = "sometimes"\n')
    with serving(home) as site:
        for path in ("/memory", "/sessions", "/api/v1/memory"):
            response = site.get(path)
            assert response.status_code == 400
            assert "memory.mode" in response.text
        (home / "config.toml").write_text('[memory]\nmode = "long"\n')
        assert site.get("/memory").status_code == 200


@pytest.mark.fault("O30")
def test_the_description_is_served_and_nothing_that_loads_foreign_files(empty_site: Site) -> None:
    assert empty_site.get("/api/v1/openapi.json").json()["openapi"].startswith("3.")
    assert empty_site.get("/docs").status_code == 404
    assert empty_site.get("/redoc").status_code == 404


@pytest.mark.fault("O30")
def test_no_answer_holds_a_key_of_the_settings(tmp_path: Path, finished: Path) -> None:
    home = Path(shutil.copytree(finished, tmp_path / "data"))
    key, password = "sk-" + "proj4Xy7Zq9Lm2Np5Rt8Vw1", "hunter2hunter2"
    text = (
        home / "config.toml"
    ).read_text() + f'[model]\napi_key = "{key}"\nbase_url = "http://u:{password}@127.0.0.1:9/v1"\n'
    (home / "config.toml").write_text(text)
    with serving(home) as site:
        for path in (
            "/memory",
            "/sessions",
            "/history",
            "/notes",
            "/api/v1/memory",
            "/api/v1/openapi.json",
            "/nothing",
        ):
            answer = site.get(path)
            assert key not in answer.text + json.dumps(dict(answer.headers)), path
            assert password not in answer.text, path


def test_many_readers_at_once_are_all_answered(read_site: Site) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def ask(number: int) -> int:
        path = ("/memory", "/sessions", "/history", "/notes")[number % 4]
        return httpx.get(read_site.origin + path, timeout=60, trust_env=False).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(24))) == {200}
