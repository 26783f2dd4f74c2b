"""Measuring by comparison: what is measured and what it is measured against take turns within one run, so that a busy
machine slows both. A figure is the median over the rounds of each round's ratio."""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `bound` is the largest `value` allowed, None for a figure that is only told.

    `unit` is `x` for a ratio; `measured` and `base` say what stood above and below the line, in words.
    """

    name: str
    value: float
    bound: float | None = None
    unit: str = "x"
    measured: str = ""
    base: str = ""

    @property
    def missed(self) -> bool:
        return self.bound is not None and not self.value <= self.bound


@dataclass(frozen=True, slots=True)
class Pair:
    """Seconds of the same rounds: `work[i]` and `base[i]` ran next to each other."""

    work: tuple[float, ...]
    base: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return statistics.median(work / base for work, base in zip(self.work, self.base, strict=True))

    def row(self, name: str, bound: float | None = None) -> Row:
        return Row(name, self.ratio, bound, "x", seconds(self.work), seconds(self.base))


def seconds(values: Sequence[float]) -> str:
    """The median and the range, in a readable unit."""
    median = statistics.median(values)
    factor, unit = (1, "s") if median >= 1 else (1e3, "ms")
    low, high = min(values) * factor, max(values) * factor
    return f"{median * factor:.3g} {unit} ({low:.3g}-{high:.3g})"


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call; what others left for the garbage collector is collected before."""
    gc.collect()
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def paired(work: Callable[[], object], base: Callable[[], object], *, rounds: int = ROUNDS, warm: int = 1) -> Pair:
    """Both in turns, `rounds` times after `warm` unmeasured ones; who goes first alternates."""
    for _ in range(warm):
        base()
        work()
    found: list[tuple[float, float]] = []
    for number in range(rounds):
        if number % 2:
            worked = timed(work)
            found.append((worked, timed(base)))
        else:
            stood = timed(base)
            found.append((timed(work), stood))
    return Pair(tuple(work for work, _ in found), tuple(base for _, base in found))


def growth(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The exponent with which time grows with size: 1 is linear, 2 quadratic (least squares on logarithms)."""
    xs, ys = [math.log(size) for size in sizes], [math.log(value) for value in times]
    middle_x, middle_y = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - middle_x) ** 2 for x in xs
    )


def command(*words: str | Path, env: dict[str, str] | None = None) -> Callable[[], object]:
    """A process to be run to its end with its output thrown away."""

    def run() -> None:
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env)

    return run


def peak_megabytes(code: str, *arguments: str) -> float:
    """Highest resident memory of a fresh interpreter that runs `code`, in MB of 10**6 bytes (Linux)."""
    tail = "\nprint(next(x for x in open('/proc/self/status') if x.startswith('VmHWM')).split()[1])\n"
    done = subprocess.run(
        [sys.executable, "-c", code + tail, *arguments],
        check=True,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return int(done.stdout.split()[-1]) * 1024 / 1e6


def corpus() -> Path | None:
    """Real session files: `SLOWWAVE_CORPUS`, default `../shared/corpus` beside the checkout."""
    said = os.environ.get("SLOWWAVE_CORPUS")
    path = Path(said) if said else Path(__file__).resolve().parents[2] / "shared" / "corpus"
    return path if path.is_dir() else None


def machine() -> str:
    """One line that says what the figures were taken on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    system, python = f"{platform.system()} {platform.release()}", f"Python {platform.python_version()}"
    return f"{system}, {model}, {os.cpu_count()} cores, {python}{load}"


def dump(rows: Sequence[Row]) -> str:
    return json.dumps([asdict(row) for row in rows])


def undump(text: str) -> list[Row]:
    return [Row(**row) for row in json.loads(text)]


def table(rows: Sequence[tuple[str, Row]]) -> list[str]:
    """The lines of one table over all benches."""
    head = ("bench", "what", "figure", "bound", "", "measured: median (range)", "against")
    cells = [head]
    for bench, row in rows:
        figure = f"{row.value:,.2f} {row.unit}" if row.value < 1000 else f"{row.value:,.0f} {row.unit}"
        bound = "" if row.bound is None else f"{row.bound:g}"
        verdict = "" if row.bound is None else "MISSED" if row.missed else "ok"
        cells.append((bench, row.name, figure, bound, verdict, row.measured, row.base))
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if column in {2, 3} else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]
