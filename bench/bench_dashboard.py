"""The dashboard's pages with 10,000 sessions, 256 sources and 1,000 runs, each beside the same server's empty home.

Real servers in processes of their own, one of a full home and one of an empty one, asked in turns over loopback.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from bench import timing
from bench.timing import Pair, Row
from consolidate.byhand import change_by_hand
from memory.clock import SystemClock
from memory.documents import print_rollout_summary, print_summary
from memory.llm.base import ByteTokens
from memory.model import HEADINGS, Boundary, Host, InputFile, Manifest, Outcome, Reason, RolloutId, SummaryHeader
from memory.offline import OfflineModel
from memory.runtime import Runtime, new_run_id
from memory.settings import load
from memory.state import Ledger, OutputRow, RolloutRow, Store
from memory.workspace import Workspace

SESSIONS = 10_000
SOURCES = 256
RUNS = 1_000
VERSIONS = 12
EVENTS = 2_000
LIMIT_SECONDS = 0.150
LIMIT_TIMES = 5.0
ROUNDS = 21
NEWEST = datetime(2026, 11, 29, tzinfo=UTC)
PROJECTS = [hashlib.sha256(f"project {number}".encode()).hexdigest()[:12] for number in range(40)]
REASONS = (Reason.UP_TO_DATE, Reason.TOO_OLD, Reason.NOT_IDLE, Reason.SUBAGENT, Reason.ELIGIBLE, Reason.EXHAUSTED)


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as name:
        folder = Path(name)
        for home in ("empty", "full"):
            (folder / home).mkdir(mode=0o700)
            (folder / home / "config.toml").write_text('[memory]\nmode = "long"\n', encoding="utf-8")
        fill(folder / "full", folder / "session.jsonl")
        with server(folder / "empty") as empty, server(folder / "full") as full:
            return list(rows(empty, full))


def rows(empty: httpx.Client, full: httpx.Client) -> Iterator[Row]:
    blank = f"/memory?lang={os.getpid()}"
    for name, path, beside in pages(full, blank):
        work, base = [], []
        for number in range(ROUNDS + 2):
            took, without = ask(full, path), ask(empty, beside)
            if number >= 2:  # the first of each compile templates and rules
                work.append(took)
                base.append(without)
        pair = Pair(tuple(work), tuple(base))
        yield pair.row(f"{name}, beside an empty home", LIMIT_TIMES)
        median = sorted(work)[len(work) // 2]
        yield Row(f"{name}, share of 150 ms", median / LIMIT_SECONDS, 1.0, "x", timing.seconds(work), "150 ms")


def pages(full: httpx.Client, blank: str) -> Iterator[tuple[str, str, str]]:
    """Name, address in the full home, address in the empty one: the same page, or the empty page Memory."""
    key = full.get("/api/v1/memory").json()["lines"][0]["key"]
    read = RolloutId(Host.GENERIC, "s00000").source_id
    yield "Memory", "/memory", "/memory"
    yield "Memory, as a project sees it", f"/memory?project={PROJECTS[0]}", blank
    yield "one line", f"/memory/lines/{key}", blank
    yield "one source", f"/sources/{read}", blank
    yield "Sessions", "/sessions", "/sessions"
    yield "Sessions, page 150", "/sessions?page=150", "/sessions"
    yield "Sessions with a text", "/sessions?text=number+77", "/sessions?text=number+77"
    yield "Sessions of a state", "/sessions?state=remembered", "/sessions?state=remembered"
    yield "one session", f"/sessions/{read}", blank
    yield "its events", f"/sessions/{read}/events?e=120", blank
    yield "History", "/history", "/history"
    yield "two versions side by side", f"/history/compare?a={VERSIONS - 1}&b={VERSIONS}", blank
    yield "Notes", "/notes", "/notes"
    for path in sorted(set(re.findall(r'<li><a href="(/[a-z]+)"', full.get("/memory").text))):
        if path not in {"/memory", "/sessions", "/history", "/notes"}:
            yield path.strip("/").capitalize(), path, path


def ask(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    response = client.get(path)
    took = time.perf_counter() - began
    if response.status_code != 200:
        raise SystemExit(f"{path} answered {response.status_code}: {response.text[:500]}")
    return took


@contextmanager
def server(home: Path) -> Iterator[httpx.Client]:
    """`python -m dashboard` of a home, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "SLOWWAVE_HOME": str(home), "HOME": str(home.parent)}
    root = Path(__file__).resolve().parents[1]
    child = subprocess.Popen([sys.executable, "-m", "dashboard", str(port)], cwd=root, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            end = time.monotonic() + 60
            while True:
                try:
                    client.get("/login")
                    break
                except httpx.TransportError:
                    if time.monotonic() > end or child.poll() is not None:
                        raise
                    time.sleep(0.05)
            yield client
    finally:
        child.terminate()
        child.wait(20)


# -- the full home ------------------------------------------------------------------------------------


def fill(home: Path, session: Path) -> None:
    """Rows as discovery and stage 1 would have written them, and versions as stage 2."""
    settings, clock = load(environ={"SLOWWAVE_HOME": str(home), "HOME": str(home.parent)}), SystemClock()
    write_session(session)
    with Store.open(settings, clock) as store:
        workspace = Workspace.open(settings.home, store.generation)
        store.rollouts.upsert_many(rollout(number, session) for number in range(SESSIONS))
        inputs, texts = zip(*(source(store, workspace, number) for number in range(SOURCES)), strict=True)
        for number in range(10):
            workspace.write_note(f"note-{number}", f"Note {number}: new tests use Vitest.", is_global=True)
        with store.write() as tx:
            for number in range(RUNS):
                store.runs.start(f"20261129T{number:06}-{number:08x}", "schedule", tx, models={"extract": "m"})
                store.runs.finish(f"20261129T{number:06}-{number:08x}", "ok", {"extract": {"outcomes": []}}, tx)
        manifest = Manifest(store.generation, tuple(inputs))
        by_path = {item.path: text for item, text in zip(inputs, texts, strict=True)}
        model, run_id = OfflineModel(), new_run_id(clock)
        runtime = Runtime(
            settings=settings, clock=clock, store=store, workspace=workspace, extract_model=model,
            consolidate_model=model, meter=Ledger(store, settings.budget, clock, run_id), tokens=ByteTokens(),
            run_id=run_id, owner=f"bench:{os.getpid()}",
        )  # fmt: skip
        for version in range(VERSIONS):
            change_by_hand(runtime, summary(version, inputs), manifest, by_path, (), model="bench")


def rollout(number: int, session: Path) -> RolloutRow:
    project = number % len(PROJECTS)
    return RolloutRow(
        RolloutId(Host.GENERIC if number < SOURCES else list(Host)[number % 3], f"s{number:05}"),
        session,
        1_000 + number,
        number,
        number,
        cwd=f"/home/dev/project{project}",
        branch="main",
        project=PROJECTS[project],
        project_name=f"project{project}",
        started=NEWEST - timedelta(minutes=number + 30),
        last_event=NEWEST - timedelta(minutes=number),
        user_chars=500,
        title=f"Session number {number}: mend the tests of the parser and deploy",
        reason=REASONS[0] if number < SOURCES else REASONS[number % len(REASONS)],
        detail="all of it was extracted",
        report={"lines": 40, "bytes": 1_000},
    )


def source(store: Store, workspace: Workspace, number: int) -> tuple[InputFile, str]:
    rollout = RolloutId(Host.GENERIC, f"s{number:05}")
    ended = NEWEST - timedelta(minutes=number)
    project = number % len(PROJECTS)
    header = SummaryHeader(
        rollout, PROJECTS[project], f"project{project}", f"/home/dev/project{project}", "main", ended, ended,
        Boundary(900, 9, f"{number:064x}"), Outcome.SUCCESS, f"session-{number}", (1,),
    )  # fmt: skip
    points = [
        f"- Decision {number}.{at}: the parser of service {number} keeps four spaces. [e{at}]" for at in range(1, 13)
    ]
    text = print_rollout_summary(header, "## Task\n- Mend the tests. [e1]\n\n## Decisions\n" + "\n".join(points))
    sha = workspace.write_rollout_summary(rollout.source_id, text)
    store.outputs.rewrite(
        OutputRow(
            rollout,
            store.generation,
            header.boundary,
            True,
            Outcome.SUCCESS,
            header.slug,
            sha,
            header.project,
            header.project_name,
            ended,
            ended,
            "bench",
        )
    )
    path = f"rollout_summaries/{rollout.source_id}.md"
    return InputFile(rollout.citation, path, sha, len(text), header.project, time=ended), text


def summary(version: int, inputs: tuple[InputFile, ...]) -> str:
    """Close to the largest there may be: some 80 lines that cite all the sources."""
    bullets: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    for at in range(80):
        marks = " ".join(f"[{item.citation}]" for item in inputs[at::80])
        text = f"Line {at} of version {version}: the parser keeps four spaces."
        bullets[HEADINGS[at % 4]].append(f"{text} {marks}")
    return print_summary(bullets)


def write_session(path: Path) -> None:
    """A session of the generic format, long enough to be leafed through."""
    head = {"type": "session", "version": 1, "id": "s00000", "cwd": "/home/dev/project0", "title": "Mend the parser"}
    lines = [json.dumps({**head, "started": "2026-11-29T08:00:00Z"})]
    for number in range(EVENTS):
        at = datetime(2026, 11, 29, 8, tzinfo=UTC) + timedelta(seconds=number)
        role, text = ("user", "assistant")[number % 2], f"Event {number}: " + "the parser keeps four spaces; " * 10
        lines.append(json.dumps({"type": "event", "role": role, "text": text, "time": at.isoformat()}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
