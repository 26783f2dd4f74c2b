"""The controlled folder of a run: a faithful copy, watched on both sides, gone afterwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memory.errors import InputsChangedError, UsageError, WorkspaceError
from memory.model import DIFF_NAME, SUMMARY_NAME
from memory.workspace import Workspace
from tests.memory.workspace.trees import ONE, THREE, Filled

PATH = f"rollout_summaries/{ONE}.md"


@pytest.mark.req("Z109")
def test_inputs_are_copied_read_only_beside_the_summary_and_the_diff_and_go_with_the_run(filled: Filled) -> None:
    workspace, manifest, texts = filled
    workspace.install_summary("v1\nold\n", None)
    with workspace.stage("run-1", manifest, texts, "the diff") as staging:
        assert staging.root == workspace.root / "workspace/run-1"
        found = {str(p.relative_to(staging.root)): p for p in staging.root.rglob("*") if p.is_file()}
        assert {name: p.read_text() for name, p in found.items()} == {
            **texts,
            SUMMARY_NAME: "v1\nold\n",
            DIFF_NAME: "the diff",
        }
        modes = {name: stat.S_IMODE(p.stat().st_mode) for name, p in found.items()}
        assert modes.pop(SUMMARY_NAME) == 0o600
        assert set(modes.values()) == {0o400}
        folders = [p for p in staging.root.rglob("*") if p.is_dir()]
        assert {stat.S_IMODE(p.stat().st_mode) for p in folders} == {0o700}
    assert list((workspace.root / "workspace").iterdir()) == []
    assert not list(workspace.home.rglob(DIFF_NAME))


@pytest.mark.req("Z099")
def test_untouched_inputs_pass_and_the_agents_own_work_is_no_change(filled: Filled) -> None:
    workspace, manifest, texts = filled
    with workspace.stage("run-1", manifest, texts, "") as staging:
        staging.files.write(SUMMARY_NAME, "v1\nnew\n")
        staging.verify_inputs(manifest)


def _rename(workspace: Workspace, _: Path) -> None:
    (workspace.root / PATH).rename(workspace.root / f"rollout_summaries/{THREE}.md")


def _touch_same_size(workspace: Workspace, _: Path) -> None:
    path = workspace.root / PATH
    before = path.stat()
    path.write_text(path.read_text().replace("vitest", "jjjest"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _link(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes((workspace.root / PATH).read_bytes())
    (workspace.root / PATH).unlink()
    (workspace.root / PATH).symlink_to(tmp_path / "copy")


CHANGES: dict[str, Callable[[Workspace, Path], object]] = {
    "mutated": lambda w, _: w.write_rollout_summary(ONE, "# another\n"),
    "mutated, same size and time": _touch_same_size,
    "added": lambda w, _: w.write_rollout_summary(THREE, "# three\n"),
    "removed": lambda w, _: w.remove_rollout_summary(ONE),
    "renamed": _rename,
    "replaced by a link to the same bytes": _link,
    "a note added": lambda w, _: w.write_note("n", "x"),
    "a note removed": lambda w, _: w.remove_note("house-rules"),
    "a note changed": lambda w, _: w.write_note("house-rules", "Force-push freely.", replace=True),
    "a foreign file added": lambda w, _: (w.root / "rollout_summaries/x.txt").touch(),
}


@pytest.mark.req("Z099")
@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_the_inputs_during_the_run_is_found_and_named(
    filled: Filled, tmp_path: Path, change: str
) -> None:
    workspace, manifest, texts = filled
    with workspace.stage("run-1", manifest, texts, "") as staging:
        CHANGES[change](workspace, tmp_path)
        with pytest.raises(InputsChangedError, match=r"\.(md|txt)") as caught:
            staging.verify_inputs(manifest)
    assert "vitest" not in str(caught.value)


@pytest.mark.req("Z099")
@pytest.mark.parametrize("change", ["mutated", "added", "removed", "diff mutated", "linked"])
def test_any_change_of_the_staged_copies_is_found(filled: Filled, tmp_path: Path, change: str) -> None:
    workspace, manifest, texts = filled
    with workspace.stage("run-1", manifest, texts, "the diff") as staging:
        path = staging.root / (DIFF_NAME if change == "diff mutated" else PATH)
        if change == "added":
            (staging.root / "extra.md").touch()
        else:
            path.unlink()
        if change in {"mutated", "diff mutated"}:
            path.write_text("planted")
        if change == "linked":
            path.symlink_to(workspace.root / PATH)
        with pytest.raises(InputsChangedError, match="staging folder"):
            staging.verify_inputs(manifest)


@pytest.mark.req("Z099")
def test_texts_that_are_not_what_the_manifest_says_are_not_staged(filled: Filled) -> None:
    workspace, manifest, texts = filled
    for wrong in ({**texts, PATH: "another"}, {path: text for path, text in texts.items() if path != PATH}):
        with pytest.raises(InputsChangedError, match=PATH):
            workspace.stage("run-1", manifest, wrong, "")
        with pytest.raises(InputsChangedError, match=PATH):
            workspace.diff(manifest, wrong)
    assert list((workspace.root / "workspace").iterdir()) == []


@pytest.mark.parametrize("path", ["../x.md", "/etc/passwd", "memory_summary.md", ".git/HEAD", "extensions/ad_hoc/x.md"])
def test_a_manifest_cannot_name_what_is_no_input(filled: Filled, path: str) -> None:
    workspace, manifest, texts = filled
    bad = replace(manifest, inputs=(replace(manifest.inputs[0], path=path),))
    with pytest.raises(WorkspaceError, match="not the path of an input"):
        workspace.stage("run-1", bad, {path: texts[PATH]}, "")


@pytest.mark.parametrize("run_id", ["", "..", ".x", "a/b", "x" * 65, "a\n"])
def test_a_run_cannot_have_a_name_that_leads_elsewhere(filled: Filled, run_id: str) -> None:
    workspace, manifest, texts = filled
    with pytest.raises(UsageError):
        workspace.stage(run_id, manifest, texts, "")


def test_a_living_run_keeps_its_folder_and_a_dead_ones_is_removed(
    filled: Filled, in_child: Callable[[Callable[[], None]], int]
) -> None:
    workspace, manifest, texts = filled

    def die() -> None:
        workspace.stage("dead", manifest, texts, "SECRET diff")
        os.kill(os.getpid(), 9)

    assert in_child(die) == -9
    (workspace.root / "workspace/stray").write_text("x")
    with workspace.stage("alive", manifest, texts, "") as staging:
        with pytest.raises(WorkspaceError, match="already at work"):
            workspace.stage("alive", manifest, texts, "")
        report = workspace.heal()
        assert [path.rpartition("/")[2] for path in report.removed] == ["dead", "stray"]
        assert [p.name for p in (workspace.root / "workspace").iterdir()] == ["alive"]
        staging.verify_inputs(manifest)
    with workspace.stage("alive", manifest, texts, ""):
        pass


def test_a_dead_runs_folder_is_taken_over_by_a_run_of_the_same_name(
    filled: Filled, in_child: Callable[[Callable[[], None]], int]
) -> None:
    workspace, manifest, texts = filled

    def die() -> None:
        workspace.stage("run-1", manifest, texts, "").files.write(SUMMARY_NAME, "v1\nhalf\n")
        os.kill(os.getpid(), 9)

    assert in_child(die) == -9
    with workspace.stage("run-1", manifest, texts, "") as staging:
        assert staging.candidate() == ""


def test_discarding_twice_or_what_is_gone_is_fine(filled: Filled) -> None:
    workspace, manifest, texts = filled
    staging = workspace.stage("run-1", manifest, texts, "")
    assert staging.discard()
    assert staging.discard()
