"""The hook in a process of its own: the host's format or nothing, exit code 0, whatever it meets."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from recall import inject, snapshot
from tests.hosts.payloads import CLAUDE_EVENTS, SESSION, A, claude, codex, pi, quiet, state
from tests.plugins.hook_runner import run
from tests.plugins.published import PREFERENCES, THERE, publish, source_id, workspace_of

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
    made = ("spool", "sessions", "sessions/claude", "sessions/locks", str(Path(block).parent))
    assert {name: (home / name).stat().st_mode & 0o777 for name in made} == dict.fromkeys(made, 0o700)
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
