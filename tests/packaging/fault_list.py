"""The right column of docs/faults.md, from the marks in the tests: `python -m tests.packaging.fault_list` rewrites it.

What stands between the columns' bars is kept; a row's remark ("later: ...", "does not apply: ...") stays as long as it
says something the tests do not.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "faults.md"
ROW = re.compile(r"^\| (?P<fault>[A-Z]\d{1,2}) \| (?P<title>[^|]+) \| (?P<place>[^|]+) \|$", re.MULTILINE)
SHAPE = re.compile(r"[A-Z]\d{1,2}")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
REMARK = re.compile(r"(?:^|\. )((?:later|does not apply|no single test): .+)$", re.IGNORECASE)
NAMED = 2
"""Tests named in a row; the others are counted."""


def marked() -> dict[str, list[str]]:
    """Fault -> `file::test` of every test that carries its mark, in order, read from the sources."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = {fault for node in tree.body if isinstance(node, ast.Assign) for fault in _faults(node.value)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                for fault in whole.union(*(_faults(mark) for mark in node.decorator_list)):
                    found[fault].add(f"{path.relative_to(ROOT).as_posix()}::{node.name}")
    return {fault: sorted(tests) for fault, tests in found.items()}


def _faults(expression: ast.expr) -> set[str]:
    """The arguments of every `pytest.mark.fault(...)` inside an expression."""
    return {
        argument.value
        for node in ast.walk(expression)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fault"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and SHAPE.fullmatch(argument.value)
    }


def place(tests: list[str], former: str) -> str:
    """The right column of a row: its tests, then what of its remark still holds."""
    remark = REMARK.search(former)
    said = remark.group(1).strip() if remark else ""
    if not tests:
        return said[:1].lower() + said[1:] or "no test yet"
    text = "; ".join(f"`{test}`" for test in tests[:NAMED])
    if len(tests) > NAMED:
        text += f"; {len(tests) - NAMED} more"
    return f"{text}. {said[:1].upper()}{said[1:]}" if said.lower().startswith("later") else text


def rewritten(text: str) -> str:
    """The document with every right column as the tests have it now."""
    tests = marked()

    def row(match: re.Match[str]) -> str:
        fault = match["fault"]
        return f"| {fault} | {match['title']} | {place(tests.get(fault, []), match['place'].strip())} |"

    return ROW.sub(row, text)


if __name__ == "__main__":
    DOCUMENT.write_text(rewritten(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
