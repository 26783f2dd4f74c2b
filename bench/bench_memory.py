"""Memory: the peak of the whole offline pipeline over one 64 MB session, above the same pipeline over a tiny one."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

from bench.timing import Row, peak_megabytes

SIZE = 64_000_000
BOUND_MB = 200.0
ID = str(UUID(int=(0x01A0 << 112) + 1))
DAY = "2026-11-20T10"
PIPELINE = """
import asyncio, sys
from flows import pipeline
from memory.runtime import open_runtime
from memory.settings import load
from rollouts.eligibility import Picks

home, sessions = sys.argv[1:]
roots = {f"{host}_roots": [f"{sessions}/{host}"] for host in ("codex", "claude", "pi", "generic")}
wanted = {"memory": {"mode": "long"}, "rollouts": roots, "model": {"provider": "offline"},
          "extract": {"idle_hours": 0, "max_age_days": 36500}, "consolidate": {"unused_days": 36500}}
with open_runtime(load(home=home, overrides=wanted)) as runtime:
    report = asyncio.run(pipeline.run_until_stopped(runtime, pipeline.Options(picks=Picks(limit=10))))
print(len(report.extracted.outcomes), report.outcome)
"""
PEOPLE = (
    "Please use Vitest for all new tests from now on.",
    "No, not Jest: we use pnpm in this repository, never npm.",
    "The build fails on the runner, look at `ci/build.yml` first.",
    "以后统一用 pnpm，不要用 npm。",
)


def words(chance: random.Random, length: int) -> str:
    """Text of about `length` characters that does not repeat."""
    return " ".join(f"{chance.getrandbits(40):x}" for _ in range(length // 11))


def codex(chance: random.Random, output: int) -> Iterator[dict[str, object]]:
    yield {"timestamp": f"{DAY}:00:00Z", "type": "session_meta", "payload": {
        "id": ID, "timestamp": f"{DAY}:00:00Z", "cwd": "/home/dev/shop", "originator": "codex_cli_rs", "source": "cli",
        "cli_version": "0.146.0"}}  # fmt: skip
    for turn in range(10_000_000):
        stamp = f"{DAY}:{turn // 60 % 60:02}:{turn % 60:02}Z"
        for kind, payload in (
            ("message", {"role": "user", "content": [{"type": "input_text", "text": PEOPLE[turn % 4]}]}),
            ("function_call", {"name": "shell", "call_id": f"c{turn}", "arguments": '{"command":["make","test"]}'}),
            ("function_call_output", {"call_id": f"c{turn}", "output": words(chance, output)}),
            ("message", {"role": "assistant", "content": [{"type": "output_text", "text": words(chance, 400)}]}),
        ):
            yield {"timestamp": stamp, "type": "response_item", "payload": {"type": kind, **payload}}


def claude(chance: random.Random, output: int) -> Iterator[dict[str, object]]:
    base = {
        "sessionId": ID,
        "cwd": "/home/dev/shop",
        "version": "2.1.237",
        "isSidechain": False,
        "userType": "external",
    }
    before = None
    for turn in range(10_000_000):
        stamp = f"{DAY}:{turn // 60 % 60:02}:{turn % 60:02}.000Z"
        tool = [{"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": "make test"}}]
        result = [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": words(chance, output)}]
        said = [{"type": "text", "text": words(chance, 400)}]
        for step, (role, content) in enumerate(
            (("user", PEOPLE[turn % 4]), ("assistant", tool), ("user", result), ("assistant", said))
        ):
            name = f"u{turn}-{step}"
            message = {"role": role, "content": content, **({"id": f"m{turn}-{step}"} if role == "assistant" else {})}
            yield {**base, "parentUuid": before, "uuid": name, "type": role, "timestamp": stamp, "message": message}
            before = name


def pi(chance: random.Random, output: int) -> Iterator[dict[str, object]]:
    yield {"type": "session", "version": 3, "id": ID, "timestamp": f"{DAY}:00:00.000Z", "cwd": "/home/dev/shop"}
    before = None
    for turn in range(10_000_000):
        stamp = f"{DAY}:{turn // 60 % 60:02}:{turn % 60:02}.000Z"
        call = {"type": "toolCall", "id": f"t{turn}", "name": "bash", "arguments": {"command": "make test"}}
        for step, message in enumerate(
            (
                {"role": "user", "content": [{"type": "text", "text": PEOPLE[turn % 4]}]},
                {"role": "assistant", "content": [call], "stopReason": "toolUse"},
                {"role": "toolResult", "toolCallId": f"t{turn}", "toolName": "bash", "isError": False,
                 "content": [{"type": "text", "text": words(chance, output)}]},
                {"role": "assistant", "content": [{"type": "text", "text": words(chance, 400)}], "stopReason": "stop"},
            )
        ):  # fmt: skip
            name = f"e{turn}-{step}"
            yield {"type": "message", "id": name, "parentId": before, "timestamp": stamp, "message": message}
            before = name


SHAPES: dict[str, tuple[str, Callable[[random.Random, int], Iterator[dict[str, object]]], int]] = {
    "codex, 20 KB outputs": (f"codex/2026/11/20/rollout-2026-11-20T10-00-00-{ID}.jsonl", codex, 20_000),
    "codex, 300 B outputs": (f"codex/2026/11/20/rollout-2026-11-20T10-00-00-{ID}.jsonl", codex, 300),
    "codex, 20 MB lines": (f"codex/2026/11/20/rollout-2026-11-20T10-00-00-{ID}.jsonl", codex, 20_000_000),
    "claude, 20 KB outputs": (f"claude/-home-dev-shop/{ID}.jsonl", claude, 20_000),
    "pi, 20 KB outputs": (f"pi/--home-dev-shop--/2026-11-20T10-00-00-000Z_{ID}.jsonl", pi, 20_000),
}
"""What is written where: file, maker of lines, characters of one tool output."""


def write(path: Path, lines: Iterator[dict[str, object]], size: int = SIZE) -> int:
    """Lines up to `size` bytes, or all of them; returns the bytes."""
    path.parent.mkdir(parents=True)
    written = 0
    with path.open("wb") as file:
        for line in lines:
            written += file.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")
            if size and written >= size:
                break
    return written


def run() -> list[Row]:
    """The floor is a session of nine lines: interpreter, imports, vocabulary, rules. What no session needs is told."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as folder:
        base = Path(folder)
        nothing = peak_megabytes(PIPELINE, str(base / "home"), str(base / "none"))
        place, make, _ = next(iter(SHAPES.values()))
        write(base / "small" / place, itertools.islice(make(random.Random(0), 100), 9), size=0)
        floor = peak_megabytes(PIPELINE, str(base / "home-small"), str(base / "small"))
        for number, (name, (place, make, output)) in enumerate(SHAPES.items()):
            sessions = base / f"sessions{number}"
            size = write(sessions / place, make(random.Random(number), output))
            peak = peak_megabytes(PIPELINE, str(base / f"home{number}"), str(sessions))
            told = f"{size / 1e6:.0f} MB session: {peak:.0f} MB"
            against = f"9 lines: {floor:.0f} MB (no session: {nothing:.0f} MB)"
            rows.append(Row(f"peak above a tiny session: {name}", peak - floor, BOUND_MB, "MB", told, against))
            (sessions / place).unlink()
    return rows
