"""Kill -9 before and after every durable step of everything the workspace does.

After each kill a reader sees old or new texts and never another, start-up removes every left-over, and doing the
thing again ends exactly where it would have ended without the kill, byte for byte.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from memory import failpoints
from memory.errors import WorkspaceError
from memory.model import InputFile, Manifest
from memory.workspace import Workspace
from memory.workspace.layout import sha256_text

pytestmark = pytest.mark.deep

ONE, TWO = "1" * 16, "2" * 16
OLD, NEW = "v1\n\nold\n", "v1\n\nnew\n"
OLD_TEXTS = {f"rollout_summaries/{ONE}.md": "# old one\n", f"rollout_summaries/{TWO}.md": "# old two\n"}
NEW_TEXTS = {f"rollout_summaries/{ONE}.md": "# new one\n", "extensions/ad_hoc/notes/n.md": "new note\n"}
RUN = "run-1"


def manifest(texts: dict[str, str]) -> Manifest:
    return Manifest("g1", tuple(InputFile(p, p, sha256_text(t), len(t), "p") for p, t in texts.items()))


def prepare(home: Path) -> None:
    """Version 1 is published; a note lies there; `.git` holds the baseline."""
    workspace = Workspace.open(home, "g1")
    for source_id in (ONE, TWO):
        workspace.write_rollout_summary(source_id, OLD_TEXTS[f"rollout_summaries/{source_id}.md"])
    workspace.write_note("n", "old note")
    workspace.save_version(1, OLD, manifest(OLD_TEXTS), OLD_TEXTS)
    workspace.install_summary(OLD, None)
    workspace.reset_baseline(manifest(OLD_TEXTS), OLD_TEXTS, OLD)


def open_home(home: Path) -> Workspace:
    return Workspace.open(home, "g1")


def install(home: Path) -> None:
    workspace = open_home(home)
    if workspace.summary() != NEW:
        workspace.install_summary(NEW, sha256_text(OLD))


def retire_and_save(home: Path) -> None:
    open_home(home).save_version(2, NEW, manifest(NEW_TEXTS), NEW_TEXTS, keep=1)


def replace_version(home: Path) -> None:
    open_home(home).replace_version(1, NEW, manifest(NEW_TEXTS), NEW_TEXTS)


def cut_version(home: Path) -> None:
    """Only an input goes: the others are not written again."""
    texts = {path: text for path, text in OLD_TEXTS.items() if TWO not in path}
    open_home(home).replace_version(1, NEW, manifest(texts), texts)


def stage(home: Path) -> None:
    workspace = open_home(home)
    with workspace.stage(RUN, manifest(OLD_TEXTS), OLD_TEXTS, "the diff") as staging:
        staging.files.write("memory_summary.md", NEW)
        staging.files.edit("memory_summary.md", "new", "newer")


def prepare_restore(home: Path) -> None:
    """Inputs moved on after version 1, and there is a version 2 to go back to."""
    workspace = open_home(home)
    workspace.write_rollout_summary(ONE, "# rewritten\n")
    workspace.write_note("n", "rewritten", replace=True)
    workspace.save_version(2, NEW, manifest(NEW_TEXTS), NEW_TEXTS)


def restore(home: Path) -> None:
    workspace = open_home(home)
    workspace.restore(workspace.read_version(2), sha256_text(OLD))
    workspace.reset_baseline(manifest(NEW_TEXTS), NEW_TEXTS, NEW)


def remove_inputs(home: Path) -> None:
    workspace = open_home(home)
    workspace.remove_rollout_summary(TWO)
    workspace.remove_note("n")


def take_back(home: Path) -> None:
    workspace = open_home(home)
    if workspace.summary() is not None:
        workspace.remove_summary(sha256_text(OLD))


def heal(home: Path) -> None:
    (home / "generations/g1/memories_v2/.tmp-1-2").touch()
    (home / "generations/g1/memories_v2/workspace/dead/x").mkdir(parents=True, exist_ok=True)
    open_home(home).heal()


DEEDS: dict[str, Callable[[Path], object]] = {
    "open": lambda home: Workspace.open(home, "g2"),
    "publish": install,
    "save a version": lambda home: open_home(home).save_version(2, NEW, manifest(NEW_TEXTS), NEW_TEXTS),
    "save a version, retire one": retire_and_save,
    "replace a version": replace_version,
    "cut a version": cut_version,
    "drop a version": lambda home: open_home(home).drop_version(1),
    "reset the baseline": lambda home: open_home(home).reset_baseline(manifest(NEW_TEXTS), NEW_TEXTS, NEW),
    "write a rollout summary": lambda home: open_home(home).write_rollout_summary(ONE, "# new one\n"),
    "write a note": lambda home: open_home(home).write_note("n", "new note", replace=True),
    "write the instructions": lambda home: open_home(home).write_instructions(extract="e", consolidate="c"),
    "remove inputs": remove_inputs,
    "stage": stage,
    "restore": restore,
    "take the summary back": take_back,
    "drop the blocks": lambda home: open_home(home).drop_blocks(),
    "drop the index": lambda home: open_home(home).drop_index(),
    "probe": lambda home: open_home(home).probe(),
    "clear": lambda home: Workspace.remove_generation(home, "g1"),
    "heal": heal,
}


def nothing(home: Path) -> None:
    """Most deeds need no more than `prepare`."""


def prepare_blocks(home: Path) -> None:
    """What a hook leaves in a generation."""
    folder = home / "generations/g1/blocks"
    folder.mkdir()
    (folder / "0123abcd.json").write_text(OLD, "utf-8")


def prepare_index(home: Path) -> None:
    """What a search leaves in a generation."""
    (home / "generations/g1/index.db").write_text(OLD, "utf-8")


PREPARATIONS: dict[str, Callable[[Path], None]] = {
    "restore": prepare_restore,
    "drop the blocks": prepare_blocks,
    "drop the index": prepare_index,
}


def snapshot(home: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every folder; lock files name a process and are not compared."""
    return {
        str(p.relative_to(home)): p.read_bytes() if p.is_file() else None
        for p in sorted(home.rglob("*"))
        if p.name != ".lock"
    }


def points_of(deed: Callable[[Path], object], home: Path) -> Counter[str]:
    with failpoints.recorded() as seen:
        deed(home)
    return Counter(seen)


def readable(home: Path, killed_in: str) -> None:
    """What any reader may see between the kill and the repair."""
    workspace = Workspace.open(home, "g1", create=False)
    if killed_in in {"clear", "take the summary back"}:
        assert workspace.summary() in {OLD, None}
        return
    assert workspace.summary() in {OLD, NEW}
    for path, text in workspace.rollout_summaries().items():
        assert text in {f"# old {n}\n" for n in ("one", "two")} | {"# new one\n", "# rewritten\n"}, path
    assert {note.text for note in workspace.notes().notes} <= {"old note\n", "new note\n", "rewritten\n"}
    for number in workspace.versions():
        assert workspace.read_version(number).summary in {OLD, NEW}
    texts = {f"rollout_summaries/{s}.md": t for s, t in workspace.rollout_summaries().items()}
    diff = workspace.diff(manifest(texts), texts)
    if killed_in not in {"reset the baseline", "restore"}:  # there either commit may be the base
        pending = {path for path, text in texts.items() if OLD_TEXTS.get(path) != text}
        assert pending <= {*diff.added, *diff.changed}


@pytest.mark.req("Z103", "Z105", "Z106", "Z117")
@pytest.mark.fault("M82", "X47")
@pytest.mark.parametrize("name", DEEDS)
def test_killed_at_any_step_nothing_is_half_done_and_doing_it_again_ends_the_same(
    tmp_path: Path, in_child: Callable[[Callable[[], None]], int], name: str
) -> None:
    deed = DEEDS[name]
    start, clean = tmp_path / "start", tmp_path / "clean"
    prepare(start)
    PREPARATIONS.get(name, nothing)(start)
    shutil.copytree(start, clean, symlinks=True)
    points = points_of(deed, clean)
    expected = snapshot(clean)
    assert points
    for point, count in points.items():
        for time in sorted({1, count}):
            home = tmp_path / "home"
            shutil.copytree(start, home, symlinks=True)

            def die(point: str = point, time: int = time, home: Path = home) -> None:
                failpoints.arm_from_text(f"{point}=kill@{time}")
                deed(home)

            assert in_child(die) == -signal.SIGKILL, (point, time)
            readable(home, name)
            if name != "clear":
                for generation in sorted(p.name for p in (home / "generations").iterdir()):
                    assert Workspace.open(home, generation).heal().problems == [], (point, time)
                assert not [p for p in home.rglob(".tmp-*") if ".git" not in p.parts], (point, time)
                assert not list(home.rglob(RUN)), (point, time)
            deed(home)
            if name == "clear":
                Workspace.open(home, "g3").heal()
                shutil.rmtree(home / "generations/g3")
            assert snapshot(home) == expected, (point, time)
            shutil.rmtree(home)


def test_every_failpoint_of_the_workspace_is_reached_by_one_of_these_deeds(tmp_path: Path) -> None:
    """A durable step that no deed reaches would be killed by no test."""
    start = tmp_path / "start"
    seen = set(points_of(prepare, start))
    for name, deed in DEEDS.items():
        home = tmp_path / name
        shutil.copytree(start, home, symlinks=True)
        PREPARATIONS.get(name, nothing)(home)
        seen |= set(points_of(deed, home))
    elsewhere = "workspace.quarantine."  # killed in the torture tests, where something is set aside
    known = {point for point in failpoints.known() if point.startswith("workspace.")}
    assert {point for point in known if not point.startswith(elsewhere)} == seen


@pytest.mark.req("Z105")
def test_the_publishing_process_killed_at_random_never_shows_a_reader_anything_but_whole_texts(
    tmp_path: Path, in_child: Callable[[Callable[[], None]], int]
) -> None:
    home = tmp_path / "home"
    workspace = Workspace.open(home, "g1")
    texts = [f"v1\n{number}\n" + "x" * 9_000 for number in range(8)]
    workspace.install_summary(texts[0], None)
    for after in range(1, 25):

        def publish(after: int = after) -> None:
            failpoints.arm("workspace.summary.write.before", lambda: None)
            steps = iter(range(10_000))
            for step in ("create", "write", "fsync", "rename", "fsync_folder"):
                for side in ("before", "after"):
                    failpoints.arm(
                        f"workspace.summary.{step}.{side}",
                        lambda: os.kill(os.getpid(), signal.SIGKILL) if next(steps) == after else None,
                    )
            mine = Workspace.open(home, "g1")
            for text in texts * 3:
                mine.install_summary(text, mine.summary_sha())

        assert in_child(publish) == -signal.SIGKILL
        assert workspace.summary() in texts
    workspace.heal()
    assert sorted(p.name for p in workspace.root.iterdir() if p.name.startswith(".tmp")) == []


@pytest.mark.fault("O41")
def test_a_failing_child_is_seen_as_failing(in_child: Callable[[Callable[[], None]], int]) -> None:
    """The helper of these tests tells success, failure and kill apart."""

    def fail() -> None:
        raise WorkspaceError("x")

    assert in_child(lambda: None) == 0
    assert in_child(lambda: os.kill(os.getpid(), 9)) == -9
    with open(os.devnull, "w") as nothing:  # noqa: PTH123
        saved = os.dup(2)
        os.dup2(nothing.fileno(), 2)
        try:
            assert in_child(fail) == 1
        finally:
            os.dup2(saved, 2)
            os.close(saved)
