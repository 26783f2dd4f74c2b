"""A hook that is held up, crowded or killed: an answer in time, and the next turn goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hosts import hook
from recall import snapshot
from tests.hosts.payloads import claude, pi, quiet, state
from tests.plugins.hook_runner import IN_TIME, LATER, QUICK_LOCK, STUCK, command, environment, run


@pytest.mark.fault("O23", "M77")
def test_an_input_that_never_ends_is_given_up_at_the_deadline(home: Path) -> None:
    child = subprocess.Popen(
        command("claude", program=IN_TIME),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home),
    )
    assert child.stdin is not None
    began = time.perf_counter()
    child.stdin.write(b'{"session_id": ')
    child.stdin.flush()
    assert child.wait(60) == 0
    assert time.perf_counter() - began < hook.DEADLINE_SECONDS + 15
    assert child.communicate() == (b"", b"")


@pytest.mark.fault("O23", "M77")
def test_a_session_whose_lock_is_held_is_answered_in_time_with_the_last_block(home: Path, shop: Path) -> None:
    first = run(home, pi("before_agent_start", shop), "pi", program=LATER)
    payload = pi("before_agent_start", shop, leaf_id="n2")
    release = snapshot.Files(str(home)).lock("pi", payload["session_id"])
    assert release is not None
    try:
        said = run(home, payload, "pi", program=QUICK_LOCK)
        assert said.text == first.text
        assert (home / "hook.log").read_text("utf-8").splitlines()[-1].split()[4] == "busy"
        (home / "short" / "user.md").write_text("- [a] changed\n", "utf-8")
        assert quiet(run(home, payload, "pi", program=QUICK_LOCK))
    finally:
        release()
    assert "changed" in run(home, payload, "pi").text


@pytest.mark.fault("O23", "M77")
def test_work_that_takes_too_long_is_given_up_and_the_next_turn_tries_again(home: Path, shop: Path) -> None:
    hang = "import time, recall.inject; recall.inject.build = lambda request: time.sleep(30)"
    hang = IN_TIME.replace("; hosts.hook.main", f"; {hang}; hosts.hook.main")
    said = run(home, claude("UserPromptSubmit", shop), "claude", program=hang)
    assert quiet(said)
    assert "deadline" in (home / "hook.log").read_text("utf-8")
    assert "Vitest" in run(home, claude("UserPromptSubmit", shop), "claude").text
    run(home, claude("SessionStart", shop, source="compact"), "claude", program=LATER)
    # What another session of the folder built is there when the time is up.
    assert "Vitest" in run(home, claude("UserPromptSubmit", shop, session_id="other"), "claude", program=STUCK).text


@pytest.mark.req("P005")
def test_ten_hooks_at_once_give_the_block_once_and_count_every_message_once(home: Path, shop: Path) -> None:
    messages = [f"p{number % 5}" for number in range(10)]
    payloads = [claude("UserPromptSubmit", shop, prompt_id=message) for message in messages]
    with ThreadPoolExecutor(10) as pool:
        said = list(pool.map(lambda payload: run(home, payload, "claude"), payloads))
    assert [one.code for one in said] == [0] * 10
    given = [one.text for one in said if one.out]
    assert len(given) <= 1
    kept = state(home)
    assert len(kept["seen"]) == len(set(kept["seen"])) == kept["usage"]["turns"] <= 5
    assert len(snapshot.take_spool(str(home), "wake")) == 1
    assert not list(home.rglob("*.tmp"))


@pytest.mark.fault("M35")
@pytest.mark.parametrize("after", [0.0, 0.02, 0.04, 0.08])
def test_killed_at_any_moment_the_next_turn_goes_on(home: Path, shop: Path, after: float) -> None:
    child = subprocess.Popen(command("claude"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment(home))
    assert child.stdin is not None
    child.stdin.write(json.dumps(claude("UserPromptSubmit", shop)).encode())
    child.stdin.close()
    time.sleep(after)
    child.send_signal(signal.SIGKILL)
    child.wait(60)
    said = run(home, claude("UserPromptSubmit", shop, prompt_id="p2"), "claude")
    assert said.code == 0
    assert snapshot.snapshots(str(home))[0]["selection"]["message"] == "p2"
