"""Public retrieval data, read in place: `SLOWWAVE_BENCH_DATA`, default `../shared/bench-data` beside the checkout.

None of it is part of the project. LoCoMo: units are turns, groups are sessions. BEAM: units are exchanges, what the
assistant said counts as `aside`. PrecisionMemBench: units are beliefs with their names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recall.index.unit import Scope, Unit


class Asked(NamedTuple):
    """A question with the names of what answers it, and its kind in the data set."""

    text: str
    gold: frozenset[str]
    kind: str


class Case(NamedTuple):
    """One memory and what is asked of it. `gold` names units by `ref`."""

    units: list[Unit]
    questions: list[Asked]


def folder(name: str) -> Path | None:
    """None where the data is not there."""
    said = os.environ.get("SLOWWAVE_BENCH_DATA")
    path = (Path(said) if said else Path(__file__).resolve().parents[2] / "shared" / "bench-data") / name
    return path if path.is_dir() else None


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def locomo(path: Path, *, corrected: bool = False) -> Iterator[Case]:
    """Conversations. `corrected` takes the audit's evidence in place of the key's."""
    audit = {entry["question_id"]: entry for entry in _read(path / "locomo_audit_errors.json")}
    for number, row in enumerate(_read(path / "locomo10.json")):
        units = list(_turns(row["conversation"]))
        questions = []
        for place, asked in enumerate(row["qa"]):
            said = asked.get("evidence") or []
            fixed = audit.get(f"locomo_{number}_qa{place}") if corrected else None
            if fixed is not None and fixed.get("correct_evidence"):
                said = fixed["correct_evidence"]
            gold = frozenset(ref for text in said for ref in re.findall(r"D\d+:\d+", str(text)))
            if gold:
                questions.append(Asked(asked["question"], gold, str(asked["category"])))
        yield Case(units, questions)


def _turns(conversation: dict[str, Any]) -> Iterator[Unit]:
    for number in range(1, 100):
        when = str(conversation.get(f"session_{number}_date_time", ""))
        for turn in conversation.get(f"session_{number}") or ():
            shown = f" {turn['blip_caption']}" if turn.get("blip_caption") else ""
            text = f"{turn['speaker']}: {turn['text']}{shown}"
            yield Unit(turn["dia_id"], f"D{number}", text, about=when)


def beam(path: Path) -> Iterator[Case]:
    """Chats; `gold` names exchanges as `m<message id>` and a unit's citations are its messages."""
    for chat in sorted((path / "100K").iterdir(), key=lambda p: int(p.name)):
        short = chat / "chat_trunecated.json"
        batches = _read(short if short.exists() else chat / "chat.json")
        units: list[Unit] = []
        for at, batch in enumerate(batches):
            units += _exchanges(at, [message for turn in batch["turns"] for message in turn])
        questions = []
        for kind, rows in _read(chat / "probing_questions.json").items():
            for row in rows:
                gold = frozenset(f"m{number}" for number in _numbers(row.get("source_chat_ids")))
                if gold:
                    questions.append(Asked(row["question"], gold, kind))
        yield Case(units, questions)


def _exchanges(batch: int, messages: list[dict[str, Any]]) -> Iterator[Unit]:
    pending: list[dict[str, Any]] = []
    for message in [*messages, None]:
        if pending and (message is None or message["role"] == "user"):
            said = " ".join(re.sub(r"->-> .*$", "", m["content"]) for m in pending if m["role"] == "user")
            answer = " ".join(m["content"] for m in pending if m["role"] != "user")
            cited = tuple(f"m{m['id']}" for m in pending)
            yield Unit(cited[0], f"b{batch}", said, aside=answer, citations=cited)
            pending = []
        if message is not None:
            pending.append(message)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner)


class Belief(NamedTuple):
    """What the harness of PrecisionMemBench knows of a belief beside its text."""

    unit: Unit
    user: str
    scopes: tuple[str, ...]
    pinned: bool
    question: bool
    participants: tuple[str, ...]


def beliefs(path: Path) -> dict[str, Belief]:
    """The reason why a belief matters is left out: it speaks of what the belief is not about."""
    found = {}
    for row in _read(path / "beliefs.seed.json"):
        over = row["epistemic_status"] == "superseded" or bool(row["superseded_by"]) or bool(row["resolved_at"])
        unit = Unit(
            row["_id"],
            row["_id"],
            row["content"],
            names=(row["canonical_name"], *row["aliases"]),
            scope=Scope(tuple(f"{row['user_id']}/{scope}" for scope in row["scope"])),
            time=row["updated_at"],
            used=int(row["reinforcement_count"]),
            superseded=over,
        )
        found[row["_id"]] = Belief(
            unit,
            row["user_id"],
            tuple(row["scope"]),
            bool(row["pinned"]),
            row["type"] == "open_question",
            tuple(row.get("participants") or ()),
        )
    return found


def precision_cases(path: Path) -> list[dict[str, Any]]:
    return list(_read(path / "retrieval.cases.json"))


def session_cases(path: Path) -> list[dict[str, Any]]:
    return list(_read(path / "session-retrieval.cases.json"))
