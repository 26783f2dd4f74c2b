"""A loopback HTTP server that says exactly what a test wants, byte by byte where needed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-test-CANARYKEY0123456789"


@dataclass(slots=True)
class Say:
    """One HTTP answer. `drip` seconds pass before each byte; `cut` closes the connection after that many bytes."""

    body: str | dict[str, Any] = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    drip: float = 0.0
    wait: float = 0.0
    cut: int | None = None

    def payload(self) -> bytes:
        return (self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False)).encode()


@dataclass(slots=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Provider:
    """Answers from `script` in order (the last one stays) and keeps what it was sent."""

    def __init__(self) -> None:
        self.script: list[Say | Callable[[Seen], Say]] = []
        self.models: Say = Say({"object": "list", "data": []})
        self.seen: list[Seen] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def calls(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.path.endswith("/chat/completions")]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen = await self._request(reader)
            self.seen.append(seen)
            say = self.models if seen.path.endswith("/models") else self._next(seen)
            await self._answer(say, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _next(self, seen: Seen) -> Say:
        step = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        return step if isinstance(step, Say) else step(seen)

    @staticmethod
    async def _request(reader: asyncio.StreamReader) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.rstrip().split("\r\n")
        method, path, _ = first.split(" ")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        return Seen(method, path, headers, json.loads(raw) if raw else None)

    @staticmethod
    async def _answer(say: Say, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(say.wait)
        data = say.payload()
        head = {"content-type": say.kind, "content-length": str(len(data)), "connection": "close", **say.headers}
        lines = [f"HTTP/1.1 {say.status} X", *(f"{k}: {v}" for k, v in head.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        if say.cut is not None:
            writer.write(data[: say.cut])
            await writer.drain()
            assert isinstance(writer.transport, asyncio.Transport)
            writer.transport.abort()
            return
        if not say.drip:
            writer.write(data)
        else:
            for byte in data:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(say.drip)
        await writer.drain()


def completion(
    content: str | None = "",
    *,
    finish: str = "stop",
    refusal: str | None = None,
    tool_calls: list[dict[str, Any]] | None = None,
    usage: tuple[int, int] | None = (120, 30),
) -> dict[str, Any]:
    """The JSON of a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if refusal is not None:
        message["refusal"] = refusal
    if tool_calls is not None:
        message["tool_calls"] = tool_calls
    body: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
    }
    if usage is not None:
        body["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
            "prompt_tokens_details": {"cached_tokens": 7},
        }
    return body


def tool_call(name: str, arguments: Any, call_id: str | None = "call_a") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def failure(message: str, *, code: str | None = None, kind: str | None = None) -> dict[str, Any]:
    """The JSON of an OpenAI error."""
    return {"error": {"message": message, "type": kind, "code": code, "param": None}}
