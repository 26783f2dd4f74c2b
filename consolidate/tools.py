"""The agent's three tools over the staged files. Everything else it asks for is an error it can read.

No shell, no network, no other file: the tools are functions of this process over `ConfinedFiles` [Z090-Z095].
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from memory.errors import SlowwaveError
from memory.llm.base import ToolCall, ToolSpec
from memory.workspace import ConfinedFiles

MAX_RESULT_CHARS = 40_000
"""Code points of one tool result; a longer file is read in parts."""
MAX_CALLS_PER_TURN = 600
"""Tool calls the loop carries out from one answer; every input may be read at once."""

_PATH = {"type": "string", "description": "Path relative to the workspace, as listed in the table of inputs."}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


TOOLS = (
    ToolSpec(
        "read",
        f"Read a file of the workspace, at most {MAX_RESULT_CHARS} characters at a time.",
        _object(
            ["path"],
            path=_PATH,
            offset={"type": "integer", "minimum": 0, "description": "First character to read; 0 when left out."},
        ),
    ),
    ToolSpec(
        "write",
        "Replace memory_summary.md with new content. No other file can be written.",
        _object(["path", "content"], path=_PATH, content={"type": "string"}),
    ),
    ToolSpec(
        "edit",
        "Replace one passage of memory_summary.md. `old` must occur exactly once.",
        _object(["path", "old", "new"], path=_PATH, old={"type": "string"}, new={"type": "string"}),
    ),
)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What goes back to the agent; `ok` is False for an error it should react to."""

    text: str
    ok: bool


def carry_out(call: ToolCall, files: ConfinedFiles) -> ToolResult:
    """Runs one call. Never raises for what a model can do wrong; every refusal is a text."""
    spec = next((tool for tool in TOOLS if tool.name == call.name), None)
    if spec is None:
        return ToolResult(f"There is no tool {call.name[:40]!r}. Tools: read, write, edit.", ok=False)
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return ToolResult("The arguments are not valid JSON.", ok=False)
    wrong = _mismatch(spec, arguments)
    if wrong:
        return ToolResult(wrong, ok=False)
    try:
        return ToolResult(_run(call.name, arguments, files), ok=True)
    except SlowwaveError as error:
        return ToolResult(str(error), ok=False)
    except UnicodeEncodeError:
        return ToolResult("The text holds characters that are not valid Unicode.", ok=False)


def _mismatch(spec: ToolSpec, arguments: object) -> str:
    if not isinstance(arguments, dict):
        return "The arguments must be a JSON object."
    properties = spec.parameters["properties"]
    for name in spec.parameters["required"]:
        if name not in arguments:
            return f"{spec.name} needs `{name}`."
    for name, value in arguments.items():
        if name not in properties:
            return f"{spec.name} knows no argument `{name[:40]}`."
        wanted = int if properties[name]["type"] == "integer" else str
        if not isinstance(value, wanted) or isinstance(value, bool):
            return f"`{name}` must be a {properties[name]['type']}."
    return ""


def _run(name: str, arguments: dict[str, Any], files: ConfinedFiles) -> str:
    path = arguments["path"]
    if name == "write":
        files.write(path, arguments["content"])
        return f"Written: {path}, {len(arguments['content'].encode()):,} bytes."
    if name == "edit":
        files.edit(path, arguments["old"], arguments["new"])
        return f"Edited: {path}."
    text = files.read(path)
    start = max(0, int(arguments.get("offset", 0)))
    part = text[start : start + MAX_RESULT_CHARS]
    rest = len(text) - start - len(part)
    return part + (f"\n[{rest:,} more characters: read again with offset {start + len(part)}]" if rest > 0 else "")
