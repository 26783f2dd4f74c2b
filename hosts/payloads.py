"""What the hosts send to a hook and expect back, in one place.

Codex and Claude Code: JSON on standard input with `session_id`, `transcript_path`, `cwd`, `hook_event_name`; context
goes back as `hookSpecificOutput.additionalContext`, for `SessionStart` and `UserPromptSubmit` only. Everything else
gets an empty standard output: a text at `Stop` would make the agent go on, an unknown key is refused.

Pi: our extension sends the same keys with the names of its own events (`before_agent_start`, `tool_result`,
`agent_settled`, `session_start`, `session_shutdown`), `leaf_id` for the place in the conversation, `transcript_path`
for the session file; it gets the same answer and puts the text into each request, never into the session.

Standard library only; a payload is data of unknown shape and size.
"""

from __future__ import annotations

import json

from recall.policy import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOSTS = ("codex", "claude", "pi")
MAX_PARSED_BYTES = 8 << 20
MAX_FIELD = 4_096
EDGE_BYTES = 65_536
"""How far into a payload too large to parse its fields are looked for, from either end."""
MAX_TRIES = 64
NEEDED = frozenset({"session_id", "cwd", "hook_event_name"})
"""With these an event can be answered."""

_KINDS = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "PostToolUse": "tool",
    "Stop": "end",
    "StopFailure": "end",
    "SessionEnd": "end",
    "session_start": "start",
    "before_agent_start": "prompt",
    "tool_result": "tool",
    "agent_settled": "end",
    "session_shutdown": "end",
}
_FIELDS = frozenset(
    "session_id transcript_path cwd hook_event_name prompt_id turn_id leaf_id source agent_id parent_session_id".split()
)
"""What counts of a payload that is not read whole: of a tool, whether it failed may stand in the rest."""
_NOT_BY_USER = frozenset({"system", "loop_wakeup", "schedule_wakeup", "poll_event", "extension"})
_STARTS = frozenset({"startup", "resume", "clear", "compact", "fork", "new", "reload"})


def parse(raw: bytes) -> dict[str, Any] | None:
    """The payload as an object; None where it is none."""
    try:
        values = json.loads(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def beginning(raw: bytes) -> dict[str, Any]:
    """The text fields in front of the first value that does not end within EDGE_BYTES, as a prompt of megabytes."""
    text, found = raw[:EDGE_BYTES].decode("utf-8", "replace"), {}
    decoder = json.JSONDecoder()
    at = _after(text, 0, "{")
    while at:
        try:
            name, at = decoder.raw_decode(text, at)
            value, at = decoder.raw_decode(text, _after(text, at, ":") or len(text))
        except (ValueError, RecursionError):
            break
        if name in _FIELDS and isinstance(value, str):
            found[name] = value
        at = _after(text, at, ",")
    return found


def ending(raw: bytes) -> dict[str, Any]:
    """The text fields behind the last large value, from the end of a payload. A quote inside a text is escaped, and
    what follows the end of one must be the rest of an object: nothing a text says passes for a field."""
    import re

    text = raw[-EDGE_BYTES:].decode("utf-8", "replace")
    for number, match in enumerate(re.finditer(r'(?<!\\)(?:\\\\)*"\s*,\s*(?=")', text)):
        if number == MAX_TRIES:
            break
        try:
            values = json.loads("{" + text[match.end() :])
        except (ValueError, RecursionError):
            continue
        return {name: value for name, value in values.items() if name in _FIELDS and isinstance(value, str)}
    return {}


def _after(text: str, at: int, sign: str) -> int:
    """Where the next token begins behind a sign; 0 where the sign does not come next."""
    rest = text[at:].lstrip(" \t\r\n")
    if not rest.startswith(sign):
        return 0
    return len(text) - len(rest[1:].lstrip(" \t\r\n"))


def host_of(argument: str, payload: dict[str, Any]) -> str:
    """The host a hook was installed for; where it is not said, the one whose payload this looks like."""
    if argument in HOSTS:
        return argument
    if _text(payload, "hook_event_name") in {"before_agent_start", "tool_result", "agent_settled", "session_start"}:
        return "pi"
    name = _text(payload, "transcript_path").rsplit("/", 1)[-1]
    return "codex" if "turn_id" in payload or name.startswith("rollout-") else "claude"


def call_of(host: str, payload: dict[str, Any]) -> Call | None:
    """The event in the policy's words; None for one that is not ours: no session, a subagent's, an unknown name."""
    kind = _KINDS.get(_text(payload, "hook_event_name"))
    session = _text(payload, "session_id")
    if kind is None or not session:
        return None
    if kind != "tool" and (_text(payload, "agent_id") or _text(payload, "parent_session_id")):
        return None  # a subagent's turn is not the root task's
    source = _text(payload, "source") or _text(payload, "reason")
    return Call(
        kind,
        host,
        session,
        cwd=_text(payload, "cwd"),
        message=_text(payload, "prompt_id") or _text(payload, "turn_id") or _text(payload, "leaf_id"),
        transcript=_text(payload, "transcript_path"),
        source=source if kind == "start" and source in _STARTS else "",
        model=_text(payload, "model"),
        by_user=not (kind == "prompt" and source in _NOT_BY_USER),
    )


def tool_of(payload: dict[str, Any]) -> tuple[str, object, object]:
    """Name, input and response of the tool that ran. The response is empty for one that failed, True where the host
    only says that it did not."""
    response = payload.get("tool_response", True)
    if payload.get("isError") is True or payload.get("is_error") is True:
        response = None
    return _text(payload, "tool_name"), payload.get("tool_input"), response


def answer(event: str, text: str) -> bytes:
    """What goes to standard output, the same for all three; empty where there is nothing to say."""
    if not text:
        return b""
    values = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}
    return json.dumps(values, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _text(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) and len(value) <= MAX_FIELD else ""
