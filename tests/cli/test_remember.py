"""`slowwave remember` and `slowwave short`: kept where it is said, acknowledged when it is on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memory import failpoints
from memory.clock import SystemClock
from memory.project import Project, project_of
from memory.settings import load
from memory.state import Store
from tests.plugins.command_line import Slowwave

KEY = "ghp_" + "x7Kq2mZ9vB4tR8wL1nC6yH3dF5gJ0pSaEuTi"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository; the command runs in a folder below its root."""
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "remote", "add", "origin", "https://example.com/acme/shop"], check=True)
    monkeypatch.chdir(root / "src")
    return root


def entries(slowwave: Slowwave) -> list[tuple[str, str, str]]:
    listed = json.loads(slowwave("short", "list", "--json").out)
    return [(item["scope"], item["id"], item["text"]) for item in listed["entries"]]


def test_what_is_remembered_is_listed_with_its_scope(slowwave: Slowwave, home: Path, checkout: Path) -> None:
    done = slowwave("remember", "New tests use Vitest.", "--id", "tests")
    assert (done.code, str(home / "short" / "user.md") in done.out) == (0, True)
    assert slowwave("remember", "--project", "--", "--no-verify is never used").code == 0
    assert (checkout / ".slowwave" / "memory.md").is_file()
    assert entries(slowwave) == [
        ("user", "tests", "New tests use Vitest."),
        ("project", "no-verify-is-never", "--no-verify is never used"),
    ]
    again = slowwave("remember", "New tests use Jest.", "--id", "tests", "--json")
    assert json.loads(again.out)["replaced"] is True
    assert entries(slowwave)[0][2] == "New tests use Jest."


@pytest.mark.fault("M85")
def test_what_is_remembered_in_a_linked_work_tree_outlives_it(
    slowwave: Slowwave, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", "--detach", str(tmp_path / "tree")], check=True)
    monkeypatch.chdir(tmp_path / "tree")
    assert slowwave("remember", "--project", "Ports begin at 4000.", "--id", "ports").code == 0
    assert list((tmp_path / "tree").iterdir()) == [tmp_path / "tree" / ".git"]
    monkeypatch.chdir(checkout)
    assert entries(slowwave) == [("project", "ports", "Ports begin at 4000.")]


@pytest.mark.req("Z056")
@pytest.mark.fault("X30", "X35")
def test_a_note_is_pinned_redacted_and_bound_to_the_project_it_was_said_in(
    slowwave: Slowwave, home: Path, checkout: Path
) -> None:
    done = slowwave("remember", "--note", "--project", f"Never force-push. Key {KEY}", "--id", "push")
    assert done.code == 0
    (note,) = home.glob("generations/*/memories_v2/extensions/ad_hoc/notes/*.md")
    text = note.read_text("utf-8")
    assert note.name == "push.md"
    assert "pinned: true" in text
    assert f"project: {project_of(checkout).id}" in text
    assert KEY not in text + done.out
    assert "Taken out" in done.out
    assert slowwave("remember", "--note", "Everywhere.", "--id", "all", "--no-pin").code == 0
    assert "pinned" not in note.with_name("all.md").read_text("utf-8")


@pytest.mark.fault("X49")
@pytest.mark.parametrize("how", [(), ("--note",)])
def test_nothing_is_acknowledged_that_is_not_on_disk(slowwave: Slowwave, home: Path, how: tuple[str, ...]) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    point = "workspace.note.fsync.before" if how else "short.after_fsync"
    failpoints.arm(point, full)
    try:
        done = slowwave("remember", *how, "Not kept.")
    finally:
        failpoints.disarm(point)
    assert done.code == 1
    assert "remembered" not in done.out
    assert not [path for path in home.rglob("*.md") if "Not kept" in path.read_text("utf-8")]


@pytest.mark.req("Z036")
def test_check_names_file_line_and_reason_and_says_so_by_its_exit_code(slowwave: Slowwave, home: Path) -> None:
    assert slowwave("short", "check").code == 0
    (home / "short").mkdir()
    (home / "short" / "user.md").write_text("- [a] fine\n- wrong\n", "utf-8")
    done = slowwave("short", "check")
    assert done.code == 1
    assert f"{home / 'short' / 'user.md'}, line 2: an entry begins with" in done.out
    assert json.loads(slowwave("short", "check", "--json").out)["diagnostics"][0]["line"] == 2
    assert "skipped as a whole" in slowwave("short", "list").out
    assert slowwave("remember", "more").code == 2


def test_edit_without_a_terminal_prints_the_path(slowwave: Slowwave, home: Path, checkout: Path) -> None:
    assert slowwave("short", "edit").out.strip() == str(home / "short" / "user.md")
    assert slowwave("short", "edit", "--project").out.strip() == str(checkout / ".slowwave" / "memory.md")


@pytest.mark.parametrize(("arguments"), [("",), ("x", "--id", "a b"), ("x", "--project", "--user"), ("x" * 2_001,)])
def test_what_cannot_be_kept_is_refused_in_one_sentence(slowwave: Slowwave, arguments: tuple[str, ...]) -> None:
    done = slowwave("remember", *arguments)
    assert done.code == 2
    assert done.err.startswith("slowwave: ")
    assert done.err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_an_edited_file_with_a_fault_never_takes_the_place_of_the_valid_one(home: Path, tmp_path: Path) -> None:
    import os
    import pty

    file = home / "short" / "user.md"
    file.parent.mkdir()
    file.write_text("- [a] valid\n", "utf-8")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'broken\\n' > \"$1\"\n", "utf-8")
    editor.chmod(0o700)
    root = Path(__file__).parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from cli.main import main; main(['short', 'edit'])"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", code], {**os.environ, "EDITOR": str(editor), "TERM": "dumb"})
    os.write(terminal, b"n\n")
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.waitpid(pid, 0)
    os.close(terminal)
    assert file.read_text("utf-8") == "- [a] valid\n"
    assert (file.parent / "user.draft.md").read_text("utf-8") == "broken\n"
    assert b"line 1" in shown


@pytest.mark.req("P026")
def test_remembering_the_same_twice_keeps_it_once(slowwave: Slowwave, home: Path, checkout: Path) -> None:
    assert slowwave("remember", "Answer in German.").out.startswith("remembered")
    assert "says so already" in slowwave("remember", "Answer in German.").out
    for more in ([], ["--project"]):
        first, second = (
            json.loads(slowwave("remember", "--note", *more, "Never force-push.", "--json").out) for _ in range(2)
        )
        assert (first["id"] == second["id"], first["replaced"], second["replaced"]) == (True, False, True)
    assert [text for _, _, text in entries(slowwave)] == ["Answer in German."]
    assert len(list(home.glob("generations/*/memories_v2/extensions/ad_hoc/notes/*.md"))) == 2


@pytest.mark.parametrize(
    "command",
    [
        ("remember", "x"),
        ("remember", "--note", "--project", "x"),
        ("short", "list"),
        ("short", "check"),
        ("short", "edit"),
        ("search", "x"),
    ],
    ids=" ".join,
)
def test_in_a_folder_that_was_deleted_a_sentence_is_said(
    slowwave: Slowwave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    done = slowwave(*command)
    assert (done.code, "cannot be found any more" in done.err) == (2, True)


def test_sources_name_the_project_of_a_note_as_that_of_a_session(
    after_run: Slowwave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(load(), SystemClock()) as store:
        row = store.outputs.all()[0]
    monkeypatch.setattr("cli.remember.project_of", lambda _: Project(row.project, "whatever", tmp_path))
    assert after_run("remember", "--note", "--project", "Never force-push.", "--id", "push").code == 0
    assert after_run("run").code == 0
    (note,) = [row for row in after_run("sources", "--json").json if row["citation"] == "note:push"]
    assert note["project"] == row.project_name
