"""Lets a fresh installation learn its greeting, so that already the first session of each host has the memory tools.

The server is asked, in this process, what hosts ask first; its answers are kept (mcp_greeting). A convenience: whatever
goes wrong, the first session only waits a little longer.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

from hosts.mcp_greeting import VERSION, Greeting
from memory import switches

HANDSHAKE, MODERN = "2025-06-18", "2026-07-28"
"""The versions of the protocol that Codex CLI and Claude Code open with."""
LISTS = ("tools/list", "resources/list", "resources/templates/list")
SECONDS = 20
_CLIENT = {"name": "slowwave-hosts-install", "version": "1"}
_log = logging.getLogger("slowwave.mcp")


def learn(home: Path) -> None:
    """Plays both openings and keeps the answers in the data folder."""
    if switches.is_own_session():
        return
    try:
        for messages in (_handshake(), _modern()):
            greeting = Greeting(str(home))
            for message in messages:
                greeting.note(json.dumps(message).encode())
            for answer in asyncio.run(asyncio.wait_for(_played(messages), SECONDS)):
                greeting.settle(answer)
    except Exception as error:  # noqa: BLE001  # see above
        _log.info("the greeting was not learnt (%s)", type(error).__name__)


async def _played(messages: list[dict[str, Any]]) -> list[str]:
    """What the server answers, as it would be sent."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    from hosts.mcp_life import Worker
    from hosts.mcp_server import MemoryServer

    server = MemoryServer(Worker(), None, None, warm=False).sdk()
    into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](len(messages))
    outgoing, out = anyio.create_memory_object_stream[SessionMessage](len(messages))
    answers: list[str] = []
    async with into, incoming, outgoing, out, anyio.create_task_group() as group:
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        for message in messages:
            await into.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))
            if "id" in message:
                said = (await out.receive()).message
                answers.append(said.model_dump_json(by_alias=True, exclude_unset=True))
        group.cancel_scope.cancel()
    return answers


def _handshake() -> list[dict[str, Any]]:
    about = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": _CLIENT}
    return [
        _request(0, "initialize", about),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(_request(number, method, {}) for number, method in enumerate(LISTS, start=1)),
    ]


def _modern() -> list[dict[str, Any]]:
    prefix = VERSION.rpartition("/")[0]
    meta = {VERSION: MODERN, f"{prefix}/clientInfo": _CLIENT, f"{prefix}/clientCapabilities": {}}
    return [_request(number, method, {"_meta": meta}) for number, method in enumerate(("server/discover", *LISTS))]


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
