"""What a client can read without a tool: what it may see of the summary, and the sources behind it.

slowwave://summary            the lines of the confirmed summary that the client's project sees
slowwave://source/CITATION    the summary of one session (3f9a1c2e), or a note (note:NAME)
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from hosts.mcp_text import fenced, printed
from memory.errors import UnknownReference
from recall import scope

if TYPE_CHECKING:
    from recall.tools import MemoryTools

SUMMARY = "slowwave://summary"
SOURCE = "slowwave://source/"
MAX_CITATION = 80


def read(tools: MemoryTools, *, uri: str) -> str:
    """The fenced text of a resource. Raises UnknownReference."""
    limit = tools.settings.mcp.max_chars
    if uri == SUMMARY:
        return fenced(_summary(tools), "summary", limit)
    citation = unquote(uri.removeprefix(SOURCE)) if uri.startswith(SOURCE) else ""
    if not citation or len(citation) > MAX_CITATION:
        raise UnknownReference("There is no such resource.", hint=f"There are {SUMMARY} and {SOURCE}CITATION.")
    found = tools.get([citation])
    if not found.texts:
        raise UnknownReference("Nothing one may see here has this citation.", hint=f"{SUMMARY} shows citations.")
    return fenced(printed(found), "source", limit)


def _summary(tools: MemoryTools) -> str:
    view = _view(tools)
    lines: list[str] = []
    for line in view.lines:
        if line.section not in lines:
            lines.append(line.section)
        lines.append(f"- {line.text}")
    if view.elsewhere:
        lines.append(f"({view.elsewhere} more about other projects and not shown.)")
    return "\n".join(lines) or "Nothing is known of this project yet."


def _view(tools: MemoryTools) -> scope.View:
    published = scope.read_published(str(tools.settings.home))
    return scope.visible_lines(published.text, published.sources, tools.viewer, tools.settings.inject.scope)
