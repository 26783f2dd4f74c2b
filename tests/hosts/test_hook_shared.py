"""A block built for one session serves the next one of its folder, while nothing it rests on changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memory.project import project_of
from tests.hosts.payloads import claude
from tests.plugins.hook_runner import LATER, STUCK, run
from tests.plugins.published import PREFERENCES, publish


@pytest.mark.parametrize("change", ["remote", "nested repository", "summary", "folder"])
def test_a_block_of_another_session_is_only_taken_while_nothing_it_rests_on_changed(
    home: Path, shop: Path, change: str
) -> None:
    inner = shop / "inner"
    inner.mkdir()
    assert "Vitest" in run(home, claude("SessionStart", inner), "claude", program=LATER).text
    match change:
        case "remote":
            subprocess.run(["git", "-C", str(shop), "remote", "set-url", "origin", "https://x.example/y/z"], check=True)
        case "nested repository":
            subprocess.run(["git", "init", "-q", str(inner)], check=True)
        case "summary":
            publish(home, {PREFERENCES: ["Other. [bbbb0002]"]}, {"bbbb0002": project_of(shop).id})
        case "folder":
            inner = home.parent
    text = run(home, claude("SessionStart", inner, session_id="another"), "claude").text
    assert "Vitest" not in text
    assert "German" in text
    assert ("Other" in text) == (change == "summary")


@pytest.mark.fault("M77", "M85")
@pytest.mark.parametrize("change", ["first commit", "remote", "another beginning", "packed", "nothing"])
def test_in_a_repository_without_a_remote_a_block_is_shared_until_its_beginning_may_be_another(
    home: Path, tmp_path: Path, change: str
) -> None:
    root = tmp_path / "alone"
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    commit = [*git, "commit", "-q", "--allow-empty", "-m"]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    if change != "first commit":
        subprocess.run([*commit, "one"], check=True)
    publish(home, {PREFERENCES: ["Mine alone. [aaaa0001]"]}, {"aaaa0001": project_of(root).id})
    assert "Mine alone" in run(home, claude("UserPromptSubmit", root), "claude", program=LATER).text
    match change:
        case "first commit":
            subprocess.run([*commit, "one"], check=True)
        case "remote":
            subprocess.run([*git, "remote", "add", "origin", "https://x.example/y/z"], check=True)
        case "another beginning":
            subprocess.run([*git, "checkout", "-q", "--orphan", "new"], check=True)
            subprocess.run([*commit, "two"], check=True)
        case "packed":
            subprocess.run([*git, "pack-refs", "--all"], check=True)
    stale = run(home, claude("UserPromptSubmit", root, session_id="late"), "claude", program=STUCK)
    assert ("Mine alone" in stale.text) == (change == "nothing")
    late = run(home, claude("UserPromptSubmit", root, session_id="another"), "claude")
    assert ("Mine alone" in late.text) == (change in {"packed", "nothing"})
