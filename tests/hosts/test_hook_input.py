"""Whatever a host hands over and whatever lies in its way, a hook ends with 0 and gives the right text or none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recall import snapshot
from tests.hosts.payloads import SESSION, claude, quiet, state
from tests.plugins.hook_runner import PROGRAM, command, environment, run
from tests.plugins.published import workspace_of

# -- bad input ------------------------------------------------------------------------------------------


@pytest.mark.fault("O25")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"7",
        b"{",
        b'{"session_id": "s", "hook_event_name": "UserPromptSubmit"',
        b"\xff\xfe\x00",
        b"\x00" * 1_000,
        b"[" * 200_000,
        b'{"session_id": 7, "hook_event_name": ["UserPromptSubmit"]}',
        b'{"hook_event_name": "UserPromptSubmit"}',
        b'{"session_id": "", "hook_event_name": "UserPromptSubmit"}',
        b'{"session_id": "s", "hook_event_name": "Nonsense"}',
        json.dumps({"session_id": "s" * 5_000, "hook_event_name": "UserPromptSubmit"}).encode(),
    ],
)
def test_a_payload_that_is_none_gets_an_empty_answer(home: Path, data: bytes) -> None:
    assert quiet(run(home, data, "claude"))


@pytest.mark.parametrize(
    "session", ["../../escape", "a/b", ".hidden", "x" * 300, "\u0000", "日本", "\ud800", "-rf", "a b"]
)
def test_a_session_named_like_a_path_is_kept_under_a_name_of_ours(home: Path, shop: Path, session: str) -> None:
    said = run(home, claude("UserPromptSubmit", shop, session_id=session), "claude")
    assert "Vitest" in said.text
    folder = home / "sessions" / "claude"
    assert [path.parent for path in home.parent.rglob("x-*.json") if "spool" not in path.parts] == [folder]


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PostToolUse"])
def test_fifty_megabytes_are_taken_in_and_do_no_harm(home: Path, shop: Path, event: str) -> None:
    big = 'x \\u1234 "session_id":"evil" ' * 2_200_000
    more = {"prompt": big} if event == "UserPromptSubmit" else {"tool_response": {"stdout": big}}
    said = run(home, claude(event, shop, **more), "claude")
    assert (said.code, said.err) == (0, b"")
    assert [s["session"] for s in snapshot.snapshots(str(home))] in ([], [SESSION])
    assert not list(home.rglob("*evil*"))


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "outside", "device", "nul"])
def test_a_transcript_path_is_never_trusted(home: Path, shop: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "transcript.jsonl"
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "outside":
            path = Path("/etc/hostname")
        case "device":
            path = Path("/dev/zero")
    text = "a\u0000b" if kind == "nul" else str(path)
    run(home, claude("SessionStart", shop), "claude")
    said = run(home, claude("SessionStart", shop, source="resume", transcript_path=text), "claude")
    assert "Vitest" in said.text
    assert "deadline" not in (home / "hook.log").read_text("utf-8")


@pytest.mark.parametrize("cwd", ["", "relative/path", "/does/not/exist", "a\u0000b", 7, None])
def test_a_folder_that_is_none_gets_only_what_holds_everywhere(home: Path, shop: Path, cwd: Any) -> None:
    text = run(home, claude("UserPromptSubmit", shop, cwd=cwd), "claude").text
    assert "German" in text
    assert "Vitest" not in text


@pytest.mark.req("Z036")
@pytest.mark.fault("M7")
@pytest.mark.parametrize("damage", ["empty", "half", "invalid", "replaced"])
def test_a_summary_that_is_not_the_published_one_is_left_out_and_told(home: Path, shop: Path, damage: str) -> None:
    path = workspace_of(home).summary_path
    text = path.read_text("utf-8")
    path.write_text({"empty": "", "half": text[:30], "invalid": "v2\n", "replaced": text + "- x\n"}[damage], "utf-8")
    said = run(home, claude("UserPromptSubmit", shop), "claude")
    assert "Vitest" not in said.text
    assert "German" in said.text
    assert [item["reason"] for item in snapshot.diagnostics(str(home))] == ["long memory is left out"]


@pytest.mark.req("Z026", "Z035", "Z036", "Z037")
@pytest.mark.parametrize("data", [b"- [a] x\nbroken\n", b"\xff\n", b"- [a] cut", b"- [a] x\n" * 2, b"x" * 70_000])
def test_a_short_file_with_a_fault_is_skipped_and_told_and_the_rest_is_there(
    home: Path, shop: Path, data: bytes
) -> None:
    (home / "short" / "user.md").write_bytes(data)
    text = run(home, claude("UserPromptSubmit", shop), "claude").text
    assert "Vitest" in text
    assert "## Short memory" not in text
    assert [item["path"] for item in snapshot.diagnostics(str(home))] == [str(home / "short" / "user.md")]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"version": 1}', b'{"version": 2}', b"x" * 2_000_000])
def test_a_damaged_snapshot_is_a_session_that_begins_anew(home: Path, shop: Path, content: bytes) -> None:
    run(home, claude("UserPromptSubmit", shop), "claude")
    path = home / "sessions" / "claude" / f"{SESSION}.json"
    path.write_bytes(content)
    assert "Vitest" in run(home, claude("UserPromptSubmit", shop, prompt_id="p2"), "claude").text
    assert state(home)["usage"]["turns"] == 1


# -- bad surroundings -----------------------------------------------------------------------------------


def test_where_slowwave_was_never_set_up_nothing_happens_and_nothing_is_made(tmp_path: Path, shop: Path) -> None:
    home = tmp_path / "none"
    assert quiet(run(home, claude("UserPromptSubmit", shop), "claude"))
    assert not home.exists()
    home.write_text("a file", "utf-8")
    assert quiet(run(home, claude("UserPromptSubmit", shop), "claude"))


def test_a_disk_that_takes_nothing_still_gives_what_is_on_it(home: Path, shop: Path) -> None:
    for name in ("sessions", "spool", "hook.log"):
        (home / name).mkdir() if name == "hook.log" else (home / name).write_text("in the way", "utf-8")
    said = run(home, claude("UserPromptSubmit", shop), "claude")
    assert "Vitest" in said.text
    assert (said.code, said.err) == (0, b"")


def test_a_file_size_limit_of_nothing_costs_the_snapshot_only(home: Path, shop: Path) -> None:
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); {PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "claude"],
        input=json.dumps(claude("UserPromptSubmit", shop)).encode(),
        capture_output=True,
        env=environment(home),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Vitest" in done.stdout
    assert snapshot.snapshots(str(home)) == []
    assert not list(home.rglob("*.tmp"))


@pytest.mark.parametrize("config", ["[memory\n", "[memory]\nmode = 'medium'\n", "\x00", "[memory]\nmode = 5\n"])
def test_settings_that_cannot_be_used_switch_off_and_are_told(home: Path, shop: Path, config: str) -> None:
    (home / "config.toml").write_text(config, "utf-8")
    assert quiet(run(home, claude("UserPromptSubmit", shop), "claude"))
    assert [item["reason"] for item in snapshot.diagnostics(str(home))] == ["settings"]


def test_closed_standard_streams_are_no_error(home: Path, shop: Path) -> None:
    script = f"{' '.join(map(repr, command('claude')))}"
    for redirect in ("<&-", ">&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f"{script} {redirect}"],
            input=json.dumps(claude("UserPromptSubmit", shop)).encode(),
            env=environment(home),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0
