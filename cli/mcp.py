"""`slowwave mcp`: the memory tools for hosts that speak the Model Context Protocol.

Starts quickly: hosts wait for it at the beginning of a session.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from memory.errors import UsageError


class Plain(NamedTuple):
    """The options of a plain command line."""

    project: Path | None = None


def read(arguments: list[str]) -> Plain | None:
    """A plain command line, for standard input and output; None for one that has to be looked at."""
    if not arguments:
        return Plain()
    if len(arguments) == 2 and arguments[0] == "--project" and not arguments[1].startswith("-"):
        return Plain(Path(arguments[1]))
    return None


def serve(
    *, project: Path | None, http: bool = False, host: str = "", port: int | None = None, name: tuple[str, ...] = ()
) -> None:
    """Serves until the client is gone, or until it is stopped. Raises UsageError."""
    from hosts import mcp_server

    if project is not None and not project.is_dir():
        raise UsageError(f"{project} is no folder.", hint="--project takes the folder of a project.")
    if not http:
        if host or port is not None or name:
            raise UsageError("--host, --port and --name belong to --http.", hint="Add --http, or leave them out.")
        mcp_server.stdio(project)
    else:
        mcp_server.http(project, mcp_server.Listen(host, port, name))
