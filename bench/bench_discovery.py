"""Discovery against the least that can be done: a walk, a stat, an open.

First pass: every file is new, against opening each and reading 64 KiB. Second pass: nothing changed, against a bare
`scandir` and `stat` walk. Ratios within one run, medians of the rounds; the files are of three hosts, with heads and
sizes as real sessions have them (a quarter each of about 15, 60, 150 and 400 KB). The first pass is measured with all
of them in the page cache, where it is Python that takes the time, and with none of them, as on the day slowwave is
installed. Another line adds the choice of what to extract where everything was extracted already: a whole run that
finds nothing to do.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from bench.timing import ROUNDS, Row, timed
from memory.clock import SystemClock
from memory.model import Reason
from memory.settings import RolloutSettings, Settings
from memory.state import Store
from rollouts.discover import choose, discover

FILES = 10_000
WORDS = "the tests of the payments service fail since the move to the new runner please look at the config first "
STAMP = "2026-11-2{day}T10:{minute:02}:{second:02}.000Z"


def stamp(number: int, step: int) -> str:
    return STAMP.format(day=number % 10, minute=step // 60 % 60, second=step % 60)


def codex(number: int, turns: int) -> tuple[str, list[dict[str, object]]]:
    name = str(UUID(int=(0x01A0 << 112) + number))
    meta = {"id": name, "timestamp": stamp(number, 0), "cwd": f"/home/dev/p{number % 40}", "originator": "codex_cli_rs",
            "cli_version": "0.146.0", "source": "cli", "base_instructions": {"text": WORDS * 150}}  # fmt: skip
    lines: list[dict[str, object]] = [{"timestamp": stamp(number, 0), "type": "session_meta", "payload": meta}]
    for turn in range(turns):
        for role, kind, text in (
            ("user", "input_text", f"{number}.{turn} {WORDS}"),
            ("assistant", "output_text", WORDS),
        ):
            block = [{"type": kind, "text": text}]
            payload = {"type": "message", "role": role, "content": block}
            lines.append({"timestamp": stamp(number, turn), "type": "response_item", "payload": payload})
        call = {"type": "function_call", "name": "shell", "call_id": f"c{turn}", "arguments": '{"command":["ls"]}'}
        lines.append({"timestamp": stamp(number, turn), "type": "response_item", "payload": call})
        result = {"type": "function_call_output", "call_id": f"c{turn}", "output": WORDS * 20}
        lines.append({"timestamp": stamp(number, turn), "type": "response_item", "payload": result})
    return f"2026/11/2{number % 10}/rollout-2026-11-2{number % 10}T10-00-00-{name}.jsonl", lines


def claude(number: int, turns: int) -> tuple[str, list[dict[str, object]]]:
    name = str(UUID(int=(0x01A1 << 112) + number, version=4))
    base = {"sessionId": name, "cwd": f"/home/dev/p{number % 40}", "version": "2.1.237", "gitBranch": "main",
            "isSidechain": False, "userType": "external"}  # fmt: skip
    lines: list[dict[str, object]] = []
    before = None
    for turn in range(turns):
        user = {"role": "user", "content": f"{number}.{turn} {WORDS}"}
        one = {"parentUuid": before, "uuid": f"u{turn}", "type": "user", "message": user}
        answer = {
            "id": f"m{turn}",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": WORDS * 20}],
        }
        two = {"parentUuid": f"u{turn}", "uuid": f"a{turn}", "type": "assistant", "message": answer}
        lines += [{**base, **line, "timestamp": stamp(number, turn)} for line in (one, two)]
        before = f"a{turn}"
    return f"-home-dev-p{number % 40}/{name}.jsonl", lines


def pi(number: int, turns: int) -> tuple[str, list[dict[str, object]]]:
    name = str(UUID(int=(0x01A2 << 112) + number))
    folder = f"/home/dev/p{number % 40}"
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": name, "timestamp": stamp(number, 0), "cwd": folder},
        {"type": "model_change", "id": "e0", "parentId": None, "timestamp": stamp(number, 0), "provider": "p"},
    ]
    for turn in range(turns):
        said = {"role": "user", "content": [{"type": "text", "text": f"{number}.{turn} {WORDS}"}]}
        answer = {"role": "assistant", "content": [{"type": "text", "text": WORDS * 20}], "stopReason": "stop"}
        for message in (said, answer):
            entry = {"id": f"e{len(lines)}", "parentId": f"e{len(lines) - 1}", "timestamp": stamp(number, turn)}
            lines.append({"type": "message", **entry, "message": message})
    return f"--home-dev-p{number % 40}--/2026-11-2{number % 10}T10-00-00-000Z_{name}.jsonl", lines


def build(root: Path, files: int) -> int:
    """Writes the sessions; returns their bytes."""
    total = 0
    for number in range(files):
        turns = (6, 25, 60, 160)[number % 4]
        host, make = (("codex", codex), ("claude", claude), ("pi", pi))[number % 3]
        name, lines = make(number, turns)
        path = root / host / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        path.write_bytes(data)
        total += len(data)
    return total


def bare_walk(root: Path) -> int:
    seen, stack = 0, [str(root)]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    stack.append(entry.path)
                else:
                    entry.stat(follow_symlinks=False)
                    seen += 1
    return seen


def bare_read(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            file.read(64 * 1024)


def evict(paths: list[Path]) -> None:
    """Takes the files out of the page cache, where the system lets us; they must have reached the disk first."""
    os.sync()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def measure(base: Path, files: int, rounds: int) -> list[tuple[str, float, float, float]]:
    size = build(base / "hosts", files)
    paths = sorted((base / "hosts").rglob("*.jsonl"))
    print(f"{len(paths):,} files, {size / 1e6:,.0f} MB, {rounds} rounds")
    rows: dict[str, list[float]] = {}
    bare_read(paths)
    for number in range(rounds):
        for name, seconds in one_round(base, base / f"home{number}", paths):
            rows.setdefault(name, []).append(seconds)
    median = {name: statistics.median(values) for name, values in rows.items()}
    return [
        ("first pass / open and read 64 KiB, cold", median["cold first"], median["cold read"], 3.0),
        ("first pass / open and read 64 KiB, warm", median["first"], median["read"], 3.0),
        ("second pass / bare walk", median["second"], median["walk"], 2.0),
        ("second pass and choice / second pass", median["second"] + median["choose"], median["second"], 1.5),
        ("one file grown / bare walk", median["one"], median["walk"], 0.0),
    ]


def one_round(base: Path, home: Path, paths: list[Path]) -> Iterator[tuple[str, float]]:
    """A new state each; what is compared is measured in turn, so that both meet the same machine."""
    hosts = base / "hosts"
    rollouts = RolloutSettings(
        codex_roots=(hosts / "codex",),
        claude_roots=(hosts / "claude",),
        pi_roots=(hosts / "pi",),
        generic_roots=(base / "none",),
    )
    settings, clock = Settings(home=home, rollouts=rollouts), SystemClock()
    evict(paths)
    yield "cold read", timed(lambda: bare_read(paths))
    evict(paths)
    with Store.open(Settings(home=home.with_suffix(".cold"), rollouts=rollouts), clock) as store:
        yield "cold first", timed(lambda: discover(store.settings, clock, store))
    bare_read(paths)
    with Store.open(settings, clock) as store:
        yield "read", timed(lambda: bare_read(paths))
        yield "first", timed(lambda: discover(settings, clock, store))
        done = {row.id: (Reason.UP_TO_DATE, "") for row in store.rollouts.all()}
        store.rollouts.set_reasons(done)
        for _ in range(3):
            yield "walk", timed(lambda: bare_walk(hosts))
            yield "second", timed(lambda: discover(settings, clock, store))
            yield "choose", timed(lambda: choose(settings, clock, store))
        found = discover(settings, clock, store)
        assert (found.unchanged, found.read) == (len(paths), 0), found
        yield "one", timed(lambda: _one(paths[0], settings, clock, store))


def _one(path: Path, settings: Settings, clock: SystemClock, store: Store) -> None:
    with path.open("ab") as file:
        file.write(b"{}\n")
    discover(settings, clock, store)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-", ignore_cleanup_errors=True) as folder:
        return [
            Row(name, taken / base, bound or None, "x", f"{taken * 1e3:.1f} ms", f"{base * 1e3:.1f} ms")
            for name, taken, base, bound in measure(Path(folder), FILES, ROUNDS)
        ]
