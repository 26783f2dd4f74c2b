"""What an agent can reach: the staged files to read, the summary to write, nothing else whatever the path."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import string
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from memory.errors import InputsChangedError, PathRefused, StorageError, WorkspaceError
from memory.model import DIFF_NAME, SUMMARY_NAME, Manifest
from memory.workspace import ConfinedFiles, Limits, Staging, Workspace, beneath
from memory.workspace.confined import judge_path
from memory.workspace.layout import sha256_text
from memory.workspace.testing import FaultySyscalls, disk

ONE = "1" * 16
PATH = f"rollout_summaries/{ONE}.md"


@pytest.fixture(params=["kernel", "walk"], autouse=True)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every test here runs with the kernel's way of opening and with ours."""
    opener = beneath.kernel_opener() if request.param == "kernel" else beneath.open_by_walk
    if opener is None:
        pytest.skip("this kernel has no openat2")
    beneath.force(opener)
    yield str(request.param)
    beneath.force(None)


@pytest.fixture
def staging(filled: tuple[Workspace, Manifest, dict[str, str]]) -> Iterator[Staging]:
    workspace, manifest, texts = filled
    workspace.install_summary("v1\n\n## User Profile\n- old [11111111]\n", None)
    with workspace.stage("run-1", manifest, texts, "the diff\n", limits=Limits(operations=10**9)) as staged:
        yield staged


@pytest.mark.req("Z090")
def test_the_staged_files_are_listed_and_read_as_they_are(
    staging: Staging, filled: tuple[Workspace, Manifest, dict[str, str]]
) -> None:
    _, _, texts = filled
    assert staging.files.list() == sorted([*texts, SUMMARY_NAME, DIFF_NAME])
    for path, text in texts.items():
        assert staging.files.read(path) == text
    assert staging.files.read(DIFF_NAME) == "the diff\n"


@pytest.mark.req("Z090", "Z091")
def test_the_summary_can_be_written_and_edited(staging: Staging) -> None:
    staging.files.write(SUMMARY_NAME, "v1\none\ntwo\n")
    staging.files.edit(SUMMARY_NAME, "two", "drei 三")
    assert staging.candidate() == staging.files.read(SUMMARY_NAME) == "v1\none\ndrei 三\n"
    assert stat.S_IMODE((staging.root / SUMMARY_NAME).stat().st_mode) == 0o600


@pytest.mark.req("Z091")
@pytest.mark.parametrize("path", [PATH, DIFF_NAME, "extensions/ad_hoc/notes/house-rules.md"])
def test_no_input_can_be_written(staging: Staging, path: str) -> None:
    before = (staging.root / path).read_bytes()
    with pytest.raises(PathRefused, match="read-only"):
        staging.files.write(path, "mine")
    with pytest.raises(PathRefused, match="read-only"):
        staging.files.edit(path, "e", "x")
    assert (staging.root / path).read_bytes() == before
    assert stat.S_IMODE((staging.root / path).stat().st_mode) == 0o400


HOSTILE = [
    "", ".", "..", "/", "/etc/passwd", "../memory_summary.md", "rollout_summaries/../memory_summary.md",
    "./memory_summary.md", "rollout_summaries//x.md", "memory_summary.md/", "memory_summary.md\0",
    "memory_summary.md\n", "memory_summary.md ", " memory_summary.md", "memory_summary.md.", "MEMORY_SUMMARY.MD",
    "Memory_summary.md", "memory_summary.md::$DATA", "C:\\memory_summary.md", "C:/memory_summary.md",
    "rollout_summaries\\x.md", "~/x", ".git/HEAD", ".git", "rollout_summaries/.git/config", ".tmp-1-2",
    "rollout_summaries", "extensions/ad_hoc/notes", "memory_\u0455ummary.md", "\uff4demory_summary.md",
    "memory\u200b_summary.md", "memory_summary\u202e.md", "m\u00e9mory_summary.md", "a/" * 50 + "x", "x" * 5_000,
    "file:///etc/passwd", "%2e%2e/x", "rollout_summaries/..%2f..%2fx", "\ud800", f"ROLLOUT_SUMMARIES/{ONE}.md",
    f"rollout_summaries/{ONE}.MD", "rollout_summaries/ffffffffffffffff.md", "MEMORY.md", "raw_memories.md",
    "skills/x/SKILL.md",
]  # fmt: skip


@pytest.mark.req("Z090")
def test_a_path_that_is_not_exactly_a_staged_one_is_refused(staging: Staging) -> None:
    for path in HOSTILE:
        with pytest.raises(PathRefused) as caught:
            staging.files.read(path)
        assert caught.value.hint
        assert str(caught.value).isascii()
        with pytest.raises(PathRefused):
            staging.files.write(path, "x")
        with pytest.raises(PathRefused):
            staging.files.edit(path, "x", "y")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("Memory_Summary.md", "looks like memory_summary.md"),
        ("ｍemory_summary.md", "looks like memory_summary.md"),
        ("rollout_summaries/1111111111111112.md", f"Did you mean {PATH}"),
        ("/memory_summary.md", "absolute"),
        ("../memory_summary.md", "upwards"),
        (".git/HEAD", "hidden"),
    ],
)
def test_a_refusal_says_why_and_what_would_do(staging: Staging, path: str, reason: str) -> None:
    with pytest.raises(PathRefused, match=reason):
        staging.files.read(path)


def test_a_twin_in_another_unicode_form_is_not_the_file() -> None:
    known = "notes/caf\u00e9.md"
    for form in ("NFD", "NFKD"):
        with pytest.raises(PathRefused, match="looks like"):
            judge_path(unicodedata.normalize(form, known), {known}, Limits())
    judge_path(known, {known}, Limits())


@pytest.mark.parametrize("kind", ["link", "hard link", "fifo", "folder", "socket", "linked folder"])
def test_a_staged_name_that_became_something_else_is_refused(staging: Staging, tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{ONE}.md").write_text("SECRET")
    path = staging.root / PATH
    path.unlink()
    if kind == "linked folder":
        for other in path.parent.iterdir():
            other.unlink()
        path.parent.rmdir()
        path.parent.symlink_to(outside)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(path.parent):
            server.bind(path.name)
    else:
        make: dict[str, Callable[[], None]] = {
            "link": lambda: path.symlink_to(outside / f"{ONE}.md"),
            "hard link": lambda: path.hardlink_to(outside / f"{ONE}.md"),
            "fifo": lambda: os.mkfifo(path),
            "folder": path.mkdir,
        }
        make[kind]()
    with pytest.raises(PathRefused):
        staging.files.read(PATH)


@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_a_summary_swapped_for_a_link_is_neither_read_nor_written_through(
    staging: Staging, tmp_path: Path, kind: str
) -> None:
    victim = tmp_path / "victim.md"
    victim.write_text("theirs")
    path = staging.root / SUMMARY_NAME
    path.unlink()
    if kind == "link":
        path.symlink_to(victim)
    else:
        path.hardlink_to(victim)
    for deed in (
        lambda: staging.files.read(SUMMARY_NAME),
        lambda: staging.files.write(SUMMARY_NAME, "v1\n"),
        lambda: staging.files.edit(SUMMARY_NAME, "theirs", "mine"),
        staging.candidate,
    ):
        with pytest.raises(PathRefused):
            deed()
    assert victim.read_text() == "theirs"


def test_a_staged_input_with_other_bytes_is_not_shown(staging: Staging) -> None:
    path = staging.root / PATH
    path.chmod(0o600)
    path.write_text("planted")
    with pytest.raises(InputsChangedError):
        staging.files.read(PATH)
    path.unlink()
    with pytest.raises(InputsChangedError, match="gone"):
        staging.files.read(PATH)


def test_invalid_utf8_is_refused_and_so_are_characters_that_cannot_be_written(staging: Staging) -> None:
    (staging.root / SUMMARY_NAME).write_bytes(b"v1\n\xff\n")
    with pytest.raises(WorkspaceError, match="UTF-8"):
        staging.files.read(SUMMARY_NAME)
    with pytest.raises(WorkspaceError, match="Unicode"):
        staging.files.write(SUMMARY_NAME, "v1\n\ud800")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nowhere", "x", "stands 0 times"),
        ("line", "x", "stands 3 times"),
        ("aa", "x", "stands 2 times"),
        ("", "x", "empty"),
        ("one", "one", "nothing would change"),
    ],
)
def test_an_edit_needs_exactly_one_match_and_says_how_many_there_are(
    staging: Staging, old: str, new: str, said: str
) -> None:
    text = "v1\nline one\nline two\nline aaa\n"
    staging.files.write(SUMMARY_NAME, text)
    with pytest.raises(WorkspaceError, match=said):
        staging.files.edit(SUMMARY_NAME, old, new)
    assert staging.candidate() == text


@given(text=st.text(max_size=60), old=st.text(min_size=1, max_size=4), new=st.text(max_size=6))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_edit_changes_the_one_match_and_leaves_every_other_character(
    staging: Staging, text: str, old: str, new: str
) -> None:
    staging.files.write(SUMMARY_NAME, text)
    starts = [at for at in range(len(text)) if text.startswith(old, at)]
    try:
        staging.files.edit(SUMMARY_NAME, old, new)
    except WorkspaceError:
        assert len(starts) != 1 or old == new
        assert staging.candidate() == text
    else:
        (at,) = starts
        assert staging.candidate() == text[:at] + new + text[at + len(old) :]


def test_a_long_file_is_read_in_parts_that_join_to_the_whole(
    filled: tuple[Workspace, Manifest, dict[str, str]],
) -> None:
    workspace, manifest, texts = filled
    with workspace.stage("run-2", manifest, texts, "", limits=Limits(read_bytes=100)) as staging:
        text = "".join(f"{n} 记忆 é\n" for n in range(200))
        staging.files.write(SUMMARY_NAME, text)
        joined, offset = "", 0
        while True:
            part = staging.files.read(SUMMARY_NAME, offset)
            if "\n[cut: " not in part:
                joined += part
                break
            shown, _, mark = part.rpartition("\n[cut: ")
            assert mark.startswith(f"characters {offset} to {offset + len(shown)} of {len(text)};")
            joined += shown
            offset += len(shown)
        assert joined == text
        assert staging.files.read(SUMMARY_NAME, 2, 3).startswith(text[2:5] + "\n[cut: characters 2 to 5")
        assert staging.files.read(SUMMARY_NAME, len(text)) == ""


@pytest.mark.parametrize(("offset", "limit"), [(-1, None), (0, 0), (0, -3), (10_000, None)])
def test_a_senseless_range_is_an_error(staging: Staging, offset: int, limit: int | None) -> None:
    with pytest.raises(WorkspaceError):
        staging.files.read(SUMMARY_NAME, offset, limit)


def test_size_and_count_have_limits(filled: tuple[Workspace, Manifest, dict[str, str]]) -> None:
    workspace, manifest, texts = filled
    limits = Limits(write_bytes=10, operations=4, file_bytes=20)
    with workspace.stage("run-3", manifest, texts, "", limits=limits) as staging:
        staging.files.write(SUMMARY_NAME, "é" * 5)
        with pytest.raises(WorkspaceError, match="12 bytes"):
            staging.files.write(SUMMARY_NAME, "é" * 6)
        with pytest.raises(WorkspaceError, match="larger than the 20 bytes"):
            staging.files.read(PATH)
        staging.files.read(SUMMARY_NAME)
        with pytest.raises(WorkspaceError, match="4 file operations"):
            staging.files.read(SUMMARY_NAME)
        assert staging.candidate() == "é" * 5


def test_without_a_summary_yet_reading_says_so_and_writing_makes_it(
    filled: tuple[Workspace, Manifest, dict[str, str]],
) -> None:
    workspace, manifest, texts = filled
    with workspace.stage("run-4", manifest, texts, "") as staging:
        assert SUMMARY_NAME not in staging.files.list()
        assert staging.candidate() == ""
        with pytest.raises(WorkspaceError, match="does not exist yet"):
            staging.files.read(SUMMARY_NAME)
        with pytest.raises(WorkspaceError, match="does not exist yet"):
            staging.files.edit(SUMMARY_NAME, "a", "b")
        staging.files.write(SUMMARY_NAME, "v1\n")
        assert SUMMARY_NAME in staging.files.list()


def test_after_the_run_nothing_is_reachable(filled: tuple[Workspace, Manifest, dict[str, str]]) -> None:
    workspace, manifest, texts = filled
    staging = workspace.stage("run-5", manifest, texts, "")
    files: ConfinedFiles = staging.files
    assert staging.discard()
    for deed in (lambda: files.read(PATH), lambda: files.write(SUMMARY_NAME, "x"), files.list):
        with pytest.raises(WorkspaceError, match="closed"):
            deed()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES], ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["open", "write", "rename", "read"])
def test_a_full_or_failing_disk_is_told_to_the_agent_without_our_paths(staging: Staging, call: str, code: int) -> None:
    before = staging.candidate()
    with disk(FaultySyscalls(call, 1, code)), pytest.raises(StorageError) as caught:
        staging.files.write(SUMMARY_NAME, "v1\nnew\n")
    assert str(staging.root) not in str(caught.value)
    assert staging.candidate() == before


_PIECES = st.sampled_from(
    ["..", ".", "", "/", "\\", "\0", "memory_summary.md", "MEMORY_SUMMARY.md", "rollout_summaries", f"{ONE}.md", ".git",
     "extensions", "ad_hoc", "notes", "house-rules.md", "~", ":", " ", "phase2_workspace_diff.md", "proc", "self", "fd"]
)  # fmt: skip
_PATHS = st.one_of(
    st.text(max_size=80),
    st.lists(_PIECES, max_size=8).map("/".join),
    st.lists(_PIECES, max_size=6).map("".join),
    st.text(alphabet=string.printable, max_size=40).map(lambda tail: f"rollout_summaries/{tail}"),
)


@pytest.mark.req("Z090", "Z091")
@given(path=_PATHS)
@example(path=SUMMARY_NAME)
@example(path=PATH)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_path_only_staged_texts_come_back_and_only_the_summary_changes(
    staging: Staging, filled: tuple[Workspace, Manifest, dict[str, str]], path: str
) -> None:
    _, _, texts = filled
    staging.files.write(SUMMARY_NAME, "v1\n")
    known = {**texts, DIFF_NAME: "the diff\n", SUMMARY_NAME: "v1\n"}
    try:
        assert staging.files.read(path) == known[path]
    except PathRefused:
        assert path not in known
    try:
        staging.files.write(path, "v1\nwritten\n")
    except PathRefused:
        assert path != SUMMARY_NAME
    after = {
        str(found.relative_to(staging.root)): sha256_text(found.read_text())
        for found in staging.root.rglob("*")
        if found.is_file()
    }
    wanted = {**known, SUMMARY_NAME: "v1\nwritten\n" if path == SUMMARY_NAME else "v1\n"}
    assert after == {name: sha256_text(text) for name, text in wanted.items()}


@pytest.mark.fault("X18")
def test_an_agent_started_in_a_repository_leaves_it_untouched(
    staging: Staging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "memory_summary.md").write_text("the repository's own")
    monkeypatch.chdir(repo)
    for path in ("../repo/x", str(repo / "x"), "x"):
        with pytest.raises(PathRefused):
            staging.files.write(path, "x")
    staging.files.write(SUMMARY_NAME, "v1\nours\n")
    assert [(p.name, p.read_text()) for p in repo.iterdir()] == [("memory_summary.md", "the repository's own")]


@pytest.mark.req("Z090")
def test_two_thousand_swaps_of_a_folder_for_a_link_show_the_agent_nothing_from_outside(
    staging: Staging, tmp_path: Path, filled: tuple[Workspace, Manifest, dict[str, str]]
) -> None:
    _, _, texts = filled
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{ONE}.md").write_text(texts[PATH])  # the right bytes: only the way there can give it away
    held, away = staging.root / "rollout_summaries", staging.root / "away"
    stop = threading.Event()

    def swap() -> None:
        for _ in range(1_000):
            held.rename(away)
            held.symlink_to(outside)
            held.unlink()
            away.rename(held)
        stop.set()

    inside_inode = (held / f"{ONE}.md").stat().st_ino
    opened: set[int] = set()
    thread = threading.Thread(target=swap)
    thread.start()
    while not stop.is_set():
        with contextlib.suppress(OSError):
            fd = staging.files._open(PATH)
            opened.add(os.fstat(fd).st_ino)
            os.close(fd)
        with contextlib.suppress(WorkspaceError):
            assert staging.files.read(PATH) == texts[PATH]
    thread.join()
    assert opened <= {inside_inode}
    assert staging.files.read(PATH) == texts[PATH]
