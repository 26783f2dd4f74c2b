"""No durable step without a failpoint: whatever changes a file or commits a transaction does so inside a step that a
test can kill. Seen by the interpreter's own audit events, not by the code that is tested."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from memory import failpoints
from memory.workspace.files import Syscalls
from memory.workspace.testing import disk
from tests.torture.deeds import DEEDS
from tests.torture.harness import Rehearsal, world_at
from tests.torture.world import in_child

pytestmark = pytest.mark.deep

ROOT = Path(__file__).resolve().parents[2]
CHANGING = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"})
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LOCKS = (".lock",)
"""Lock files hold nothing: their content is for people."""


class Watched(Syscalls):
    """The layer opens files by a system call Python has no audit event for; it is noted here."""

    def __init__(self, tape: list[str]) -> None:
        self._tape = tape

    def open(self, path: str, flags: int, mode: int, *, folder: int) -> int:
        if flags & WRITING and not path.endswith(LOCKS):
            self._tape.append(f"! create {path}")
        return super().open(path, flags, mode, folder=folder)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self._tape.append("! write")
        return super().write(fd, data)


def outside(tape: list[str]) -> Iterator[str]:
    """Changes that no open step surrounds."""
    opened: list[str] = []
    for entry in tape:
        if entry.startswith("! "):
            if not opened:
                yield entry
        elif entry.endswith(".before"):
            opened.append(entry.removesuffix(".before"))
        elif entry.endswith(".after") and entry.removesuffix(".after") in opened:
            opened.remove(entry.removesuffix(".after"))


@pytest.mark.fault("X47")
@pytest.mark.parametrize("name", DEEDS)
def test_every_change_happens_inside_a_step(tmp_path: Path, rehearsals: dict[str, Rehearsal], name: str) -> None:
    rehearsal = rehearsals[name]
    world = world_at(tmp_path / "world", rehearsal.start, rehearsal.now)
    report = tmp_path / "report"

    def watched() -> None:
        with failpoints.recorded() as tape, disk(Watched(tape)):

            def audit(what: str, arguments: tuple[object, ...]) -> None:
                place = str(arguments[0]) if arguments else ""
                # The home itself is no memory, nor is what a run says of its progress; a number is a descriptor, and
                # only lock files are truncated by one.
                inside = place.startswith(f"{world.home}/") and not f"{place}/".startswith(f"{world.home}/live/")
                ours = not place.isdigit() and (not place.startswith("/") or inside)
                writes = what == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
                if ours and (what in CHANGING or writes) and not place.endswith(LOCKS):
                    tape.append(f"! {what} {place}")

            event.listen(Engine, "commit", lambda _: tape.append("! commit"))
            sys.addaudithook(audit)  # for good, which is why this runs in a child
            rehearsal.deed.act(world)
            found = list(outside(tape))
            changes = sum(entry.startswith("! ") for entry in tape)
        report.write_text("\n".join([str(changes), *found]), encoding="utf-8")

    assert in_child(watched) == 0
    seen, *found = report.read_text(encoding="utf-8").splitlines()
    assert found == []
    assert int(seen) >= 1


def test_a_change_outside_a_step_would_be_seen() -> None:
    tape = ["a.before", "! write", "a.after", "! commit", "b.before", "! write"]
    assert list(outside(tape)) == ["! commit"]


LAYERS = frozenset(
    {
        "memory/workspace/files.py",  # the file layer itself
        "memory/workspace/beneath.py",
        "memory/workspace/locks.py",
        "memory/locks.py",
        "memory/state/dialect.py",  # builds a database beside its place, inside `state.create`
        "memory/state/meta.py",  # `state.generation_file`
        "memory/state/rebuild.py",  # builds a database beside a damaged one and changes their names
    }
)
FORBIDDEN = frozenset(
    {"rename", "replace", "unlink", "remove", "mkdir", "rmdir", "link", "truncate", "ftruncate", "rmtree"}
)
WRITERS = frozenset({"write_text", "write_bytes", "symlink_to", "hardlink_to"})
HOUSEKEEPING = frozenset({("memory/state/store.py", "mkdir"), ("memory/workspace/workspace.py", "mkdir")})
"""The home itself is made before anything can be in it."""


def direct_changes(path: Path) -> Iterator[str]:
    """Calls that change files past the layers: `os.*`, `shutil.*` and the writing methods of paths."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            if node.func.attr in WRITERS or (owner in {"os", "shutil"} and node.func.attr in FORBIDDEN):
                yield node.func.attr


@pytest.mark.parametrize("room", ["extract", "consolidate", "memory/state", "memory/workspace", "flows"])
def test_no_room_changes_files_past_the_layers(room: str) -> None:
    found = [
        (str(path.relative_to(ROOT)), name)
        for path in sorted((ROOT / room).rglob("*.py"))
        if str(path.relative_to(ROOT)) not in LAYERS and path.name != "testing.py"
        for name in direct_changes(path)
    ]
    assert [pair for pair in found if pair not in HOUSEKEEPING] == []
