"""Evidence of a whole corpus against a bare `orjson.loads` per line over the same files.

    python bench/bench_evidence.py [CORPUS] [--budget TOKENS] [--rounds N]

CORPUS holds one folder per host (`codex`, `claude`, `pi`, `generic`); default `$SLOWWAVE_CORPUS`, else
`../shared/corpus` beside the checkout. Every round measures both sides, so a slow machine slows both; the figures are
medians of processor time. The bound is 2.0. With `--memory MB` one made-up rollout of that size is read instead, and
peak memory printed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).parent.parent))

from memory.model import Host, Transcript
from memory.redact import Redactor
from memory.settings import ExtractSettings, RedactSettings
from memory.tokens import TokenCounter
from rollouts.adapters import ADAPTERS
from rollouts.evidence import Evidence, build

BOUND = 2.0
MEMORY_BOUND_MB = 200


@dataclass(slots=True)
class Tools:
    """What a run keeps from rollout to rollout."""

    tokens: TokenCounter = field(default_factory=TokenCounter)
    redactor: Redactor = field(default_factory=lambda: Redactor(RedactSettings()))
    settings: ExtractSettings = field(default_factory=ExtractSettings)

    def warm(self) -> None:
        """Vocabulary, catalog and patterns are loaded once per process, not once per rollout."""
        self.tokens.count("warm")
        self.redactor.redact("password: none, token=<none>, https://user:pass@host")

    def evidence(self, transcript: Transcript, budget: int) -> Evidence:
        return build(
            transcript,
            budget_tokens=budget,
            settings=self.settings,
            tokens=self.tokens,
            redactor=self.redactor,
        )


def corpus_files(root: Path) -> list[tuple[Host, Path]]:
    return [(host, path) for host in Host for path in sorted((root / host.value).rglob("*.jsonl*"))]


def bare(files: list[tuple[Host, Path]]) -> None:
    """The yardstick: each line parsed, nothing kept."""
    for _, path in files:
        with path.open("rb") as lines:
            for line in lines:
                try:
                    orjson.loads(line)
                except orjson.JSONDecodeError:
                    continue


def seconds(run: Callable[[], object]) -> float:
    """Processor time: everything here runs in one thread, and what else the machine does is not measured."""
    start = time.process_time()
    run()
    return time.process_time() - start


def compare(files: list[tuple[Host, Path]], budget: int, rounds: int) -> bool:
    tools = Tools()
    tools.warm()
    transcripts = [ADAPTERS[host].read(path) for host, path in files]
    evidence = [tools.evidence(transcript, budget) for transcript in transcripts]
    texts = [found.text for found in evidence]
    parts: dict[str, Callable[[], object]] = {
        "bare orjson.loads per line": lambda: bare(files),
        "read": lambda: [ADAPTERS[host].read(path) for host, path in files],
        "build, with redaction": lambda: [tools.evidence(transcript, budget) for transcript in transcripts],
        "  redaction of what is printed": lambda: [tools.redactor.redact(text) for text in texts],
        "  check of the budget": lambda: [tools.tokens.bound(text) for text in texts if len(text.encode()) > budget],
        "read and build together": lambda: [tools.evidence(ADAPTERS[host].read(path), budget) for host, path in files],
    }
    times: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(rounds):
        for name, run in parts.items():
            times[name].append(seconds(run))
    base = times["bare orjson.loads per line"]
    size = sum(path.stat().st_size for _, path in files)
    printed = sum(len(text.encode()) for text in texts)
    print(f"{len(files)} rollouts, {size / 1e6:.1f} MB read, {printed / 1e6:.1f} MB printed, budget {budget:,} tokens")
    for name, taken in times.items():
        ratio = statistics.median(t / b for t, b in zip(taken, base, strict=True))
        print(f"{name:34} {statistics.median(taken) * 1000:8.1f} ms {ratio:6.2f} x")
    total = statistics.median(t / b for t, b in zip(times["read and build together"], base, strict=True))
    print(f"{'within' if total <= BOUND else 'OVER'} the bound of {BOUND} x: {total:.2f} x")
    over = [found for found in evidence if found.tokens > budget]
    bound = [found for found in evidence if found.gaps]
    used = statistics.median(found.tokens / budget for found in bound) if bound else 0.0
    print(
        f"{len(bound)} rollouts do not fit as a whole; they use {used:.0%} of the budget (median); over it: {len(over)}"
    )
    return total <= BOUND and not over


def memory(megabytes: int, budget: int) -> bool:
    """Peak resident memory above the interpreter with imports and tables, for one rollout of that size."""
    tools = Tools()
    tools.warm()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rollout-2026-11-28T09-14-00-00000000-0000-7000-8000-000000000001.jsonl"
        write_rollout(path, megabytes << 20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = tools.evidence(ADAPTERS[Host.CODEX].read(path), budget)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    above = (peak - before) / 1024
    print(f"{megabytes} MB rollout: {above:.0f} MB above {before / 1024:.0f} MB; coverage {found.coverage}")
    return above <= MEMORY_BOUND_MB


def write_rollout(path: Path, size: int) -> None:
    """A Codex rollout of long tool outputs, with a person speaking now and then."""

    def line(kind: str, payload: dict[str, object]) -> str:
        return json.dumps({"timestamp": "2026-11-28T09:14:00.000Z", "type": kind, "payload": payload}) + "\n"

    output = "".join(f"{n:06d} src/app/module_{n % 97}.py: def handler_{n}(request): return {n}\n" for n in range(400))
    with path.open("w") as file:
        written = file.write(line("session_meta", {"id": "s", "timestamp": "2026-11-28T09:14:00Z", "cwd": "/w"}))
        number = 0
        while written < size:
            number += 1
            parts: list[dict[str, object]] = [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"step {number}"}]},
                {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": f"c{number}"},
                {"type": "function_call_output", "call_id": f"c{number}", "output": output},
            ]
            for part in parts:
                written += file.write(line("response_item", part))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("SLOWWAVE_CORPUS") or Path(__file__).parent.parent.parent / "shared" / "corpus"
    parser.add_argument("corpus", nargs="?", type=Path, default=Path(default))
    parser.add_argument("--budget", type=int, default=22_400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", type=int, default=0, metavar="MB")
    arguments = parser.parse_args()
    if arguments.memory:
        return 0 if memory(arguments.memory, arguments.budget) else 1
    files = corpus_files(arguments.corpus)
    if not files:
        print(f"no sessions under {arguments.corpus}: name a corpus", file=sys.stderr)
        return 2
    return 0 if compare(files, arguments.budget, arguments.rounds) else 1


if __name__ == "__main__":
    raise SystemExit(main())
