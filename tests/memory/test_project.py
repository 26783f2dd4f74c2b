"""One identity for a code base, however it is reached."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.gitroot import _walk, root_commit
from memory.project import UNKNOWN, main_tree, normalise_remote, project_of

Git = Callable[..., str]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git in a folder below the test's own, apart from the user's configuration."""
    names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY}
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", **names}

    def run(folder: Path, *arguments: str) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    return run


LONG = " ".join(str(number) for number in range(500))
"""Long enough for git to store commits as differences from each other."""
IDENTITY = (("NAME", "t"), ("EMAIL", "t@example.org"), ("DATE", "2026-01-01T00:00:00Z"))


def repository(git: Git, folder: Path, commits: int = 1, *options: str) -> Path:
    git(folder, "init", "-q", *options)
    for number in range(commits):
        git(folder, "commit", "-q", "--allow-empty", "-m", f"{folder.name} {number} {LONG}")
    return folder


# -- remotes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop.git",
        "https://github.com/acme/shop",
        "https://GitHub.com/acme/shop/",
        "https://user:to@ken@github.com/acme/shop.git",
        "https://x-access-token:ghp_secret@github.com:443/acme/shop.git",
        "https://github.com/acme/shop.git?private_token=secret#main",
        "git@github.com:acme/shop.git",
        "git@github.com:/acme/shop",
        "github.com:acme/shop.git",
        "ssh://git@github.com:22/acme/shop.git",
        "git://github.com/acme/shop",
        "git+ssh://git@github.com/acme/shop.git",
        "  https://github.com/acme/shop.git\n",
    ],
)
def test_every_spelling_of_a_remote_is_one_remote_without_credentials(url: str) -> None:
    assert normalise_remote(url) == "github.com/acme/shop"


@pytest.mark.parametrize(
    "url", ["/srv/git/shop.git", "../shop", "file:///srv/shop", "C:/work/shop", "C:\\x", "", "https://"]
)
def test_a_local_path_is_no_remote(url: str) -> None:
    assert normalise_remote(url) is None


def test_other_hosts_users_and_addresses_stay_apart() -> None:
    assert normalise_remote("git@work:acme/shop.git") == "work/acme/shop"
    assert normalise_remote("ssh://git@[::1]:2222/acme/shop") == "[::1]/acme/shop"
    assert normalise_remote("https://gitlab.com/acme/shop") != normalise_remote("https://github.com/acme/shop")
    assert normalise_remote("https://github.com/acme/Shop") != normalise_remote("https://github.com/acme/shop")


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_remote_or_none_and_never_an_error(text: str) -> None:
    found = normalise_remote(f"https://user:secret-word@{text}")
    assert found is None or "secret-word" not in found
    normalise_remote(text)


# -- folders ----------------------------------------------------------------------------------------------


@needs_git
@pytest.mark.fault("X28", "M85")
def test_clone_worktree_subfolder_and_symlink_are_one_project(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "main")
    git(main, "remote", "add", "origin", "git@example.org:acme/shop.git")
    git(main, "worktree", "add", "-q", str(tmp_path / "wt" / "feature"))
    other = repository(git, tmp_path / "clone")
    git(other, "config", "remote.origin.url", "https://me:pw@example.org/acme/shop")
    (main / "src" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(main / "src")
    folders = [main, main / "src" / "deep", tmp_path / "link" / "deep", tmp_path / "wt" / "feature", other]
    projects = [project_of(folder) for folder in folders]
    assert {(project.id, project.name) for project in projects} == {(projects[0].id, "shop")}
    assert [project.root for project in projects] == [main, main, main, tmp_path / "wt" / "feature", other]


@needs_git
def test_a_repository_without_a_remote_keeps_its_identity_when_moved_or_cloned(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "shop", commits=3)
    before = project_of(main)
    git(tmp_path, "clone", "-q", "shop", "copy")
    git(main, "worktree", "add", "-q", "--detach", str(tmp_path / "wt"))
    assert project_of(tmp_path / "copy").id == before.id
    assert project_of(tmp_path / "wt").id == before.id
    assert project_of(tmp_path / "wt").name == "shop"
    git(main, "worktree", "remove", str(tmp_path / "wt"))
    main.rename(tmp_path / "renamed")
    assert project_of(tmp_path / "renamed").id == before.id
    assert project_of(repository(git, tmp_path / "other")).id != before.id


@needs_git
@pytest.mark.fault("X28", "M85")
def test_work_trees_are_called_as_the_repository_whatever_its_main_folder_is(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "shop")
    git(main, "worktree", "add", "-q", "--detach", str(main / ".claude" / "worktrees" / "busy-otter"))
    git(tmp_path, "clone", "-q", "--bare", "shop", "shop.git")
    git(tmp_path, "clone", "-q", "--bare", "shop", "beside/.bare")
    for bare, tree in (("shop.git", "wt1"), ("shop.git", "wt2"), ("beside/.bare", "beside/main")):
        git(tmp_path / bare, "worktree", "add", "-q", "--detach", str(tmp_path / tree))
        git(tmp_path / bare, "config", "--remove-section", "remote.origin") if tree != "wt2" else None
    folders = [main, main / ".claude" / "worktrees" / "busy-otter", *(tmp_path / name for name in ("wt1", "wt2"))]
    assert {project_of(folder)[:2] for folder in folders} == {(project_of(main).id, "shop")}
    assert project_of(tmp_path / "beside" / "main")[:2] == (project_of(main).id, "beside")


@needs_git
@pytest.mark.fault("M85")
def test_a_work_tree_of_a_repository_without_a_commit_is_its_project(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "new", commits=0)
    place = main / ".git" / "worktrees" / "wt"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    (place / "gitdir").write_text(f"{tmp_path / 'wt' / '.git'}\n")
    (tmp_path / "wt").mkdir()
    (tmp_path / "wt" / ".git").write_text("gitdir: ../new/.git/worktrees/wt\n")  # as git writes it when asked to
    assert project_of(tmp_path / "wt")[:2] == project_of(main)[:2]
    assert main_tree(tmp_path / "wt") == main


@needs_git
def test_the_main_tree_is_that_of_a_linked_one_the_repository_knows(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "shop")
    git(main, "worktree", "add", "-q", "--detach", str(tmp_path / "wt"))
    git(tmp_path, "clone", "-q", "--bare", "shop", "shop.git")
    git(tmp_path / "shop.git", "worktree", "add", "-q", "--detach", str(tmp_path / "of bare"))
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / ".git").write_text(f"gitdir: {main}/.git/worktrees/wt\n")
    (tmp_path / "link").symlink_to(tmp_path / "wt")
    assert main_tree(tmp_path / "wt") == main_tree(tmp_path / "link") == main
    others = (main, main / ".git", tmp_path / "of bare", tmp_path / "claims", tmp_path, tmp_path / "gone")
    assert [main_tree(folder) for folder in others] == [None] * len(others)


@needs_git
@pytest.mark.parametrize(
    "upkeep",
    [
        (("reflog", "expire", "--expire=now", "--all"), ("gc", "-q", "--prune=now")),
        (("-c", "core.commitGraph=false", "-c", "gc.writeCommitGraph=false", "gc", "-q", "--aggressive"),),
        (("-c", "repack.useDeltaBaseOffset=false", "repack", "-q", "-a", "-d", "-f", "--depth=20", "--window=50"),),
        (("pack-refs", "--all"), ("repack", "-q", "-a", "-d")),
        (("commit-graph", "write", "--reachable", "--split"), ("commit", "-q", "--allow-empty", "-m", "x"),
         ("commit-graph", "write", "--reachable", "--split=no-merge"), ("commit", "-q", "--allow-empty", "-m", "y")),
        (("checkout", "-q", "--detach"),),
        (("checkout", "-q", "-b", "topic"), ("commit", "-q", "--allow-empty", "-m", "z")),
    ],
    ids=["gc", "deltas", "deltas by name", "packed", "graph chain", "detached", "branch"],
)  # fmt: skip
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_git_upkeep_never_changes_the_root_commit(
    git: Git, tmp_path: Path, upkeep: tuple[tuple[str, ...], ...], hashes: str
) -> None:
    """The reflog, which is cheaper to read, loses it after 90 days."""
    main = repository(git, tmp_path / "shop", 12, f"--object-format={hashes}")
    expected = git(main, "rev-list", "--max-parents=0", "HEAD")
    assert root_commit(main / ".git") == expected
    for command in upkeep:
        git(main, *command)
    _walk.cache_clear()
    assert root_commit(main / ".git") == expected


@needs_git
def test_objects_borrowed_from_another_repository_are_found(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "shop", commits=3)
    git(tmp_path, "clone", "-q", "--shared", "shop", "copy")
    assert root_commit(tmp_path / "copy" / ".git") == git(main, "rev-list", "--max-parents=0", "HEAD")


@needs_git
def test_a_damaged_repository_is_known_by_its_path(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "shop", commits=3)
    _walk.cache_clear()
    shutil.rmtree(main / ".git" / "objects")
    (main / ".git" / "objects").mkdir()
    assert root_commit(main / ".git") is None
    assert project_of(main).name == "shop"
    assert project_of(main).id == project_of(main / "src").id


@needs_git
def test_a_repository_without_commits_is_known_by_its_path_from_every_subfolder(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "new", commits=0)
    (main / "src").mkdir()
    assert project_of(main).id == project_of(main / "src").id


@pytest.mark.fault("O19")
def test_a_folder_without_git_is_its_own_project_and_so_is_each_folder_in_it(tmp_path: Path) -> None:
    """Writer and reader ask the same function, so that what is written from `sub` is read from `sub`."""
    sub = tmp_path / "notes" / "sub"
    sub.mkdir(parents=True)
    (tmp_path / "link").symlink_to(sub)
    assert project_of(sub).id != project_of(tmp_path / "notes").id
    assert project_of(tmp_path / "link").id == project_of(sub).id == project_of(str(sub) + "/").id
    assert project_of(sub).root is None


def test_a_stray_git_folder_makes_no_repository(tmp_path: Path) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    assert project_of(tmp_path / "a").root is None


def test_a_folder_that_is_gone_is_what_its_session_recorded(tmp_path: Path) -> None:
    recorded = project_of(tmp_path / "gone", remote="git@example.org:acme/shop.git")
    assert recorded.name == "shop"
    assert recorded.id == project_of(None, remote="https://example.org/acme/shop").id
    assert project_of(tmp_path / "gone").name == "gone"


@needs_git
def test_a_folder_that_exists_speaks_before_its_session(git: Git, tmp_path: Path) -> None:
    main = repository(git, tmp_path / "shop")
    git(main, "remote", "add", "origin", "https://example.org/acme/new-name")
    assert project_of(main, remote="https://example.org/acme/old-name").name == "new-name"


@needs_git
def test_a_gone_folder_below_another_repository_is_not_that_repository(git: Git, tmp_path: Path) -> None:
    dotfiles = repository(git, tmp_path / "home")
    gone = project_of(dotfiles / "code" / "shop", remote="git@example.org:acme/shop.git")
    assert gone.id != project_of(dotfiles).id
    assert gone.name == "shop"


def test_a_path_of_another_system_is_never_taken_for_one_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = project_of("C:\\Users\\x\\shop")
    monkeypatch.chdir(tmp_path)
    assert project_of("C:\\Users\\x\\shop") == first
    assert (first.name, first.root) == ("shop", None)


@pytest.mark.parametrize("cwd", [None, ""])
def test_no_folder_is_the_unknown_project(cwd: str | None) -> None:
    assert project_of(cwd) == UNKNOWN


@pytest.mark.parametrize("cwd", ["/a\0b", "/\udcff", "/" + "x" * 5000, "/proc/self/fd/../../..", "/"])
def test_strange_folders_are_some_project_and_never_an_error(cwd: str) -> None:
    assert project_of(cwd).id


def test_a_config_with_quotes_comments_and_other_remotes_yields_its_origin(tmp_path: Path) -> None:
    dot = tmp_path / "shop" / ".git"
    dot.mkdir(parents=True)
    (dot / "HEAD").write_text("ref: refs/heads/main\n")

    def origin(text: str) -> str:
        (dot / "config").write_text(text)
        return project_of(dot.parent).name

    assert (
        origin('[remote "upstream"]\n\turl = https://h.org/a/up\n[Remote "origin"]\n URL = "https://h.org/a/b" ; x\n')
        == "b"
    )
    assert origin('[remote "origin"]\n\tpushurl = https://h.org/a/push\n\turl=https://h.org/a/b.git # x\n') == "b"
    assert origin('[remote "origin"] url = https://h.org/a/b\n[remote "x"]\nurl = https://h.org/a/c\n') == "b"
    assert origin('[core]\n\turl = https://h.org/a/c\n[branch "origin"]\nurl = https://h.org/a/d\n') == "shop"
