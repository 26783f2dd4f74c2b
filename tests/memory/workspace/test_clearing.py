"""Restore and clear, and the writers that come too late."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

import pytest

from memory.errors import FencedError, InputsChangedError, StorageError
from memory.workspace import Workspace
from memory.workspace.files import Files
from memory.workspace.locks import locked
from tests.memory.workspace.trees import ONE, TWO, Filled, snapshot


@pytest.mark.req("Z117")
@pytest.mark.fault("M83")
def test_restore_puts_back_summary_and_inputs_as_recorded_and_deletes_nothing(filled: Filled) -> None:
    workspace, manifest, texts = filled
    old = workspace.install_summary("v1\nold\n", None)
    workspace.save_version(1, "v1\nold\n", manifest, texts)
    workspace.write_rollout_summary(ONE, "# rewritten\n")
    workspace.remove_rollout_summary(TWO)
    workspace.write_note("later", "kept")
    new = workspace.install_summary("v1\nnew\n", old)
    restored = workspace.restore(workspace.read_version(1), new)
    assert restored.written == tuple(sorted(texts))
    assert restored.others == ("extensions/ad_hoc/notes/later.md",)
    assert workspace.summary() == "v1\nold\n"
    assert {path: (workspace.root / path).read_text() for path in texts} == texts
    assert "kept" in (workspace.root / "extensions/ad_hoc/notes/later.md").read_text()
    assert workspace.restore(workspace.read_version(1), new).written == restored.written


@pytest.mark.fault("M48", "X40")
def test_restore_does_not_bring_back_what_was_forgotten(filled: Filled) -> None:
    workspace, manifest, texts = filled
    workspace.save_version(1, "v1\nold\n", manifest, texts)
    workspace.remove_rollout_summary(ONE)
    restored = workspace.restore(workspace.read_version(1), None, without={"11111111"})
    assert restored.skipped == (f"rollout_summaries/{ONE}.md",)
    assert set(workspace.rollout_summaries()) == {TWO}


@pytest.mark.req("Z111")
@pytest.mark.fault("M48")
def test_clearing_a_generation_leaves_no_byte_of_it_and_spares_the_others(filled: Filled) -> None:
    workspace, manifest, texts = filled
    other = Workspace.open(workspace.home, "g2")
    other.install_summary("v1\nother\n", None)
    workspace.install_summary("v1\nCANARY\n", None)
    workspace.save_version(1, "v1\nCANARY\n", manifest, texts)
    workspace.reset_baseline(manifest, texts, "v1\nCANARY\n")
    assert Workspace.remove_generation(workspace.home, "g1")
    assert not Workspace.remove_generation(workspace.home, "g1")
    assert [p.name for p in (workspace.home / "generations").iterdir()] == ["g2"]
    assert other.summary() == "v1\nother\n"
    assert not any(b"CANARY" in data for data in snapshot(workspace.home).values())


@pytest.mark.req("Z118")
def test_a_writer_of_a_cleared_generation_is_fenced_and_brings_nothing_back(filled: Filled) -> None:
    workspace, manifest, texts = filled
    staging = workspace.stage("run-1", manifest, texts, "")
    Workspace.remove_generation(workspace.home, "g1")
    for deed in (
        lambda: workspace.install_summary("v1\nlate\n", None),
        lambda: workspace.write_rollout_summary(ONE, "late"),
        lambda: workspace.write_note("late", "late"),
        lambda: workspace.save_version(1, "v1\n", manifest, texts),
        lambda: workspace.reset_baseline(manifest, texts, "v1\n"),
        lambda: workspace.stage("run-2", manifest, texts, ""),
        workspace.heal,
    ):
        with pytest.raises(FencedError, match="cleared"):
            deed()
    with pytest.raises(InputsChangedError):
        staging.verify_inputs(manifest)
    assert staging.discard()
    assert list((workspace.home / "generations").iterdir()) == []


@pytest.mark.req("Z118")
def test_a_writer_that_waits_while_the_generation_is_cleared_and_made_anew_is_fenced(workspace: Workspace) -> None:
    files = Files(workspace.home, "generations/g1")
    outcome: list[str] = []

    def write() -> None:
        try:
            workspace.install_summary("v1\nlate\n", None)
            outcome.append("written")
        except FencedError:
            outcome.append("fenced")

    with locked(files, ".lock"):
        waiting = threading.Thread(target=write)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
        (workspace.home / "generations/g1").rename(workspace.home / "generations/gone")
        again = Workspace(workspace.home, "g1")
        again._create()
    waiting.join()
    assert outcome == ["fenced"]
    assert again.summary() is None


def test_a_lock_held_too_long_names_its_holder(workspace: Workspace) -> None:
    files = Files(workspace.home, "generations/g1")
    with (
        locked(files, ".lock"),
        pytest.raises(StorageError, match=f"held by process {os.getpid()}"),
        locked(files, ".lock", wait_seconds=0.02),
    ):
        pass


def test_eight_processes_writing_at_once_lose_nothing(
    workspace: Workspace, in_children: Callable[[Sequence[Callable[[], None]]], list[int]]
) -> None:
    def writer(worker: int) -> Callable[[], None]:
        def write() -> None:
            for number in range(12):
                workspace.write_rollout_summary(f"{worker:08x}{number:08x}", f"{worker} {number}\n")
                workspace.write_note("shared", f"{worker} {number}", replace=True)

        return write

    assert in_children([writer(worker) for worker in range(8)]) == [0] * 8
    assert len(workspace.rollout_summaries()) == 96
    assert [note.name for note in workspace.notes().notes] == ["shared"]
    assert workspace.heal().removed == []
