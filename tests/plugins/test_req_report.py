from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.plugins import req_report

SUITE = """
import pytest

@pytest.mark.req("Z001", "Z002")
@pytest.mark.parametrize("n", [1, 2])
def test_good(n): pass

@pytest.mark.req("Z002")
@pytest.mark.fault("M9", "M10")
def test_bad(): raise AssertionError

@pytest.mark.req("Z003")
def test_skipped(): pytest.skip("absent")

@pytest.mark.req("Z004")
def test_unfinished(broken): pass

@pytest.fixture
def broken(): raise OSError

@pytest.mark.fault("M11")
class TestMany:
    def test_it(self): pass
"""


def run(folder: Path, suite: str, *options: str) -> str:
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.plugins.req_report"]\n', encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  req(x)\n  fault(x)\n", encoding="utf-8")
    (folder / "test_it.py").write_text(suite, encoding="utf-8")
    listed = [{"id": f"Z00{n}", "category": "long", "force": "MUST"} for n in range(1, 6)]
    listed.append({"id": "Z006", "category": "long", "force": "CONTEXT"})
    (folder / "rows.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "faults.md").write_text("### A. Jobs\n\n| id |\n|---|\n| M9 | x |\n| M12 | x |\n", encoding="utf-8")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    said = alone | {"SLOWWAVE_REQUIREMENTS": str(folder / "rows.json"), "SLOWWAVE_FAULTS": str(folder / "faults.md")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, str(folder)],
        env={**os.environ, **said, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout or done.stderr


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_the_report_says_what_is_proven_broken_skipped_and_untested(workers: tuple[str, ...], tmp_path: Path) -> None:
    said = run(tmp_path, SUITE, "--req-report", "--req-report-json", "out.json", *workers)
    report = [line.strip() for line in said.splitlines()]
    rows = report[report.index(next(line for line in report if "requirement rows" in line)) + 1 :]
    assert rows[:10] == [
        "1 proven by passed tests of 5 listed",
        "Z001",
        "2 with a failed test",
        "Z002 Z004",
        "1 whose tests were all skipped",
        "Z003",
        "1 without a test in this run",
        "long: 1 of 5",
        "Z005",
        next(line for line in report if "reported faults" in line),
    ]
    assert rows[10:17] == [
        "1 proven by passed tests of 2 listed",
        "M11",
        "2 with a failed test",
        "M9 M10",
        "2 named by a test but not in the list",
        "M10 M11",
        "1 without a test in this run",
    ]
    assert "1 failed, 3 passed, 1 skipped, 1 error" in report[-1], "pytest's closing line comes last"
    kept = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert kept["req"]["proven"] == {"Z001": ["test_it.py::test_good[1]", "test_it.py::test_good[2]"]}
    assert set(kept["fault"]["broken"]) == {"M9", "M10"}


class Item(SimpleNamespace):
    """As much of a collected test as the check of its marks looks at."""

    nodeid = "test_it.py::test_it"

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [self.mark] if self.mark.name == name else []


@pytest.mark.parametrize(
    "mark", [pytest.mark.req("Z1"), pytest.mark.req(), pytest.mark.fault("Z046"), pytest.mark.fault(9)]
)
def test_a_mark_that_names_no_row_stops_the_run(mark: pytest.MarkDecorator) -> None:
    with pytest.raises(pytest.UsageError, match="wants row ids"):
        req_report.pytest_collection_modifyitems([cast("pytest.Item", Item(mark=mark.mark))])


def test_rows_are_ordered_by_number() -> None:
    assert sorted(["M10", "Z001", "M9"], key=req_report.order) == ["M9", "M10", "Z001"]
