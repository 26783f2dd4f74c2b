"""What can be saved of a line that is not plain JSON: glued records, whole ones after a torn one, odd bytes."""

from __future__ import annotations

import json
import re

import orjson

from memory.model import ReadReport

_DECODER = json.JSONDecoder(strict=False)
_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_BACKSLASHES = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')
_RECORD_START = re.compile(
    r'\{"(?:type|timestamp|parentUuid|uuid|id|ordinal|record_type|sessionId|isSidechain|messageId|number|role)"'
)
_MAX_ATTEMPTS = 256
_JSON_ERRORS = (ValueError, RecursionError)


def repair(line: bytes, report: ReadReport) -> list[object]:
    """The JSON values that a line holds which is not plain JSON; counts what was replaced or lost in `report`."""
    text = _as_text(line, report)
    found = _whole(text)
    if not found and "\\" in text:
        # A tool that masked text in place leaves escapes that are none, as in "mail\***".
        found = _whole(_BACKSLASHES.sub(lambda match: match[0] if match[1] is None else r"\\", text))
        report.replaced_text += len(found)
    return found or _values(text, report)


def _whole(text: str) -> list[object]:
    """The one value a text is, if it is one."""
    for decode in (orjson.loads, _DECODER.decode):
        try:
            return [decode(text)]
        except _JSON_ERRORS:
            continue
    return []


def _as_text(line: bytes, report: ReadReport) -> str:
    """UTF-8 text without NULs and lone surrogates."""
    replaced = False
    if b"\0" in line:
        line, replaced = line.replace(b"\0", b""), True
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, replaced = line.decode(errors="replace"), True
    if "\\ud" in text or "\\uD" in text:
        mended = _ESCAPES.sub(lambda match: match[0] if match[1] is None else "\\ufffd", text)
        text, replaced = mended, replaced or mended != text
    if replaced:
        report.replaced_text += 1
    return text


def _values(text: str, report: ReadReport) -> list[object]:
    """Records glued together, and whole records after a torn one.

    A record found inside a torn one counts only when it reaches the end of the line or the next record, so that a
    part of the torn record never passes for a record of its own.
    """
    found: list[object] = []
    position, budget, broken, searched = 0, 4 * len(text) + 65_536, False, False
    for _ in range(_MAX_ATTEMPTS):
        position = _past_blanks(text, position)
        if position >= len(text) or budget <= 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, position)
        except _JSON_ERRORS as error:
            broken = searched = True
            budget -= getattr(error, "pos", len(text)) - position
        else:
            budget -= end - position
            follows = _past_blanks(text, end)
            if not searched or follows >= len(text) or text[follows] == "{":
                found.append(value)
                position, searched = end, False
                continue
        start = _RECORD_START.search(text, position + 1)
        if start is None:
            broken = True
            break
        position = start.start()
    if broken or not found:
        report.bad_json += 1
    return found


def _past_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position
