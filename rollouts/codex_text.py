"""What stands in the texts of a Codex rollout: injected fragments, shell output, answers to questions."""

from __future__ import annotations

import re
from typing import Any

from rollouts.drafts import MEDIA, Part, Peeler, dump, listed, load_object, mapped, own_memory, template, word

TAGS = {
    "environment_context": "environment",
    "environments_instructions": "environment",
    "user_instructions": "instructions_file",
    "skill": "skill",
    "turn_aborted": "interrupt",
    "subagent_notification": "agent",
    "user_shell_command": "shell",
    "hook_prompt": "hook_output",
    "codex_internal_context": "internal_context",
    "goal_context": "internal_context",
    "realtime_delegation": "internal_context",
    "node_repl_review_evidence": "internal_context",
    "recommended_plugins": "internal_context",
    "user_action": "notification",
    "external_*": "third_party",
    "memory": "memory",
    "memories": "memory",
    "claude-mem-context": "memory",
}
"""Marked fragments of user messages. `agent` and `shell` are evidence of another kind, the rest is none."""

_PEELER = Peeler(TAGS)
_AGENTS_MD = "# agents.md instructions"
_AGENTS_MD_END = "</INSTRUCTIONS>"
_REQUEST = re.compile(r"^## My request for Codex:?[ \t]*$", re.MULTILINE)
_IMAGE_TAG = re.compile(r"\s*</?image\b[^>]*>\s*\Z")
_WARNINGS = (
    "Warning: The maximum number of unified exec processes",
    "Warning: apply_patch was requested via",
    "Warning: Your account was flagged for potentially high-risk cyber",
)
_HANDOVER = "A previous agent produced the plan below"
_KINDS = {
    "agents_md": "instructions_file",
    "environments": "environment",
    "skills": "skill",
    "hooks": "hook_output",
    "memories": "memory",
    "model": "system_prompt",
    "multi_agent": "internal_context",
}
_CITATION = re.compile(r"\s*<oai-mem-citation>.*?(?:</oai-mem-citation>|\Z)", re.DOTALL)
_PLAN = re.compile(r"</?proposed_plan>[ \t]*\n?")


def user_parts(payload: dict[str, Any]) -> list[Part]:
    """The pieces of a user message: own words (`derived_from` None) and what was put beside them.

    Labels of the content items (`content_item_kinds`) decide where they are given; else marked fragments do, one
    content item at a time.
    """
    content = payload.get("content")
    if type(content) is str:
        content = [content]
    if type(content) is not list:
        return []
    kinds = _content_kinds(payload, len(content))
    found: list[Part] = []
    for index, item in enumerate(content):
        text = item if type(item) is str else item.get("text") if type(item) is dict else None
        if type(text) is not str:
            kind = item.get("type") if type(item) is dict else None
            if type(kind) is str and kind in MEDIA:
                found.append(Part(None, MEDIA[kind]))
            continue
        label = kinds[index] if kinds else ""
        if label.startswith("user."):
            found.extend(piece for part in own_memory(text) for piece in _typed(part))
        elif (family := label.partition(".")[0]) in _KINDS:
            found.append(Part(_KINDS[family], text))
        else:
            found.extend(fragments(text))
    return found


def fragments(text: str) -> list[Part]:
    """The pieces of one content item by their marks."""
    text = text.strip()
    if text.startswith(("<image", "</image")) and _IMAGE_TAG.match(text):
        return []
    found: list[Part] = []
    while text[: len(_AGENTS_MD)].lower() == _AGENTS_MD and (end := text.find(_AGENTS_MD_END)) >= 0:
        end += len(_AGENTS_MD_END)
        found.append(Part("instructions_file", text[:end]))
        text = text[end:].lstrip()
    for part in _PEELER.parts(text):
        if part.derived_from is None and part.text.startswith(_WARNINGS):
            found.append(Part("notification", part.text))
        elif part.derived_from is None and part.text.startswith(_HANDOVER):
            found.append(Part("agent", part.text))
        elif part.derived_from is None and (request := _REQUEST.search(part.text)) is not None:
            if before := part.text[: request.start()].strip():
                found.append(Part("ide_selection", before))
            found.append(Part(None, part.text[request.end() :].strip()))
        elif part.derived_from is None:
            found.extend(template(part.text))
        else:
            found.append(part)
    return found


def _typed(part: Part) -> list[Part]:
    """A piece labelled as the person's own, less what the client put around it."""
    if part.derived_from is not None:
        return [part]
    request = _REQUEST.search(part.text) if "## My request" in part.text else None
    text = part.text if request is None else part.text[request.end() :]
    return template(text.strip())


def _content_kinds(payload: dict[str, Any], length: int) -> list[str]:
    kinds = listed(mapped(payload.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds"))
    return kinds if len(kinds) == length and all(type(kind) is str for kind in kinds) else []


def assistant_text(text: str) -> str:
    """An assistant's text as the person saw it: without memory citations and plan markup."""
    if "<oai-mem-citation>" in text:
        text = _CITATION.sub("", text)
    if "proposed_plan>" in text:
        text = _PLAN.sub("", text)
    return text.strip()


# -- tools --------------------------------------------------------------------------------------------

_EXIT = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)
_FAILED = (
    "failed in sandbox",
    "execution error",
    "apply_patch verification failed",
    "write_stdin failed",
    "exec_command failed",
    "aborted",
    "Error:",
    "error:",
    "unsupported call",
    "failed to parse function arguments",
    "command timed out",
)
_SHELL = re.compile(r"<command>\s*(.*?)\s*</command>(?:.*?<result>\s*(.*?)\s*</result>)?", re.DOTALL)


def output_text(output: object) -> tuple[str, bool | None]:
    """A tool's output as text, and whether it succeeded where the text tells.

    Unwraps the older JSON form; leaves out the shell's own preamble except an exit code other than 0.
    """
    if type(output) is list:
        texts = [_item_text(item) for item in output]
        output = "\n".join(text for text in texts if text)
    elif type(output) is dict:
        output = word(output.get("content")) or word(output.get("text")) or dump(output)
    if type(output) is not str:
        return "", None
    if output.startswith('{"output":') and (wrapped := load_object(output)) is not None:
        return _unwrap(wrapped)
    start = output[:400]
    if start.startswith(("Exit code:", "Chunk ID:", "Wall time:", "Process exited")):
        return _without_preamble(output, start)
    if start.startswith(_FAILED):
        return output, False
    return output, None


def _item_text(item: object) -> str:
    if type(item) is str:
        return item
    if type(item) is not dict:
        return ""
    text, kind = item.get("text"), item.get("type")
    if type(text) is str:
        return text
    return MEDIA.get(kind, "") if type(kind) is str else ""


def _unwrap(wrapped: dict[str, Any]) -> tuple[str, bool | None]:
    text = wrapped.get("output")
    metadata = wrapped.get("metadata")
    code = metadata.get("exit_code") if type(metadata) is dict else None
    shown = text if type(text) is str else dump(text)
    if type(code) is not int:
        return shown, None
    return (shown if code == 0 else f"Exit code: {code}\n{shown}"), code == 0


def _without_preamble(output: str, start: str) -> tuple[str, bool | None]:
    code = _EXIT.search(start)
    cut = start.find("\nOutput:\n")
    text = output[cut + 9 :] if cut >= 0 else output
    if code is None:
        return text, False if "\naborted" in start else None
    if cut >= 0 and code[1] != "0":
        text = f"Exit code: {code[1]}\n{text}"
    return text, code[1] == "0"


def shell_parts(block: str) -> tuple[str, str]:
    """Command and output of a `<user_shell_command>` block."""
    match = _SHELL.search(block)
    if match is None:
        return re.sub(r"</?user_shell_command[^>]*>", "", block).strip(), ""
    return match[1], match[2] or ""


def answers(output: object, questions: str) -> str:
    """What the person answered to `request_user_input`, each answer after its question; "" where they did not.

    `output` is the tool's output, `questions` the arguments of the call.
    """
    value = load_object(output if type(output) is str else output_text(output)[0])
    given = mapped(mapped(value).get("answers"))
    asked = {
        str(mapped(question).get("id")): word(mapped(question).get("question"))
        for question in listed(mapped(load_object(questions)).get("questions"))
    }
    lines = []
    for key, answer in given.items():
        chosen = answer.get("answers") if type(answer) is dict else answer
        words = [each for each in (chosen if type(chosen) is list else [chosen]) if type(each) is str and each.strip()]
        if words:
            question = asked.get(key)
            lines.append(f'(asked "{question}") {", ".join(words)}' if question else ", ".join(words))
    return "\n".join(lines)
