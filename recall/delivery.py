"""What the hosts' sessions were given lately, and what is in the way of giving it: for `status`.

Sums come from the snapshots hooks leave. What a hook found wrong with a file is looked at again, so that a file
mended since is no problem any more. Reads files only, never raises for what it reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory.clock import iso
from recall import scope, short, snapshot
from recall.policy import SETTINGS

MAX_FILES = 200


@dataclass(frozen=True, slots=True)
class Delivery:
    """Sessions whose snapshot is kept (30 days): their turns, the blocks they got and the tokens these take.

    `left_out` is what the host's cap cut from the last block of the newest session, `contradicted` how many lines
    instruction files of its project overruled. `problems` say which memory files or settings are skipped, and why.
    """

    sessions: int = 0
    turns: int = 0
    blocks: int = 0
    tokens: int = 0
    left_out: int = 0
    contradicted: int = 0
    last: dict[str, datetime] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_delivery(home: Path) -> Delivery:
    """Of a store's folder."""
    sessions = [one for one in snapshot.snapshots(str(home)) if isinstance(one.get("usage"), dict)]
    last: dict[str, datetime] = {}
    newest: dict[str, dict[str, Any]] = {}
    for one in sessions:
        host, at = str(one.get("host")), one.get("at")
        if isinstance(at, int | float) and 0 <= at < 32_503_680_000:
            moment = datetime.fromtimestamp(at, UTC)
            if host not in last or moment > last[host]:
                last[host], newest[host] = moment, one
    latest = newest[max(last, key=lambda host: last[host])] if last else {}
    return Delivery(
        sessions=len(sessions),
        turns=_sum(sessions, "turns"),
        blocks=_sum(sessions, "blocks"),
        tokens=_sum(sessions, "tokens"),
        left_out=int((latest.get("block") or {}).get("left_out") or 0),
        contradicted=len(latest.get("dropped") or ()),
        last=dict(sorted(last.items())),
        problems=tuple(dict.fromkeys([*_settings(newest), *_short_files(home, sessions)])),
    )


def overruled(home: Path, version: int | None) -> dict[int, list[str]]:
    """Line of the summary of this version -> the places in instruction files for which sessions did not get it."""
    found: dict[int, list[str]] = {}
    generation, _ = scope.read_generation(str(home))
    for one in snapshot.snapshots(str(home)):
        block, dropped = one.get("block"), one.get("dropped")
        if not isinstance(block, dict) or not isinstance(dropped, list):
            continue
        if (block.get("published"), block.get("generation")) != (version, generation):  # other lines have these numbers
            continue
        for item in dropped:
            if isinstance(item, list) and len(item) == 4 and isinstance(item[0], int) and item[0]:
                place = f"{item[2]}, line {item[3]}"
                if place not in found.setdefault(item[0], []):
                    found[item[0]].append(place)
    return found


def _sum(sessions: list[dict[str, Any]], name: str) -> int:
    values = (one["usage"].get(name) for one in sessions)
    return sum(value for value in values if isinstance(value, int))


def _settings(newest: dict[str, dict[str, Any]]) -> list[str]:
    """What was wrong with the settings when the newest session of each host read them."""
    return [
        f"{host}: {problem}; its sessions got no memory for it"
        for host, one in newest.items()
        for problem, _, reason in _diagnostics(one)
        if reason == SETTINGS
    ]


def _short_files(home: Path, sessions: list[dict[str, Any]]) -> list[str]:
    """The user's short file, and every project's that a session found at fault, as they are now."""
    paths = [short.user_path(str(home))]
    for one in sessions:
        paths += [path for path, _, reason in _diagnostics(one) if reason != SETTINGS and path.endswith(".md")]
    found = [short.read(path).diagnostic for path in dict.fromkeys(paths[:MAX_FILES])]
    return [f"{problem}; the file is skipped" for problem in found if problem is not None]


def _diagnostics(one: dict[str, Any]) -> list[tuple[str, int, str]]:
    items = one.get("diagnostics")
    found = [item for item in items if isinstance(item, list) and len(item) == 3] if isinstance(items, list) else []
    return [(str(path), line, str(reason)) for path, line, reason in found if isinstance(line, int)]


def as_json(found: Delivery) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "sessions": found.sessions,
        "turns": found.turns,
        "blocks": found.blocks,
        "tokens": found.tokens,
        "left_out": found.left_out,
        "contradicted": found.contradicted,
        "last_session": {host: iso(at) for host, at in found.last.items()},
        "problems": list(found.problems),
    }
