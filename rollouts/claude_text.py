"""What stands in the texts of a Claude Code transcript: injected blocks, commands, answers given inside tools."""

from __future__ import annotations

import re
from typing import Any

from rollouts.drafts import Part, Peeler, content_texts, mapped, template, word

TAGS = {
    "system-reminder": "reminder",
    "system_reminder": "reminder",
    "local-command-caveat": "command_output",
    "local-command-stdout": "command_output",
    "local-command-stderr": "command_output",
    "bash-input": "shell_input",
    "bash-stdout": "shell_output",
    "bash-stderr": "shell_output",
    "bash-exit-code": "shell_output",
    "command-name": "command",
    "command-message": "command",
    "command-args": "command",
    "command-contents": "command",
    "task-notification": "notification",
    "tick": "notification",
    "teammate-message": "third_party",
    "cross-session-message": "third_party",
    "agent-message": "third_party",
    "coordinator-relay": "third_party",
    "channel": "third_party",
    "slack-ping": "third_party",
    "slack-tag-message": "third_party",
    "remote-review": "third_party",
    "fetched-web-content": "untrusted",
    "untrusted-widget-state": "untrusted",
    "artifact-*": "untrusted",
    "user-prompt-submit-hook": "hook_output",
    "session-start-hook": "hook_output",
    "ide_opened_file": "ide_selection",
    "ide_selection": "ide_selection",
    "ide_diagnostics": "ide_selection",
    "tool_use_error": "reminder",
    "function_results": "reminder",
    "sandbox_violations": "reminder",
    "total_tokens": "reminder",
    "claude-mem-context": "memory",
    "ourmem": "memory",
    "memory": "memory",
    "private": "private",
}
_PEELER = Peeler(TAGS)
_RESULT_PEELER = Peeler({"system-reminder": "reminder", "system_reminder": "reminder", "total_tokens": "reminder"})

_PREFIXES = (
    ("This session is being continued from a previous conversation", "compaction"),
    ("Stop hook feedback:", "hook_output"),
    ("Caveat: The messages below were generated", "command_output"),
    ("[Request interrupted by user", "interrupt"),
    ("[This turn ended before it finished", "interrupt"),
    ("[Agent call interrupted", "interrupt"),
    ("Base directory for this skill:", "skill"),
    ("[Memory context]", "memory"),
    ("# claudeMd", "instructions_file"),
    ("Monitor event:", "notification"),
    ("Read the output file to retrieve the result:", "notification"),
    ("Full transcript available at:", "notification"),
)
_HOOK_CONTEXT = re.compile(r"\S+ hook additional context:")
_COMMAND_NAME = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_COMMAND_ARGS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_UI_COMMANDS = frozenset(
    {
        "/add-dir",
        "/agents",
        "/bashes",
        "/bug",
        "/clear",
        "/color",
        "/compact",
        "/config",
        "/context",
        "/copy",
        "/cost",
        "/doctor",
        "/effort",
        "/exit",
        "/export",
        "/extra-usage",
        "/fast",
        "/feedback",
        "/help",
        "/hooks",
        "/ide",
        "/install-github-app",
        "/keybindings",
        "/login",
        "/logout",
        "/mcp",
        "/memory",
        "/mobile",
        "/model",
        "/output-style",
        "/permissions",
        "/plugin",
        "/plugins",
        "/privacy-settings",
        "/quit",
        "/rate-limit-options",
        "/release-notes",
        "/reload-plugins",
        "/remote-control",
        "/rename",
        "/resume",
        "/rewind",
        "/sandbox",
        "/skills",
        "/stats",
        "/status",
        "/statusline",
        "/tasks",
        "/terminal-setup",
        "/theme",
        "/todos",
        "/upgrade",
        "/usage",
        "/vim",
        "/voice",
    }
)
"""Commands of the screen: what they are given is no statement of the person about the work."""


def user_parts(text: str) -> list[Part]:
    """The pieces of one text in the user's role; `derived_from` None marks the person's own words.

    `shell_input` and `shell_output` are what the person ran with `!`.
    """
    start = text[:200].lstrip()
    if start.startswith("<command-"):
        return _command(text)
    found: list[Part] = []
    for part in _PEELER.parts(text):
        reason = part.derived_from
        if reason is None:
            reason = prefix_reason(part.text)
            if reason is None:
                found.extend(template(part.text))
                continue
        elif reason == "reminder":
            reason = reminder_reason(part.text)
        elif reason == "private":
            part = Part("private", "[private]")
        found.append(Part(reason, part.text))
    return found


def prefix_reason(text: str) -> str | None:
    """Why a text that begins like this is not the person's."""
    for prefix, reason in _PREFIXES:
        if text.startswith(prefix):
            return reason
    return "hook_output" if _HOOK_CONTEXT.match(text) else None


def reminder_reason(text: str) -> str:
    """Reminders also carry instruction files and memory."""
    start = text[:4_000]
    if "MEMORY.md" in start or "/memory/" in start or "auto memory" in start:
        return "memory"
    return "instructions_file" if "# claudeMd" in start or "CLAUDE.md" in start else "reminder"


def meta_reason(text: str) -> str:
    """What a record marked as not typed (`isMeta`) is."""
    parts = user_parts(text)
    reason = parts[0].derived_from if parts else None
    return reason if reason not in {None, "shell_input", "shell_output"} and reason else "meta"


def _command(text: str) -> list[Part]:
    """A slash command: `/name args` in the person's words, unless it only works the screen."""
    name, args = _COMMAND_NAME.search(text), _COMMAND_ARGS.search(text)
    spoken = f"{name[1] if name else ''} {args[1] if args else ''}".strip()
    if name is None or name[1] in _UI_COMMANDS or not spoken:
        return [Part("command", text)]
    return [Part(None, spoken)]


def inner(block: str) -> str:
    """The text between the tags of a block."""
    return re.sub(r"\A\s*<[^>]*>\s*|\s*</[^>]*>\s*\Z", "", block)


# -- tools --------------------------------------------------------------------------------------------

_END = r'(?=, "[^"]+"="|\.? You can now|\Z)'
_ANSWERED = re.compile(
    r'"(?P<question>(?:[^"]|"(?!=))+)"="(?P<answer>.*?)"'
    rf"(?: selected preview:.*?)?(?: user notes: (?P<notes>.*?))?{_END}",
    re.DOTALL,
)
_SAID = re.compile(
    r"\AThe user doesn't want to [^\n]{0,400}To tell you how to proceed, the user said:\n(?P<said>.*)\Z", re.DOTALL
)
_NOT_SAID = "The user wants to clarify these questions"
_NOTE = "\n\nNote: The user's next message may contain"
_OUTSIDE = ("mcp__", "Web", "Task", "Agent")


def answers(text: str) -> str:
    """What the person answered to the agent's questions, each answer after its question; "" for none."""
    if "answered your questions" not in text[:400]:
        return ""
    lines = []
    for match in _ANSWERED.finditer(text):
        answer, notes = match["answer"].strip(), (match["notes"] or "").strip()
        given = answer if notes in answer else f"{answer}, {notes}".strip(", ")
        if given:
            lines.append(f'(asked "{match["question"]}") {given}')
    return "\n".join(lines)


def said_on_refusal(text: str, tool: str | None) -> str:
    """What the person said when they refused a tool; "" for nothing.

    The harness writes it where the tool's output would stand. A tool whose errors are written elsewhere could
    imitate that, so those never speak for the person.
    """
    match = None if tool is None or tool.startswith(_OUTSIDE) else _SAID.match(text)
    if match is None:
        return ""
    said = match["said"].partition(_NOTE)[0].strip()
    return "" if said.startswith(_NOT_SAID) else said


def result_parts(content: object) -> tuple[str, list[Part]]:
    """A tool result's own text, and what was put beside it (reminders)."""
    text = content if type(content) is str else "\n".join(content_texts(content))
    if not text.startswith("<") and not text[-64:].rstrip().endswith(">") and "<slowwave-memory" not in text:
        return text, []
    own: list[str] = []
    beside: list[Part] = []
    for part in _RESULT_PEELER.parts(text):
        if part.derived_from is None:
            own.append(part.text)
        elif part.derived_from == "reminder":
            beside.append(Part(reminder_reason(part.text), part.text))
        else:
            beside.append(part)
    return "\n".join(own), beside


# -- attachments --------------------------------------------------------------------------------------

_ATTACHMENTS = {
    "relevant_memories": "memory",
    "account_memory_recall": "memory",
    "cowork_memory_context": "memory",
    "session_context": "memory",
    "nested_memory": "instructions_file",
    "instructions": "instructions_file",
    "fork_briefing": "branch_summary",
    "compact_file_reference": "compaction",
    "skill_listing": "skill",
    "invoked_skills": "skill",
    "dynamic_skill": "skill",
    "file": "attachment",
    "directory": "attachment",
    "edited_text_file": "attachment",
    "plan_file_reference": "attachment",
    "structured_output": "attachment",
    "task_status": "notification",
    "diagnostics": "ide_selection",
    "selected_lines_in_ide": "ide_selection",
    "opened_file_in_ide": "ide_selection",
}
_REMINDERS = frozenset(
    {
        "agent_listing_delta",
        "auto_mode",
        "auto_mode_exit",
        "batching_reminder_sent",
        "budget_usd",
        "command_permissions",
        "companion_intro",
        "context_tip",
        "date_change",
        "deferred_tools_delta",
        "goal_status",
        "max_turns_reached",
        "mcp_instructions_delta",
        "output_style",
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "read_truncation_notice",
        "silent_turn_reminder",
        "task_reminder",
        "todo_reminder",
        "total_tokens_reminder",
        "ultra_effort_enter",
        "ultra_effort_exit",
        "ultrathink_effort",
    }
)


def attachment_reason(kind: str) -> str | None:
    """What an attachment of this type is derived from; None for a type this reader does not know."""
    if kind.startswith("hook_"):
        return "hook_output"
    return "reminder" if kind in _REMINDERS else _ATTACHMENTS.get(kind)


def attachment_text(attachment: dict[str, Any]) -> str:
    """The words an attachment brings into the context."""
    texts = content_texts(attachment.get("content"))
    for key in ("stdout", "snippet", "text"):
        if text := word(attachment.get(key)):
            texts.append(text)
    inside = attachment.get("content")
    if type(inside) is dict:
        texts += content_texts(inside.get("content")) or content_texts(mapped(inside.get("file")).get("content"))
    memories = attachment.get("memories")
    if type(memories) is list:
        for memory in memories:
            texts += content_texts(mapped(memory).get("content"))
    return "\n".join(texts)
