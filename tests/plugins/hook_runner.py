"""`slowwave-hook` as a host runs it: an interpreter of its own, `-I`, a payload on standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hosts.hook
from rollouts.drafts import own_memory

ROOT = Path(hosts.hook.__file__).parents[1]
PLACE = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hosts.hook, recall.snapshot"
PATIENT = (
    "hosts.hook.DEADLINE_SECONDS = hosts.hook.FALLBACK_SECONDS = hosts.hook.COMMIT_SECONDS = 20; "
    "hosts.hook.DRAIN_SECONDS = 20; recall.snapshot.LOCK_WAIT_SECONDS = 20"
)
"""What it answers is judged apart from how fast it is on a machine that runs a whole test suite."""
PROGRAM = f"{PLACE}; {PATIENT}; hosts.hook.main()"
IN_TIME = f"{PLACE}; hosts.hook.main()"
QUICK_LOCK = PROGRAM.replace("LOCK_WAIT_SECONDS = 20", "LOCK_WAIT_SECONDS = 0.1")
OVERDUE = "def handle(policy, call):\n    raise hosts.hook.DeadlineError\n"
STUCK = f"{PLACE}, recall.policy; {PATIENT}\n{OVERDUE}recall.policy.MemoryPolicy.handle = handle; hosts.hook.main()"
"""A hook whose time is up before its policy has an answer."""
LATER = PROGRAM.replace("import hosts", "import time; now = time.time; time.time = lambda: now() + 5; import hosts", 1)
"""A hook a few seconds on: a block that rests on files written just now is not trusted by the next one."""


@dataclass(frozen=True)
class Said:
    """What came back: exit code, standard output and error, wall seconds."""

    code: int
    out: bytes
    err: bytes
    seconds: float

    @property
    def text(self) -> str:
        """The context for the model; empty where the hook said nothing."""
        if not self.out:
            return ""
        values = json.loads(self.out)
        assert set(values) == {"hookSpecificOutput"}
        assert set(values["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
        text = str(values["hookSpecificOutput"]["additionalContext"])
        assert [part.derived_from for part in own_memory(text)] == ["memory"]
        return text


def command(*arguments: str, program: str = PROGRAM) -> list[str]:
    """The command line of a hook."""
    return [sys.executable, "-I", "-c", program, *arguments]


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a host hands on, with the data folder of the test."""
    return {**os.environ, "SLOWWAVE_HOME": str(home), **more}


def run(
    home: Path,
    payload: bytes | dict[str, Any],
    *arguments: str,
    cwd: Path | None = None,
    program: str = PROGRAM,
    variables: dict[str, str] | None = None,
) -> Said:
    """One run to its end; it has a minute, whatever else the machine has to do."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    began = time.perf_counter()
    done = subprocess.run(
        command(*arguments, program=program),
        input=data,
        capture_output=True,
        env=environment(home, **(variables or {})),
        cwd=cwd or home.parent,
        timeout=60,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr, time.perf_counter() - began)
