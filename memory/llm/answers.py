"""From what a model wrote to a checked value: wrappers off, strict schema, reasons that quote nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from memory.errors import InvalidAnswerError
from memory.llm.base import T
from memory.support import is_refusal

_THINKING = re.compile(r"<(think|thinking|reasoning|thought)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN_THINKING = re.compile(r"\A\s*(?:(?!<think).)*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_CODE_BLOCK = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
MAX_CANDIDATES = 64
"""Braces tried in a text before giving up: bounds the work on a long wrong answer."""


def without_thinking(text: str) -> str:
    """The text without the blocks in which some models think aloud; an opening tag may be missing."""
    return _OPEN_THINKING.sub("", _THINKING.sub("", text), count=1).strip()


def json_object(text: str, fields: Iterable[str] = ()) -> str | None:
    """The one JSON object in a text, wrapped in a code block or prose or not; None where there is none or several.

    Inside a wrapper only objects with all `fields` count. Several different ones are ambiguous: none is taken.
    """
    plain = without_thinking(text)
    whole = _object(plain)
    if whole is not None:
        return json.dumps(whole)
    wanted = set(fields)
    blocks = [_object(block.strip()) for block in _CODE_BLOCK.findall(plain)]
    found = [block for block in blocks if block is not None and wanted <= block.keys()]
    if not found:
        found = [value for value in _objects_in_prose(plain) if wanted <= value.keys()]
    distinct = {json.dumps(value) for value in found}
    return distinct.pop() if len(distinct) == 1 else None


def parse(text: str, schema: type[T], *, model: str) -> T:
    """The value a text holds. Raises InvalidAnswerError of kind `empty`, `refusal`, `parse` or `schema`."""
    if not text.strip():
        raise empty(model)
    found = json_object(text, schema.model_fields)
    if found is None:
        if is_refusal(without_thinking(text)):
            raise refusal(model)
        raise InvalidAnswerError(
            f"{model} answered with text that is not JSON.",
            reasons=[f"The answer must be one JSON object with the fields {_fields(schema)} and nothing around it."],
            kind="parse",
        )
    value, reasons = _validated(found, schema)
    if value is None:
        raise InvalidAnswerError(f"The answer of {model} does not fit the schema.", reasons=reasons, kind="schema")
    return value


def empty(model: str) -> InvalidAnswerError:
    """No text and no tool call."""
    return InvalidAnswerError(f"{model} answered with nothing.", reasons=["The answer was empty."], kind="empty")


def refusal(model: str) -> InvalidAnswerError:
    """The model, or a filter before it, declined."""
    return InvalidAnswerError(
        f"{model} declined to answer.",
        reasons=["The answer was a refusal. The task is to record a session; quote less if something is delicate."],
        kind="refusal",
    )


def truncated(model: str, limit: int) -> InvalidAnswerError:
    """The answer ran into the output limit: nothing of it is kept [M18]."""
    return InvalidAnswerError(
        f"The answer of {model} was cut off at the output limit.",
        reasons=[f"The answer was cut off at {limit:,} tokens. Answer again, much shorter: only what matters most."],
        kind="truncated",
        hint="If this stays, raise extract.max_output_tokens.",
    )


def _validated(text: str, schema: type[T]) -> tuple[T | None, list[str]]:
    try:
        return schema.model_validate_json(text, strict=True), []
    except ValidationError as error:
        # `input` and unknown keys are the model's own words: only our field names and pydantic's wording go on.
        known = set(schema.model_fields)
        reasons = []
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            place = ".".join(str(part) for part in item["loc"])
            root = str(item["loc"][0]) if item["loc"] else ""
            if item["type"] == "json_invalid":
                reasons.append("The answer is not valid JSON.")
            elif item["type"] == "extra_forbidden" or root not in known:
                reasons.append(f"Only the fields {_fields(schema)} are allowed.")
            else:
                reasons.append(f"{place}: {item['msg']}")
        return None, list(dict.fromkeys(reasons))


def _fields(schema: type[T]) -> str:
    return ", ".join(f"`{name}`" for name in schema.model_fields)


def _object(text: str) -> dict[str, Any] | None:
    """A whole text as one JSON object; raw line breaks inside strings are forgiven."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _objects_in_prose(text: str) -> list[dict[str, Any]]:
    decoder = json.JSONDecoder(strict=False)
    found: list[dict[str, Any]] = []
    position, tries = text.find("{"), 0
    while position >= 0 and tries < MAX_CANDIDATES:
        tries += 1
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position = text.find("{", position + 1)
            continue
        if isinstance(value, dict) and value:
            found.append(value)
        position = text.find("{", end)
    return found
