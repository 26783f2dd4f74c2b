"""A home with two sessions that a run has made a summary of, and doctor as a function."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cli.look import mend
from flows import pipeline
from memory.clock import Clock, SystemClock
from recall.doctor import diagnose
from recall.mending import Mended
from recall.surroundings import Finding
from tests.flows.home import Home


@dataclass(frozen=True)
class Desk(Home):
    """`data` is the data folder."""

    @property
    def clock(self) -> Clock:
        return SystemClock()

    def run(self, options: pipeline.Options = pipeline.NOTHING) -> pipeline.RunReport:
        with self.runtime() as runtime:
            return asyncio.run(pipeline.run(runtime, options))

    def findings(self) -> list[Finding]:
        return diagnose(self.settings(), self.clock)

    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings() if finding.level != "ok"]

    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings() if finding.level == "error"]

    def fix(self) -> list[Mended]:
        return mend(self.settings(), self.clock)

    @property
    def memories(self) -> Path:
        (generation,) = (self.data / "generations").iterdir()
        return generation / "memories_v2"

    @property
    def summary(self) -> Path:
        return self.memories / "memory_summary.md"

    def sql(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.data / "state.db")) as raw:
            raw.execute(statement, values)
            raw.commit()


Damage = Callable[[Path], object]


def poke(path: Path, offset: int, data: bytes) -> None:
    """Overwrites bytes in a file."""
    with path.open("r+b") as file:
        file.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        file.write(data)
