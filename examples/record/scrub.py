"""Makes recorded session files fit to publish: neutral paths, no prose of the hosts' makers, and a check."""

import getpass
import json
import platform
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from examples.record.bench import SHOWN_HOME, SHOWN_PYTHON, SHOWN_REMOTES, Bench

SHOWN_KERNEL = "6.1.0"
# The hosts' own prompts and listings are their makers' prose. A longer text is cut to a visible marker.
LONGEST_PROSE = 80  # characters
MARKER = "[shortened for the sample: {} characters of the host's own text]"
# Lines in which Claude Code keeps what it told the model besides the conversation, and where in them.
CLAUDE_PROSE_LINES = {"attachment", "api-request-shape", "api-request-blob"}
CLAUDE_PROSE = ("attachment", "rendered", "shape", "message")
# An absolute path whose first folder is not one of these tells about the machine it was recorded on.
ABSOLUTE = re.compile(r"(?<![\w.~/:@)\]}*-])/([A-Za-z][\w.-]*)/")
NEUTRAL_FOLDERS = {"bin", "dev", "home", "usr"}
FOREIGN_HOME = re.compile(r"/home/(?!dev\b)")
# User names that say nothing and stand in every file as ordinary words.
PLAIN_NAMES = {"root", "dev", "user", "app", "node", "localhost"}


class LeakError(ValueError):
    """A recorded file still says something about the machine or the person; the message shows where."""


class Scrubber:
    """Replaces what a bench's folders and this machine are called."""

    def __init__(self, bench: Bench) -> None:
        pairs: list[tuple[str, str]] = []
        for work in {bench.work, bench.work.resolve()}:
            pairs += [
                (str(work / "home" / "dev"), SHOWN_HOME),
                (_dashed(work / "home" / "dev"), _dashed(Path(SHOWN_HOME))),
                (f"{work / 'remotes'}/", SHOWN_REMOTES),
            ]
        pairs += [(sys.base_prefix, SHOWN_PYTHON), (platform.release(), SHOWN_KERNEL)]
        # The longest first, so that no replacement spoils a longer one.
        self._pairs = sorted(pairs, key=lambda pair: -len(pair[0]))
        names = {getpass.getuser(), platform.node()} - PLAIN_NAMES
        self._secrets = [str(bench.work), *(name for name in names if len(name) > 2)]

    def path(self, relative: Path) -> Path:
        """The name under which a session file is published."""
        return Path(self._replace(str(relative)))

    def file(self, host: str, lines: Iterable[str]) -> str:
        """The text to publish. Raises LeakError if this machine shows through, ValueError for bad JSON."""
        done = []
        for number, line in enumerate(lines, 1):
            text = self._replace(line.rstrip("\n"))
            before = json.loads(text)
            after = shorten(host, before)
            if after != before:
                text = json.dumps(after, ensure_ascii=False, separators=(",", ":"))
            self._check(number, text)
            done.append(text + "\n")
        return "".join(done)

    def _replace(self, text: str) -> str:
        for real, shown in self._pairs:
            text = text.replace(real, shown)
        return text

    def _check(self, number: int, text: str) -> None:
        found = [name for name in self._secrets if name in text]
        found += [match[0] for match in ABSOLUTE.finditer(text) if match[1] not in NEUTRAL_FOLDERS]
        found += [match[0] for match in FOREIGN_HOME.finditer(text)]
        if found:
            raise LeakError(f"line {number} still holds {sorted(set(found))}: {text[:300]}")


def shorten(host: str, line: dict[str, Any]) -> dict[str, Any]:
    """Cut the long texts in those parts of a line that the host's maker wrote; return the line."""
    if host == "claude":
        theirs = line.get("type") in CLAUDE_PROSE_LINES
        return {key: _cut(value) if theirs and key in CLAUDE_PROSE else value for key, value in line.items()}
    if host == "pi":
        system = line.get("message", {}).get("role") == "system"
        return line | {"message": _cut(line["message"])} if system else line
    payload = line.get("payload", {})
    if line["type"] == "world_state" or payload.get("role") == "developer":
        return line | {"payload": _cut(payload)}
    parts = ("base_instructions", "developer_instructions", "dynamic_tools")
    return line | {"payload": _cut_below(payload, parts)}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_PROSE else MARKER.format(len(value))
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {key: _cut_tools(item) if key == "tools" else _cut(item) for key, item in value.items()}
    return value


def _cut_tools(value: Any) -> Any:
    """A list of tool definitions is prose all through: long descriptions in deep schemas."""
    definitions = isinstance(value, list) and any(isinstance(item, dict) for item in value)
    return [MARKER.format(len(json.dumps(value)))] if definitions else _cut(value)


def _cut_below(value: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_cut_below(item, keys) for item in value]
    if isinstance(value, dict):
        return {key: _cut(item) if key in keys else _cut_below(item, keys) for key, item in value.items()}
    return value


def _dashed(path: Path) -> str:
    """A folder as hosts write it in the names of their own folders."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(path))
