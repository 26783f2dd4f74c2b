"""A scripted stand-in for model providers: Responses, Chat Completions and Messages, all streaming.

It listens on 127.0.0.1 only, thinks nothing, and plays the steps of scenario files (see script.py). Each wire
format is the one a host speaks: Codex CLI the Responses format, Pi Chat Completions, Claude Code Messages.
Requests without tools are side errands of a host (a title for the session, say) and get a fixed short answer.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from examples.record.script import Cue, Heard, Scenario, Script, Step

MODEL = "scripted-model"
CONTEXT_WINDOW = 128_000  # tokens
SIDE_ANSWER = "ok"
# Hosts only add these numbers up; four bytes a token is near enough to look sane in a sample.
BYTES_PER_TOKEN = 4

Events = list[tuple[str, dict[str, Any]]]


class FakeModels:
    """The server: `with FakeModels(scenarios, roots) as models:` serves until the block ends.

    `roots` maps a project's name to its folder; `log`, when given, receives one JSON line per request.
    """

    def __init__(self, scenarios: list[Scenario], roots: dict[str, Path], log: Path | None = None) -> None:
        self.script = Script(scenarios)
        self.roots = roots
        self.log = log
        self.played: set[str] = set()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The base address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "FakeModels":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, request: dict[str, Any]) -> tuple[str, bytes]:
        """Return content type and body for one model request."""
        if path.endswith("/count_tokens"):
            return "application/json", json.dumps({"input_tokens": _tokens(request)}).encode()
        wire = _wire(path)
        cue = self.script.cue(list(wire.heard(request))) if request.get("tools") else None
        with self._lock:
            self.played.add(cue.key if cue else "side")
            if self.log:
                with self.log.open("a", encoding="utf-8") as out:
                    key = cue.key if cue else None
                    out.write(json.dumps({"path": path, "cue": key, "request": request}) + "\n")
        root = self.roots[cue.scenario.project] if cue else Path()
        return "text/event-stream", wire.stream(request, cue, root)


class Responses:
    """The Responses format, as Codex CLI speaks it."""

    @staticmethod
    def heard(request: dict[str, Any]) -> Iterator[Heard]:
        """Yield user texts and tool results in order."""
        for item in request.get("input", []):
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                yield Heard(None)
            elif item.get("role") == "user":
                yield from _texts(item["content"], "input_text")

    @staticmethod
    def stream(request: dict[str, Any], cue: Cue | None, root: Path) -> bytes:
        """Encode the cue as a stream of events."""
        del root  # the shell starts in the project, so relative paths do
        key = cue.key if cue else "side"
        items = []
        if cue is None or cue.step.say:
            text = cue.step.say if cue else SIDE_ANSWER
            phase = "final_answer" if cue is None or cue.final else "commentary"
            content = [{"type": "output_text", "text": text, "annotations": []}]
            message = {"type": "message", "id": f"msg_{key}", "role": "assistant", "status": "completed"}
            items.append({**message, "phase": phase, "content": content})
        if cue and (cue.step.run or cue.step.path):
            arguments = json.dumps({"cmd": _as_command(cue.step)}, ensure_ascii=False)
            call = {"type": "function_call", "id": f"fc_{key}", "call_id": f"call_{key}"}
            items.append({**call, "name": "exec_command", "arguments": arguments})
        used, made = _tokens(request), _tokens(items)
        usage = {"input_tokens": used, "output_tokens": made, "total_tokens": used + made}
        response = {"id": f"resp_{key}", "object": "response", "model": request.get("model", MODEL)}
        events: Events = [("response.created", {"response": {**response, "status": "in_progress"}})]
        for index, item in enumerate(items):
            events += _item_events(index, item)
        done = {**response, "status": "completed", "output": items, "usage": usage}
        events.append(("response.completed", {"response": done}))
        return _named_events(events)


class ChatCompletions:
    """The Chat Completions format, as Pi speaks it."""

    @staticmethod
    def heard(request: dict[str, Any]) -> Iterator[Heard]:
        """Yield user texts and tool results in order."""
        for message in request.get("messages", []):
            if message["role"] == "tool":
                yield Heard(None)
            elif message["role"] == "user":
                yield from _texts(message["content"], "text")

    @staticmethod
    def stream(request: dict[str, Any], cue: Cue | None, root: Path) -> bytes:
        """Encode the cue as a stream of chunks."""
        del root  # its tools resolve relative paths against the project
        key, step = (cue.key, cue.step) if cue else ("side", Step(say=SIDE_ANSWER))
        deltas: list[dict[str, Any]] = [{"role": "assistant"}]
        if step.say:
            deltas.append({"content": step.say})
        name, arguments = "", {}
        if step.run:
            name, arguments = "bash", {"command": step.run}
        elif step.path:
            name, arguments = "write", {"path": step.path, "content": step.text}
        if name:
            function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            call = {"index": 0, "id": f"call_{key}", "type": "function", "function": function}
            deltas.append({"tool_calls": [call]})
        used, made = _tokens(request), _tokens(deltas)
        usage = {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}
        head = {"id": f"chatcmpl_{key}", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
        chunks = [{**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        last = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if name else "stop"}
        chunks += [{**head, "choices": [last]}, {**head, "choices": [], "usage": usage}]
        lines = [json.dumps(chunk, ensure_ascii=False) for chunk in chunks]
        return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()


class Messages:
    """The Messages format, as Claude Code speaks it."""

    @staticmethod
    def heard(request: dict[str, Any]) -> Iterator[Heard]:
        """Yield user texts and tool results in order."""
        for message in request.get("messages", []):
            if message["role"] != "user":
                continue
            content = message["content"]
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                if block["type"] == "tool_result":
                    yield Heard(None)
                elif block["type"] == "text":
                    yield Heard(block["text"])

    @staticmethod
    def stream(request: dict[str, Any], cue: Cue | None, root: Path) -> bytes:
        """Encode the cue as a stream of events."""
        key, step = (cue.key, cue.step) if cue else ("side", Step(say=SIDE_ANSWER))
        blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
        if step.say:
            blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": step.say}))
        name, arguments = "", {}
        if step.run:
            name, arguments = "Bash", {"command": step.run}
        elif step.path:
            # This host's file tools take absolute paths only.
            name, arguments = "Write", {"file_path": str(root / step.path), "content": step.text}
        if name:
            block = {"type": "tool_use", "id": f"toolu_{key}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments, ensure_ascii=False)}
            blocks.append((block, delta))
        made = _tokens(blocks)
        message: dict[str, Any] = {"id": f"msg_{key}", "type": "message", "role": "assistant"}
        message |= {"content": []}
        message |= {"model": request.get("model", MODEL), "stop_reason": None, "stop_sequence": None}
        message |= {"usage": {"input_tokens": _tokens(request), "output_tokens": 1}}
        events: Events = [("message_start", {"message": message})]
        for index, (block, delta) in enumerate(blocks):
            events.append(("content_block_start", {"index": index, "content_block": block}))
            events.append(("content_block_delta", {"index": index, "delta": delta}))
            events.append(("content_block_stop", {"index": index}))
        reason = {"stop_reason": "tool_use" if name else "end_turn", "stop_sequence": None}
        events.append(("message_delta", {"delta": reason, "usage": {"output_tokens": made}}))
        events.append(("message_stop", {}))
        return _named_events(events)


def _wire(path: str) -> type[Responses] | type[ChatCompletions] | type[Messages]:
    if path.endswith("/chat/completions"):
        return ChatCompletions
    return Responses if path.endswith("/responses") else Messages


def _item_events(index: int, item: dict[str, Any]) -> Events:
    """The events of one output item; words are also sent as a delta, which some hosts show while it comes."""
    place = {"output_index": index}
    events: Events = []
    if item["type"] == "message":
        part = {**place, "item_id": item["id"], "content_index": 0}
        events.append(("response.output_item.added", {**place, "item": {**item, "content": []}}))
        events.append(("response.output_text.delta", {**part, "delta": item["content"][0]["text"]}))
    else:
        events.append(("response.output_item.added", {**place, "item": {**item, "arguments": ""}}))
    events.append(("response.output_item.done", {**place, "item": item}))
    return events


def _named_events(events: Events) -> bytes:
    lines = []
    for name, data in events:
        lines.append(f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n")
    return "".join(lines).encode()


def _texts(content: Any, kind: str) -> Iterator[Heard]:
    if isinstance(content, str):
        yield Heard(content)
        return
    for part in content:
        if part.get("type") == kind:
            yield Heard(part["text"])


def _as_command(step: Step) -> str:
    """A file is written with the shell here: the one tool every version of this host offers any model."""
    if step.run:
        return step.run
    return f"mkdir -p {Path(step.path).parent} && cat > {step.path} <<'EOF'\n{step.text}EOF"


def _tokens(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode()) // BYTES_PER_TOKEN


def _handler_for(models: FakeModels) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Keep the terminal for the recorder."""

        def do_HEAD(self) -> None:
            self._send("text/plain", b"")

        def do_GET(self) -> None:
            entry = {"id": MODEL, "object": "model", "context_window": CONTEXT_WINDOW}
            self._send("application/json", json.dumps({"object": "list", "data": [entry]}).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            path = self.path.split("?")[0]
            self._send(*models.answer(path, json.loads(body or b"{}")))

        def _send(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
