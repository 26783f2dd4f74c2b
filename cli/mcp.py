"""`slowwave mcp`: the memory tools for hosts that speak the Model Context Protocol.

Starts quickly: hosts wait for it at the beginning of a session.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import NamedTuple

from cli import PARENT
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
        if sys.stdin.isatty():
            print("slowwave mcp waits for a host on standard input; Ctrl-C ends it.", file=sys.stderr)
        mcp_server.stdio(project, PARENT)
    else:
        mcp_server.http(project, mcp_server.Listen(host, port, name))


def tool(name: str, arguments: str, *, as_json: bool) -> None:
    """`slowwave tool`: one call, for extensions of hosts without the protocol. Exit code 1 when it failed."""
    from hosts import mcp_place, one_call

    try:
        said = json.loads(sys.stdin.read() if arguments == "-" else arguments or "{}")
    except (ValueError, RecursionError):
        raise UsageError("The arguments are not JSON.", hint='For example: \'{"query": "which port"}\'') from None
    if as_json and not isinstance(said, dict):
        raise UsageError('With --json standard input holds {"arguments": {...}}.')
    envelope = said if as_json else {"arguments": said}
    found = one_call.call(
        name,
        envelope.get("arguments"),
        mcp_place.own_folder(),
        session=str(envelope.get("session") or ""),
        entries=envelope.get("entries"),
    )
    if as_json:
        print(json.dumps({"text": found.text, "failed": found.failed, "entries": found.entries}, ensure_ascii=False))
    else:
        print(found.text, file=sys.stderr if found.failed else sys.stdout)
    if found.failed and not as_json:
        sys.exit(1)
