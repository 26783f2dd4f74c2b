"""Which project a client of the memory tools works in: what it may see is fixed by that, and by nothing a model says.

In this order: the folder the server was started for (`--project`), the first root the client names, the folder the
server was started in. A server for several clients (HTTP) has no folder of its own: without a root its clients see
what holds everywhere.

How a client is asked depends on its revision of the protocol: by a request of ours, or, since 2026-07-28, by an answer
that says what is missing, after which it sends its call again and its roots with it. Over HTTP such a client has no
session either, so it is asked with every call.
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
    from mcp_types import InputRequiredResult, InputResponseRequestParams

ROOTS_SECONDS = 2.0
"""How long a client may take to name its roots."""
ANSWERS_WITH_QUESTIONS = "2026-07-28"
"""Since this revision (they compare as text) a server sends no requests: it answers that it needs something first."""
ROOTS = "roots"
"""How the question is called, and the mark by which a call that comes again is known."""
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
    """The places of the clients of one server. A client that has a session is asked for its roots once."""

    def __init__(self, fixed: Path | None, own: Path | None) -> None:
        """`fixed` is what `--project` says, `own` the folder the server was started in, where that means anything."""
        self._fixed = Place.of(fixed) if fixed is not None else None
        self._own = own
        self._known: dict[str, Place] = {}

    def question(
        self, context: ServerRequestContext[Any, Any], client: str, params: InputResponseRequestParams
    ) -> InputRequiredResult | None:
        """What a call is answered with first: the question for the client's roots; None where nothing is to be asked,
        or it has to be asked in another way."""
        if self._fixed is not None or client in self._known or not _asked_by_answer(context) or not _names(context):
            return None
        if params.request_state is not None or params.input_responses:
            return None
        from mcp_types import InputRequiredResult, ListRootsRequest

        return InputRequiredResult(input_requests={ROOTS: ListRootsRequest()}, request_state=ROOTS)

    async def of(
        self, context: ServerRequestContext[Any, Any], client: str, params: InputResponseRequestParams
    ) -> Place:
        """The place of the client of a call; `client` is its session, empty where it has none."""
        if self._fixed is not None:
            return self._fixed
        if client in self._known:
            return self._known[client]
        uris = _said(params) if _asked_by_answer(context) else await _roots(context)
        place = Place.of(first_folder(uris) or self._own)
        if client:
            while len(self._known) >= MAX_CLIENTS:
                self._known.pop(next(iter(self._known)))
            self._known[client] = place
        return place

    def moved(self, client: str) -> None:
        """The client says that its roots are others now."""
        self._known.pop(client, None)


MAX_CLIENTS = 256


def _asked_by_answer(context: ServerRequestContext[Any, Any]) -> bool:
    return context.protocol_version >= ANSWERS_WITH_QUESTIONS


def _names(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client says that it has roots to name."""
    capabilities = context.session.client_capabilities
    return capabilities is not None and capabilities.roots is not None


def _said(params: InputResponseRequestParams) -> list[str]:
    """The roots that came with a call."""
    from mcp_types import ListRootsResult

    answer = (params.input_responses or {}).get(ROOTS)
    return [str(root.uri) for root in answer.roots] if isinstance(answer, ListRootsResult) else []


async def _roots(context: ServerRequestContext[Any, Any]) -> list[str]:
    """What the client names; nothing where it has no roots, cannot be asked, or does not answer."""
    import anyio
    from mcp.shared.exceptions import MCPError
    from mcp_types import ListRootsRequest, ListRootsResult

    if not _names(context):
        return []
    try:
        with anyio.fail_after(ROOTS_SECONDS):
            answer = await context.session.send_request(ListRootsRequest(), ListRootsResult)
    except (MCPError, TimeoutError, ValueError) as error:
        _log.info("the client did not name its roots (%s)", type(error).__name__)
        return []
    return [str(root.uri) for root in answer.roots]
