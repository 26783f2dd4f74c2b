"""The whole offline pipeline: speed and where it goes, growth with input, a run with nothing new, calls and tokens.

Real sessions come from the corpus where there is one (`SLOWWAVE_CORPUS`); growth is measured on sessions made here:
more of them, longer ones, and the time each takes.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

import consolidate.agent
import consolidate.run
import extract.storing
from bench import bench_memory, timing
from bench.timing import Row, growth, seconds
from extract import reading, validate
from extract.outcomes import Kept, NothingKept
from flows import pipeline
from memory.model import Host
from memory.offline import OfflineModel
from memory.runtime import Runtime, new_run_id, open_runtime
from memory.settings import Settings, load
from memory.state import Ledger
from rollouts import evidence
from rollouts.adapters import ADAPTERS
from rollouts.discover import discover
from rollouts.eligibility import Picks

STEPS = (1, 2, 4, 8)
LINEAR = 1.3
"""Largest exponent that still counts as linear: caches and allocation add a little; quadratic is 2."""
HOSTS = ("codex", "claude", "pi", "generic")


def settings(home: Path, sessions: Path, **extract_keys: object) -> Settings:
    roots = {f"{host}_roots": [str(sessions / host)] for host in HOSTS}
    return load(
        home=home,
        overrides={
            "memory": {"mode": "long"},
            "rollouts": roots,
            "model": {"provider": "offline"},
            "extract": {"idle_hours": 0, "max_age_days": 36_500, "scan_limit": 100_000, **extract_keys},
            "consolidate": {"unused_days": 36_500},
        },
    )


@dataclass(slots=True)
class Outcome:
    """One run: seconds by the clock and of the processor, rollouts a model was asked about, calls and tokens."""

    report: pipeline.RunReport
    wall: float
    busy: float
    asked: int
    extract_calls: int
    extract_tokens: int
    consolidate_calls: int


def run_once(chosen: Settings) -> Outcome:
    with open_runtime(chosen) as runtime:
        began, began_busy = time.perf_counter(), time.process_time()
        report = asyncio.run(pipeline.run(runtime, pipeline.Options(picks=Picks(limit=10_000))))
        return _outcome(runtime, report, time.perf_counter() - began, time.process_time() - began_busy)


def _outcome(runtime: Runtime, report: pipeline.RunReport, wall: float, busy: float) -> Outcome:
    assert isinstance(runtime.meter, Ledger)
    stages = {spend.name: spend for spend in runtime.meter.spend("stage", run_id=runtime.run_id)}
    outcomes = report.extracted.outcomes if report.extracted else ()
    asked = sum(isinstance(item, Kept) or (isinstance(item, NothingKept) and item.asked) for item in outcomes)
    first, second = stages.get("extract"), stages.get("consolidate")
    return Outcome(
        report,
        wall,
        busy,
        asked,
        first.requests if first else 0,
        first.input_tokens if first else 0,
        second.requests if second else 0,
    )


# -- where the time goes ---------------------------------------------------------------------------

PARTS: tuple[tuple[str, object, str], ...] = (
    ("discover", pipeline, "discover"),
    ("read", reading, "read"),
    ("evidence", evidence, "build"),
    ("model, stage 1", OfflineModel, "complete_structured"),
    ("validate", validate, "judge"),
    ("store", extract.storing, "keep"),
    ("consolidate", consolidate.run, "run"),
    ("of it: gate", consolidate.agent, "judge"),
    ("of it: model, stage 2", OfflineModel, "chat"),
)
"""Name, owner and attribute of what is timed. With one worker the parts do not overlap."""


@contextmanager
def stopwatches() -> Iterator[dict[str, float]]:
    """Seconds spent inside each part while the block runs."""
    spent: dict[str, float] = {}
    kept = [(owner, name, getattr(owner, name)) for _, owner, name in PARTS]
    for label, owner, name in PARTS:
        setattr(owner, name, _watched(label, getattr(owner, name), spent))
    try:
        yield spent
    finally:
        for owner, name, former in kept:
            setattr(owner, name, former)


def _watched(label: str, work: Callable[..., object], spent: dict[str, float]) -> Callable[..., object]:
    def add(began: float) -> None:
        spent[label] = spent.get(label, 0.0) + time.perf_counter() - began

    if asyncio.iscoroutinefunction(work):

        async def waited(*args: object, **keys: object) -> object:
            began = time.perf_counter()
            try:
                return await work(*args, **keys)
            finally:
                add(began)

        return waited

    def called(*args: object, **keys: object) -> object:
        began = time.perf_counter()
        try:
            return work(*args, **keys)
        finally:
            add(began)

    return called


# -- the corpus ------------------------------------------------------------------------------------


def on_corpus(base: Path, sessions: Path) -> Iterator[Row]:
    size = sum(path.stat().st_size for host in HOSTS for path in (sessions / host).rglob("*") if path.is_file())
    outcomes = [run_once(settings(base / f"c{n}", sessions)) for n in range(timing.ROUNDS)]
    first = outcomes[0]
    assert first.report.extracted is not None
    wall = statistics.median(outcome.wall for outcome in outcomes)
    done = first.report.extracted.done
    counts: dict[str, int] = {}
    for item in first.report.extracted.outcomes:
        counts[item.code] = counts.get(item.code, 0) + 1
    told = ", ".join(f"{count} {code}" for code, count in sorted(counts.items()))
    print(f"corpus: {told}; not taken: {dict(first.report.extracted.reasons)}; {first.report.outcome}", flush=True)
    yield Row(
        "corpus: rollouts per second", done / wall, None, "/s", seconds([o.wall for o in outcomes]), f"{done} done"
    )
    yield Row("corpus: MB per second", size / 1e6 / wall, None, "MB/s", "", f"{size / 1e6:.0f} MB")
    yield Row("model calls per rollout asked about", first.extract_calls / max(1, first.asked), 1.0, "")
    yield Row("model calls of the consolidation", first.consolidate_calls, None, "")
    yield Row("input tokens per rollout", first.extract_tokens / max(1, first.asked), None, "tokens")
    with stopwatches() as spent:
        whole = run_once(settings(base / "parts", sessions, concurrency=1))
    for label, _, _ in PARTS:
        took = spent.get(label, 0.0)
        yield Row(
            f"corpus: share of {label}", 100 * took / whole.wall, None, "%", f"{took:.2f} s", f"{whole.wall:.2f} s"
        )


def nothing_new(base: Path) -> Iterator[Row]:
    """A run over 10,000 known sessions: no model call, hardly more than the walk that finds nothing new."""
    sessions, calls = base / "known", [0]
    write_sessions(sessions, 10_000, 1)
    with open_runtime(settings(base / "known-home", sessions)) as runtime:
        asyncio.run(pipeline.run(runtime, pipeline.Options(picks=Picks(limit=40))))
    with open_runtime(settings(base / "known-home", sessions, max_age_days=1)) as runtime:

        def whole() -> None:
            runtime.run_id = new_run_id(runtime.clock)
            runtime.meter = Ledger(runtime.store, runtime.settings.budget, runtime.clock, runtime.run_id)
            report = asyncio.run(pipeline.run(runtime, pipeline.Options()))
            assert report.outcome == "nothing", report
            assert report.spend is not None
            calls.append(report.spend.requests)

        def walk() -> None:
            discover(runtime.settings, runtime.clock, runtime.store)

        found = timing.paired(whole, walk, rounds=3 * timing.ROUNDS)
    yield found.row("run with nothing new / second discovery (10,000 files)", 1.5)
    yield Row("model calls of a run with nothing new", max(calls), 0.0, "")


def dressed(corpus: Path, into: Path) -> Path:
    """A copy of the corpus in which every file has a name its host would give it: some were renamed by collectors."""
    for host in (Host.CODEX, Host.CLAUDE, Host.PI):
        for path in sorted((corpus / host).rglob("*")):
            if not path.is_file():
                continue
            place = into / host / path.relative_to(corpus / host)
            if not ADAPTERS[host].matches(place):
                name = str(uuid5(NAMESPACE_URL, str(path.relative_to(corpus))))
                place = place.with_name(
                    f"rollout-2026-01-01T00-00-00-{name}.jsonl" if host == Host.CODEX else f"{name}.jsonl"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    return into


# -- growth ----------------------------------------------------------------------------------------


def write_sessions(folder: Path, count: int, turns: int) -> None:
    """`count` sessions of `turns` turns each, over the three hosts, in ten projects."""
    for number in range(count):
        name = str(UUID(int=(0x01A0 << 112) + number + 1))
        chance = random.Random(number)
        host = ("codex", "claude", "pi")[number % 3]
        place, make, _ = bench_memory.SHAPES[f"{host}, 20 KB outputs"]
        path = folder / place.replace(bench_memory.ID, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = make(chance, 600)
        with path.open("w", encoding="utf-8") as file:
            for _ in range(1 + 4 * turns):
                text = json.dumps(next(lines), ensure_ascii=False).replace(bench_memory.ID, name)
                # Every session has a time and words of its own, or each would be compared with all of its twins.
                text = text.replace("/home/dev/shop", f"/home/dev/p{number % 10}").replace("`ci/", f"`ci{number}/")
                text = text.replace("Please use Vitest", f"In module m{number} please use Vitest")
                text = text.replace(bench_memory.DAY, f"2026-11-{number % 20 + 1:02}T{number // 20 % 24:02}")
                file.write(text + "\n")


def grown(base: Path, label: str, make: Callable[[Path, int], None]) -> Iterator[Row]:
    """Processor time of a whole run at 1, 2, 4 and 8 times the input, and the exponent of its growth."""
    times: list[float] = []
    for step in STEPS:
        sessions = base / f"{label}{step}"
        make(sessions, step)
        busy = [run_once(settings(base / f"h-{label}{step}-{n}", sessions)).busy for n in range(3)]
        times.append(statistics.median(busy))
        print(f"{label} {step}x: {times[-1]:.2f} s", flush=True)
    told = ", ".join(f"{step}x {took:.2f} s" for step, took in zip(STEPS, times, strict=True))
    yield Row(f"growth with {label} (exponent)", growth(STEPS, times), LINEAR, "", told)
    yield Row(f"growth with {label}, last doubling", times[-1] / times[-2], 2**LINEAR, "x")


def run() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as folder:
        base = Path(folder)
        sessions = timing.corpus()
        if sessions is None:
            print("no corpus: set SLOWWAVE_CORPUS", file=sys.stderr)
        else:
            rows += on_corpus(base, dressed(sessions, base / "corpus"))
        rows += nothing_new(base)
        rows += grown(base, "number of sessions", lambda place, step: write_sessions(place, 60 * step, 6))
        rows += grown(base, "length of a session", lambda place, step: write_sessions(place, 3, 400 * step))
    return rows
