"""The hook: what a prompt waits, against an interpreter that does nothing, with full memory and 1,000 sessions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.timing import Row, command, paired, seconds
from memory.project import project_of
from recall.snapshot import Files
from tests.plugins.published import PREFERENCES, TIPS, publish

ROUNDS = 120
SESSIONS = 1_000
LOADED_RUNS = 1_000
MEDIAN_BOUND, TAIL_BOUND = 3.5, 8.0
REBUILT_BOUND, FIRST_BOUND = 6.0, 8.0
"""A block is built anew where something changed, and once for a session, with its project and the settings."""


def run() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="slowwave-bench-hook-"))
    try:
        return _rows(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rows(folder: Path) -> list[Row]:
    home, shop = folder / "home", folder / "shop"
    shop.mkdir()
    _fill(home, shop)
    hook = _Hook(home, shop)
    base = command(sys.executable, "-I", "-c", "pass")
    hook.prompt()
    files = Files(str(home))
    kept = files.load("claude", hook.session) or {}
    for number in range(1, SESSIONS):
        files.save("claude", f"s{number:04d}", {**kept, "session": f"s{number:04d}"})
    time.sleep(1.1)  # so that nothing counts as written just now
    hook.session = "s0500"
    hook.prompt()
    rows = []
    cases: list[tuple[str, Callable[[], object], float]] = [
        ("prompt, nothing changed", hook.prompt, MEDIAN_BOUND),
        ("tool run that is not about memory", hook.tool, MEDIAN_BOUND),
        ("prompt after a short file was edited", hook.prompt_after_edit, REBUILT_BOUND),
        ("first prompt of a session", hook.first_prompt, FIRST_BOUND),
    ]
    for name, work, bound in cases:
        pair = paired(work, base, rounds=ROUNDS, warm=3)
        typical = sorted(pair.base)[len(pair.base) // 2]
        tail = sorted(pair.work)[int(len(pair.work) * 0.99)] / typical
        rows.append(pair.row(f"{name} / python -I -c pass", bound))
        rows.append(
            Row(f"{name}, 99th of 100", tail, TAIL_BOUND if bound == MEDIAN_BOUND else None, "x", seconds(pair.work))
        )
    return [*rows, *_beside_pipelines(folder)]


class _Hook:
    """`slowwave-hook claude` as the installed program, run to its end."""

    def __init__(self, home: Path, shop: Path) -> None:
        self.home, self.shop = home, shop
        self.session = "s0000"
        self.count = 0
        self.program = Path(sys.executable).with_name("slowwave-hook")
        self.environment = {**os.environ, "SLOWWAVE_HOME": str(home)}

    def send(self, event: str, **more: object) -> subprocess.CompletedProcess[bytes]:
        self.count += 1
        payload = {
            "session_id": self.session,
            "transcript_path": str(self.home / "none.jsonl"),
            "cwd": str(self.shop),
            "hook_event_name": event,
            **more,
        }
        return subprocess.run(
            [sys.executable, "-I", self.program, "claude"],
            input=json.dumps(payload).encode(),
            capture_output=True,
            env=self.environment,
            check=False,
        )

    def prompt(self) -> subprocess.CompletedProcess[bytes]:
        return self.send("UserPromptSubmit", prompt_id=f"p{self.count}", prompt="please go on " * 20)

    def prompt_after_edit(self) -> object:
        path = self.home / "short" / "user.md"
        os.utime(path)
        return self.prompt()

    def first_prompt(self) -> object:
        self.session = f"new{self.count}"
        return self.prompt()

    def tool(self) -> object:
        return self.send(
            "PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response={"stdout": "x" * 9_000}
        )


def _fill(home: Path, shop: Path) -> None:
    """A summary just under 10,000 bytes and two short files with as much as they may hold."""
    subprocess.run(["git", "init", "-q", str(shop)], check=True)
    subprocess.run(["git", "-C", str(shop), "remote", "add", "origin", "https://example.com/acme/shop"], check=True)
    sources = {f"{number:08x}": project_of(shop).id for number in range(256)}
    lines = [f"Rule {n:02d} says what to do when case {n} comes up again. [{n:08x}]" for n in range(72)]
    tips = [f"Tip {n:02d}: run `make step-{n}` before the others, in order. [{n:08x}]" for n in range(72)]
    text = publish(home, {PREFERENCES: lines, TIPS: tips}, sources)
    assert 9_000 < len(text.encode()) < 10_000, len(text.encode())
    (home / "config.toml").write_text('[memory]\nmode = "long"\n', "utf-8")
    entries = "".join(f"- [e{n}] {'long text ' * 199}\n" for n in range(20))
    for path in (home / "short" / "user.md", shop / ".slowwave" / "memory.md"):
        path.parent.mkdir(parents=True)
        path.write_text(entries, "utf-8")
    (shop / "AGENTS.md").write_text("- Use pnpm, never npm.\n- Tests use Vitest.\n" * 40, "utf-8")


def _beside_pipelines(folder: Path) -> list[Row]:
    """Prompts that went wrong while two pipelines extract, consolidate and publish in the same home: a hook that
    failed, wrote an error, gave no memory although there is one, or took as long as a person notices."""
    home, shop = folder / "busy", folder / "busy-shop"
    shop.mkdir()
    subprocess.run(["git", "init", "-q", str(shop)], check=True)
    subprocess.run(["git", "-C", str(shop), "remote", "add", "origin", "https://example.com/acme/busy"], check=True)
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(_BUSY_SETTINGS.format(sessions=folder / "generic", none=folder / "none"), "utf-8")
    (folder / "generic").mkdir()
    pipelines = [_pipeline(home, folder / "generic", shop, number) for number in range(2)]
    try:
        hook = _Hook(home, shop)
        published = home.glob("generations/*/memories_v2/memory_summary.md")
        until = time.monotonic() + 60
        while not any(published):
            assert time.monotonic() < until, "the pipelines beside the hook published nothing"
            time.sleep(0.2)
            published = home.glob("generations/*/memories_v2/memory_summary.md")
        lost, times = 0, []
        for number in range(LOADED_RUNS):
            hook.session = f"s{number:04d}"
            began = time.perf_counter()
            done = hook.prompt()
            times.append(time.perf_counter() - began)
            lost += done.returncode != 0 or bool(done.stderr) or not done.stdout or times[-1] > 1
        assert all(child.poll() is None for child in pipelines), "a pipeline beside the hook ended early"
    finally:
        for child in pipelines:
            os.killpg(child.pid, signal.SIGTERM)  # with the run it is waiting for
            child.wait()
    runs = sum(1 for _ in (folder / "generic").glob("*.jsonl"))
    assert runs > 4, "the pipelines beside the hook hardly ran"
    times.sort()
    return [
        Row(f"prompts of {LOADED_RUNS} lost beside 2 pipelines", lost, 0, "", seconds(times), f"{runs} runs meanwhile"),
        Row(
            "the slowest of them", times[-1] * 1_000, None, "ms", f"99 of 100 in {times[int(len(times) * 0.99)]:.3f} s"
        ),
    ]


_BUSY_SETTINGS = """[memory]
mode = "long"
[rollouts]
generic_roots = ["{sessions}"]
codex_roots = ["{none}"]
claude_roots = ["{none}"]
pi_roots = ["{none}"]
[extract]
idle_hours = 0
"""

_PIPELINE = """
import json, subprocess, sys
from datetime import datetime, timezone
from pathlib import Path
slowwave, sessions, shop, mine = sys.argv[1:]
number = 0
while True:
    now = datetime.now(timezone.utc).isoformat()
    name = f"busy-{mine}-{number}"
    rule = f"From now on always run `make step-{mine}-{number}` first."
    lines = [
        {"type": "session", "version": 1, "id": name, "host_name": "busy", "cwd": shop, "started": now},
        {"type": "event", "role": "user", "text": rule, "time": now},
        {"type": "event", "role": "assistant", "final": True, "text": "I will do that from now on.", "time": now},
    ]
    Path(sessions, name + ".jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
    subprocess.run([slowwave, "run"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    number += 1
"""


def _pipeline(home: Path, sessions: Path, shop: Path, number: int) -> subprocess.Popen[bytes]:
    """Writes a session, runs the pipeline, and again, until it is ended."""
    slowwave = Path(sys.executable).with_name("slowwave")
    return subprocess.Popen(
        [sys.executable, "-c", _PIPELINE, slowwave, sessions, shop, str(number)],
        env={**os.environ, "SLOWWAVE_HOME": str(home)},
        start_new_session=True,
    )
