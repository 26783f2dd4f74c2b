"""`python -m bench [NAME ...]`: runs the benches, each in a process of its own, and prints one table.

A bench is a module `bench_<name>.py` beside this one with `run() -> list[Row]`. `--list` says which there are. The exit
code is 1 when a figure is over its bound or a bench failed.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import timing

HERE = Path(__file__).resolve().parent


def names() -> list[str]:
    return sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def title(name: str) -> str:
    """First line of the bench's docstring, without importing it."""
    lines = (HERE / f"bench_{name}.py").read_text(encoding="utf-8").lstrip().splitlines()
    return lines[0].strip('"').strip() if lines else ""


def run_here(name: str, out: Path) -> None:
    """In the child: the rows go to a file, what the bench prints stays on the terminal."""
    rows = importlib.import_module(f"bench.bench_{name}").run()
    out.write_text(timing.dump(rows), encoding="utf-8")


def run_apart(name: str) -> list[timing.Row] | None:
    """In a fresh interpreter, so that no bench sees another's memory or caches. None when it failed."""
    with tempfile.TemporaryDirectory(prefix="slowwave-bench-") as folder:
        out = Path(folder) / "rows.json"
        done = subprocess.run([sys.executable, "-m", "bench", "--here", name, str(out)], cwd=HERE.parent, check=False)
        return timing.undump(out.read_text(encoding="utf-8")) if done.returncode == 0 and out.is_file() else None


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--here"]:
        run_here(arguments[1], Path(arguments[2]))
        return 0
    if arguments[:1] == ["--list"]:
        for name in names():
            print(f"{name:12} {title(name)}")
        return 0
    unknown = sorted(set(arguments) - set(names()))
    if unknown:
        print(f"no such bench: {', '.join(unknown)}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    rows: list[tuple[str, timing.Row]] = []
    failed: list[str] = []
    for name in arguments or names():
        print(f"== {name}", flush=True)
        began = time.perf_counter()
        found = run_apart(name)
        print(f"== {name}: {time.perf_counter() - began:.0f} s", flush=True)
        if found is None:
            failed.append(name)
        else:
            rows += [(name, row) for row in found]
    print(f"\n{timing.machine()}")
    print("\n".join(timing.table(rows)))
    missed = [f"{name}: {row.name}" for name, row in rows if row.missed]
    for line in [*(f"over its bound: {text}" for text in missed), *(f"failed: {name}" for name in failed)]:
        print(line)
    return 1 if missed or failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
