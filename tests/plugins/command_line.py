"""What a command-line test needs: the samples, settings that point at them, and what a command did."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[2] / "examples" / "sessions"

CONFIG = """
[memory]
mode = "long"
[rollouts]
codex_roots = ["{samples}/codex"]
claude_roots = ["{samples}/claude"]
pi_roots = ["{samples}/pi"]
generic_roots = []
[extract]
idle_hours = 0
max_age_days = 36500
batch = 20
"""


@dataclass(frozen=True)
class Result:
    """What a command did: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Slowwave = Callable[..., Result]
