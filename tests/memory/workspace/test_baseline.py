"""The git baseline, judged by the real git: one parentless commit, bounded, and never a way to lose a change."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory.model import Manifest
from memory.workspace import Workspace
from memory.workspace.testing import FaultySyscalls, disk
from tests.memory.workspace.trees import ONE, TWO, Inputs

SUMMARY = "v1\n\n## User Profile\n- 用 pnpm [22222222]\n"

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(workspace: Workspace, *arguments: str, stdin: bytes = b"") -> str:
    environment = {
        **os.environ,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "HOME": str(workspace.home),
    }
    for name in ("NAME", "EMAIL"):
        environment |= {f"GIT_AUTHOR_{name}": "t@t", f"GIT_COMMITTER_{name}": "t@t"}
    done = subprocess.run(
        ["git", *arguments], cwd=workspace.root, env=environment, input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode()


@pytest.fixture
def published(filled: tuple[Workspace, Manifest, dict[str, str]]) -> tuple[Workspace, Manifest, dict[str, str]]:
    workspace, manifest, texts = filled
    workspace.save_version(1, SUMMARY, manifest, texts)
    workspace.install_summary(SUMMARY, None)
    assert workspace.reset_baseline(manifest, texts, SUMMARY) == ""
    return workspace, manifest, texts


@needs_git
@pytest.mark.req("Z107")
def test_git_sees_one_parentless_commit_with_exactly_the_inputs_and_the_summary(
    published: tuple[Workspace, Manifest, dict[str, str]],
) -> None:
    workspace, manifest, texts = published
    at = datetime(2026, 11, 28, 9, 14, tzinfo=UTC)
    workspace.reset_baseline(manifest, texts, SUMMARY, at=at)
    assert git(workspace, "rev-list", "--count", "HEAD").strip() == "1"
    assert git(workspace, "log", "-1", "--format=%P|%aI").strip() == "|2026-11-28T09:14:00+00:00"
    names = git(workspace, "ls-tree", "-r", "--name-only", "-z", "HEAD").rstrip("\0").split("\0")
    assert sorted(names) == sorted([*texts, "memory_summary.md"])
    for path, text in {**texts, "memory_summary.md": SUMMARY}.items():
        assert git(workspace, "show", f"HEAD:{path}") == text
    assert git(workspace, "fsck", "--strict", "--full") == ""


@needs_git
@pytest.mark.req("Z107", "Z108")
def test_after_fifty_rounds_there_is_still_one_commit_and_no_more_objects(
    published: tuple[Workspace, Manifest, dict[str, str]], read_inputs: Callable[[Workspace], Inputs]
) -> None:
    workspace, *_ = published
    counts = set()
    for number in range(50):
        workspace.write_rollout_summary(ONE, f"# round {number}\n" * 50)
        manifest, texts = read_inputs(workspace)
        diff = workspace.diff(manifest, texts)
        assert (diff.changed, diff.added, diff.removed) == ([f"rollout_summaries/{ONE}.md"], [], [])
        assert workspace.reset_baseline(manifest, texts, SUMMARY) == ""
        assert workspace.diff(manifest, texts).empty
        counts.add(sum(path.is_file() for path in (workspace.root / ".git").rglob("*")))
    assert len(counts) == 1
    assert counts.pop() < 20
    assert git(workspace, "rev-list", "--count", "--all").strip() == "1"
    assert git(workspace, "fsck", "--strict", "--full", "--unreachable") == ""


@pytest.mark.req("Z088", "Z107")
def test_the_diff_is_between_the_last_consolidated_inputs_and_those_of_now(
    published: tuple[Workspace, Manifest, dict[str, str]], read_inputs: Callable[[Workspace], Inputs]
) -> None:
    workspace, manifest, texts = published
    assert workspace.diff(manifest, texts).empty
    workspace.write_rollout_summary(ONE, "# one\n- uses jest [e9]\n")
    workspace.remove_rollout_summary(TWO)
    workspace.write_note("new", "a new note")
    diff = workspace.diff(*read_inputs(workspace))
    assert (diff.added, diff.removed, diff.changed) == (
        ["extensions/ad_hoc/notes/new.md"],
        [f"rollout_summaries/{TWO}.md"],
        [f"rollout_summaries/{ONE}.md"],
    )
    assert "-- uses vitest [e1]" in diff.text
    assert "+- uses jest [e9]" in diff.text
    assert (diff.summary_changed, diff.baseline) == (False, "ok")


def test_a_summary_changed_by_hand_is_noticed(published: tuple[Workspace, Manifest, dict[str, str]]) -> None:
    workspace, manifest, texts = published
    workspace.summary_path.write_text("v1\nmine\n")
    diff = workspace.diff(manifest, texts)
    assert diff.empty
    assert diff.summary_changed


def test_attributes_ignore_files_filters_and_nested_repositories_have_no_say(
    filled: tuple[Workspace, Manifest, dict[str, str]], read_inputs: Callable[[Workspace], Inputs], tmp_path: Path
) -> None:
    workspace, *_ = filled
    ran = tmp_path / "ran"
    (workspace.root / ".gitattributes").write_text("* text eol=crlf filter=evil\n")
    (workspace.root / ".gitignore").write_text("*\n")
    hooks = workspace.root / ".git/hooks"
    hooks.mkdir(parents=True)
    for name in ("post-commit", "reference-transaction", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    (workspace.root / ".git/config").write_text(
        f'[filter "evil"]\n clean = touch {ran}\n[core]\n fsmonitor = touch {ran}\n'
    )
    (workspace.root / "rollout_summaries/.git").mkdir()
    workspace.write_rollout_summary(ONE, "a\r\nb\n\r\n")
    manifest, texts = read_inputs(workspace)
    assert workspace.reset_baseline(manifest, texts, SUMMARY) == ""
    assert workspace.diff(manifest, texts).empty
    assert not ran.exists()
    assert not hooks.exists()
    assert "evil" not in (workspace.root / ".git/config").read_text()
    if shutil.which("git"):
        assert git(workspace, "show", f"HEAD:rollout_summaries/{ONE}.md") == "a\r\nb\n\r\n"


def _objects(git_folder: Path) -> list[Path]:
    return sorted(path for path in (git_folder / "objects").rglob("*") if path.is_file())


def _corrupt(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    _corrupt(path, bytes(data))


def _swap_for_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").touch()


def _replace_by(git_folder: Path, make: Callable[[Path], object]) -> None:
    shutil.rmtree(git_folder)
    make(git_folder)


def _all(folder: Path, spoil: Callable[[Path], None]) -> None:
    for path in _objects(folder):
        spoil(path)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


BREAKAGES: dict[str, Callable[[Path], None]] = {
    "no .git": shutil.rmtree,
    ".git is a file": lambda folder: _replace_by(folder, lambda path: path.write_text("gitdir: /tmp/elsewhere\n")),
    ".git is an empty folder": lambda folder: _replace_by(folder, Path.mkdir),
    "no HEAD": lambda folder: (folder / "HEAD").unlink(),
    "empty HEAD": lambda folder: _corrupt(folder / "HEAD", b""),
    "detached HEAD": lambda folder: _corrupt(folder / "HEAD", b"1" * 40),
    "HEAD is a folder": lambda folder: _swap_for_folder(folder / "HEAD"),
    "unborn": lambda folder: (folder / "refs/heads/main").unlink(),
    "empty reference": lambda folder: _corrupt(folder / "refs/heads/main", b""),
    "binary reference": lambda folder: _corrupt(folder / "refs/heads/main", b"\xff\xfe\n"),
    "reference to nothing": lambda folder: _corrupt(folder / "refs/heads/main", b"1" * 40 + b"\n"),
    "reference is a link": lambda folder: _link(folder / "refs/heads/main"),
    "no objects": lambda folder: shutil.rmtree(folder / "objects"),
    "empty objects": lambda folder: _all(folder, lambda path: _corrupt(path, b"")),
    "truncated objects": lambda folder: _all(folder, lambda path: _corrupt(path, path.read_bytes()[:-5])),
    "a flipped bit in each object": lambda folder: _all(folder, _flip),
    "objects of another name": lambda folder: _all(
        folder, lambda path: _corrupt(path, _objects(folder)[0].read_bytes())
    ),
    "an object that unpacks to far more than it says": lambda folder: _corrupt(
        _objects(folder)[0], zlib.compress(b"blob 99\0" + b"\0" * 20_000_000)
    ),
    "an object is a folder": lambda folder: _swap_for_folder(_objects(folder)[0]),
}


@pytest.mark.req("Z107")
@pytest.mark.fault("X47")
@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_broken_baseline_loses_no_pending_change_and_heals_itself(
    published: tuple[Workspace, Manifest, dict[str, str]],
    read_inputs: Callable[[Workspace], Inputs],
    breakage: str,
) -> None:
    workspace, *_ = published
    workspace.write_rollout_summary(ONE, "# pending\n")
    BREAKAGES[breakage](workspace.root / ".git")
    manifest, texts = read_inputs(workspace)

    pending = workspace.diff(manifest, texts)
    assert pending.baseline in {"missing", "damaged"}
    assert pending.added == sorted(texts)
    assert "+# pending" in pending.text

    report = workspace.heal()
    assert report.baseline == "rebuilt"
    healed = workspace.diff(manifest, texts)
    assert (healed.baseline, healed.changed, healed.added) == ("ok", [f"rollout_summaries/{ONE}.md"], [])

    BREAKAGES[breakage](workspace.root / ".git")
    assert workspace.reset_baseline(manifest, texts, SUMMARY) == ""
    assert workspace.diff(manifest, texts).empty
    if shutil.which("git"):
        assert git(workspace, "rev-list", "--count", "HEAD").strip() == "1"
        assert git(workspace, "fsck", "--strict", "--full") == ""


def test_a_git_folder_that_is_a_link_is_replaced_and_its_target_spared(
    published: tuple[Workspace, Manifest, dict[str, str]], tmp_path: Path
) -> None:
    workspace, manifest, texts = published
    shutil.move(workspace.root / ".git", tmp_path / "theirs")
    before = sorted(tmp_path.joinpath("theirs").rglob("*"))
    (workspace.root / ".git").symlink_to(tmp_path / "theirs")
    assert workspace.diff(manifest, texts).baseline != "ok"
    assert workspace.reset_baseline(manifest, texts, SUMMARY) == ""
    assert not (workspace.root / ".git").is_symlink()
    assert sorted(tmp_path.joinpath("theirs").rglob("*")) == before


@needs_git
@pytest.mark.req("Z107", "Z108")
def test_what_people_do_with_git_in_there_does_not_last(published: tuple[Workspace, Manifest, dict[str, str]]) -> None:
    workspace, manifest, texts = published
    for lock in ("index.lock", "HEAD.lock", "refs/heads/main.lock", "packed-refs.lock"):
        (workspace.root / ".git" / lock).touch()
    assert workspace.diff(manifest, texts).empty
    assert workspace.reset_baseline(manifest, texts, SUMMARY) == ""
    assert not list((workspace.root / ".git").rglob("*.lock"))
    child = git(workspace, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "more").strip()
    git(workspace, "update-ref", "refs/heads/main", child)
    git(workspace, "branch", "side")
    git(workspace, "gc", "-q")
    assert workspace.diff(manifest, texts).baseline != "ok"
    assert workspace.heal().baseline == "rebuilt"
    assert git(workspace, "rev-list", "--count", "--all").strip() == "1"
    assert sorted(path.name for path in (workspace.root / ".git").iterdir()) == ["HEAD", "config", "objects", "refs"]


@needs_git
def test_a_commit_on_top_is_not_taken_for_the_baseline(published: tuple[Workspace, Manifest, dict[str, str]]) -> None:
    workspace, manifest, texts = published
    child = git(workspace, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "more").strip()
    git(workspace, "update-ref", "refs/heads/main", child)
    assert workspace.diff(manifest, texts).baseline == "damaged"


@needs_git
def test_a_tree_with_paths_that_are_no_inputs_is_not_taken_for_the_baseline(
    published: tuple[Workspace, Manifest, dict[str, str]],
) -> None:
    workspace, manifest, texts = published
    blob = git(workspace, "hash-object", "-w", "--stdin", stdin=b"evil").strip()
    tree = git(workspace, "mktree", stdin=f"100644 blob {blob}\tMEMORY.md\n".encode()).strip()
    git(workspace, "update-ref", "refs/heads/main", git(workspace, "commit-tree", tree, "-m", "x").strip())
    assert workspace.diff(manifest, texts).baseline == "damaged"


@pytest.mark.req("Z104")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_baseline_the_disk_refuses_is_reported_not_raised_and_made_up_for_later(
    published: tuple[Workspace, Manifest, dict[str, str]], read_inputs: Callable[[Workspace], Inputs], code: int
) -> None:
    workspace, *_ = published
    workspace.write_rollout_summary(ONE, "# more\n")
    manifest, texts = read_inputs(workspace)
    new = SUMMARY + "- more [11111111]\n"
    workspace.save_version(2, new, manifest, texts)
    workspace.install_summary(new, workspace.summary_sha())
    workspace.reset_baseline(manifest, texts, SUMMARY)
    counting = FaultySyscalls()
    with disk(counting):
        workspace.reset_baseline(manifest, texts, new)
    for name in ("open", "write", "rename"):
        for nth in range(1, counting.calls[name] + 1):
            workspace.reset_baseline(manifest, texts, SUMMARY)  # the former one
            with disk(FaultySyscalls(name, nth, code)):
                problem = workspace.reset_baseline(manifest, texts, new)
            assert ".git" in problem
            assert workspace.summary() == new
            assert workspace.heal().baseline in {"rebuilt", "ok"}
            assert workspace.diff(manifest, texts).empty
            assert not workspace.diff(manifest, texts).summary_changed


def test_a_baseline_without_a_version_to_make_it_from_is_left_alone(
    filled: tuple[Workspace, Manifest, dict[str, str]],
) -> None:
    workspace, manifest, texts = filled
    workspace.install_summary(SUMMARY, None)
    report = workspace.heal()
    assert (report.baseline, report.problems) == ("missing", [])
    assert workspace.diff(manifest, texts).added == sorted(texts)
