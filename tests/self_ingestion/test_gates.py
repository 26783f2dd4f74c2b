"""Three gates keep slowwave from remembering its own work; each is enough alone, at discovery, claim and filter."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import prompts
from consolidate.outcomes import Failed, Published
from extract.outcomes import Skipped
from flows import pipeline
from memory.model import DIFF_NAME, SUMMARY_NAME, Reason, RolloutId
from memory.runtime import open_runtime
from memory.settings import OWN_SESSION_VARIABLE, load
from memory.state import Ledger, Refused
from memory.testing import FrozenClock, StoreBench, call, store_bench
from tests.flows.home import ROOT
from tests.self_ingestion.hosts import HOSTS, Hosts

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
BEGAN = NOW - timedelta(hours=20)
DONE = ("assistant", "Done: the file is written.")
TASK = "From now on always write the changelog in English. Please bring the file up to date."


def consolidation() -> str:
    """The very message a consolidation begins with."""
    row = prompts.InputRow("3f9a1c2e", "rollout_summaries/3f9a1c2e00000000.md", "shop", "2026-11-29")
    return prompts.render(
        "consolidate_input", has_summary=True, summary_name=SUMMARY_NAME, diff_name=DIFF_NAME, inputs=[row],
        removed=(), left_out=0,
    )  # fmt: skip


def extraction() -> str:
    return prompts.render(
        "extract_input", rollout="codex:x", project="shop", cwd="/w", branch="main", started=None, ended=None,
        former=None, former_events=0, evidence="[e1 human 2026-11-28T09:14+01:00] Always use vitest.",
    )  # fmt: skip


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    made = Hosts(tmp_path)
    made.configure_hosts()
    return made


def run(hosts: Hosts, clock: FrozenClock, trigger: str = "manual", **settings: Any) -> pipeline.RunReport:
    chosen = hosts.settings().model_copy(update=settings)
    with open_runtime(chosen, clock=clock, trigger=trigger) as runtime:
        return asyncio.run(pipeline.run(runtime))


def reason_of(hosts: Hosts, rollout: str) -> tuple[Reason | None, str]:
    with hosts.store() as store:
        row = store.rollouts.get(RolloutId.parse(rollout))
        assert row is not None
        return row.reason, row.detail


def calls(hosts: Hosts) -> int:
    with hosts.store() as store:
        return len(Ledger(store, store.settings.budget, store.clock, "test").rows())


@pytest.mark.req("Z068")
@pytest.mark.fault("X5", "M66", "O10")
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("gate", ["id", "folder", "data folder", "consolidation", "extraction", "mark"])
def test_one_gate_alone_keeps_a_session_of_ours_out(hosts: Hosts, host: str, gate: str) -> None:
    """Nothing but the named gate tells this session from a task of the user; without it, it is taken."""
    clock = FrozenClock(NOW)
    with hosts.store() as store:
        staging = hosts.data / "generations" / store.generation / "memories_v2" / "workspace" / "run-1"
    text = {"consolidation": consolidation(), "extraction": extraction(), "mark": f"<slowwave-own-session/>\n{TASK}"}
    cwd = {"folder": str(staging), "data folder": str(hosts.data)}
    said = ("user", text.get(gate, TASK))
    own = hosts.session(host, said, DONE, cwd=cwd.get(gate, "/home/dev/shop"), began=BEGAN)
    if gate == "id":
        with hosts.store() as store:
            store.tombstones.add("own", own)
    report = run(hosts, clock)
    assert (report.outcome, calls(hosts)) == ("nothing", 0)
    reason, detail = reason_of(hosts, own)
    assert reason is Reason.OWN
    assert detail
    theirs = hosts.session(host, ("user", TASK), DONE, began=BEGAN)
    assert run(hosts, clock).outcome == "ok"
    assert reason_of(hosts, theirs)[0] is Reason.UP_TO_DATE
    assert reason_of(hosts, own)[0] is Reason.OWN


@pytest.mark.fault("X5")
def test_the_extension_of_pi_marks_its_sessions(hosts: Hosts) -> None:
    mark = {"type": "custom", "customType": "slowwave", "data": {"own": True}, "id": "z", "parentId": None}
    own = hosts.session("pi", ("user", TASK), DONE, began=BEGAN, entry=mark)
    run(hosts, FrozenClock(NOW))
    assert reason_of(hosts, own)[0] is Reason.OWN


@pytest.mark.fault("X5", "M66")
@pytest.mark.parametrize("mark", ["prompt", "folder"])
def test_ten_ticks_over_a_worker_that_logs_its_own_sessions_find_no_new_job(hosts: Hosts, mark: str) -> None:
    clock = FrozenClock(NOW)
    hosts.session("codex", ("user", TASK), DONE, began=BEGAN)
    first = run(hosts, clock, "schedule")
    assert isinstance(first.consolidated, Published)
    with hosts.store() as store:
        jobs = store.jobs.all("extract")
        staging = str(hosts.data / "generations" / store.generation / "memories_v2" / "workspace" / first.run_id)
    paid = calls(hosts)
    for _ in range(10):
        for host in HOSTS:
            prompt, cwd = (consolidation(), "/tmp/work") if mark == "prompt" else (TASK, staging)
            hosts.session(host, ("user", prompt), DONE, cwd=cwd, began=clock.now())
        clock.advance(7 * 3600)
        run(hosts, clock, "schedule")
    with hosts.store() as store:
        assert [job.key for job in store.jobs.all("extract")] == [job.key for job in jobs]
        assert store.rollouts.counts() == {Reason.OWN: 30, Reason.UP_TO_DATE: 1}
    assert calls(hosts) == paid


@pytest.mark.fault("X5")
def test_a_session_recorded_as_ours_after_it_was_chosen_is_refused_at_the_claim(tmp_path: Path) -> None:
    with store_bench(tmp_path) as bench:
        bench.store.tombstones.add("own", "codex:mine")
        answer = bench.store.jobs.claim(
            "extract", "codex:mine", boundary="b", owner="o", lease_seconds=9, max_failures=3
        )
        assert isinstance(answer, Refused)


@pytest.mark.fault("X5", "M66")
def test_a_mark_that_only_the_whole_file_shows_is_met_before_the_model_and_recorded(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rollouts.adapters import ADAPTERS
    from rollouts.codex import CodexAdapter

    own = hosts.session("codex", ("user", consolidation()), DONE, began=BEGAN)
    real = CodexAdapter.peek

    def blind(self: CodexAdapter, path: Path) -> Any:
        from dataclasses import replace

        from memory.model import RolloutKind

        found = real(self, path)
        return replace(found, header=replace(found.header, kind=RolloutKind.INTERACTIVE))

    monkeypatch.setattr(type(ADAPTERS[RolloutId.parse(own).host]), "peek", blind)
    report = run(hosts, FrozenClock(NOW))
    assert report.extracted is not None
    assert [(type(one), getattr(one, "reason", "")) for one in report.extracted.outcomes] == [(Skipped, "own")]
    assert calls(hosts) == 0
    assert reason_of(hosts, own)[0] is Reason.OWN
    assert run(hosts, FrozenClock(NOW)).outcome == "nothing"


# -- inside a session of ours ----------------------------------------------------------------------------------


@pytest.mark.fault("O12", "X3")
@pytest.mark.parametrize("trigger", ["manual", "schedule", "hook"])
def test_nothing_runs_inside_a_session_that_slowwave_started(hosts: Hosts, trigger: str) -> None:
    hosts.session("codex", ("user", TASK), DONE, began=BEGAN)
    settings = load(environ={"SLOWWAVE_HOME": str(hosts.data), "HOME": str(hosts.folder), OWN_SESSION_VARIABLE: "1"})
    assert settings.own_session
    report = run(hosts, FrozenClock(NOW), trigger, own_session=True)
    assert (report.outcome, calls(hosts)) == ("nothing", 0)
    assert report.extracted is not None
    assert "SLOWWAVE_OWN_SESSION" in report.extracted.off
    assert run(hosts, FrozenClock(NOW), trigger).outcome == "ok"


SPAWNS = """
import sys
def watch(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.spawn", "os.fork", "pty.spawn"):
        sys.stderr.write("SPAWNED " + event + " " + repr(arguments)[:200] + "\\n")
sys.addaudithook(watch)
from cli.main import main
main(["run"])
"""


@pytest.mark.fault("X3", "O16")
def test_the_worker_starts_no_process_and_no_hook_of_a_host_or_project(hosts: Hosts) -> None:
    """Hooks that would fire in an agent of the host, in its home and in the project: none is read, none runs."""
    canary, project = hosts.folder / "fired", hosts.folder / "shop"
    hook = f'{{"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "touch {canary}; exit 2"}}]}}]}}}}'
    for place in (hosts.folder / ".claude", project / ".claude"):
        place.mkdir(parents=True)
        (place / "settings.json").write_text(hook)
    for place in (hosts.folder / ".codex", project / ".codex"):
        place.mkdir(parents=True)
        (place / "config.toml").write_text(f'notify = ["touch", "{canary}"]\n[mcp_servers.x]\ncommand = "touch"\n')
    hosts.session("claude", ("user", TASK), DONE, cwd=str(project), began=BEGAN)
    done = subprocess.run(
        [sys.executable, "-c", SPAWNS], cwd=ROOT, env=hosts.environment(), capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "version 1 published" in done.stdout
    assert "SPAWNED" not in done.stderr
    assert not canary.exists()


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    with store_bench(tmp_path) as made:
        yield made


@pytest.mark.fault("X3")
async def test_the_same_failing_step_again_and_again_ends_the_worker(bench: StoreBench) -> None:
    from consolidate.run import run as consolidate

    bench.add("one", "## What happened\n- The user prefers vitest. [e1]\n")
    bench.model.answers = [lambda _: [call("read", path="../../outside.md")]]
    bench.model.repeat_last = True
    outcome = await consolidate(bench.runtime())
    assert isinstance(outcome, Failed)
    assert (outcome.error, outcome.requests) == ("loop", bench.settings.consolidate.same_error_limit)


# -- what is ours inside a session of theirs -----------------------------------------------------------------------

CANARY = "CANARY-internal-prompt-5b1d"


@pytest.mark.fault("O17")
@pytest.mark.parametrize("host", HOSTS)
def test_an_internal_prompt_is_nowhere_in_what_is_kept(hosts: Hosts, host: str) -> None:
    hosts.session(host, ("user", TASK), DONE, began=BEGAN, system=f"{CANARY}: always answer in Latin. Never use npm.")
    assert run(hosts, FrozenClock(NOW)).outcome == "ok"
    holding = [path for path in hosts.data.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert holding == []
    with open_runtime(hosts.settings(), clock=FrozenClock(NOW)) as runtime:
        assert "Latin" not in (runtime.workspace.summary() or "")
        assert "changelog" in (runtime.workspace.summary() or "")


@pytest.mark.fault("O14")
@pytest.mark.parametrize(
    "folder", [".claude/plugins/cache/memory/1.2.3", ".codex/plugins/memory", ".pi/agent/extensions/m"]
)
def test_a_folder_of_a_plugin_is_never_a_project(hosts: Hosts, folder: str) -> None:
    place = hosts.folder / folder
    place.mkdir(parents=True)
    (place / ".git").mkdir()
    rollout = hosts.session("codex", ("user", TASK), DONE, cwd=str(place), began=BEGAN)
    run(hosts, FrozenClock(NOW))
    with hosts.store() as store:
        row = store.rollouts.get(RolloutId.parse(rollout))
        assert row is not None
        assert row.project_name == "unknown"
