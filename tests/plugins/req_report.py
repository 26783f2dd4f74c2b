"""`--req-report`: which requirement rows and publicly reported faults this run proved.

A test names what it proves with `@pytest.mark.req("Z046")` and `@pytest.mark.fault("M13")`. A row counts as proven when
at least one such test passed and none failed. The marks travel with each test's report, so the result is the same
under xdist. `--req-report-json FILE` writes the rows with the tests that prove them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.plugins import places

SHAPES = {"req": re.compile(r"[A-Z]\d{3}"), "fault": re.compile(r"[A-Z]\d{1,2}")}
"""Marker name -> shape of its row ids."""
TITLES = {"req": "requirement rows", "fault": "reported faults"}
WIDTH = 110

REQUIREMENTS = places.requirements()
FAULTS = places.faults()
"""Looked up at import, before the isolation takes the environment away."""


@dataclass(slots=True)
class Rows:
    """What happened to the tests of each row of one kind."""

    passed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    failed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    skipped: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def proven(self) -> list[str]:
        return sorted(self.passed.keys() - self.failed.keys(), key=order)

    @property
    def broken(self) -> list[str]:
        return sorted(self.failed, key=order)

    @property
    def only_skipped(self) -> list[str]:
        return sorted(self.skipped.keys() - self.passed.keys() - self.failed.keys(), key=order)

    @property
    def tested(self) -> set[str]:
        return {*self.passed, *self.failed, *self.skipped}


def order(row: str) -> tuple[str, int]:
    """`M9` before `M10`."""
    return row[:1], int(row[1:])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("slowwave")
    group.addoption("--req-report", action="store_true", help="print the requirement and fault rows this run proved")
    group.addoption("--req-report-json", metavar="FILE", default="", help="write those rows and their tests as JSON")


def pytest_configure(config: pytest.Config) -> None:
    wanted = config.getoption("req_report") or config.getoption("req_report_json")
    if wanted and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(config), "slowwave-req-report")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raises UsageError for a mark without rows or with one that cannot be a row id."""
    for item in items:
        for kind, shape in SHAPES.items():
            for mark in item.iter_markers(kind):
                if not mark.args or not all(isinstance(row, str) and shape.fullmatch(row) for row in mark.args):
                    raise pytest.UsageError(f"{item.nodeid}: @pytest.mark.{kind} wants row ids, got {mark.args}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    rows = {kind: sorted({row for mark in item.iter_markers(kind) for row in mark.args}) for kind in SHAPES}
    report.__dict__["slowwave_rows"] = rows  # plain data: xdist carries it to the controller
    return report


class Report:
    """Gathers on the controller, prints after the run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.kinds = {kind: Rows() for kind in SHAPES}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid
        for kind, rows in getattr(report, "slowwave_rows", {}).items():
            for row in rows:
                if report.failed:
                    self.kinds[kind].failed[row].add(test)
                elif report.skipped:
                    self.kinds[kind].skipped[row].add(test)
                elif report.when == "call":
                    self.kinds[kind].passed[row].add(test)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.config.getoption("req_report"):
            known = {"req": requirement_groups(REQUIREMENTS), "fault": fault_groups(FAULTS)}
            for kind, rows in self.kinds.items():
                terminalreporter.section(TITLES[kind])
                for line in lines(rows, known[kind]):
                    terminalreporter.write_line(line)
        if path := self.config.getoption("req_report_json"):
            Path(path).write_text(json.dumps(self.data(), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def data(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Kind -> proven | broken | skipped -> row -> tests."""
        return {
            kind: {
                "proven": {row: sorted(rows.passed[row]) for row in rows.proven},
                "broken": {row: sorted(rows.failed[row]) for row in rows.broken},
                "skipped": {row: sorted(rows.skipped[row]) for row in rows.only_skipped},
            }
            for kind, rows in self.kinds.items()
        }


def requirement_groups(path: Path | None) -> dict[str, str]:
    """Row id -> its category, "" for rows marked CONTEXT, which ask for nothing. Empty without the list."""
    if path is None:
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {row["id"]: "" if row["force"] == "CONTEXT" else row["category"] for row in rows}


def fault_groups(path: Path | None) -> dict[str, str]:
    """Fault id -> the part of the list it stands in. Empty without the list."""
    if path is None:
        return {}
    groups, part = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            part = line.removeprefix("### ").strip()
        elif found := re.match(r"\| ([A-Z]\d{1,2}) \|", line):
            groups[found.group(1)] = part
    return groups


def lines(rows: Rows, known: Mapping[str, str]) -> list[str]:
    """The report of one kind: counts first, then ids. Rows of `known` without a group are no work to be counted."""
    wanted = [row for row in known if known[row]]
    text = [f"{len(rows.proven)} proven by passed tests" + (f" of {len(wanted)} listed" if wanted else "")]
    text += wrapped(rows.proven)
    for title, ids in (
        ("with a failed test", rows.broken),
        ("whose tests were all skipped", rows.only_skipped),
        ("named by a test but not in the list", sorted(rows.tested - known.keys(), key=order) if known else []),
    ):
        if ids:
            text += [f"{len(ids)} {title}", *wrapped(ids)]
    missing = [row for row in wanted if row not in rows.tested]
    if missing:
        text.append(f"{len(missing)} without a test in this run")
        total = Counter(known.values())
        for group in dict.fromkeys(known[row] for row in wanted):
            ids = sorted((row for row in missing if known[row] == group), key=order)
            if ids:
                text += [f"  {group}: {len(ids)} of {total[group]}", *wrapped(ids, indent="    ")]
    return text


def wrapped(ids: Iterable[str], *, indent: str = "  ") -> list[str]:
    """Ids filled into lines of readable width."""
    out, current = [], indent
    for row in ids:
        if len(current) + len(row) + 1 > WIDTH:
            out.append(current.rstrip())
            current = indent
        current += row + " "
    return [*out, current.rstrip()] if current.strip() else out
