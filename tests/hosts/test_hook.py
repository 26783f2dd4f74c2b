"""The hook in a process of its own: the host's format or nothing, exit code 0, whatever it meets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hosts import hook
from memory.project import project_of
from recall import inject, snapshot
from tests.plugins.hook_runner import IN_TIME, PROGRAM, ROOT, Said, command, environment, run
from tests.plugins.published import PREFERENCES, THERE, publish, source_id, workspace_of

QUICK_LOCK = PROGRAM.replace("LOCK_WAIT_SECONDS = 20", "LOCK_WAIT_SECONDS = 0.1")
SESSION = "b9dd805a-a35b-4acf-880b-81f47597a7c8"
CLAUDE_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
A = "aaaa0001"


def claude(event: str, shop: Path, **more: Any) -> dict[str, Any]:
    """A payload as Claude Code writes it."""
    common = {
        "session_id": SESSION,
        "transcript_path": "/home/dev/.claude/projects/-home-dev-shop/x.jsonl",
        "cwd": str(shop),
        "hook_event_name": event,
    }
    extra: dict[str, dict[str, Any]] = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"prompt_id": "p1", "permission_mode": "default", "prompt": "PROMPT-CANARY use pnpm"},
        "PostToolUse": {"tool_name": "Read", "tool_input": {"file_path": "/x"}, "tool_response": {"type": "text"}},
        "Stop": {"stop_hook_active": False, "last_assistant_message": "Done.", "background_tasks": []},
        "SessionEnd": {"reason": "other"},
    }
    return {**common, **extra.get(event, {}), **more}


def codex(event: str, shop: Path, **more: Any) -> dict[str, Any]:
    """A payload as Codex writes it."""
    extra: dict[str, dict[str, Any]] = {
        "SessionStart": {"source": "startup"},
        "UserPromptSubmit": {"turn_id": "7", "prompt": "PROMPT-CANARY use pnpm"},
        "PostToolUse": {"turn_id": "7", "tool_name": "shell", "tool_input": {"command": ["ls"]}, "tool_response": "x"},
        "Stop": {"turn_id": "7", "stop_hook_active": False, "last_assistant_message": None},
        "SessionEnd": {"reason": "other"},
    }
    model = {} if event == "SessionEnd" else {"model": "m", "permission_mode": "default"}
    common = {"session_id": "0199aaaa-0000-7000-8000-000000000001", "transcript_path": None, "cwd": str(shop)}
    return {**common, "hook_event_name": event, **model, **extra.get(event, {}), **more}


def pi(event: str, shop: Path, **more: Any) -> dict[str, Any]:
    """A payload as our extension for Pi writes it."""
    extra: dict[str, dict[str, Any]] = {
        "session_start": {"reason": "startup"},
        "before_agent_start": {"prompt": "PROMPT-CANARY use pnpm"},
        "tool_result": {"tool_name": "read", "tool_input": {"path": "/x"}},
        "session_shutdown": {"reason": "quit"},
    }
    common = {"session_id": "01a22ad2-677e-76d0-8c62-c55f918d7beb", "leaf_id": "a33aa7b7", "transcript_path": None}
    return {"hook_event_name": event, **common, "cwd": str(shop), **extra.get(event, {}), **more}


def state(home: Path, host: str = "claude") -> dict[str, Any]:
    (found,) = [s for s in snapshot.snapshots(str(home)) if s["host"] == host]
    return found


def quiet(said: Said) -> bool:
    return (said.code, said.out, said.err) == (0, b"", b"")


# -- formats --------------------------------------------------------------------------------------------


@pytest.mark.fault("X53")
@pytest.mark.req("Z014", "Z052", "P038", "P052")
@pytest.mark.parametrize("make", [claude, codex])
def test_starts_and_prompts_get_the_block_in_the_hosts_form_and_every_other_event_an_empty_output(
    home: Path, shop: Path, make: Any
) -> None:
    host = make.__name__
    started = run(home, make("SessionStart", shop), host)
    assert json.loads(started.out)["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "In shop: new tests use Vitest." in started.text
    assert "Answer in German." in started.text
    assert (started.code, started.err) == (0, b"")
    for event in ("UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd", "PreCompact", "Notification", "Interrupt"):
        assert quiet(run(home, make(event, shop), host)), event
    (home / "short" / "user.md").write_text("- [lang] Answer in French.\n", "utf-8")
    said = run(home, make("UserPromptSubmit", shop, prompt_id="p2", turn_id="8"), host)
    assert json.loads(said.out)["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert "Answer in French." in said.text
    assert said.out.endswith(b"}\n")


def test_pi_gets_the_same_block_for_every_prompt_and_nothing_else(home: Path, shop: Path) -> None:
    assert quiet(run(home, pi("session_start", shop), "pi"))
    first = run(home, pi("before_agent_start", shop), "pi").text
    assert "Vitest" in first
    assert run(home, pi("before_agent_start", shop, leaf_id="b"), "pi").text == first
    for event in ("tool_result", "agent_settled", "session_shutdown"):
        assert quiet(run(home, pi(event, shop), "pi")), event


@pytest.mark.fault("M5", "M87", "X24", "X39")
def test_a_session_of_another_project_gets_nothing_of_this_one(home: Path, shop: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    text = run(home, claude("SessionStart", other), "claude").text
    assert "German" in text
    assert "Vitest" not in text
    assert "MARK" not in run(home, codex("SessionStart", shop), "codex").text + text


@pytest.mark.req("P018")
@pytest.mark.fault("X28", "M85", "O19")
def test_a_worktree_a_subfolder_and_a_link_are_the_same_project(home: Path, shop: Path, tmp_path: Path) -> None:
    git = ["git", "-C", str(shop), "-c", "user.name=x", "-c", "user.email=x@example.com"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "tree")], check=True)
    (shop / "src").mkdir()
    (tmp_path / "link").symlink_to(shop)
    for number, folder in enumerate((tmp_path / "tree", shop / "src", tmp_path / "link")):
        assert "Vitest" in run(home, claude("SessionStart", folder, session_id=f"s{number}"), "claude").text


@pytest.mark.fault("X34")
def test_after_compaction_the_text_is_that_of_the_start(home: Path, shop: Path) -> None:
    first = run(home, claude("SessionStart", shop), "claude").out
    run(home, claude("UserPromptSubmit", shop), "claude")
    assert run(home, claude("SessionStart", shop, source="compact"), "claude").out == first


def test_a_resumed_session_is_looked_up_in_the_hosts_own_record(home: Path, shop: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    first = run(home, claude("SessionStart", shop), "claude").text
    again = claude("SessionStart", shop, source="resume", transcript_path=str(record))
    record.write_text(json.dumps({"attachment": {"content": [first]}}) + "\n", "utf-8")
    assert quiet(run(home, again, "claude"))
    record.write_text("{}\n", "utf-8")
    assert run(home, again, "claude").text == first


# -- what it leaves -------------------------------------------------------------------------------------


@pytest.mark.req("Z006", "Z015", "Z018", "C044")
@pytest.mark.fault("O17", "X39")
def test_a_prompt_leaves_a_snapshot_a_wake_up_and_one_line_and_no_word_of_anybody(home: Path, shop: Path) -> None:
    before = {path for path in home.rglob("*") if path.is_file()}
    run(home, claude("SessionStart", shop), "claude")
    run(home, claude("UserPromptSubmit", shop), "claude")
    kept = state(home)
    assert (kept["mode"], kept["selection"]["message"], kept["usage"]["turns"]) == ("long", "p1", 1)
    new = {str(p.relative_to(home)) for p in home.rglob("*") if p.is_file()} - {
        str(p.relative_to(home)) for p in before
    }
    new = {name for name in new if not name.startswith("sessions/locks/")}
    (block,) = [name for name in new if "/blocks/" in name]
    assert block.startswith(f"generations/{workspace_of(home).generation}/blocks/")
    new.remove(block)
    assert new == {
        f"sessions/claude/{SESSION}.json",
        f"spool/wake-claude-{SESSION}.json",
        f"spool/used-claude-{SESSION}.json",
        "hook.log",
    }
    assert all((home / name).stat().st_mode & 0o777 == 0o600 for name in new)
    assert (home / "spool").stat().st_mode & 0o777 == 0o700
    log = (home / "hook.log").read_text("utf-8")
    assert [line.split()[1:5] for line in log.splitlines()] == [
        ["claude", "SessionStart", SESSION[:13], "block"],
        ["claude", "UserPromptSubmit", SESSION[:13], "stands"],
    ]
    for path in home.rglob("*"):
        if path.is_file():
            assert b"PROMPT-CANARY" not in path.read_bytes()
    assert "Vitest" not in log
    # Text of memory lies in the generation alone, where a clear and a forget reach it.
    assert "Vitest" not in (home / "sessions" / "claude" / f"{SESSION}.json").read_text("utf-8")
    wake, used = snapshot.take_spool(str(home), "wake"), snapshot.take_spool(str(home), "used")
    assert [(w["host"], w["session"], w["cwd"]) for w in wake] == [("claude", SESSION, str(shop))]
    assert [list(u["citations"]) for u in used] == [[A]]
    assert snapshot.take_spool(str(home)) == []


@pytest.mark.req("Z053", "Z016", "P052")
@pytest.mark.parametrize(
    ("tool", "counts"),
    [
        ({"tool_name": "Read", "tool_response": {"type": "text", "file": {"content": "BODY"}}}, True),
        ({"tool_name": "Bash", "tool_response": {"stdout": "BODY", "stderr": "", "interrupted": False}}, True),
        ({"tool_name": "shell", "tool_response": "BODY"}, True),
        ({"tool_name": "mcp__slowwave__memory_recall", "tool_response": [{"type": "text", "text": "BODY"}]}, False),
        ({"tool_name": "mcp__other__read_file", "tool_response": [{"type": "text", "text": "BODY"}]}, True),
        ({"tool_name": "Bash", "tool_response": {"stdout": "FILE", "exit_code": 0}}, False),
        ({"tool_name": "Bash", "tool_response": {"stdout": "BODY", "exit_code": 1}}, False),
        ({"tool_name": "Read", "tool_response": {"is_error": True, "content": "BODY"}}, False),
        ({"tool_name": "Read", "tool_response": {"error": "File does not exist."}}, False),
        ({"tool_name": "Read", "tool_response": ""}, False),
        ({"tool_name": "Read", "tool_response": "another text altogether"}, False),
    ],
)
def test_only_a_source_whose_text_came_back_counts_as_read(
    home: Path, shop: Path, tool: dict[str, Any], counts: bool
) -> None:
    run(home, claude("UserPromptSubmit", shop), "claude")
    path = workspace_of(home).root / "rollout_summaries" / f"{source_id(A)}.md"
    body, file = path.read_text("utf-8"), str(path)
    response = json.loads(
        json.dumps(tool["tool_response"]).replace("BODY", json.dumps(body)[1:-1]).replace("FILE", file)
    )
    named = {"id": A} if "recall" in tool["tool_name"] else {"file_path": file, "command": f"cat {file}"}
    payload = claude("PostToolUse", shop, tool_name=tool["tool_name"], tool_input=named, tool_response=response)
    assert quiet(run(home, payload, "claude"))
    assert list(state(home)["usage"]["read"]) == ([A] if counts else [])


def test_pi_says_only_whether_a_tool_failed_and_that_is_enough_for_a_read(home: Path, shop: Path) -> None:
    run(home, pi("before_agent_start", shop), "pi")
    path = workspace_of(home).root / "rollout_summaries" / f"{source_id(A)}.md"
    for more in ({"is_error": True}, {"tool_name": "bash"}):
        run(home, pi("tool_result", shop, **{"tool_name": "read", "tool_input": {"path": str(path)}, **more}), "pi")
        assert state(home, "pi")["usage"]["read"] == {}
    run(home, pi("tool_result", shop, tool_name="read", tool_input={"path": str(path)}), "pi")
    assert list(state(home, "pi")["usage"]["read"]) == [A]


@pytest.mark.req("Z017")
@pytest.mark.fault("O43", "M35", "O26")
def test_a_stop_releases_the_selection_and_ends_nothing(home: Path, shop: Path) -> None:
    run(home, claude("UserPromptSubmit", shop), "claude")
    for _ in range(2):
        assert quiet(run(home, claude("Stop", shop), "claude"))
        assert state(home)["selection"] is None
    run(home, claude("UserPromptSubmit", shop, prompt_id="p2"), "claude")
    assert state(home)["selection"]["message"] == "p2"
    subagent = claude("Stop", shop, agent_id="a1", agent_type="explore")
    assert quiet(run(home, subagent, "claude"))
    assert state(home)["selection"]["message"] == "p2"


@pytest.mark.req("Z068")
@pytest.mark.fault("O16", "O14")
def test_our_own_sessions_get_nothing_and_leave_nothing(home: Path, shop: Path) -> None:
    assert quiet(run(home, claude("SessionStart", shop), "claude", variables={"SLOWWAVE_OWN_SESSION": "1"}))
    assert quiet(run(home, claude("SessionStart", workspace_of(home).root), "claude"))
    assert snapshot.snapshots(str(home)) == []


@pytest.mark.fault("O47")
@pytest.mark.parametrize("name", ["SLOWWAVE_MEMORY_ENABLED", "SLOWWAVE_MEMORY_MODE"])
def test_one_variable_switches_it_off_without_a_word(home: Path, shop: Path, name: str) -> None:
    value = "false" if name.endswith("ENABLED") else "off"
    for event in CLAUDE_EVENTS:
        assert quiet(run(home, claude(event, shop), "claude", variables={name: value}))
    assert snapshot.take_spool(str(home)) == []


@pytest.mark.req("Z023")
@pytest.mark.fault("X40")
def test_after_a_forget_the_next_turn_has_nothing_of_it(home: Path, shop: Path) -> None:
    assert "Vitest" in run(home, claude("SessionStart", shop), "claude").text
    publish(home, {PREFERENCES: ["Rule of another. [bbbb0002]"]}, {"bbbb0002": THERE})
    text = run(home, claude("UserPromptSubmit", shop), "claude").text
    assert "Vitest" not in text
    assert "German" in text
    (home / "short" / "user.md").unlink()
    assert run(home, claude("UserPromptSubmit", shop, prompt_id="p2"), "claude").text == inject.withdrawal(
        state(home)["id"]
    )


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
    assert said.seconds < 5


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


@pytest.mark.fault("O23", "M77")
def test_an_input_that_never_ends_is_given_up_at_the_deadline(home: Path) -> None:
    child = subprocess.Popen(
        command("claude", program=IN_TIME),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home),
    )
    assert child.stdin is not None
    began = time.perf_counter()
    child.stdin.write(b'{"session_id": ')
    child.stdin.flush()
    assert child.wait(10) == 0
    assert time.perf_counter() - began < hook.DEADLINE_SECONDS + 2
    assert child.communicate() == (b"", b"")


@pytest.mark.fault("O23", "M77")
def test_a_session_whose_lock_is_held_is_answered_in_time_with_the_last_block(home: Path, shop: Path) -> None:
    first = run(home, pi("before_agent_start", shop), "pi")
    time.sleep(1.1)  # a block made right after a file was written is not trusted
    first = run(home, pi("before_agent_start", shop), "pi")
    payload = pi("before_agent_start", shop, leaf_id="n2")
    release = snapshot.Files(str(home)).lock("pi", payload["session_id"])
    assert release is not None
    try:
        said = run(home, payload, "pi", program=QUICK_LOCK)
        assert said.text == first.text
        assert said.seconds < 5
        (home / "short" / "user.md").write_text("- [a] changed\n", "utf-8")
        assert quiet(run(home, payload, "pi", program=QUICK_LOCK))
    finally:
        release()
    assert "changed" in run(home, payload, "pi").text


HANG = "import time, recall.policy; recall.policy.MemoryPolicy.handle = lambda policy, call: time.sleep(30)"
STUCK = IN_TIME.replace("; hosts.hook.main", f"; {HANG}; hosts.hook.main")
"""A hook that comes to nothing before its deadline."""


@pytest.mark.fault("O23", "M77")
def test_work_that_takes_too_long_is_given_up_and_the_next_turn_tries_again(home: Path, shop: Path) -> None:
    hang = "import time, recall.inject; recall.inject.build = lambda request: time.sleep(30)"
    hang = IN_TIME.replace("; hosts.hook.main", f"; {hang}; hosts.hook.main")
    said = run(home, claude("UserPromptSubmit", shop), "claude", program=hang)
    assert quiet(said)
    assert said.seconds < 5
    assert "deadline" in (home / "hook.log").read_text("utf-8")
    assert "Vitest" in run(home, claude("UserPromptSubmit", shop), "claude").text
    time.sleep(1.1)
    run(home, claude("SessionStart", shop, source="compact"), "claude")
    # What another session of the folder built is there when the time is up.
    assert "Vitest" in run(home, claude("UserPromptSubmit", shop, session_id="other"), "claude", program=STUCK).text


@pytest.mark.req("P005")
def test_ten_hooks_at_once_give_the_block_once_and_count_every_message_once(home: Path, shop: Path) -> None:
    messages = [f"p{number % 5}" for number in range(10)]
    payloads = [claude("UserPromptSubmit", shop, prompt_id=message) for message in messages]
    with ThreadPoolExecutor(10) as pool:
        said = list(pool.map(lambda payload: run(home, payload, "claude"), payloads))
    assert [one.code for one in said] == [0] * 10
    given = [one.text for one in said if one.out]
    assert len(given) <= 1
    kept = state(home)
    assert len(kept["seen"]) == len(set(kept["seen"])) == kept["usage"]["turns"] <= 5
    assert len(snapshot.take_spool(str(home), "wake")) == 1
    assert not list(home.rglob("*.tmp"))


@pytest.mark.fault("M35")
@pytest.mark.parametrize("after", [0.0, 0.02, 0.04, 0.08])
def test_killed_at_any_moment_the_next_turn_goes_on(home: Path, shop: Path, after: float) -> None:
    child = subprocess.Popen(command("claude"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(home))
    assert child.stdin is not None
    child.stdin.write(json.dumps(claude("UserPromptSubmit", shop)).encode())
    child.stdin.close()
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    said = run(home, claude("UserPromptSubmit", shop, prompt_id="p2"), "claude")
    assert said.code == 0
    assert snapshot.snapshots(str(home))[0]["selection"]["message"] == "p2"


# -- what it is made of ---------------------------------------------------------------------------------


@pytest.mark.fault("M78")
def test_it_imports_the_standard_library_and_little_of_it(home: Path, shop: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hosts.hook\n"
        "hosts.hook.run(['claude']); sys.stderr.write(' '.join(sys.modules))"
    )
    seen: set[str] = set()
    done = subprocess.CompletedProcess[bytes]([], 0)
    for event in ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            input=json.dumps(claude(event, shop, tool_input="rollout_summaries/")).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        seen |= set(done.stderr.decode().split())
    ours = {"hosts", "memory", "recall"}
    assert {name.split(".")[0] for name in seen} - sys.stdlib_module_names - {"__main__"} == ours
    heavy = {"socket", "ssl", "asyncio", "subprocess", "sqlite3", "multiprocessing", "logging", "email", "http"}
    assert not heavy & seen
    time.sleep(1.1)  # a block made right after a file was written is not trusted
    run(home, claude("UserPromptSubmit", shop, prompt_id="p8"), "claude")
    # A turn in which nothing changed, and a session where another one has been before, do with next to nothing.
    unwanted = {"dataclasses", "pathlib", "hashlib", "recall.inject", "memory.project"}
    for session, more in ((SESSION, {"tomllib", "typing"}), ("another", set())):
        payload = claude("UserPromptSubmit", shop, prompt_id="p9", session_id=session)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            input=json.dumps(payload).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        assert not (unwanted | more) & set(done.stderr.decode().split())
    assert b"Vitest" in done.stdout


@pytest.mark.parametrize("change", ["remote", "nested repository", "summary", "folder"])
def test_a_block_of_another_session_is_only_taken_while_nothing_it_rests_on_changed(
    home: Path, shop: Path, change: str
) -> None:
    inner = shop / "inner"
    inner.mkdir()
    time.sleep(1.1)
    assert "Vitest" in run(home, claude("SessionStart", inner), "claude").text
    match change:
        case "remote":
            subprocess.run(["git", "-C", str(shop), "remote", "set-url", "origin", "https://x.example/y/z"], check=True)
        case "nested repository":
            subprocess.run(["git", "init", "-q", str(inner)], check=True)
        case "summary":
            publish(home, {PREFERENCES: ["Other. [bbbb0002]"]}, {"bbbb0002": project_of(shop).id})
        case "folder":
            inner = home.parent
    text = run(home, claude("SessionStart", inner, session_id="another"), "claude").text
    assert "Vitest" not in text
    assert "German" in text
    assert ("Other" in text) == (change == "summary")


@pytest.mark.fault("M77", "M85")
@pytest.mark.parametrize("change", ["first commit", "remote", "another beginning", "packed", "nothing"])
def test_in_a_repository_without_a_remote_a_block_is_shared_until_its_beginning_may_be_another(
    home: Path, tmp_path: Path, change: str
) -> None:
    root = tmp_path / "alone"
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    commit = [*git, "commit", "-q", "--allow-empty", "-m"]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    if change != "first commit":
        subprocess.run([*commit, "one"], check=True)
    publish(home, {PREFERENCES: ["Mine alone. [aaaa0001]"]}, {"aaaa0001": project_of(root).id})
    time.sleep(1.1)
    assert "Mine alone" in run(home, claude("UserPromptSubmit", root), "claude").text
    match change:
        case "first commit":
            subprocess.run([*commit, "one"], check=True)
        case "remote":
            subprocess.run([*git, "remote", "add", "origin", "https://x.example/y/z"], check=True)
        case "another beginning":
            subprocess.run([*git, "checkout", "-q", "--orphan", "new"], check=True)
            subprocess.run([*commit, "two"], check=True)
        case "packed":
            subprocess.run([*git, "pack-refs", "--all"], check=True)
    stale = run(home, claude("UserPromptSubmit", root, session_id="late"), "claude", program=STUCK)
    assert ("Mine alone" in stale.text) == (change == "nothing")
    late = run(home, claude("UserPromptSubmit", root, session_id="another"), "claude")
    assert ("Mine alone" in late.text) == (change in {"packed", "nothing"})


def test_it_opens_no_socket_and_starts_no_process(home: Path, shop: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "bad = ('socket.', 'subprocess.', 'os.system', 'os.exec', 'os.fork', 'os.posix_spawn', 'os.spawn')\n"
        "def audit(event, args):\n"
        "    if event.startswith(bad): sys.stderr.write(event)\n"
        "sys.addaudithook(audit)\n"
        "import hosts.hook; hosts.hook.run(['claude'])"
    )
    for event in CLAUDE_EVENTS:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            input=json.dumps(claude(event, shop)).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        assert done.stderr == b""


def test_a_projects_own_modules_cannot_take_the_place_of_ours(home: Path, shop: Path) -> None:
    for name in ("recall", "memory", "hosts"):
        (shop / name).mkdir()
        (shop / name / "__init__.py").write_text("raise SystemExit(7)\n", "utf-8")
    (shop / "json.py").write_text("raise SystemExit(7)\n", "utf-8")
    said = run(home, claude("SessionStart", shop), "claude", cwd=shop, variables={"PYTHONPATH": str(shop)})
    assert "Vitest" in said.text


def test_the_log_stays_small(home: Path, shop: Path) -> None:
    (home / "hook.log").write_bytes(b"x" * (hook.LOG_BYTES + 1))
    for number in range(3):
        run(home, claude("UserPromptSubmit", shop, prompt_id=f"p{number}"), "claude")
    assert (home / "hook.log").stat().st_size < 1_000
    assert (home / "hook.log.1").stat().st_size > hook.LOG_BYTES
    assert not (home / "hook.log.2").exists()


def test_the_folder_of_a_project_is_left_as_it_is(home: Path, shop: Path) -> None:
    before = sorted(str(path) for path in shop.rglob("*"))
    for event in CLAUDE_EVENTS:
        run(home, claude(event, shop), "claude", cwd=shop)
    assert sorted(str(path) for path in shop.rglob("*")) == before


# -- the spool and old snapshots ------------------------------------------------------------------------


def test_old_snapshots_are_deleted_and_the_spool_is_left_alone(home: Path, shop: Path) -> None:
    run(home, claude("UserPromptSubmit", shop), "claude")
    (home / "sessions" / "claude" / "dead.json.1-ab.tmp").write_text("", "utf-8")
    blocks = home / "generations" / workspace_of(home).generation / "blocks"
    now = time.time()
    assert snapshot.prune(str(home), older_than=now - 86_400) == 0
    assert len(list(blocks.iterdir())) == 1
    (home / "short" / "user.md").write_text("- [a] changed\n", "utf-8")
    assert snapshot.prune(str(home), older_than=now - 86_400) == 1  # the block that no longer holds
    assert list(blocks.iterdir()) == []
    assert snapshot.prune(str(home), older_than=now + 10) == 2
    assert snapshot.snapshots(str(home)) == []
    assert len(snapshot.take_spool(str(home))) == 2
    assert snapshot.prune(str(home / "none"), older_than=now) == 0


def test_a_damaged_spool_file_is_dropped(home: Path) -> None:
    (home / "spool").mkdir()
    for name, content in {"wake-a.json": b"{", "used-b.json": b'{"version": 1}', "other.json": b"{}"}.items():
        (home / "spool" / name).write_bytes(content)
    assert snapshot.take_spool(str(home)) == []
    assert [path.name for path in (home / "spool").iterdir()] == ["other.json"]


def test_the_installed_program_is_this_one(home: Path, shop: Path) -> None:
    program = Path(sys.executable).with_name("slowwave-hook")
    if not program.exists():
        program_path = shutil.which("slowwave-hook")
        if program_path is None:
            pytest.skip("slowwave-hook is not installed")
        program = Path(program_path)
    done = subprocess.run(
        [sys.executable, "-I", str(program), "claude"],
        input=json.dumps(claude("SessionStart", shop)).encode(),
        capture_output=True,
        env=environment(home),
        check=True,
    )
    assert b"Vitest" in done.stdout
    assert project_of(shop).name == "shop"
