"""The command line: how long `slowwave --help` takes, against an interpreter that does nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.timing import Row, command, paired

ROUNDS = 9
BOUND = 12.0


def run() -> list[Row]:
    program = Path(sys.executable).parent / "slowwave"
    nothing = command(sys.executable, "-c", "pass")
    return [paired(command(program, "--help"), nothing, rounds=ROUNDS).row("slowwave --help / python -c pass", BOUND)]
