"""Which sources a tool has really read: files of long memory, seen in what the host says after a tool ran [Z016].

A source counts when the tool's input names its file, the tool did not fail, and a line of the file stands in what the
tool returned: listing a folder or a refused read is none. Our own tools count for themselves. Standard library only;
the host's payload is data of unknown shape.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from recall import scope

MAX_READS = 20
MAX_SEARCHED = 100_000
"""Characters of a response that are searched for the names of files (a shell that printed several)."""
MIN_LINE = 12
"""A line of a source as short as this proves nothing."""
MAX_SOURCE_BYTES = 512_000
OWN_TOOLS = frozenset({"memory_recall", "memory_get", "memory_search", "memory_timeline", "memory_list", "memory_why"})
"""They count what they read themselves, in every host: a hook that counted it too would count it twice."""

_FILE = re.compile(
    r"rollout_summaries/([0-9a-f]{16})\.md|extensions/ad_hoc/notes/([A-Za-z0-9_-][A-Za-z0-9._-]{0,63})\.md"
)


def sources_read(home: str, tool: str, tool_input: object, response: object) -> tuple[str, ...]:
    """Citations (8 hex digits, or `note:NAME`) of the sources this call has read, at most 20."""
    generation, _ = scope.read_generation(home)
    if not generation or _failed(response) or tool.rpartition("__")[2] in OWN_TOOLS:
        return ()
    folder = scope.workspace_folder(home, generation)
    named = " ".join(_texts(tool_input))
    if response is True:  # the host says that the tool did its work, not what it showed: a reading tool has read
        if tool.lower() != "read":
            return ()
        found = {name: path for name, path in _files_in(named).items() if os.path.isfile(os.path.join(folder, path))}
        return tuple(found)[:MAX_READS]
    shown = "\n".join(_texts(response))
    found = _files_in(f"{named} {shown if len(shown) < MAX_SEARCHED else ''}")
    read = [name for name, path in list(found.items())[:MAX_READS] if _stands(os.path.join(folder, path), shown)]
    return tuple(read)


def _files_in(text: str) -> dict[str, str]:
    """Citation -> path in the workspace, for every source file a text names."""
    found: dict[str, str] = {}
    for source, note in _FILE.findall(text):
        if source:
            found[source[:8]] = f"rollout_summaries/{source}.md"
        else:
            found[f"note:{note}"] = f"extensions/ad_hoc/notes/{note}.md"
    return found


def _stands(path: str, shown: str) -> bool:
    """Whether a line of the file's body was returned."""
    try:
        data = scope.read_file(path, MAX_SOURCE_BYTES)
    except (OSError, ValueError):
        return False
    if data is None:
        return False
    body = data.decode("utf-8", "replace").split("\n---\n", 1)[-1]
    lines = (line.strip() for line in body.split("\n"))
    return any(line in shown for line in lines if len(line) >= MIN_LINE and not line.startswith("#"))


def _failed(response: object) -> bool:
    if not isinstance(response, dict):
        return not response
    if any(response.get(key) is True for key in ("is_error", "isError", "interrupted")) or response.get("error"):
        return True
    codes = [response.get(key) for key in ("exit_code", "exitCode", "code", "returncode")]
    metadata = response.get("metadata")
    if isinstance(metadata, dict):
        codes.append(metadata.get("exit_code"))
    failed = any(isinstance(code, int) and not isinstance(code, bool) and code != 0 for code in codes)
    return failed or response.get("success") is False


def _texts(value: object, depth: int = 0) -> Iterator[str]:
    """Every text inside a JSON value; one that is JSON itself is given as it stands."""
    if isinstance(value, str):
        yield value
    elif depth < 8 and isinstance(value, dict):
        for item in value.values():
            yield from _texts(item, depth + 1)
    elif depth < 8 and isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
