"""Notes: what is read, what is refused and said so, and when a note counts as saved."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import failpoints
from memory.errors import PathRefused, StorageError, UsageError, WorkspaceError
from memory.model import CITATION, MAX_NOTES_BYTES
from memory.workspace import Workspace
from memory.workspace.notes import is_credential_name, parse_note, print_note
from memory.workspace.testing import FaultySyscalls, disk


@pytest.fixture
def folder(workspace: Workspace) -> Path:
    return workspace.root / "extensions/ad_hoc/notes"


@pytest.mark.req("Z056")
def test_a_note_written_is_a_note_read(workspace: Workspace) -> None:
    created = datetime(2026, 11, 28, 9, 14, tzinfo=UTC)
    saved = workspace.write_note("vitest", "Use vitest.\n", project="acme/shop", pinned=True, created=created)
    (read,) = workspace.notes().notes
    assert read == saved
    assert (read.citation, read.path) == ("note:vitest", "extensions/ad_hoc/notes/vitest.md")
    assert (read.project, read.is_global, read.pinned, read.created) == ("acme/shop", False, True, created)
    assert read.body == "Use vitest.\n"
    assert read.text == (workspace.root / read.path).read_text()
    assert CITATION.fullmatch(f"[{read.citation}]")


def test_a_file_a_person_dropped_is_a_note_for_every_project(workspace: Workspace, folder: Path) -> None:
    (folder / "tabs.md").write_text("以后统一用 tab\n")
    (note,) = workspace.notes().notes
    assert (note.body, note.project, note.is_global, note.pinned) == ("以后统一用 tab\n", None, True, False)


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("project: p", ("p", False, False)),
        ("project: p\nscope: global", ("p", True, False)),
        ("scope: project", (None, False, False)),
        ("PINNED: yes", (None, True, True)),
        ("pinned: perhaps", (None, True, False)),
        ("scope: world\nproject: p", ("p", False, False)),
        ("", (None, True, False)),
    ],
)
def test_front_matter_says_project_scope_and_pin(front: str, expected: tuple[str | None, bool, bool]) -> None:
    for newline in ("\n", "\r\n"):
        parsed = parse_note(f"---\n{front}\n---\nThe text\n".replace("\n", newline))
        assert (parsed.project, parsed.is_global, parsed.pinned) == expected
        assert parsed.body == "The text\n"


def test_front_matter_that_cannot_be_used_is_said_and_costs_nothing(workspace: Workspace, folder: Path) -> None:
    (folder / "n.md").write_text("---\nscope: world\npinned: perhaps\ncreated: once\ncolour: red\n???\n---\nText\n")
    reading = workspace.notes()
    assert [note.body for note in reading.notes] == ["Text\n"]
    assert len(reading.diagnostics) == 5
    assert all("n.md" in line for line in reading.diagnostics)


def test_a_block_that_is_not_closed_is_text() -> None:
    assert parse_note("---\nproject: p\nText\n").body == "---\nproject: p\nText\n"
    assert parse_note("\ufeffText\n").body == "Text\n"


@given(
    text=st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n"), min_size=1, max_size=60),
    project=st.none() | st.just("acme/shop"),
    is_global=st.booleans(),
    pinned=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_a_printed_note_parses_to_what_was_printed(
    text: str, project: str | None, is_global: bool, pinned: bool
) -> None:
    parsed = parse_note(print_note(text, project=project, is_global=is_global, pinned=pinned, created=None))
    assert (parsed.project, parsed.pinned) == (project, pinned)
    assert parsed.is_global == (is_global or project is None)
    assert parsed.body.strip("\n").removeprefix("\ufeff") == text.strip("\n").removeprefix("\ufeff")


@pytest.mark.req("Z057")
def test_beyond_512000_bytes_whole_notes_are_left_out_and_named(workspace: Workspace, folder: Path) -> None:
    for number in range(6):
        path = folder / f"n{number}.md"
        path.write_text("x" * 100_000)
        os.utime(path, (number, number))
    (folder / "old-but-pinned.md").write_text("---\npinned: true\n---\n" + "y" * 100_000)
    os.utime(folder / "old-but-pinned.md", (0, 0))
    reading = workspace.notes()
    assert [note.name for note in reading.notes] == ["old-but-pinned", "n5", "n4", "n3", "n2"]
    assert sum(len(note.text.encode()) for note in reading.notes) <= MAX_NOTES_BYTES
    assert [(left.citation, left.reason) for left in reading.left_out] == [
        ("note:n0", "notes_limit"),
        ("note:n1", "notes_limit"),
    ]
    assert sum("512,000" in line for line in reading.diagnostics) == 2


@pytest.mark.req("Z057")
def test_exactly_512000_bytes_are_read(workspace: Workspace, folder: Path) -> None:
    (folder / "a.md").write_text("é" * 256_000)
    assert [note.name for note in workspace.notes().notes] == ["a"]
    (folder / "b.md").write_text("z")
    assert [note.name for note in workspace.notes().notes] == ["b"]


@pytest.mark.req("Z058")
@pytest.mark.parametrize("kind", ["file", "folder", "dangling", "loop"])
def test_a_symlinked_note_is_refused_and_its_target_not_read(
    workspace: Workspace, folder: Path, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "outside"
    if kind == "folder":
        target.mkdir()
        (target / "s.md").write_text("SECRET")
    elif kind == "file":
        target.write_text("SECRET")
    elif kind == "loop":
        target = folder / "linked.md"
    (folder / "linked.md").symlink_to(target)
    reading = workspace.notes()
    assert reading.notes == []
    assert [left.reason for left in reading.left_out] == ["link"]
    assert "symbolic link" in reading.diagnostics[0]
    assert "SECRET" not in "".join(reading.diagnostics)


@pytest.mark.req("Z058")
def test_a_symlinked_notes_folder_stops_the_reading(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    """Reading it as empty would drop from the summary what the notes said."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/n.md").write_text("SECRET")
    folder.rmdir()
    folder.symlink_to(tmp_path / "outside")
    with pytest.raises(PathRefused):
        workspace.notes()


def test_a_hard_linked_note_is_refused(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("SECRET")
    (folder / "n.md").hardlink_to(tmp_path / "theirs")
    reading = workspace.notes()
    assert (reading.notes, [left.reason for left in reading.left_out]) == ([], ["hard_link"])


@pytest.mark.req("Z059")
@pytest.mark.parametrize(
    "name",
    [".env", ".env.local", "prod.env", "id_rsa", "id_rsa.md", "id_ed25519", "credentials", "credentials.json", ".netrc",
     "server.pem", "server.pem.md", "tls.key", "store.p12", "ID_RSA", "Credentials.JSON", "aws-credentials.csv",
     "service-account-prod.json", ".npmrc", "secrets.yaml", "terraform.tfstate"],
)  # fmt: skip
def test_a_credential_file_is_never_read(workspace: Workspace, folder: Path, name: str) -> None:
    (folder / name).write_text("TOKEN=SECRET")
    assert is_credential_name(name)
    reading = workspace.notes()
    assert (reading.notes, [left.reason for left in reading.left_out]) == ([], ["credential_name"])
    assert "credential" in reading.diagnostics[0]
    assert "SECRET" not in "".join(reading.diagnostics)


@pytest.mark.parametrize("name", ["credentials.md", "environment.md", "key-decisions.md", "idea.md", "id_card.md"])
def test_a_note_about_such_things_is_no_credential_file(name: str) -> None:
    assert not is_credential_name(name)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("n.md", b"good\xff\n", "not_text"),
        ("n.md", b"good\0\n", "not_text"),
        ("n.md", b" \n\n", "empty"),
        ("n.md", b"---\npinned: true\n---\n\n", "empty"),
        ("n.txt", b"text", "not_a_note"),
        (".hidden.md", b"text", "not_a_note"),
        ("a b.md", b"text", "not_a_note"),
        ("日记.md", b"text", "not_a_note"),
        ("x" * 65 + ".md", b"text", "not_a_note"),
    ],
)
def test_what_is_no_note_is_left_out_with_a_reason(
    workspace: Workspace, folder: Path, name: str, data: bytes, reason: str
) -> None:
    (folder / name).write_bytes(data)
    (folder / "good.md").write_text("good")
    reading = workspace.notes()
    assert [note.name for note in reading.notes] == ["good"]
    assert [(left.path.rpartition("/")[2], left.reason) for left in reading.left_out] == [(name, reason)]
    assert len(reading.diagnostics) == 1


def test_special_files_and_folders_are_left_out_without_waiting(workspace: Workspace, folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")
    (folder / "sub.md").mkdir()
    assert [left.reason for left in workspace.notes().left_out] == ["not_plain", "not_plain"]


def test_a_note_the_disk_will_not_give_stops_the_reading(workspace: Workspace) -> None:
    workspace.write_note("n", "text")
    with disk(FaultySyscalls("read", 1, errno.EIO)), pytest.raises(StorageError, match=r"n\.md"):
        workspace.notes()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", ".x", "x.", "a b", "é", "x" * 65, "a\n", "a\0"])
def test_a_note_cannot_have_a_name_that_leads_elsewhere(workspace: Workspace, name: str) -> None:
    for deed in (lambda: workspace.write_note(name, "x"), lambda: workspace.remove_note(name)):
        with pytest.raises(UsageError):
            deed()
    assert list((workspace.root / "extensions/ad_hoc/notes").iterdir()) == []


@pytest.mark.parametrize(("name", "text"), [("id_rsa", "x"), ("n", " \n"), ("n", "a\0b"), ("n", "a\x1bb")])
def test_a_note_that_would_never_be_read_is_not_written(workspace: Workspace, name: str, text: str) -> None:
    with pytest.raises(WorkspaceError):
        workspace.write_note(name, text)
    assert list((workspace.root / "extensions/ad_hoc/notes").iterdir()) == []


def test_a_note_is_not_replaced_unless_asked(workspace: Workspace) -> None:
    workspace.write_note("n", "one")
    with pytest.raises(WorkspaceError, match="already"):
        workspace.write_note("n", "two")
    workspace.write_note("n", "two", replace=True)
    assert [note.body for note in workspace.notes().notes] == ["two\n"]
    assert workspace.remove_note("n")
    assert not workspace.remove_note("n")


@pytest.mark.fault("O41")
def test_a_note_that_would_not_be_read_for_the_limit_is_not_called_saved(workspace: Workspace, folder: Path) -> None:
    (folder / "big.md").write_text("x" * 511_990)
    with pytest.raises(WorkspaceError, match="512,000"):
        workspace.write_note("small", "twelve bytes")
    workspace.write_note("big", "now there is room", replace=True)
    workspace.write_note("small", "twelve bytes")


@pytest.mark.fault("X49")
@pytest.mark.parametrize("step", ["create.before", "write.after", "fsync.before", "rename.before"])
def test_a_note_is_not_called_saved_before_it_is_on_disk_for_good(workspace: Workspace, step: str) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    failpoints.arm(f"workspace.note.{step}", stop)
    with pytest.raises(Stop):
        workspace.write_note("n", "text")
    assert workspace.notes().notes == []
    assert list((workspace.root / "extensions/ad_hoc/notes").iterdir()) == []
