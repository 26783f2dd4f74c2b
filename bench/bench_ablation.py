"""Search with one part left out at a time: what each part of the ranking is worth on public questions [P062]."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench import recall_data, recall_measures
from bench.timing import Row
from recall.index import rank

PARTS = {
    "everything": "",
    "a line without its neighbours": "NEIGHBOUR",
    "a line without its session": "CONTEXT",
    "a session without its best line": "BEST_UNIT",
    "no words taken from the best lines": "FEEDBACK",
}
"""What is left out -> the weight in `recall.index.rank` that is 0 then."""
LOCOMO = ("session R@5", "session R@10", "session MRR", "turn R@10")
BEAM = ("fraction@10", "MRR")


def run() -> list[Row]:
    rows: list[Row] = []
    for data, names, measure in (
        ("locomo", LOCOMO, recall_measures.locomo),
        ("beam", BEAM, recall_measures.beam),
    ):
        path = recall_data.folder(data)
        if path is None:
            print(f"{data}: no data, skipped (SLOWWAVE_BENCH_DATA)")
            continue
        print(f"\n{data}\n{'':36}" + "".join(f"{name:>14}" for name in names))
        whole: dict[str, float] = {}
        for title, weight in PARTS.items():
            with left_out(weight):
                found = measure(path)
            whole = whole or found
            print(f"{title:36}" + "".join(f"{found[name]:14.1f}" for name in names))
            rows += [Row(f"{data} {name}, {title}", found[name], None, "points", f"{found[name] - whole[name]:+.1f}")
                     for name in names[-1:]]  # fmt: skip
    return rows


@contextmanager
def left_out(weight: str) -> Iterator[None]:
    """A weight of the ranking is 0 in the block."""
    before = getattr(rank, weight, None)
    if weight:
        setattr(rank, weight, 0.0)
    try:
        yield
    finally:
        if weight:
            setattr(rank, weight, before)
