"""`status`, `sources` and `doctor` tell what the hosts' sessions got of memory, and what was in the way."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from memory.clock import SystemClock, iso
from memory.settings import load
from memory.state import Store
from recall.scope import read_generation
from recall.snapshot import Files
from tests.plugins.command_line import Slowwave
from tests.plugins.hook_runner import run


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def prompt(home: Path, shop: Path, session: str, message: str = "m1", **more: Any) -> str:
    """A turn of a Claude Code session in mode long."""
    payload = {
        "session_id": session, "cwd": str(shop), "hook_event_name": "UserPromptSubmit", "prompt_id": message,
        "prompt": "hello", **more,
    }  # fmt: skip
    return run(home, payload, "claude", variables={"SLOWWAVE_MEMORY_MODE": "long"}).text


def status(slowwave: Slowwave) -> dict[str, Any]:
    values = slowwave("status", "--json").json
    assert isinstance(values, dict)
    return values


@pytest.fixture
def remembered(home: Path) -> Path:
    """A user's short file with one entry."""
    path = home / "short" / "user.md"
    path.parent.mkdir()
    path.write_text("- [lang] Answer in German.\n", "utf-8")
    return path


def test_before_any_hook_nothing_is_told(slowwave: Slowwave) -> None:
    found = status(slowwave)
    assert found["injected"] == {
        "sessions": 0, "turns": 0, "blocks": 0, "tokens": 0, "left_out": 0, "contradicted": 0, "last_session": {},
        "problems": [],
    }  # fmt: skip
    assert found["hooks"] == {"last": {"codex": None, "claude": None, "pi": None}, "faults": {}}
    assert "injected" not in slowwave("status").out


@pytest.mark.fault("X51")
def test_injected_tokens_and_the_last_call_of_each_host_are_told(
    slowwave: Slowwave, home: Path, shop: Path, remembered: Path
) -> None:
    assert "German" in prompt(home, shop, "s1")
    assert prompt(home, shop, "s1", "m2") == ""
    assert "German" in prompt(home, shop, "s2")
    found = status(slowwave)
    given = found["injected"]
    assert (given["sessions"], given["turns"], given["blocks"]) == (2, 3, 2)
    assert 100 < given["tokens"] < 1_000
    assert found["hooks"]["last"]["claude"]
    assert found["hooks"]["last"]["codex"] is None
    said = slowwave("status").out
    assert f"{given['tokens']:,} tokens in 2 blocks over 3 turns of 2 sessions" in said
    assert "claude: last called" in said


@pytest.mark.req("Z036")
@pytest.mark.fault("O25")
def test_a_faulty_short_file_is_told_until_it_is_mended(
    slowwave: Slowwave, home: Path, shop: Path, remembered: Path
) -> None:
    project = shop / ".slowwave" / "memory.md"
    project.parent.mkdir()
    project.write_text("- [a] x\nbroken\n", "utf-8")
    remembered.write_bytes(b"\xff\n")
    assert prompt(home, shop, "s1") == ""
    problems = status(slowwave)["injected"]["problems"]
    assert len(problems) == 2
    assert f"{remembered}, line 1: a byte" in problems[0]
    assert f"{project}, line 2: " in problems[1]
    assert "the file is skipped" in slowwave("status").out
    remembered.write_text("- [lang] Answer in German.\n", "utf-8")
    project.unlink()
    assert status(slowwave)["injected"]["problems"] == []


def test_settings_a_host_was_started_with_that_cannot_be_used_are_told(
    slowwave: Slowwave, home: Path, shop: Path, remembered: Path
) -> None:
    assert (
        run(
            home,
            {"session_id": "s1", "cwd": str(shop), "hook_event_name": "UserPromptSubmit", "prompt_id": "m"},
            "claude",
            variables={"SLOWWAVE_MEMORY_MODE": "medium"},
        ).text
        == ""
    )
    (problem,) = status(slowwave)["injected"]["problems"]
    assert problem.startswith("claude: ")
    assert "mode" in problem


@pytest.mark.req("Z036")
@pytest.mark.fault("M7", "X23")
@pytest.mark.parametrize("damage", ["empty", "half", "versions"])
def test_a_summary_that_cannot_be_given_makes_the_status_broken(after_run: Slowwave, home: Path, damage: str) -> None:
    assert status(after_run)["memory"]["state"] == "ok"
    (summary,) = home.glob("generations/*/memories_v2/memory_summary.md")
    text = summary.read_bytes()
    match damage:
        case "empty":
            summary.write_bytes(b"")
        case "half":
            summary.write_bytes(text[: len(text) // 2])
        case "versions":
            (manifest,) = home.rglob("versions/1/manifest.json")
            manifest.write_bytes(b"{")
    found = status(after_run)["memory"]
    assert found["state"] == "broken"
    assert any("no long memory" in problem for problem in found["problems"])


@pytest.mark.fault("O25", "O23")
def test_hooks_that_went_wrong_in_the_last_day_are_counted_by_host(
    slowwave: Slowwave, home: Path, shop: Path, remembered: Path
) -> None:
    assert run(home, b'{"half": ', "claude").out == b""
    assert run(home, b"[]", "codex").out == b""
    log = home / "hook.log"
    old = "2020-01-01T00:00:00Z claude Stop s1 failed OSError 0 3\n"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    log.write_text(log.read_text("utf-8") + old + f"{now} pi Stop s1 block, not kept (28) 7 3\n", "utf-8")
    faults = status(slowwave)["hooks"]["faults"]
    assert faults == {"claude: malformed": 1, "codex: malformed": 1, "pi: block, not kept (28)": 1}
    assert "claude: malformed (1 × in 24 hours)" in slowwave("status").out


def test_names_a_host_makes_up_stay_one_word_of_the_log(
    slowwave: Slowwave, home: Path, shop: Path, remembered: Path
) -> None:
    prompt(home, shop, "a b\nfailed x y")
    (line,) = (home / "hook.log").read_text("utf-8").splitlines()
    assert line.split()[3:5] == ["a-b-failed-x", "block"]
    assert status(slowwave)["hooks"]["faults"] == {}


@pytest.mark.req("Z016")
def test_sources_tell_how_often_and_when_each_was_used(after_run: Slowwave, home: Path) -> None:
    rows = after_run("sources", "--json").json
    assert {row["uses"] for row in rows if not row["left_out"]} == {0}
    one = next(row["citation"] for row in rows if not row["left_out"])
    now = time.time()
    Files(str(home)).used("claude", "s1", {one: now})
    Files(str(home)).used("codex", "s2", {one: now - 60})
    done = after_run("run", "--json").json
    assert done["hooks"] == {"uses": 2, "wakes": 0}
    (row,) = [row for row in after_run("sources", "--json").json if row["citation"] == one]
    assert row["uses"] == 2
    with Store.open(load(), SystemClock()) as store:
        assert row["last_used"] == iso(store.usage.last_used()[one])
    assert f"\t2\t{row['last_used'][:16]}Z\t" in after_run("sources").out


@pytest.mark.req("C027")
def test_why_names_the_instruction_file_that_overrules_a_line(
    slowwave: Slowwave, home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slowwave("remember", "--note", "New tests use Vitest.").code == 0
    assert slowwave("run", "--consolidate-only").code == 0
    assert "Vitest" in prompt(home, shop, "s1")
    (claim,) = slowwave("why", "New tests use Vitest", "--json").json
    assert claim["overruled_by"] == []
    (shop / "AGENTS.md").write_text("# Rules\n\n- New tests use Jest.\n", "utf-8")
    assert "Vitest" not in prompt(home, shop, "s2")
    (claim,) = slowwave("why", "New tests use Vitest", "--json").json
    assert claim["overruled_by"] == [f"{shop / 'AGENTS.md'}, line 3"]
    assert f"{shop / 'AGENTS.md'}, line 3 says otherwise" in slowwave("why", "New tests use Vitest").out


@pytest.mark.req("C027")
@pytest.mark.parametrize("other", [{"published": 2}, {"generation": "another"}])
def test_lines_of_another_version_or_of_before_a_clear_are_not_taken_for_those_of_now(
    after_run: Slowwave, home: Path, shop: Path, other: dict[str, Any]
) -> None:
    generation, _ = read_generation(str(home))
    block = {"published": 1, "generation": generation}
    for session, values in (("s1", block), ("s2", block | other)):
        place = [6, "", str(shop / session / "AGENTS.md"), 3]
        state = {"host": "claude", "session": session, "block": values, "dropped": [place, [0, "id"]]}
        Files(str(home)).save("claude", session, state)
    (claim,) = after_run("why", "6", "--json").json
    assert claim["overruled_by"] == [f"{shop / 's1' / 'AGENTS.md'}, line 3"]


# -- doctor ---------------------------------------------------------------------------------------------


def hooks(slowwave: Slowwave) -> list[dict[str, str]]:
    return [one for one in slowwave("doctor", "--json").json if one["check"] == "hooks"]


@pytest.mark.fault("X51")
def test_doctor_tells_what_stands_in_the_way_of_each_host_that_is_here(
    slowwave: Slowwave, isolated_home: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = isolated_home / "programs"
    programs.mkdir()
    for name in ("codex", "claude"):
        (programs / name).write_text("#!/bin/sh\n", "utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert hooks(slowwave) == []
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    (isolated_home / ".codex").mkdir()
    (isolated_home / ".claude").mkdir()
    assert [(one["level"], one["says"]) for one in hooks(slowwave)] == [
        ("ok", "Codex CLI: not installed"),
        ("ok", "Claude Code: not installed"),
    ]
    slowwave("hosts", "install", "codex", "claude")
    (home / "hook.log").write_text("2026-11-30T08:00:00Z claude Stop a released 0 9\n", "utf-8")
    found = hooks(slowwave)
    assert found[0]["says"] == "Codex CLI: installed; last called never"
    untrusted = next(one for one in found if "Installed, not trusted" in one["says"])
    assert (untrusted["level"], untrusted["means"]) == ("warning", "its sessions get no memory")
    assert any(
        one["says"].startswith("Claude Code: installed; last called") and "never" not in one["says"] for one in found
    )
    (isolated_home / ".claude" / "settings.json").write_text("{,}", "utf-8")
    broken = next(one for one in hooks(slowwave) if "cannot be read" in one["says"])
    assert broken["level"] == "warning"
    assert "not valid JSON" in broken["means"]
    assert json.loads(slowwave("doctor", "--json").out)
