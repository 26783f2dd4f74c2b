"""The workspace as a whole: its layout, its readers and writers."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from memory.errors import PathRefused, StorageError, UsageError, WorkspaceError
from memory.workspace import Workspace
from memory.workspace.layout import sha256_text
from memory.workspace.testing import FaultySyscalls, disk
from tests.memory.workspace.trees import ONE, TWO, Filled, snapshot

# -- layout -------------------------------------------------------------------------------------------


@pytest.mark.req("Z044", "Z045", "Z060")
def test_a_new_workspace_has_the_places_of_the_long_memory_and_no_legacy_ones(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home", "g1")
    workspace.write_instructions(extract="How to extract", consolidate="How to consolidate")
    assert workspace.root == tmp_path / "home/generations/g1/memories_v2"
    found = sorted(str(path.relative_to(workspace.root)) for path in workspace.root.rglob("*"))
    assert found == [
        "extensions",
        "extensions/ad_hoc",
        "extensions/ad_hoc/instructions.md",
        "extensions/ad_hoc/notes",
        "instructions",
        "instructions/consolidate.md",
        "instructions/extract.md",
        "rollout_summaries",
        "workspace",
    ]
    assert (workspace.root / "instructions/extract.md").read_text() == "How to extract"
    assert workspace.summary() is None
    assert workspace.summary_sha() is None


def test_everything_belongs_to_its_owner_alone_whatever_the_mask(filled: Filled) -> None:
    workspace, manifest, texts = filled
    before = os.umask(0)
    try:
        workspace.install_summary("v1\n", None)
        workspace.save_version(1, "v1\n", manifest, texts)
        workspace.reset_baseline(manifest, texts, "v1\n")
        workspace.write_instructions(extract="x", consolidate="y")
        paths = list(workspace.home.joinpath("generations").rglob("*"))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_file()} == {0o600}
    assert stat.S_IMODE(workspace.home.stat().st_mode) == 0o700


def test_eight_processes_opening_the_same_new_home_at_once_all_succeed(
    tmp_path: Path, in_children: Callable[[Sequence[Callable[[], None]]], list[int]]
) -> None:
    def start() -> None:
        Workspace.open(tmp_path / "home", "g1").heal()

    assert in_children([start] * 8) == [0] * 8


def test_an_existing_home_keeps_its_mode(tmp_path: Path) -> None:
    """It may be a folder that others need; what lies in it is closed anyway."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    Workspace.open(tmp_path / "home", "g1")
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "home/generations").stat().st_mode) == 0o700


@pytest.mark.req("Z044")
def test_another_generation_is_not_read(filled: Filled) -> None:
    workspace, *_ = filled
    workspace.install_summary("v1\n", None)
    other = Workspace.open(workspace.home, "g2")
    assert other.summary() is None
    assert other.rollout_summaries() == {}
    assert other.notes().notes == []


@pytest.mark.req("Z060")
def test_legacy_memories_that_somebody_plants_are_not_read(filled: Filled) -> None:
    workspace, *_ = filled
    (workspace.root / "MEMORY.md").write_text("SECRET")
    (workspace.root / "raw_memories").mkdir()
    (workspace.root / "raw_memories/x.md").write_text("SECRET")
    (workspace.root / "rollout_summaries/MEMORY.md").write_text("SECRET")
    assert set(workspace.rollout_summaries()) == {ONE, TWO}
    assert "SECRET" not in str(workspace.notes())


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("at", ["", "generations", "generations/g1", "generations/g1/memories_v2"])
def test_a_home_or_workspace_that_is_a_link_is_refused(tmp_path: Path, at: str, create: bool) -> None:
    (tmp_path / "elsewhere/generations/g1/memories_v2").mkdir(parents=True)
    link = tmp_path / "home" / at if at else tmp_path / "home"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere" / at)
    before = snapshot(tmp_path / "elsewhere")
    with pytest.raises(PathRefused):
        Workspace.open(tmp_path / "home", "g1", create=create)
    assert snapshot(tmp_path / "elsewhere") == before


def test_a_link_above_the_home_is_the_users_own_affair(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Workspace.open(tmp_path / "link/home", "g1").install_summary("v1\n", None)
    assert (tmp_path / "real/home/generations/g1/memories_v2/memory_summary.md").read_text() == "v1\n"


@pytest.mark.fault("O32")
def test_opening_to_read_writes_nothing(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home", "g1", create=False)
    assert (workspace.summary(), workspace.rollout_summaries(), workspace.versions()) == (None, {}, [])
    assert workspace.notes().notes == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("generation", ["", ".", "..", "a/b", ".x", "x\0", "x" * 65])
def test_a_generation_cannot_have_a_name_that_leads_elsewhere(tmp_path: Path, generation: str) -> None:
    with pytest.raises(UsageError):
        Workspace.open(tmp_path, generation)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.fault("X18")
def test_a_disk_that_cannot_be_written_is_found_by_the_probe_and_named(workspace: Workspace, code: int) -> None:
    workspace.probe()
    before = sorted(workspace.home.rglob("*"))
    with disk(FaultySyscalls("open", 1, code)), pytest.raises(StorageError) as caught:
        workspace.probe()
    assert str(workspace.root) in caught.value.message
    assert caught.value.hint
    assert sorted(workspace.home.rglob("*")) == before


# -- inputs -------------------------------------------------------------------------------------------


@pytest.mark.req("Z054")
def test_a_rollout_has_one_file_whose_name_only_its_source_decides(workspace: Workspace) -> None:
    first = workspace.write_rollout_summary(ONE, "# first\n")
    second = workspace.write_rollout_summary(ONE, "# second, another slug\n")
    workspace.write_rollout_summary(TWO, "# two\n")
    assert first != second == sha256_text("# second, another slug\n")
    assert workspace.rollout_summaries() == {ONE: "# second, another slug\n", TWO: "# two\n"}
    assert sorted(p.name for p in (workspace.root / "rollout_summaries").iterdir()) == [f"{ONE}.md", f"{TWO}.md"]
    assert workspace.remove_rollout_summary(ONE)
    assert not workspace.remove_rollout_summary(ONE)


@pytest.mark.req("Z055")
def test_a_rollout_summary_of_9000_bytes_is_stored_and_one_of_9001_is_not(workspace: Workspace) -> None:
    workspace.write_rollout_summary(ONE, "记" * 3_000)
    with pytest.raises(WorkspaceError, match="9,001 bytes"):
        workspace.write_rollout_summary(ONE, "记" * 3_000 + "x")
    assert workspace.rollout_summaries()[ONE] == "记" * 3_000


@pytest.mark.parametrize("source_id", ["", "1" * 15, "1" * 17, "A" * 16, "../../../../etc/x", "1" * 15 + "/"])
def test_a_source_id_cannot_lead_elsewhere(workspace: Workspace, source_id: str) -> None:
    with pytest.raises(UsageError):
        workspace.write_rollout_summary(source_id, "x")
    with pytest.raises(UsageError):
        workspace.remove_rollout_summary(source_id)


@pytest.mark.req("Z058")
@pytest.mark.parametrize("kind", ["link", "hard link", "not UTF-8", "too large"])
def test_a_damaged_rollout_summary_is_an_error_and_never_a_missing_one(
    filled: Filled, tmp_path: Path, kind: str
) -> None:
    workspace, *_ = filled
    path = workspace.root / f"rollout_summaries/{ONE}.md"
    (tmp_path / "other").write_text("SECRET")
    path.unlink()
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "other"),
        "hard link": lambda: path.hardlink_to(tmp_path / "other"),
        "not UTF-8": lambda: path.write_bytes(b"\xff"),
        "too large": lambda: path.write_text("x" * 9_001),
    }
    make[kind]()
    with pytest.raises(WorkspaceError, match=f"{ONE}.md"):
        workspace.rollout_summaries()


def test_instructions_are_written_only_when_they_change(workspace: Workspace) -> None:
    workspace.write_instructions(extract="a", consolidate="b")
    path = workspace.root / "instructions/extract.md"
    before = path.stat().st_ino
    workspace.write_instructions(extract="a", consolidate="c")
    assert path.stat().st_ino == before
    assert (workspace.root / "instructions/consolidate.md").read_text() == "c"
