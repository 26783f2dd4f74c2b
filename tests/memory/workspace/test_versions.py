"""Versions: whole or not at all, checked byte for byte, the last few kept."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.errors import StorageError, UnknownReference, WorkspaceError
from memory.model import LeftOut
from memory.workspace.testing import FaultySyscalls, disk
from memory.workspace.versions import manifest_data, manifest_from_data
from tests.memory.workspace.trees import ONE, Filled

SUMMARY = "v1\n\n## User Profile\n- 用 pnpm [22222222]\n"


@pytest.fixture
def rich(filled: Filled) -> Filled:
    """A manifest that uses every field."""
    workspace, manifest, texts = filled
    first = replace(
        manifest.inputs[0], pinned=True, projects_global=True, time=datetime(2026, 11, 28, 9, 14, tzinfo=UTC)
    )
    return (
        workspace,
        replace(
            manifest,
            inputs=(first, *manifest.inputs[1:]),
            left_out=(LeftOut("33333333", "rollout_summaries/3333333333333333.md", "unused"),),
            removed=("44444444",),
        ),
        texts,
    )


@pytest.mark.req("Z117")
def test_a_version_is_read_back_as_it_was_saved(rich: Filled) -> None:
    workspace, manifest, texts = rich
    workspace.save_version(7, SUMMARY, manifest, texts)
    version = workspace.read_version(7)
    assert (version.number, version.summary, version.manifest, version.texts) == (7, SUMMARY, manifest, texts)
    assert manifest_from_data(manifest_data(manifest)) == manifest
    root = workspace.root.parent / "versions"
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_dir()} == {0o700}


def test_only_the_last_versions_are_kept(filled: Filled) -> None:
    workspace, manifest, texts = filled
    for number in range(1, 14):
        workspace.save_version(number, f"{SUMMARY}{number}", manifest, texts)
    assert workspace.versions() == list(range(4, 14))
    workspace.save_version(14, SUMMARY, manifest, texts, keep=2)
    assert workspace.versions() == [13, 14]
    assert sorted(path.name for path in (workspace.root.parent / "versions").iterdir()) == ["13", "14"]


def test_saving_a_version_again_is_fine_and_another_under_its_number_is_not(filled: Filled) -> None:
    workspace, manifest, texts = filled
    workspace.save_version(1, SUMMARY, manifest, texts)
    workspace.save_version(1, SUMMARY, manifest, texts)
    with pytest.raises(WorkspaceError, match="exists already"):
        workspace.save_version(1, SUMMARY + "more", manifest, texts)
    with pytest.raises(WorkspaceError, match="no version number"):
        workspace.save_version(0, SUMMARY, manifest, texts)


def test_a_version_that_is_not_kept_is_said_to_be_so(filled: Filled) -> None:
    workspace, manifest, texts = filled
    with pytest.raises(UnknownReference, match="Version 3 is not kept"):
        workspace.read_version(3)
    workspace.save_version(3, SUMMARY, manifest, texts)
    assert workspace.drop_version(3)
    assert not workspace.drop_version(3)
    assert workspace.versions() == []


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit of the summary": lambda root: _flip(root / "memory_summary.md"),
    "a bit of an input": lambda root: _flip(root / f"inputs/rollout_summaries/{ONE}.md"),
    "a bit of the manifest": lambda root: _flip(root / "manifest.json"),
    "a project in the manifest": lambda root: _replace(root / "manifest.json", "acme/shop", "acme/shoq"),
    "a flag in the manifest": lambda root: _replace(root / "manifest.json", '"pinned": false', '"pinned": true'),
    "no manifest": lambda root: (root / "manifest.json").unlink(),
    "an empty manifest": lambda root: (root / "manifest.json").write_text(""),
    "a list as manifest": lambda root: (root / "manifest.json").write_text("[]"),
    "no summary": lambda root: (root / "memory_summary.md").unlink(),
    "no input": lambda root: (root / f"inputs/rollout_summaries/{ONE}.md").unlink(),
    "a longer summary": lambda root: (root / "memory_summary.md").write_text(SUMMARY + "more"),
    "the number of another": lambda root: root.rename(root.with_name("2")),
}


@pytest.mark.req("Z117")
@pytest.mark.fault("M83")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_version_is_never_restored(filled: Filled, damage: str) -> None:
    workspace, manifest, texts = filled
    workspace.save_version(1, SUMMARY, manifest, texts)
    DAMAGES[damage](workspace.root.parent / "versions/1")
    with pytest.raises(WorkspaceError, match="damaged"):
        workspace.read_version(workspace.versions()[0])


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
def test_whichever_call_fails_the_version_is_whole_or_absent(filled: Filled, code: int) -> None:
    workspace, manifest, texts = filled
    counting = FaultySyscalls()
    with disk(counting):
        workspace.save_version(1, SUMMARY, manifest, texts)
    workspace.drop_version(1)
    for name in ("open", "write", "rename", "mkdir", "fsync"):
        assert counting.calls[name]
        for nth in range(1, counting.calls[name] + 1):
            with disk(FaultySyscalls(name, nth, code)), pytest.raises(StorageError):
                workspace.save_version(1, SUMMARY, manifest, texts)
            if workspace.versions():  # only the last flush, after the rename, failed
                assert (name, nth) == ("fsync", counting.calls["fsync"])
                assert workspace.read_version(1).texts == texts
                workspace.drop_version(1)
            assert list((workspace.root.parent / "versions").iterdir()) == []


def test_an_old_version_that_cannot_be_deleted_does_not_hold_up_the_new_one(filled: Filled) -> None:
    workspace, manifest, texts = filled
    workspace.save_version(1, SUMMARY, manifest, texts, keep=1)
    with disk(FaultySyscalls("unlink", 1, errno.EACCES, times=100)):
        workspace.save_version(2, SUMMARY, manifest, texts, keep=1)
    assert workspace.versions() == [2]
    assert len(workspace.heal().removed) == 1
    assert [path.name for path in (workspace.root.parent / "versions").iterdir()] == ["2"]
