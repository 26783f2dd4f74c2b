"""Events as each host writes them, and what is looked at after a hook has run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recall import snapshot
from tests.plugins.hook_runner import Said

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
