"""Checks that a recorded file tells its story: the words are there, and only what should fail failed."""

import json
import re
from collections.abc import Iterator
from typing import Any

from examples.record.script import Scenario

EXIT_CODE = re.compile(r"^Process exited with code (\d+)$", re.MULTILINE)
STEP_KEY = re.compile(r"\d\dt\d+s\d+$")


class StoryError(ValueError):
    """A recorded file that does not tell the story; the message names the scenario and what is wrong."""


def check_story(scenario: Scenario, text: str) -> None:
    """Raise StoryError when prompts or closing words are missing, or other commands failed than meant."""
    for turn in scenario.turns:
        for words in (turn.user, turn.steps[-1].say):
            if json.dumps(words, ensure_ascii=False) not in text:
                raise StoryError(f"{scenario.name}: the host's file lacks {words!r}")
    failed = {key for line in text.splitlines() for key in _failed(scenario.host, json.loads(line))}
    if failed != scenario.failing():
        raise StoryError(f"{scenario.name}: failed {sorted(failed)}, meant to {sorted(scenario.failing())}")


def _failed(host: str, line: dict[str, Any]) -> Iterator[str]:
    """The keys of the steps whose tool call a line reports as failed."""
    if host == "codex":
        payload = line.get("payload", {})
        code = EXIT_CODE.search(str(payload.get("output", "")))
        if payload.get("type") == "function_call_output" and (code is None or code[1] != "0"):
            yield _key(payload["call_id"])
        return
    message = line.get("message", {})
    if host == "pi" and message.get("isError"):
        yield _key(message["toolCallId"])
    content = message.get("content")
    for block in content if host == "claude" and isinstance(content, list) else []:
        if block.get("is_error"):
            yield _key(block["tool_use_id"])


def _key(call: str) -> str:
    found = STEP_KEY.search(call)
    return found[0] if found else call
