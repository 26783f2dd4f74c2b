"""What the program says of itself in English, read from its source: errors, findings of the doctor, what was mended."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("memory", "rollouts", "extract", "consolidate", "recall", "hosts", "flows", "dashboard", "cli")
SHOWN = (
    "consolidate/*.py",
    "dashboard/*.py",
    "dashboard/pages/*.py",
    "extract/*.py",
    "flows/remote.py",
    "hosts/edit.py",
    "hosts/install*.py",
    "memory/*.py",
    "memory/llm/*.py",
    "memory/state/*.py",
    "memory/workspace/*.py",
    "recall/doctor.py",
    "recall/mending.py",
    "recall/remember.py",
    "recall/short.py",
    "recall/surroundings.py",
    "recall/trace.py",
    "rollouts/*.py",
)
"""Where that is said which a page may come to show."""
NOT_SHOWN = {
    "consolidate/tools.py",  # said to the model
    "memory/workspace/confined.py",  # said to the model
    "memory/workspace/topics.py",  # said to tools
    "memory/testing.py",
    "memory/workspace/testing.py",
    "rollouts/testing.py",
}
SPEAKING = (
    "Error",
    "Reference",
    "Refused",
    "Rollout",
    "Exceeded",
    "Rejected",
    "Detected",
    "Cancelled",
    "Finding",
    "Fault",
    "Mended",
)
PLAIN = {"ValueError", "AssertionError", "KeyError", "OSError", "FileExistsError", "FileNotFoundError", "HTTPException"}


@cache
def every_text() -> frozenset[str]:
    """Every text of the program's source, f-strings with their fields numbered."""
    return frozenset(text for path in _files(f"{room}/**/*.py" for room in ROOMS) for text in _texts(_tree(path)))


def shown_texts() -> dict[str, str]:
    """Text -> where it is said, for all that a page may come to show."""
    found: dict[str, str] = {}
    for path in _files(SHOWN):
        place = path.relative_to(ROOT).as_posix()
        if place in NOT_SHOWN:
            continue
        for call in ast.walk(_tree(path)):
            if isinstance(call, ast.Call) and _speaks(call):
                values = [*call.args, *(one.value for one in call.keywords if one.arg == "hint")]
                skip = 2 if _name(call) == "Finding" else 1 if _name(call) == "Mended" else 0
                for value in values[skip:]:
                    found |= {text: f"{place}:{call.lineno}" for text in _choices(value) if " " in text}
    return found


def _speaks(call: ast.Call) -> bool:
    name = _name(call)
    return name[:1].isupper() and name.endswith(SPEAKING) and name not in PLAIN


def _name(call: ast.Call) -> str:
    function = call.func
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _choices(node: ast.expr) -> Iterator[str]:
    """A text, or both of `a if x else b`."""
    if isinstance(node, ast.IfExp):
        yield from _choices(node.body)
        yield from _choices(node.orelse)
    elif (text := _text(node)) is not None:
        yield text


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (text := _text(node)) is not None:
            yield text


def _text(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts, number = [], 0
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        else:
            parts.append(f"{{{number}}}")
            number += 1
    return "".join(parts)


def _files(patterns: object) -> list[Path]:
    return sorted({path for pattern in patterns for path in ROOT.glob(pattern)})  # type: ignore[attr-defined]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
