"""Clearing and forgetting among 10,000 sources, starting after a crash, many processes at one database.

The sources are real files with real rows, found by discovery; the last version was made from 256 of them. Claims and
waits are measured with real processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench import timing
from bench.timing import Row, seconds
from consolidate.byhand import change_by_hand
from consolidate.service import LongMemory
from extract import one  # noqa: F401 - declares the points of stage 1
from memory import failpoints
from memory.clock import SystemClock
from memory.documents import print_rollout_summary, print_summary
from memory.llm.base import ByteTokens
from memory.model import HEADINGS, Boundary, InputFile, Manifest, Outcome, RolloutId, SummaryHeader
from memory.offline import OfflineModel
from memory.redact import Redactor
from memory.runtime import Runtime, new_run_id
from memory.settings import RedactSettings, Settings, load
from memory.state import Lease, Ledger, OutputRow, Store
from memory.workspace import Workspace
from rollouts.discover import choose, discover

SOURCES = 10_000
CITED = 256
JOBS = 1_000
PROCESSES = 8
LONG_AGO = datetime(2026, 10, 1, tzinfo=UTC)
REDACTOR = Redactor(RedactSettings(), quick=True)


# -- a home with 10,000 sources ----------------------------------------------------------------------------


def settings(folder: Path) -> Settings:
    return load(
        home=folder / "home",
        overrides={
            "memory": {"mode": "long"},
            "rollouts": {"hosts": ("generic",), "generic_roots": [str(folder / "sessions")]},
            "extract": {"idle_hours": 0, "max_age_days": 36_500, "scan_limit": 100_000},
        },
    )


@contextmanager
def opened(folder: Path) -> Iterator[Runtime]:
    clock, chosen = SystemClock(), settings(folder)
    with Store.open(chosen, clock) as store:
        run_id = new_run_id(clock)
        model = OfflineModel()
        yield Runtime(
            settings=chosen, clock=clock, store=store, workspace=Workspace.open(chosen.home, store.generation),
            extract_model=model, consolidate_model=model, meter=Ledger(store, chosen.budget, clock, run_id),
            tokens=ByteTokens(), run_id=run_id, owner=f"bench:{os.getpid()}", redactor=REDACTOR,
        )  # fmt: skip


def write_sessions(folder: Path, count: int) -> None:
    """Small sessions of two events each, in folders of 500."""
    for number in range(count):
        path = folder / "sessions" / f"d{number // 500:03}" / f"s{number:05}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        moment = LONG_AGO + timedelta(minutes=number)
        lines = [{"type": "session", "id": f"s{number:05}", "host_name": "bench", "started": moment.isoformat()}]
        said = {"type": "event", "role": "user", "text": wish(number), "time": moment.isoformat()}
        path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, said]), encoding="utf-8")
        os.utime(path, (moment.timestamp(), moment.timestamp()))


def wish(number: int) -> str:
    return f"From now on always build `part-{number:05}` with make."


def fill(folder: Path, count: int, cited: int) -> None:
    """Sessions, their rows, a summary of each, and one version made from the last `cited`."""
    write_sessions(folder, count)
    with opened(folder) as runtime:
        store, workspace = runtime.store, runtime.workspace
        discover(runtime.settings, runtime.clock, store)
        texts: dict[str, str] = {}
        inputs: list[InputFile] = []
        with store.write() as tx:
            for number in range(count):
                row, text = recorded(runtime, number)
                (workspace.root / "rollout_summaries" / f"{row.rollout.source_id}.md").write_text(text)
                store.outputs.rewrite(row, tx)
                if number >= count - cited:
                    path = workspace.rollout_summary_path(row.rollout.source_id)
                    texts[path] = text
                    inputs.append(
                        InputFile(row.rollout.citation, path, row.sha256, len(text), row.project, time=row.ended)
                    )
        cited_lines = [
            f"{wish(count - cited + place)} [{item.citation}]" for place, item in enumerate(inputs) if place < 90
        ]
        manifest = Manifest(store.generation, tuple(inputs))
        change_by_hand(runtime, print_summary({HEADINGS[1]: cited_lines}), manifest, texts, (), model="bench")


def recorded(runtime: Runtime, number: int) -> tuple[OutputRow, str]:
    rollout, moment = RolloutId.parse(f"generic:s{number:05}"), LONG_AGO + timedelta(minutes=number)
    boundary = Boundary(300, 1, hashlib.sha256(str(number).encode()).hexdigest())
    header = SummaryHeader(
        rollout, "bench", "bench", "/home/dev/bench", "main", moment, moment, boundary, Outcome.SUCCESS, "bench", (1,)
    )
    filler = "".join(f"- Step {place} of this work was done with care. [e1]\n" for place in range(40))
    text = print_rollout_summary(header, f"# B\nOutcome: success\n## User preferences\n- {wish(number)} [e1]\n{filler}")
    sha = hashlib.sha256(text.encode()).hexdigest()
    row = OutputRow(
        rollout, runtime.store.generation, boundary, True, Outcome.SUCCESS, "bench", sha, "bench", "bench", moment,
        runtime.clock.now(), "bench",
    )  # fmt: skip
    return row, text


# -- clear and forget ----------------------------------------------------------------------------------------


def forgetting(folder: Path) -> Iterator[Row]:
    with opened(folder) as runtime:
        times = []
        for place in range(timing.ROUNDS):
            target = RolloutId.parse(f"generic:s{SOURCES - CITED + place * 3:05}")
            began = time.perf_counter()
            report = LongMemory(runtime).forget(rollouts=[target])
            times.append(time.perf_counter() - began)
            assert report.version is not None, "it was cited"
    yield Row("forget one of 10,000 sources", statistics.median(times), 1.0, "s", seconds(times))


def clearing(folder: Path) -> Iterator[Row]:
    with opened(folder) as runtime:
        began = time.perf_counter()
        report = LongMemory(runtime).clear()
        took = time.perf_counter() - began
        assert report.clean, report
    yield Row("clear 10,000 sources", took, 2.0, "s", f"{took:.2f} s")


# -- starting after a crash ----------------------------------------------------------------------------------


def start(folder: Path) -> float:
    """Seconds from nothing open to the first work: open, recover, look around, choose."""
    began = time.perf_counter()
    with opened(folder) as runtime:
        LongMemory(runtime).recover()
        runtime.store.jobs.reap()
        discover(runtime.settings, runtime.clock, runtime.store)
        choose(runtime.settings, runtime.clock, runtime.store)
    return time.perf_counter() - began


def crashed(folder: Path, number: int) -> None:
    """A publish of other words, killed when the summary was in place and its row was not."""

    def publish() -> None:
        failpoints.arm_from_text("publish.after_install=kill")
        with opened(folder) as runtime:
            latest = runtime.store.versions.latest()
            assert latest is not None
            version = runtime.workspace.read_version(latest.number)
            text = version.summary.replace("with make", "with make" + "!" * number, 1)
            change_by_hand(runtime, text, version.manifest, version.texts, (), model="bench")

    assert in_child(publish) == -signal.SIGKILL


def recovering(folder: Path) -> Iterator[Row]:
    start(folder)
    after, normal = [], []
    for number in range(1, timing.ROUNDS + 1):
        crashed(folder, number)
        after.append(start(folder))
        normal.append(start(folder))
    yield timing.Pair(tuple(after), tuple(normal)).row("start after a crash / normal start (10,000 sessions)", 1.2)


# -- many processes ------------------------------------------------------------------------------------------


def claim_all(folder: Path, seed: int) -> None:
    """Claims and finishes every job nobody else has."""
    names = [f"generic:j{number:04}" for number in range(JOBS)]
    random.Random(seed).shuffle(names)
    with Store.open(settings(folder), SystemClock()) as store:
        for name in names:
            lease = store.jobs.claim("extract", name, boundary="1", owner=str(seed), lease_seconds=60, max_failures=3)
            if isinstance(lease, Lease):
                store.jobs.succeed(lease)


def claiming(base: Path) -> Iterator[Row]:
    many: list[float] = []
    alone: list[float] = []
    for turn in range(timing.ROUNDS):
        for count, times in ((PROCESSES, many), (1, alone)):
            folder = base / f"claims-{turn}-{count}"
            with Store.open(settings(folder), SystemClock()):
                pass
            began = time.perf_counter()
            children = [fork(lambda f=folder, n=number: claim_all(f, n)) for number in range(count)]  # type: ignore[misc]
            assert {wait(child) for child in children} == {0}
            times.append(time.perf_counter() - began)
            with Store.open(settings(folder), SystemClock()) as store:
                assert {job.status for job in store.jobs.all("extract")} == {"done"}
                assert all(job.token == 1 for job in store.jobs.all("extract")), "each was claimed once"
    row = timing.Pair(tuple(many), tuple(alone)).row("8 processes claiming 1,000 jobs / one process", 1.5)
    yield row


def waiting(base: Path) -> Iterator[Row]:
    """How long a writer waits for its turn while another process takes 10,000 new sessions in."""
    folder = base / "scan"
    write_sessions(folder, SOURCES)
    with Store.open(settings(folder), SystemClock()) as store:
        idle = writes(store, lambda count: count < 300)
        child = fork(lambda: scan(folder))
        busy = writes(store, lambda _: os.waitpid(child, os.WNOHANG)[0] == 0)
    low, high = percentile(idle, 99), percentile(busy, 99)
    told = f"median {statistics.median(busy) * 1e3:.1f} ms, worst {max(busy) * 1e3:.0f} ms, {len(busy)} writes"
    yield Row("p99 wait of a writer during a full scan", high * 1e3, 250.0, "ms", told, f"idle p99 {low * 1e3:.1f} ms")
    yield Row("p99 wait of a writer: full scan / idle", high / low, None, "x")


def scan(folder: Path) -> None:
    with opened(folder) as runtime:
        discover(runtime.settings, runtime.clock, runtime.store)


def writes(store: Store, go_on: Callable[[int], bool]) -> list[float]:
    found: list[float] = []
    while go_on(len(found)):
        began = time.perf_counter()
        store.usage.touch(["3f9a1c2e"], store.clock.now())
        found.append(time.perf_counter() - began)
        time.sleep(0.003)
    return found


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1]


def in_child(action: Callable[[], None]) -> int:
    return wait(fork(action))


def fork(action: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 70
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return child


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run() -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as name:
        base = Path(name)
        full = base / "full"
        fill(full, SOURCES, CITED)
        rows += recovering(full)
        rows += forgetting(full)
        rows += clearing(full)
        shutil.rmtree(full)
        rows += claiming(base)
        rows += waiting(base)
    return rows


if __name__ == "__main__":
    for line in timing.table([("state", row) for row in run()]):
        print(line)
