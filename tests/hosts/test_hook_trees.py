"""Work trees of one repository are one project: the same block, whichever the session runs in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memory.project import project_of
from tests.hosts.payloads import claude
from tests.plugins.hook_runner import LATER, STUCK, run
from tests.plugins.published import PREFERENCES, publish

pytestmark = pytest.mark.fault("M85", "X28")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments], check=True)


@pytest.fixture(params=["with a remote", "without one"])
def trees(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The main and a linked work tree, and a line of the summary of their project."""
    main, linked = tmp_path / "alone", tmp_path / "elsewhere" / "feature"
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", "-b", "feature", str(linked))
    git(linked, "commit", "-q", "--allow-empty", "-m", "two")
    if request.param == "with a remote":
        git(main, "remote", "add", "origin", "https://x.example/acme/alone")
    publish(home, {PREFERENCES: ["Mine alone. [aaaa0001]"]}, {"aaaa0001": project_of(linked).id})
    return main, linked


def body(home: Path, folder: Path, session: str, program: str = LATER) -> list[str]:
    """The block without its fence, which tells sessions apart."""
    payload = claude("UserPromptSubmit", folder, session_id=session)
    return run(home, payload, "claude", program=program).text.splitlines()[1:-1]


def test_each_tree_gets_the_same_block_with_the_short_file_of_the_main_one(
    home: Path, trees: tuple[Path, Path]
) -> None:
    main, linked = trees
    (main / ".slowwave").mkdir()
    (main / ".slowwave" / "memory.md").write_text("- [a] Ports begin at 4000.\n", "utf-8")
    there, here = body(home, main, "s1"), body(home, linked, "s2")
    assert there == here
    assert "- [a] Ports begin at 4000." in here
    assert any("Mine alone." in line for line in here)


def test_a_short_file_of_its_own_goes_first_and_is_seen_when_it_comes_and_goes(
    home: Path, trees: tuple[Path, Path]
) -> None:
    main, linked = trees
    for tree, text in ((main, "main"), (linked, "own")):
        (tree / ".slowwave").mkdir()
        (tree / ".slowwave" / "memory.md").write_text(f"- [a] This is {text}.\n", "utf-8")
    own = linked / ".slowwave" / "memory.md"
    assert "- [a] This is own." in body(home, linked, "s1")
    own.unlink()
    assert "- [a] This is main." in body(home, linked, "s1")
    own.write_text("- [a] This is own again.\n", "utf-8")
    assert "- [a] This is own again." in body(home, linked, "s1")


@pytest.mark.parametrize("change", ["nothing", "another remote", "another repository"])
def test_a_block_is_shared_in_a_linked_tree_while_its_repository_is_the_same(
    home: Path, trees: tuple[Path, Path], tmp_path: Path, change: str
) -> None:
    main, linked = trees
    assert body(home, linked, "s1")
    if change == "another remote":
        git(main, "config", "remote.origin.url", "https://x.example/y/z")
    if change == "another repository":
        subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
        (linked / ".git").write_text(f"gitdir: {tmp_path / 'other' / '.git'}\n", "utf-8")
    late = "\n".join(body(home, linked, "s2", STUCK))
    assert ("Mine alone" in late) == (change == "nothing")
