"""Which project a client of the memory tools works in: what it may see is fixed by that, and by nothing a model says.

In this order: the folder the server was started for (`--project`), the first root the client names, the folder the
server was started in. A server for several clients (HTTP) has no folder of its own: without a root its clients see
what holds everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from memory.errors import UsageError
from memory.project import Project, here, project_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

ROOTS_SECONDS = 2.0
"""How long a client may take to name its roots."""
_log = logging.getLogger("slowwave.mcp")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client works. Without a folder it belongs to no project."""

    folder: Path | None
    project: Project | None

    @classmethod
    def of(cls, folder: Path | None) -> Place:
        return cls(folder, project_of(folder) if folder is not None else None)


def own_folder() -> Path | None:
    """The folder this process runs in; None where it was deleted meanwhile, and then what holds everywhere is seen."""
    try:
        return here()
    except UsageError:
        return None


def folder_of_uri(uri: str) -> Path | None:
    """The folder of a `file:` root on this machine; None for anything else."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in unquote(parts.path):
        return None
    path = Path(unquote(parts.path))
    return path if path.is_absolute() and path.is_dir() else None


def first_folder(uris: Iterable[str]) -> Path | None:
    return next((folder for uri in uris if (folder := folder_of_uri(uri)) is not None), None)


class Places:
    """The places of the clients of one server. A client is asked for its roots once."""

    def __init__(self, fixed: Path | None, own: Path | None) -> None:
        """`fixed` is what `--project` says, `own` the folder the server was started in, where that means anything."""
        self._fixed = Place.of(fixed) if fixed is not None else None
        self._own = own
        self._known: dict[str, Place] = {}

    async def of(self, context: ServerRequestContext[Any, Any], client: str) -> Place:
        if self._fixed is not None:
            return self._fixed
        if client not in self._known:
            while len(self._known) >= MAX_CLIENTS:
                self._known.pop(next(iter(self._known)))
            self._known[client] = Place.of(first_folder(await _roots(context)) or self._own)
        return self._known[client]

    def moved(self, client: str) -> None:
        """The client says that its roots are others now."""
        self._known.pop(client, None)


MAX_CLIENTS = 256


async def _roots(context: ServerRequestContext[Any, Any]) -> list[str]:
    """What the client names; nothing where it has no roots, cannot be asked, or does not answer."""
    import anyio
    from mcp.shared.exceptions import MCPError
    from mcp_types import ListRootsRequest, ListRootsResult

    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.roots is None:
        return []
    try:
        with anyio.fail_after(ROOTS_SECONDS):
            answer = await context.session.send_request(ListRootsRequest(), ListRootsResult)
    except (MCPError, TimeoutError, ValueError) as error:
        _log.info("the client did not name its roots (%s)", type(error).__name__)
        return []
    return [str(root.uri) for root in answer.roots]
