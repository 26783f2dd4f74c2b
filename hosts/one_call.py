"""One call of a memory tool in a process of its own, for hosts whose extensions run programs instead of a protocol.

The caller keeps what belongs to its session alone (`entries`) and hands it in with each call.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hosts.mcp_desk import Desk
from hosts.mcp_place import Place
from hosts.mcp_text import fenced
from hosts.mcp_words import says, unexpected
from memory import switches
from memory.errors import SlowwaveError
from recall import scope, title_files

TITLES = "titles"
"""Not a tool but the title index, for a host that shows one."""
TITLES_ROOM = 4_000


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is for the model, `failed`: it is the sentence of an error. `entries` is what the session keeps now."""

    text: str
    failed: bool
    entries: list[dict[str, str]]


def call(name: str, arguments: object, folder: Path | None, *, session: str = "", entries: object = ()) -> Answer:
    """Never raises: whoever calls is an extension in the middle of somebody's session."""
    kept = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    desk = Desk()
    try:
        text, failed = _text(desk, name, arguments, Place.of(folder), session or "call", kept), False
    except SlowwaveError as error:
        text, failed = says(error), True
    except Exception as error:  # noqa: BLE001  # as above
        text, failed = unexpected(name, error), True
    answer = Answer(text, failed, desk.entries() if not failed else kept)
    desk.close()
    return answer


def _text(desk: Desk, name: str, arguments: object, place: Place, session: str, entries: list[dict[str, Any]]) -> str:
    if name == TITLES:
        return titles(place)
    from hosts.mcp_tools import named

    tool = named(name)
    given = tool.read(arguments)
    desk.tools(session, place, tool.name, entries=entries)
    return desk.answer(session, place, tool, given)


def titles(place: Place) -> str:
    """The title index of a project in our fence, where `inject.titles` and mode `long` ask for it; else "" [P019 P022].

    Standard library only: a session waits for it.
    """
    found = switches.from_process()
    if switches.is_own_session() or found.mode != "long" or not found.titles or place.project is None:
        return ""
    generation, _ = scope.read_generation(found.home)
    viewer = scope.Viewer(place.project.id, place.project.name)
    lines, _ = title_files.titles(scope.workspace_folder(found.home, generation), viewer) if generation else ([], [])
    text = "\n".join([title_files.HEADING, *(f"- {line}" for line in lines)])
    return fenced(text, TITLES, TITLES_ROOM) if lines else ""
