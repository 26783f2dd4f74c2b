"""Session files as Codex, Claude Code and Pi write them, in folders as they keep them."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.flows.home import Home

HOSTS = ("codex", "claude", "pi")


@dataclass(frozen=True)
class Hosts(Home):
    """A user with three hosts."""

    def root(self, host: str) -> Path:
        return self.folder / "hosts" / host

    def configure_hosts(self, **sections: dict[str, Any]) -> None:
        roots = {f"{host}_roots": [str(self.root(host))] for host in HOSTS}
        for host in HOSTS:
            self.root(host).mkdir(parents=True, exist_ok=True)
        self.configure(rollouts={"hosts": list(HOSTS), **roots}, **sections)

    def session(
        self,
        host: str,
        *said: tuple[str, str],
        cwd: str = "/home/dev/shop",
        began: datetime,
        system: str = "You are a coding agent.",
        entry: dict[str, Any] | None = None,
    ) -> str:
        """Writes a session of (role, text) turns, roles `user` and `assistant`; returns its rollout id."""
        name = str(uuid.uuid4())
        times = [began + timedelta(seconds=10 * number) for number in range(len(said) + 1)]
        lines = {"codex": _codex, "claude": _claude, "pi": _pi}[host](name, cwd, system, list(said), times)
        if entry is not None:
            lines.append(entry)
        path = self._path(host, name, cwd, began)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
        stamp = times[-1].timestamp()
        os.utime(path, (stamp, stamp))
        return f"{host}:{name}"

    def _path(self, host: str, name: str, cwd: str, began: datetime) -> Path:
        folder = cwd.replace("/", "-")
        if host == "codex":
            return self.root(host) / f"{began:%Y/%m/%d}" / f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{name}.jsonl"
        if host == "claude":
            return self.root(host) / folder / f"{name}.jsonl"
        return self.root(host) / f"-{folder}--" / f"{began:%Y-%m-%dT%H-%M-%S}-000Z_{name}.jsonl"


Lines = list[dict[str, Any]]


def _codex(name: str, cwd: str, system: str, said: Iterable[tuple[str, str]], times: list[datetime]) -> Lines:
    client = {"originator": "codex-tui", "cli_version": "0.155.0", "source": "cli"}
    meta = {"id": name, "timestamp": _stamp(times[0]), "cwd": cwd, "base_instructions": {"text": system}, **client}
    lines: Lines = [{"timestamp": _stamp(times[0]), "type": "session_meta", "payload": meta}]
    for (role, text), time in zip(said, times[1:], strict=True):
        block = {"type": "input_text" if role == "user" else "output_text", "text": text}
        message: dict[str, Any] = {"type": "message", "role": role, "content": [block]}
        event: dict[str, Any] = {"type": "user_message", "message": text}
        if role == "assistant":
            message["phase"] = "final_answer"
            event = {"type": "agent_message", "message": text, "phase": "final_answer"}
        lines.append({"timestamp": _stamp(time), "type": "response_item", "payload": message})
        lines.append({"timestamp": _stamp(time), "type": "event_msg", "payload": event})
    return lines


def _claude(name: str, cwd: str, system: str, said: Iterable[tuple[str, str]], times: list[datetime]) -> Lines:
    lines: Lines = []
    common = {"sessionId": name, "cwd": cwd, "version": "2.1.332", "userType": "external", "isSidechain": False}
    last: str | None = None
    reminder = f"<system-reminder>\n{system}\n</system-reminder>"
    for number, ((role, text), time) in enumerate(zip(said, times[1:], strict=True)):
        content: Any = [{"type": "text", "text": text}]
        if not number:
            content = [{"type": "text", "text": reminder}, *content]
        message: dict[str, Any] = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg_{number}", "model": "claude-x", "type": "message", "stop_reason": "end_turn"}
        identity = f"{name[:8]}-{number}"
        lines.append(
            {
                **common,
                "type": role,
                "uuid": identity,
                "parentUuid": last,
                "timestamp": _stamp(time),
                "message": message,
            }
        )
        last = identity
    return lines


def _pi(name: str, cwd: str, system: str, said: Iterable[tuple[str, str]], times: list[datetime]) -> Lines:
    lines: Lines = [{"type": "session", "version": 3, "id": name, "timestamp": _stamp(times[0]), "cwd": cwd}]
    last: str | None = None
    for number, ((role, text), time) in enumerate(zip(said, times[1:], strict=True)):
        message: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": text}]}
        if role == "assistant":
            message["stopReason"] = "stop"
        identity = f"{number:08x}"
        lines.append(
            {"type": "message", "id": identity, "parentId": last, "timestamp": _stamp(time), "message": message}
        )
        last = identity
    return lines


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
