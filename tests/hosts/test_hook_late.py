"""A block given in the last moment, and payloads of megabytes: the right text, once, and in time."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosts import hook, payloads
from recall import snapshot
from tests.hosts.payloads import SESSION, claude, quiet, state
from tests.plugins.hook_runner import LATER, QUICK_LOCK, STUCK, command, environment, run

LARGE = 'x \\u1234 "session_id":"evil", "cwd": "/", ' * 1_300_000
"""Fifty megabytes once they are written as JSON."""


@pytest.mark.fault("M77", "O47")
@pytest.mark.parametrize("how", ["deadline", "busy"])
def test_a_block_given_when_the_time_was_up_is_not_given_again(home: Path, shop: Path, how: str) -> None:
    assert "Vitest" in run(home, claude("SessionStart", shop, session_id="first"), "claude", program=LATER).text
    program = STUCK if how == "deadline" else QUICK_LOCK
    release = snapshot.Files(str(home)).lock("claude", SESSION) if how == "busy" else None
    said = run(home, claude("UserPromptSubmit", shop), "claude", program=program)
    assert "Vitest" in said.text
    assert how in (home / "hook.log").read_text("utf-8")
    assert quiet(run(home, claude("UserPromptSubmit", shop, prompt_id="p2"), "claude", program=program))
    if release is not None:
        release()
    assert quiet(run(home, claude("UserPromptSubmit", shop, prompt_id="p3"), "claude"))
    kept = next(one for one in snapshot.snapshots(str(home)) if one["session"] == SESSION)
    assert kept["usage"]["blocks"] == 1
    assert kept["usage"]["tokens"] > 0
    assert "Vitest" not in "".join(path.read_text("utf-8") for path in (home / "sessions").rglob("*.late"))


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 2}', b"\xff" * 99, None])
def test_a_damaged_mark_is_none(home: Path, shop: Path, content: bytes | None) -> None:
    mark = home / "sessions" / "claude" / f"{SESSION}.late"
    mark.parent.mkdir(parents=True)
    if content is None:
        mark.mkdir()
    else:
        mark.write_bytes(content)
    assert "Vitest" in run(home, claude("UserPromptSubmit", shop), "claude").text


@pytest.mark.fault("M77")
@pytest.mark.parametrize("place", ["behind the fields", "in front of them", "between them"])
def test_a_prompt_of_fifty_megabytes_gets_the_block(home: Path, shop: Path, place: str) -> None:
    fields = {name: value for name, value in claude("UserPromptSubmit", shop).items() if name != "prompt"}
    names = list(fields)
    first = {"behind the fields": names, "in front of them": [], "between them": names[:1]}[place]
    ordered = {name: fields[name] for name in first} | {"prompt": LARGE} | fields
    said = run(home, ordered, "claude")
    assert (said.code, said.err) == (0, b"")
    assert "Vitest" in said.text
    assert state(home)["session"] == SESSION
    assert state(home)["seen"] == ["p1"]
    assert not list(home.rglob("*evil*"))


@pytest.mark.fault("M77")
@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_a_host_that_writes_a_huge_prompt_slowly_meets_no_closed_pipe(home: Path, shop: Path, pause: float) -> None:
    """What the hook needs stands in front: it answers before the end has come, and then takes in the rest."""
    data = json.dumps(claude("UserPromptSubmit", shop, prompt="x" * (hook.KEPT_BYTES + 2_000_000))).encode()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment(home)}
    with subprocess.Popen(command("claude"), **pipes) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(data[:-600_000])
        child.stdin.flush()
        assert b"Vitest" in child.stdout.readline()
        for start in range(-600_000, 0, 200_000):
            time.sleep(pause)
            child.stdin.write(data[start : start + 200_000 or None])  # raises where nobody reads any more
            child.stdin.flush()
    assert child.returncode == 0


fields = st.dictionaries(
    st.sampled_from([*sorted(payloads.NEEDED), "prompt_id", "other"]),
    st.text(max_size=20) | st.text(alphabet='\\",:{}[] \ncwd', max_size=40),
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(before=fields, after=fields, text=st.text(alphabet='\\",:{}é cwd\n', max_size=30), cut=st.integers(0, 60))
def test_fields_are_found_at_either_end_and_nothing_a_text_says_passes_for_one(
    before: dict[str, str], after: dict[str, str], text: str, cut: int
) -> None:
    after = {name: value for name, value in after.items() if name not in before}
    evil = '", "cwd": "evil", "session_id": "evil'
    prompt = (
        evil + text * (payloads.EDGE_BYTES // max(1, len(text))) + "x" * payloads.EDGE_BYTES + evil + "x" * cut + text
    )
    whole: dict[str, Any] = {**before, "prompt": prompt, **after}
    raw = json.dumps(whole, ensure_ascii=False).encode()
    known = {name: value for name, value in whole.items() if name not in {"prompt", "other"}}
    assert payloads.beginning(raw) == {name: value for name, value in before.items() if name in known}
    at_end = payloads.ending(raw)
    assert at_end == {name: value for name, value in after.items() if name in known}


@pytest.mark.parametrize(
    "raw",
    [b"", b"[", b"{", b'{"cwd"', b'{"cwd":', b'{"cwd": "a', b"{" * 70_000, b'{"a": ' + b"[" * 70_000, b'"' * 70_000],
)
def test_what_is_no_payload_has_no_fields(raw: bytes) -> None:
    assert payloads.beginning(raw) == payloads.ending(raw) == {}


def test_fields_of_a_large_tool_result_say_nothing_of_a_read() -> None:
    raw = b'{"tool_name": "Read", "tool_response": {"stdout": "' + b"x" * payloads.EDGE_BYTES + b'"}, "cwd": "/"}'
    assert payloads.beginning(raw) == {}
