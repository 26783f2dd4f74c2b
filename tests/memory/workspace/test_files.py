"""The file layer: old or new, never another; every refusal of the disk named with its cure."""

from __future__ import annotations

import ast
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import memory.workspace
from memory import failpoints
from memory.errors import PathRefused, StorageError, WorkspaceError
from memory.workspace import files as layer
from memory.workspace import workspace as door
from memory.workspace.files import Files
from memory.workspace.testing import FaultySyscalls, disk

AT, GONE, FOLDER, TREE, MOVE = door.NOTE, door.NOTE_GONE, door.FOLDER, door.EMPTY, door.RETIRE

CODES = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_a_written_file_is_read_back_and_belongs_to_its_owner_alone(files: Files, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.make_folder("a/b", FOLDER)
        files.write("a/b/f.md", "schön".encode(), AT)
    finally:
        os.umask(before)
    content = files.read("a/b/f.md", limit=100)
    assert content is not None
    assert content.data.decode() == "schön"
    assert stat.S_IMODE((tmp_path / "a/b/f.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o700


def test_a_mask_that_shuts_out_the_owner_does_not_shut_out_the_owner(files: Files, tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        files.write("f", b"x", AT)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


@pytest.mark.req("Z103")
@pytest.mark.fault("M82")
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_whichever_call_of_a_write_fails_the_file_is_old_or_new_and_no_temporary_file_stays(
    files: Files, tmp_path: Path, code: int
) -> None:
    counting = FaultySyscalls()
    with disk(counting):
        files.write("f", b"old", AT)
    steps = [(name, nth) for name, count in counting.calls.items() for nth in range(1, count + 1)]
    assert {name for name, _ in steps} == {"open_read", "open", "write", "fsync", "rename"}
    for name, nth in steps:
        files.write("f", b"old", AT)
        with disk(FaultySyscalls(name, nth, code)), pytest.raises(StorageError) as caught:
            files.write("f", b"new", AT)
        last_step = (name, nth) == ("fsync", 2)  # the folder's: the rename is done, its durability is not known
        assert (tmp_path / "f").read_bytes() == (b"new" if last_step else b"old"), (name, nth)
        assert [path.name for path in tmp_path.iterdir()] == ["f"], (name, nth)
        assert str(tmp_path / "f") in caught.value.message
        assert caught.value.hint
    files.write("f", b"new", AT)
    assert (tmp_path / "f").read_bytes() == b"new"


def test_each_kind_of_refusal_has_its_own_words_and_cure() -> None:
    said = {str(layer.explain(OSError(code, "?"), Path("/x"), "written")) for code in CODES}
    assert len(said) == len(CODES)
    assert "full" in str(layer.explain(OSError(errno.ENOSPC, "?"), Path("/x"), "written"))
    assert "read-only" in str(layer.explain(OSError(errno.EROFS, "?"), Path("/x"), "written"))
    assert "/x could not be written: Protocol error." in str(
        layer.explain(OSError(errno.EPROTO, "Protocol error"), Path("/x"), "written")
    )


def test_a_short_write_is_continued(files: Files, tmp_path: Path) -> None:
    class Stuttering(layer.Syscalls):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            return os.write(fd, data[:3])

    with disk(Stuttering()):
        files.write("f", b"0123456789", AT)
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_a_file_system_that_cannot_flush_folders_is_good_enough(files: Files, tmp_path: Path) -> None:
    with disk(FaultySyscalls("fsync", 2, errno.EINVAL)):
        files.write("f", b"new", AT)
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize("deed", ["read", "write", "remove", "list", "make", "move", "clear"])
def test_nothing_goes_through_a_linked_folder(files: Files, tmp_path: Path, deed: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs")
    (tmp_path / "link").symlink_to(outside)
    deeds: dict[str, Callable[[], object]] = {
        "read": lambda: files.read("link/f", limit=10),
        "write": lambda: files.write("link/f", b"ours", AT),
        "remove": lambda: files.remove("link/f", GONE),
        "list": lambda: files.entries("link"),
        "make": lambda: files.make_folder("link/g", FOLDER),
        "move": lambda: files.move("link/f", "f", MOVE),
        "clear": lambda: files.remove_tree("link/f", TREE),
    }
    with pytest.raises(PathRefused, match="link"):
        deeds[deed]()
    assert [path.name for path in outside.iterdir()] == ["f"]
    assert (outside / "f").read_text() == "theirs"


def test_an_anchor_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(PathRefused):
        Files(tmp_path / "link").write("f", b"x", AT)


def test_writing_over_a_link_replaces_the_link_and_spares_its_target(files: Files, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "f").symlink_to(tmp_path / "target")
    files.write("f", b"ours", AT)
    assert (tmp_path / "target").read_text() == "theirs"
    assert not (tmp_path / "f").is_symlink()


def test_a_tree_is_removed_without_following_the_links_in_it(files: Files, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/f").write_text("theirs")
    (tmp_path / "t/u").mkdir(parents=True)
    (tmp_path / "t/link").symlink_to(tmp_path / "kept")
    (tmp_path / "t/u/f").write_text("ours")
    assert files.remove_tree("t", TREE)
    assert not files.remove_tree("t", TREE)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept/f").read_text() == "theirs"


@pytest.mark.parametrize("kind", ["link", "hard link", "folder", "fifo", "socket"])
def test_only_a_plain_file_of_its_own_is_read(files: Files, tmp_path: Path, kind: str) -> None:
    (tmp_path / "other").write_text("theirs")
    path = tmp_path / "f"
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "other"),
        "hard link": lambda: path.hardlink_to(tmp_path / "other"),
        "folder": path.mkdir,
        "fifo": lambda: os.mkfifo(path),
        "socket": lambda: os.mknod(path, stat.S_IFSOCK | 0o600),
    }
    make[kind]()
    with pytest.raises(PathRefused):
        files.read("f", limit=100)


def test_a_file_above_the_limit_is_refused_and_one_at_it_is_read(files: Files) -> None:
    files.write("f", b"x" * 100, AT)
    assert files.read("f", limit=100) is not None
    with pytest.raises(WorkspaceError, match="larger than the 99 bytes"):
        files.read("f", limit=99)


@pytest.mark.fault("M82")
def test_temporary_names_never_repeat() -> None:
    assert len({layer.temporary_name() for _ in range(1_000)}) == 1_000


def test_an_existing_folder_is_narrowed_to_its_owner(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o755)
    files.make_folder("a", FOLDER)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700


def test_every_durable_step_has_a_failpoint_before_and_after_it(files: Files) -> None:
    with failpoints.recorded() as seen:
        files.write("f", b"x", AT)
        files.remove("f", GONE)
    assert seen == [
        f"{at.name}.{step}.{side}" for at in (AT, GONE) for step in at.steps for side in ("before", "after")
    ]
    assert set(seen) <= failpoints.known()
    with pytest.raises(AssertionError):
        AT.step("unheard-of")


def test_no_module_of_the_workspace_changes_the_disk_but_through_the_layer() -> None:
    """A durable step elsewhere would have no failpoint and could not be made to fail."""
    changing = {"rename", "replace", "unlink", "rmdir", "remove", "fsync", "mkdir", "makedirs", "mknod", "link"}
    changing |= {"symlink", "truncate", "rmtree", "copytree", "move"}
    folder = Path(memory.workspace.__path__[0])
    for path in folder.glob("*.py"):
        if path.name in {"files.py", "testing.py"}:
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in changing:
                assert node.value.id not in {"os", "shutil", "Path"}, f"{path.name}:{node.lineno}"


@pytest.mark.fault("M10")
def test_the_workspace_starts_no_process() -> None:
    folder = Path(memory.workspace.__path__[0])
    for path in folder.glob("*.py"):
        names = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert not names & {"subprocess", "multiprocessing", "pty"}, path.name
