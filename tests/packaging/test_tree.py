"""What the files of the project may not say: where they were written, by whom, and where packages come from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

REGISTRIES = re.compile(
    r"\b(?:[\w-]+\.)*(?:py" + r"pi\.(?:org|python\.org)|python" + r"hosted\.org|npm" + r"js\.(?:org|com)|registry\.yarn"
    r"pkg\.com|cra" + r"tes\.io|proxy\.golang" + r"\.org|docker" + r"\.io)\b"
)
"""Written in pieces, so that this file does not name one itself."""
PLACES = re.compile(
    r"(?<![\w.~<})-])(?<!\b[A-Z]:)/(?:(?:wo" + r"rk|op" + r"t/(?:pypi|wheels))(?:/|\b(?![\w-]))|ro" + r"ot/\.)"
)
"""The home of an administrator is told by what lies hidden in it: agents call themselves by such paths too."""
HOMES = re.compile(r"(?<![\w.~})])(?:/home|/Users|[A-Za-z]:\\+Users)[/\\]+([A-Za-z][\w.-]*)")
STAND_INS = frozenset({"ada", "ana", "dev", "me", "someone", "user", "x"})
"""Nobody's names: the only ones test data may give a home to."""
UNFINISHED = re.compile(r"(?:#|//|<!--|/\*)\s*(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def tree(root: Path) -> list[Path]:
    """The files under version control; without Git, everything but what tools leave behind."""
    if (root / ".git").exists():
        done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
        return [root / name for name in done.stdout.split("\0") if name and (root / name).is_file()]
    skipped = {"__pycache__", "dist", "build"}
    inside = (path for path in root.rglob("*") if not skipped & set(path.parts))
    return [p for p in inside if p.is_file() and not any(x.startswith(".") for x in p.relative_to(root).parts[:-1])]


def found(pattern: re.Pattern[str]) -> list[str]:
    """`file:line: match` for every match in the tree; bytes that are not text are skipped."""
    hits = []
    for path in tree(ROOT):
        text = path.read_bytes().decode("utf-8", "ignore")
        hits += [
            f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)}"
            for match in pattern.finditer(text)
        ]
    return hits


def test_no_file_names_a_package_registry() -> None:
    assert found(REGISTRIES) == []


def test_no_file_names_the_place_it_was_written_in() -> None:
    assert found(PLACES) == []
    assert found(re.compile(re.escape(str(ROOT)) + r"\b")) == []


def test_homes_in_test_data_are_nobodys() -> None:
    assert [hit for hit in found(HOMES) if HOMES.findall(hit)[-1] not in STAND_INS] == []


def test_nothing_is_left_to_be_done_later() -> None:
    assert found(UNFINISHED) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (REGISTRIES, "https://files.python" + "hosted.org/x"),
        (REGISTRIES, "registry.npm" + "js.org"),
        (PLACES, "see /wo" + "rk/shared"),
        (PLACES, "'/ro" + "ot/.cache'"),
        (UNFINISHED, "# TO" + "DO: later"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


@pytest.mark.parametrize(
    "text", ["~/work/shop", "https://example.org/work/x", "src/work/x.py", "/rooted", "C:/work/x", "{home}/work/"]
)
def test_other_folders_of_such_names_are_fine(text: str) -> None:
    assert not PLACES.search(text)
