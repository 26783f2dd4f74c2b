"""The hook as a program: what it imports, opens, starts, and leaves alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hosts import hook
from memory.project import project_of
from tests.hosts.payloads import CLAUDE_EVENTS, SESSION, claude
from tests.plugins.hook_runner import LATER, ROOT, environment, run

# -- what it is made of ---------------------------------------------------------------------------------


@pytest.mark.fault("M78")
def test_it_imports_the_standard_library_and_little_of_it(home: Path, shop: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hosts.hook\n"
        "hosts.hook.run(['claude']); sys.stderr.write(' '.join(sys.modules))"
    )
    seen: set[str] = set()
    done = subprocess.CompletedProcess[bytes]([], 0)
    for event in ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            input=json.dumps(claude(event, shop, tool_input="rollout_summaries/")).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        seen |= set(done.stderr.decode().split())
    ours = {"hosts", "memory", "recall"}
    assert {name.split(".")[0] for name in seen} - sys.stdlib_module_names - {"__main__"} == ours
    heavy = {"socket", "ssl", "asyncio", "subprocess", "sqlite3", "multiprocessing", "logging", "email", "http"}
    assert not heavy & seen
    run(home, claude("UserPromptSubmit", shop, prompt_id="p8"), "claude", program=LATER)
    # A turn in which nothing changed, and a session where another one has been before, do with next to nothing.
    unwanted = {"dataclasses", "pathlib", "hashlib", "recall.inject", "memory.project"}
    for session, more in ((SESSION, {"tomllib", "typing"}), ("another", set())):
        payload = claude("UserPromptSubmit", shop, prompt_id="p9", session_id=session)
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code],
            input=json.dumps(payload).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        assert not (unwanted | more) & set(done.stderr.decode().split())
    assert b"Vitest" in done.stdout


def test_it_opens_no_socket_and_starts_no_process(home: Path, shop: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "bad = ('socket.', 'subprocess.', 'os.system', 'os.exec', 'os.fork', 'os.posix_spawn', 'os.spawn')\n"
        "def audit(event, args):\n"
        "    if event.startswith(bad): sys.stderr.write(event)\n"
        "sys.addaudithook(audit)\n"
        "import hosts.hook; hosts.hook.run(['claude'])"
    )
    for event in CLAUDE_EVENTS:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            input=json.dumps(claude(event, shop)).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        assert done.stderr == b""


def test_a_projects_own_modules_cannot_take_the_place_of_ours(home: Path, shop: Path) -> None:
    for name in ("recall", "memory", "hosts"):
        (shop / name).mkdir()
        (shop / name / "__init__.py").write_text("raise SystemExit(7)\n", "utf-8")
    (shop / "json.py").write_text("raise SystemExit(7)\n", "utf-8")
    said = run(home, claude("SessionStart", shop), "claude", cwd=shop, variables={"PYTHONPATH": str(shop)})
    assert "Vitest" in said.text


def test_the_log_stays_small(home: Path, shop: Path) -> None:
    (home / "hook.log").write_bytes(b"x" * (hook.LOG_BYTES + 1))
    for number in range(3):
        run(home, claude("UserPromptSubmit", shop, prompt_id=f"p{number}"), "claude")
    assert (home / "hook.log").stat().st_size < 1_000
    assert (home / "hook.log.1").stat().st_size > hook.LOG_BYTES
    assert not (home / "hook.log.2").exists()


def test_the_folder_of_a_project_is_left_as_it_is(home: Path, shop: Path) -> None:
    before = sorted(str(path) for path in shop.rglob("*"))
    for event in CLAUDE_EVENTS:
        run(home, claude(event, shop), "claude", cwd=shop)
    assert sorted(str(path) for path in shop.rglob("*")) == before


# -- the spool and old snapshots ------------------------------------------------------------------------


def test_the_installed_program_is_this_one(home: Path, shop: Path) -> None:
    program = Path(sys.executable).with_name("slowwave-hook")
    if not program.exists():
        program_path = shutil.which("slowwave-hook")
        if program_path is None:
            pytest.skip("slowwave-hook is not installed")
        program = Path(program_path)
    done = subprocess.CompletedProcess[bytes]([], 1)
    for number in range(50):  # its deadline is the real one, which a busy machine may miss
        done = subprocess.run(
            [sys.executable, "-I", str(program), "claude"],
            input=json.dumps(claude("SessionStart", shop, session_id=f"s{number}")).encode(),
            capture_output=True,
            env=environment(home),
            check=True,
        )
        if done.stdout or " deadline " not in (home / "hook.log").read_text("utf-8").splitlines()[-1]:
            break
    assert b"Vitest" in done.stdout
    assert project_of(shop).name == "shop"
