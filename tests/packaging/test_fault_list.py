"""docs/faults.md is true: rows name tests that exist and carry the fault's mark, and no marked fault is missing."""

from __future__ import annotations

import pytest

from tests.packaging.fault_list import DOCUMENT, REMARK, ROW, TEST, marked, place

MEND = "run `make fault-list`"


@pytest.fixture(scope="module")
def rows() -> dict[str, str]:
    """Fault -> what the document says about where it is kept away."""
    found = [(match["fault"], match["place"]) for match in ROW.finditer(DOCUMENT.read_text(encoding="utf-8"))]
    assert len(found) == len(dict(found)), "a fault has two rows"
    return dict(found)


def test_every_marked_fault_has_a_row(rows: dict[str, str]) -> None:
    assert sorted(marked().keys() - rows.keys()) == [], "a mark that is no fault of the list, or a missing row"


def test_every_test_a_row_names_exists_and_carries_the_mark(rows: dict[str, str]) -> None:
    tests = marked()
    for fault, text in rows.items():
        for path, name in TEST.findall(text):
            assert f"{path}::{name}" in tests.get(fault, []), f"{fault} names {path}::{name}: {MEND}"


def test_a_row_names_a_test_or_says_why_there_is_none(rows: dict[str, str]) -> None:
    tests = marked()
    for fault, text in rows.items():
        if fault in tests:
            assert TEST.search(text), f"{fault} has tests, its row names none: {MEND}"
        else:
            assert REMARK.match(text), f"{fault}: {text}"


@pytest.mark.parametrize(
    ("tests", "former", "now"),
    [
        ([], "later: hooks (hosts)", "later: hooks (hosts)"),
        ([], "`tests/a.py::test_a`. Later: hooks", "later: hooks"),
        ([], "`tests/a.py::test_a`", "no test yet"),
        (["tests/a.py::a"], "later: hooks", "`tests/a.py::a`. Later: hooks"),
        (["tests/a.py::a", "b", "c"], "does not apply: none", "`tests/a.py::a`; `b`; 1 more"),
    ],
)
def test_a_rewritten_row_keeps_what_still_holds(tests: list[str], former: str, now: str) -> None:
    assert place(tests, former) == now
    assert place(tests, now) == now
