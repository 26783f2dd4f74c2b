"""Where the server keeps what it works with: settings as they stand now, and for each client its own memory tools.

Everything here runs in the server's one working thread. Settings are read again when their file has changed, so that
switching memory off holds for servers that have been running for days.
"""

from __future__ import annotations

import importlib
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hosts.mcp_place import Place
from memory import switches
from memory.errors import UsageError
from recall import scope

if TYPE_CHECKING:
    from hosts.mcp_tools import Arguments, Tool
    from memory.settings import Settings
    from recall.tools import MemoryTools

MAX_CLIENTS = 64
"""Sessions whose tools are kept; the one that was quiet longest goes first."""
STDIO = "stdio"
"""The one client of a server on standard input; for the count of uses it gets a name of its own."""
ALWAYS = frozenset({"memory_status"})
"""Tools that answer while memory is switched off."""
_log = logging.getLogger("slowwave.mcp")


class Desk:
    """The tools of each client. Not for several threads."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._read: switches.Signature = None
        self._tools: OrderedDict[tuple[str, str], MemoryTools] = OrderedDict()
        self._entries: dict[tuple[str, str], Iterable[Mapping[str, Any]]] = {}

    def settings(self) -> Settings:
        """Raises SettingsError."""
        from memory.settings import load

        if self._settings is not None:
            now = switches.signature_of(str(self._settings.config_file))
            if now == self._read:
                return self._settings
        read = switches.from_process().signature  # before: what is written while we read is another state of the file
        found = load()
        self._entries |= {key: kept for key, tools in self._tools.items() if (kept := tools.session_entries())}
        self.close()
        self._settings, self._read = found, read
        return found

    def tools(self, client: str, place: Place, tool: str, *, entries: Iterable[Mapping[str, Any]] = ()) -> MemoryTools:
        """The tools of a client in its project; `entries` are those of its session that it has kept itself.

        Raises UsageError while memory is off, SettingsError.
        """
        from recall.tools import MemoryTools

        settings = self.settings()
        off = not settings.memory.enabled or settings.memory.mode == "off"
        if (off or switches.is_own_session()) and tool not in ALWAYS:
            raise UsageError("Memory is switched off.", hint="The user can switch it on: memory.mode, memory.enabled.")
        viewer = scope.NOBODY if place.project is None else scope.Viewer(place.project.id, place.project.name)
        key = (client, viewer.id)
        if key not in self._tools:
            while len(self._tools) >= MAX_CLIENTS:
                self._tools.popitem(last=False)[1].close()
            self._tools[key] = MemoryTools(
                settings,
                viewer,
                session="" if client == STDIO else client,
                forgetting=lambda note: forget_note(settings, note),
                entries=self._entries.pop(key, entries),
            )
        self._tools.move_to_end(key)
        return self._tools[key]

    def warm(self) -> None:
        """Loads what answering takes; nothing of memory is read."""
        for name in ("hosts.mcp_text", "recall.tools"):
            importlib.import_module(name)
        self.settings()

    def answer(self, client: str, place: Place, tool: Tool, given: Arguments) -> str:
        """The fenced text of a call. Raises what the tool raises."""
        from hosts.mcp_text import fenced, printed

        limit = self.settings().mcp.max_chars
        text = fenced(printed(tool.call(self.tools(client, place, tool.name), given)), tool.name, limit)
        if tool.destroys:
            _log.info("%s took an entry away", tool.name)
        return text

    def entries(self) -> list[dict[str, str]]:
        """What the sessions keep to themselves."""
        return [entry for tools in self._tools.values() for entry in tools.session_entries()]

    def close(self) -> None:
        for tools in self._tools.values():
            tools.close()
        self._tools.clear()


def forget_note(settings: Settings, note: str) -> None:
    """A note is in versions, baseline and summary too; forgetting takes it out of all of them [M48]."""
    from consolidate.service import LongMemory
    from memory.runtime import open_runtime

    with open_runtime(settings) as runtime:
        LongMemory(runtime).forget(notes=(note,))
