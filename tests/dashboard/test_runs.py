"""Runs: what goes on, what there was, what one would cost."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
import pytest

from memory.clock import SystemClock
from memory.errors import SlowwaveError, UsageError
from memory.settings import load
from memory.state import Store
from memory.testing import FrozenClock
from memory.wishes import ServiceState
from tests.plugins.dashboard_live import going_on
from tests.plugins.dashboard_site import Site, serving
from tests.plugins.pace import within

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
FAILED: dict[str, Any] = {
    "outcome": "failed",
    "extract": {
        "outcomes": [
            {"code": "kept", "rollout": "codex:a", "bullets": 4, "bytes": 900, "dropped": 2},
            {"code": "failed", "rollout": "codex:b", "error": "timeout", "message": "It took too long."},
        ],
        "counts": {"kept": 1, "failed:timeout": 1},
        "waiting": 7,
    },
    "consolidate": {
        "code": "failed",
        "error": "gate_rejected",
        "message": "The candidate still breaks 2 rules.",
        "violations": [{"rule": "uncited", "line": 7}, {"rule": "uncited", "line": 9}, {"rule": "shrink", "line": 0}],
        "transcript": ["request 1: read a.md", f"request 2: <b>gate</b> {SECRET}"],
    },
    "spend": {"requests": 3, "input_tokens": 1_000, "output_tokens": 234, "money": None},
}


def _row(site: Site, run_id: str, outcome: str | None, detail: dict[str, Any] | None = None) -> None:
    with Store.open(load(home=site.home), SystemClock()) as store:
        store.runs.start(run_id, "hook", models={"extract": "m"}, detail={"owner": "elsewhere:1:x"})
        if outcome is not None:
            store.runs.finish(run_id, outcome, detail or {})


def test_a_new_user_is_told_what_a_run_does_and_can_start_one(new_site: Site) -> None:
    text = new_site.text("/runs")
    assert "There has been no run yet" in text
    assert "Nothing runs now" in text
    assert "every 30 minutes" in text
    said = new_site.post("/runs/start", {"stage": "extract"})
    assert "A run was started." in said.text
    assert new_site.ports.asked == [("extract", ())]


def test_a_wish_that_is_taken_along_says_so(new_site: Site) -> None:
    new_site.ports.coalesced = True
    assert "Nothing new was started." in new_site.post("/runs/start", {"stage": "all"}).text


def test_a_refusal_of_the_service_is_shown_on_the_page(new_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise UsageError("The service is not running.", hint="Use: slowwave up")

    monkeypatch.setattr(new_site.ports, "start", refuse)
    monkeypatch.setattr(new_site.ports, "cancel", lambda run_id: refuse())
    assert "Not started. The service is not running." in new_site.post("/runs/start").text
    assert "Not stopped. The service is not running." in new_site.post("/runs/r-1/cancel").text


def test_a_next_run_is_promised_only_where_the_schedule_does_something(
    new_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    soon = SystemClock().now() + timedelta(minutes=9)
    monkeypatch.setattr(new_site.ports, "service", lambda: ServiceState(True, schedule="daily", next_run=soon))
    assert "next run" in new_site.text("/runs")
    config = new_site.home / "config.toml"
    config.write_text(config.read_text("utf-8").replace('"long"', '"short"'), "utf-8")
    page = new_site.text("/runs")
    assert "next run" not in page
    assert "nothing runs by itself" in page


def test_chosen_sessions_are_asked_for_by_their_ids(site: Site) -> None:
    with Store.open(load(home=site.home), SystemClock()) as store:
        one = store.rollouts.all()[0].id
    assert site.post("/runs/start", {"stage": "all", f"s-{one.source_id}": "1"}).status_code == 200
    assert site.ports.asked == [("all", (str(one),))]
    assert site.post("/runs/start", {"stage": "all", "s-" + "0" * 16: "1"}).status_code == 404
    assert site.post("/runs/start", {"stage": "everything"}).status_code == 400


def test_a_dry_run_shows_its_upper_bound_and_what_it_would_read(site: Site) -> None:
    text = site.post("/runs/plan", {"stage": "all"}).text
    assert "≤ 40" in text
    assert "≤ 123,456" in text
    assert "price unknown" in text
    assert "budget" in text


def test_a_run_that_goes_on_is_shown_with_its_numbers_and_reloads_without_a_script(still_site: Site) -> None:
    clock = FrozenClock()
    values: dict[str, Any] = {"stage": "extract", "done": 3, "total": 12, "requests": 5, "request_limit": 64}
    values |= {"input_tokens": 9_876, "money": None, "deadline": clock.now() + timedelta(minutes=5)}
    with going_on(still_site.home, clock=clock, **values):
        text = still_site.text("/runs")
    for part in ("Reading sessions", "session 3 of 12", "5 of at most 64", "9,876 in", "price unknown", "1 min 10 s"):
        assert part in text, part
    assert '<progress aria-label="Progress of this stage" max="12" value="3">' in text
    assert re.search(r"\b5 min\b", text)
    assert '<noscript><meta http-equiv="refresh" content="3;url=/runs"></noscript>' in text
    assert "http-equiv" not in still_site.text("/runs")


def test_the_time_left_is_that_of_the_limit_or_of_the_pace_so_far(still_site: Site) -> None:
    with going_on(still_site.home, clock=FrozenClock(), stage="extract", done=7, total=14):
        assert "about 1 min 10 s" in still_site.text("/runs")
    with going_on(still_site.home, clock=FrozenClock(), stage="extract", done=0, total=14):
        assert "about" not in re.sub(r"<.*?>", "", still_site.text("/runs"))


def test_a_run_that_goes_on_can_be_stopped_and_the_api_tells_of_it(new_site: Site) -> None:
    with going_on(new_site.home, stage="consolidate", done=2, total=64):
        (one,) = new_site.get("/api/v1/runs/live").json()
        assert (one["run"], one["stage"], one["done"]) == ("r-live", "consolidate", 2)
        assert "r-live stops." in new_site.post("/runs/r-live/cancel").text
    assert new_site.get("/api/v1/runs/live").json() == []


def _events(site: Site, found: list[tuple[float, dict[str, Any]]], until: threading.Event) -> None:
    with (
        suppress(httpx.HTTPError),  # the server's end is the stream's end
        httpx.stream("GET", f"{site.origin}/runs/stream", timeout=60, trust_env=False) as response,
    ):
        for line in response.iter_lines():
            if line.startswith("data: "):
                found.append((time.monotonic(), json.loads(line.removeprefix("data: "))))
            if until.is_set():
                return


def test_a_page_that_watches_hears_of_each_change_within_a_second(new_site: Site) -> None:
    found: list[tuple[float, dict[str, Any]]] = []
    until = threading.Event()
    thread = threading.Thread(target=_events, args=(new_site, found, until), daemon=True)
    thread.start()

    def wait(number: int) -> float:
        end = time.monotonic() + 60
        while len(found) < number and time.monotonic() < end:
            time.sleep(0.01)
        return found[number - 1][0]

    wait(1)
    lags = []
    for done in (1, 2, 3):
        before = time.monotonic()
        with going_on(new_site.home, stage="extract", done=done, total=3):
            lags.append(wait(2 * done) - before)
        wait(2 * done + 1)
    until.set()
    assert sorted(lags)[1] <= within(1)
    assert [len(event["runs"]) for _, event in found[:7]] == [0, 1, 0, 1, 0, 1, 0]
    assert found[1][1]["runs"][0]["count"] == "session 1 of 3"


def test_the_stream_speaks_the_language_of_the_page(new_site: Site) -> None:
    with (
        going_on(new_site.home, stage="publish"),
        new_site.browser.stream("GET", "/runs/stream", headers={"accept-language": "zh"}) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        line = next(one for one in response.iter_lines() if one.startswith("data: "))
    assert json.loads(line.removeprefix("data: "))["runs"][0]["stage"] == "发布"


def test_runs_are_leafed_through_and_narrowed(new_site: Site) -> None:
    new_site.text("/runs")
    with Store.open(load(home=new_site.home), SystemClock()) as store:
        for number in range(120):
            store.runs.start(f"r-{number:03d}", "schedule" if number % 2 else "manual")
            store.runs.finish(f"r-{number:03d}", "ok" if number % 3 else "failed", {})
    pages = [re.findall(r'href="/runs/(r-\d+)"', new_site.text(f"/runs?page={page}")) for page in (1, 2, 3)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert len({one for page in pages for one in page}) == 120
    assert "40 runs" in new_site.text("/runs?outcome=failed")
    assert "20 runs" in new_site.text("/runs?outcome=failed&trigger=schedule")
    assert "No run matches" in new_site.text("/runs?outcome=cancelled")
    assert new_site.get("/runs?outcome=evil").status_code == 422
    listed = new_site.get("/api/v1/runs?page=3").json()
    assert (listed["total"], len(listed["runs"])) == (120, 20)


def test_a_run_that_was_killed_is_shown_as_never_finished(new_site: Site) -> None:
    new_site.text("/runs")
    _row(new_site, "r-killed", None)
    _row(new_site, "r-closed", "failed", {"error": "killed: Its process ended without a word."})
    assert new_site.text("/runs").count("never finished</span>") == 2
    for name in ("r-killed", "r-closed"):
        assert "it was killed, or the machine went down" in new_site.text(f"/runs/{name}")
        assert new_site.get(f"/api/v1/runs/{name}").json()["run"]["state"] == "never"


def test_a_run_tells_its_outcomes_its_violations_and_what_the_agent_did(new_site: Site) -> None:
    new_site.text("/runs")
    _row(new_site, "r-1", "failed", FAILED)
    text = new_site.text("/runs/r-1")
    for part in (
        "a hook", "4 lines, 900 bytes", "2 unproven lines left out", "It took too long.", "7 more sessions",
        "The candidate still breaks 2 rules.", "A line cites no source.", "7, 9", "A line vanished",
        "request 1: read a.md",
    ):  # fmt: skip
        assert part in text, part
    assert SECRET not in text
    assert "<b>gate" not in text
    told = new_site.get("/api/v1/runs/r-1")
    assert SECRET not in told.text
    assert told.json()["report"]["consolidate"]["transcript"][0] == "request 1: read a.md"


@pytest.mark.parametrize("detail", [{}, {"extract": "x", "consolidate": [1]}, {"spend": {"money": "much"}}])
def test_a_report_of_another_form_does_not_break_its_page(new_site: Site, detail: dict[str, Any]) -> None:
    new_site.text("/runs")
    _row(new_site, "r-odd", "ok", detail)
    assert "r-odd" in new_site.text("/runs/r-odd")
    assert "done</span>" in new_site.text("/runs")


def test_a_finished_run_leads_to_its_version_its_sessions_and_its_calls(read_site: Site) -> None:
    (run_id,) = re.findall(r'href="/runs/(\d{8}T[\w-]+)"', read_site.text("/runs"))
    text = read_site.text(f"/runs/{run_id}")
    assert 'href="/history/1"' in text
    assert re.search(r'href="/sessions/[0-9a-f]{16}"', text)
    assert "offline-extractive-1" in text
    assert "gate passed" in text
    report = read_site.get(f"/api/v1/runs/{run_id}").json()
    assert report["run"]["state"] == "ok"
    assert report["run"]["version"] == 1


@pytest.mark.fault("O30")
@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "a" * 90, "-x", "%00", "nobody"])
def test_an_id_that_is_none_finds_nothing(empty_site: Site, name: str) -> None:
    assert empty_site.get(f"/runs/{name}").status_code in {404, 422}
    assert empty_site.get(f"/api/v1/runs/{name}").status_code in {404, 422}


@pytest.mark.fault("O30")
def test_only_a_web_address_is_a_link(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (run_id,) = re.findall(r'href="/runs/(\d{8}T[\w-]+)"', site.text("/runs"))
    monkeypatch.setattr(site.ports, "link", lambda run_id: "javascript:alert(1)")
    assert "javascript:" not in site.text(f"/runs/{run_id}")
    monkeypatch.setattr(site.ports, "link", lambda run_id: "http://127.0.0.1:4200/runs/flow-run/1")
    assert 'href="http://127.0.0.1:4200/runs/flow-run/1"' in site.text(f"/runs/{run_id}")


def test_a_change_through_the_api_needs_the_token_of_the_session(new_site: Site) -> None:
    assert new_site.browser.post("/api/v1/runs", json={"stage": "all"}).status_code == 403
    token = {"x-csrf-token": new_site.get("/api/v1/session").json()["csrf_token"]}
    answer = new_site.browser.post("/api/v1/runs", json={"stage": "all"}, headers=token)
    assert answer.json() == {"run": "run-1", "coalesced": False, "says": "A run was started."}
    assert new_site.browser.post("/api/v1/runs/plan", json={}, headers=token).json()["requests"] == 40
    unknown = {"stage": "extract", "rollouts": ["codex:nobody"]}
    assert new_site.browser.post("/api/v1/runs", json=unknown, headers=token).status_code == 404


def test_a_service_that_does_not_answer_is_a_problem_and_no_failure(
    new_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise SlowwaveError("The service does not answer.")

    monkeypatch.setattr(new_site.ports, "service", silent)
    assert "The service does not answer." in new_site.text("/runs")


def test_times_of_the_state_are_shown_in_the_zone_of_the_machine(new_site: Site) -> None:
    new_site.text("/runs")
    _row(new_site, "r-2", "ok", {})
    with Store.open(load(home=new_site.home), SystemClock()) as store:
        begun = store.runs.last(1)[0].started
    assert f"{begun.astimezone():%Y-%m-%d}" in new_site.text("/runs")
    with serving(new_site.home) as other:
        assert "r-2" in other.text("/runs")
