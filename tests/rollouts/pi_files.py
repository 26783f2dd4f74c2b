"""Writes session files as Pi does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memory.model import Transcript
from rollouts.pi import PiAdapter

DATA = Path(__file__).parent / "data_b"
GOLDEN = DATA / "pi_golden_all_types.jsonl"
PI = PiAdapter()
STAMP = "2026-07-01T10:00:{:02}.000Z"


def entry(name: str, parent: str | None, role: str, text: str = "", **message: Any) -> dict[str, Any]:
    content = message.pop("content", [{"type": "text", "text": text}])
    return {
        "type": "message",
        "id": name,
        "parentId": parent,
        "timestamp": STAMP.format(int(name[1:]) if name[1:].isdigit() else 0),
        "message": {"role": role, "content": content, **message},
    }


HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": STAMP.format(0), "cwd": "/w/app"}


def write(folder: Path, *records: Any, name: str = "2026-07-01T10-00-00-000Z_s1.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path


def read(folder: Path, *records: Any, header: Any = HEADER) -> Transcript:
    return PI.read(write(folder, header, *records))


def shown(transcript: Transcript) -> list[tuple[str, str]]:
    return [(event.derived_from or event.tier.value, event.text) for event in transcript.events]


def info(name: str) -> dict[str, Any]:
    return {"type": "session_info", "id": "t1", "parentId": None, "timestamp": STAMP.format(9), "name": name}
