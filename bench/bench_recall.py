"""Search: public retrieval benchmarks beside published figures, a Chinese set, speed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from bench import recall_data, recall_measures
from bench.timing import Row, command, paired
from recall.index import meaning

CHINESE = Path(__file__).resolve().parents[1] / "tests" / "recall_index" / "data" / "chinese.json"
LOCOMO_PEERS = (
    # system, unit, session R@1, R@5, R@10, MRR, turn R@10; "-" where nothing is published
    ("FTS5 porter, stop words out (measured)", "65.6", "87.4", "93.5", "80.3", "65.3"),
    ("FTS5 trigram (measured)", "64.8", "85.9", "92.5", "79.0", "61.8"),
    ("multilingual-e5-small (measured)", "39.4", "72.5", "86.2", "58.7", "-"),
    ("MiniLM-L6 (measured)", "22.5", "46.4", "60.6", "38.7", "45.1"),
    ("MemPalace hybrid v5 (published)", "-", "83.7", "88.9", "-", "48.0"),
    ("MemPalace bge-large hybrid (published)", "-", "-", "92.4", "-", "-"),
    ("basic-memory (published)", "-", "82.3", "-", "71.8", "-"),
)
BEAM_PEERS = (
    ("FTS5 porter (measured)", "40.8", "50.5", "63.1", "44.5"),
    ("multilingual-e5-small (measured)", "43.9", "55.3", "69.4", "48.4"),
    ("both, rank fusion (measured)", "48.7", "61.0", "71.6", "51.8"),
)
PRECISION_PEERS = (
    ("tenure, the benchmark's authors (published)", "1.00", "1.00", "77"),
    ("open-knowledge-format (published)", "0.47", "0.91", "36"),
    ("supermemory (published)", "0.22", "0.71", "21"),
    ("agentmemory (published)", "0.17", "0.97", "7"),
    ("zep (published)", "0.09", "0.95", "9"),
    ("mem0 (published)", "0.06", "0.99", "9"),
)
TARGETS = {"session R@5": 88.5, "session R@10": 94.5, "session MRR": 80.5, "turn R@10": 67.0}


def run() -> list[Row]:
    return [*_locomo(), *_beam(), *_precision(), *_chinese(), *_speed(), *_cold()]


def _print(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        print(
            "  ".join(
                cell.ljust(w) if not at else cell.rjust(w) for at, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
        )


def _short(name: str, value: float, target: float, unit: str = "points") -> Row:
    """How far a figure lies below what it has to reach; 0 when it does."""
    return Row(f"{name}, short of {target:g}", max(0.0, target - value), 0.0, unit, f"{value:.2f}")


def _locomo() -> list[Row]:
    path = recall_data.folder("locomo")
    if path is None:
        print("LoCoMo: no data, skipped (SLOWWAVE_BENCH_DATA)")
        return []
    key, audited = recall_measures.locomo(path), recall_measures.locomo(path, corrected=True)
    names = ("session R@1", "session R@5", "session R@10", "session MRR", "turn R@10")
    ours = [
        (label, *(f"{found[name]:.1f}" for name in names))
        for label, found in (("slowwave", key), ("slowwave, corrected key", audited))
    ]
    if encoder := meaning.encoder():
        found = recall_measures.locomo(path, encoder=encoder)
        ours.append(("slowwave, semantic extra", *(f"{found[name]:.1f}" for name in names)))
    _print(f"LoCoMo-10, {key['questions']:.0f} questions, no model", ("system", *names), [*ours, *LOCOMO_PEERS])
    return [_short(f"LoCoMo {name}", key[name], target) for name, target in TARGETS.items()]


def _beam() -> list[Row]:
    path = recall_data.folder("beam")
    if path is None:
        print("BEAM: no data, skipped")
        return []
    found = recall_measures.beam(path)
    names = ("fraction@5", "fraction@10", "fraction@20", "MRR")
    ours = [("slowwave", *(f"{found[name]:.1f}" for name in names))]
    rows = [_short("BEAM-100K fraction@10", found["fraction@10"], 52.0)]
    if encoder := meaning.encoder():
        more = recall_measures.beam(path, encoder)
        ours.append(("slowwave, semantic extra", *(f"{more[name]:.1f}" for name in names)))
        rows.append(_short("BEAM-100K fraction@10, semantic extra", more["fraction@10"], 62.0))
    _print(f"BEAM-100K, {found['questions']:.0f} questions, no model", ("system", *names), [*ours, *BEAM_PEERS])
    return rows


def _precision() -> list[Row]:
    path = recall_data.folder("precisionmembench")
    if path is None:
        print("PrecisionMemBench: no data, skipped")
        return []
    labels = ["slowwave, cases thresholds were chosen on", "slowwave, cases only reported", "slowwave, all"]
    found = [recall_measures.precision(path, half) for half in (0, 1, None)]
    if encoder := meaning.encoder():
        labels.append("slowwave, semantic extra, cases only reported")
        found.append(recall_measures.precision(path, 1, encoder))
    ours = [
        (label, f"{f.precision:.2f}", f"{f.recall:.2f}", f"{f.passed} of {f.cases}")
        for label, f in zip(labels, found, strict=True)
    ]
    _print(
        "PrecisionMemBench, 77 cases, no model", ("system", "precision", "recall", "passed"), [*ours, *PRECISION_PEERS]
    )
    held, both = found[1], found[2]
    return [
        _short("PrecisionMemBench precision, reported half", held.precision, 0.60, "share"),
        _short("PrecisionMemBench recall, reported half", held.recall, 0.90, "share"),
        Row("PrecisionMemBench beliefs out of scope", both.leaks, 0, "beliefs"),
        Row("PrecisionMemBench superseded given as current", both.stale, 0, "beliefs"),
    ]


def _chinese() -> list[Row]:
    found = recall_measures.chinese(CHINESE)
    print(f"\nChinese, {found['questions']:.0f} facts and questions of our own: ", end="")
    print(", ".join(f"{name} {found[name]:.1f}" for name in ("R@1", "R@3", "cut R@3")))
    return [_short("Chinese R@3", found["R@3"], 95.0)]


def _speed() -> list[Row]:
    path = recall_data.folder("locomo")
    if path is None:
        return []
    cases = list(recall_data.locomo(path))
    found = [recall_measures.speed(cases, units) for units in (1_000, 10_000, 100_000)]
    head = ("units", "p50 ms", "p95 ms", "p99 ms", "p50 CPU", "p95 CPU", "units/s built (CPU)")
    rows = [
        (
            f"{f.units:,}",
            *(f"{v:.2f}" for v in (f.p50, f.p95, f.p99, f.cpu_p50, f.cpu_p95)),
            f"{f.build_per_second:,.0f}",
        )
        for f in found
    ]
    _print("Speed of one question in process", head, rows)
    middle = found[1]
    said = f"wall p50 {middle.p50:.2f}, p95 {middle.p95:.2f}, p99 {middle.p99:.2f} ms"
    return [
        Row("question over 10,000 units, p50", middle.cpu_p50, None, "ms CPU", said),
        Row(
            "index build, 1,000 of 10,000 units",
            1e6 / middle.build_per_second,
            50.0,
            "ms CPU",
            f"{middle.build_per_second:,.0f} units/s",
        ),
    ]


def _cold() -> list[Row]:
    """The command in a process of its own, over the memory of the sample sessions."""
    program = Path(sys.executable).parent / "slowwave"
    samples = Path(__file__).resolve().parents[1] / "examples" / "sessions"
    home = Path(tempfile.mkdtemp(prefix="slowwave-bench-"))
    env = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "SLOWWAVE_HOME": str(home / "data"),
        "SLOWWAVE_MEMORY_MODE": "long",
    }
    env |= {f"SLOWWAVE_ROLLOUTS_{host}_ROOTS": str(samples / host.lower()) for host in ("CODEX", "CLAUDE", "PI")}
    env |= {
        "SLOWWAVE_EXTRACT_IDLE_HOURS": "0",
        "SLOWWAVE_EXTRACT_MAX_AGE_DAYS": "36500",
        "SLOWWAVE_EXTRACT_BATCH": "20",
    }
    try:
        command(program, "run", env=env)()
        command(program, "search", "tests", "--all", env=env)()
        search = command(program, "search", "which tests failed", "--all", env=env)
        nothing = command(sys.executable, "-c", "pass", env=env)
        return [paired(search, nothing, rounds=9).row("slowwave search / python -c pass", 12.0)]
    finally:
        shutil.rmtree(home, ignore_errors=True)
