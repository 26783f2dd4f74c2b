"""The proof of a forget looks into everything but session files."""

from __future__ import annotations

import zlib
from pathlib import Path

from memory import forgotten
from memory.workspace import scan

HOLDS = forgotten.holder("Zebra umbrella")


def test_every_file_is_looked_at_as_it_lies_on_disk(tmp_path: Path) -> None:
    objects = tmp_path / "generations" / "g" / "memories_v2" / ".git" / "objects" / "ab"
    objects.mkdir(parents=True)
    (objects / "cd").write_bytes(zlib.compress(b"blob 14\0zebra umbrella"))
    (objects / "ef").write_bytes(b"no object")
    (tmp_path / "state.db").write_bytes(b"\xff\xfe\0the zebra\n  UMBRELLA\0\xff")
    (tmp_path / "other").write_text("a lion")
    (tmp_path / "link").symlink_to(tmp_path / "state.db")
    found = scan.holding(tmp_path, HOLDS)
    assert found == ("generations/g/memories_v2/.git/objects/ab/cd", "state.db")


def test_session_files_of_other_programs_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    (tmp_path / "rollouts" / "a.jsonl").write_text("zebra umbrella")
    assert scan.holding(tmp_path, HOLDS) == ()


def test_a_file_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "locked"
    path.write_text("a lion")
    path.chmod(0)
    found = scan.holding(tmp_path, HOLDS)
    assert found == (() if _readable(path) else ("locked",))


def _readable(path: Path) -> bool:
    """Root reads everything."""
    try:
        path.read_bytes()
    except OSError:
        return False
    return True
