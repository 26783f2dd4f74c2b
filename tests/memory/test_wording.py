"""Words that depend on a number, and that no text of a command speaks of one thing as of many."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.wording import counted

ROOT = Path(__file__).parents[2]
TOLD = ("cli", "extract/outcomes.py", "recall/status.py", "recall/doctor.py", "flows/pipeline.py", "flows/slow_wave.py")
"""Where what a command prints is put into words."""
MANY = (
    "attempts blocks bytes calls characters entries events files hooks histories lines notes outputs requests rounds"
    " rows rules sessions sources summaries times tokens turns uses versions wake-ups"
).split()


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (1, ("session",), "1 session"),
        (0, ("session",), "0 sessions"),
        (2, ("entry", "entries"), "2 entries"),
        (12_000, ("more session waits", "more sessions wait"), "12,000 more sessions wait"),
    ],
)
def test_a_count_stands_with_the_word_that_goes_with_it(count: int, words: tuple[str, ...], said: str) -> None:
    assert counted(count, *words) == said


@pytest.mark.parametrize("place", TOLD)
def test_no_text_of_a_command_puts_a_plural_behind_any_number(place: str) -> None:
    paths = sorted((ROOT / place).rglob("*.py")) if "." not in place else [ROOT / place]
    found = [f"{path.name}:{line}: {text}" for path in paths for line, text in _plurals(path)]
    assert found == []


def _plurals(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                first = re.match(r" (?:more |model |session |rollout )?([a-z-]+)", str(after.value))
                number = ast.unparse(value.value)
                if first and first[1] in MANY and not _always_many(number):
                    yield node.lineno, f"{{{number}}}{first[0]}"


def _always_many(number: str) -> bool:
    """A limit, or a number of which the code before it has found more than one."""
    return number.rpartition(".")[2].isupper() or number in {
        "len(rows)",
        "len(found)",
        "len(going)",
        "len(already)",
        "found.budget",
    }
