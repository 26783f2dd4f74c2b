"""The workspace as a whole: its layout, its readers and writers, restore and clear."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import FencedError, InputsChangedError, PathRefused, StorageError, UsageError, WorkspaceError
from memory.model import Manifest
from memory.workspace import PendingIntent, Verdict, Workspace
from memory.workspace.files import Files
from memory.workspace.healing import decide
from memory.workspace.layout import sha256_text
from memory.workspace.locks import locked
from memory.workspace.testing import FaultySyscalls, disk

Inputs = tuple[Manifest, dict[str, str]]
Filled = tuple[Workspace, Manifest, dict[str, str]]
ONE, TWO, THREE = "1" * 16, "2" * 16, "3" * 16


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


# -- layout -------------------------------------------------------------------------------------------


@pytest.mark.req("Z044", "Z045", "Z060")
def test_a_new_workspace_has_the_places_of_the_long_memory_and_no_legacy_ones(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home", "g1")
    workspace.write_instructions(extract="How to extract", consolidate="How to consolidate")
    assert workspace.root == tmp_path / "home/generations/g1/memories_v2"
    found = sorted(str(path.relative_to(workspace.root)) for path in workspace.root.rglob("*"))
    assert found == [
        "extensions",
        "extensions/ad_hoc",
        "extensions/ad_hoc/instructions.md",
        "extensions/ad_hoc/notes",
        "instructions",
        "instructions/consolidate.md",
        "instructions/extract.md",
        "rollout_summaries",
        "workspace",
    ]
    assert (workspace.root / "instructions/extract.md").read_text() == "How to extract"
    assert workspace.summary() is None
    assert workspace.summary_sha() is None


def test_everything_belongs_to_its_owner_alone_whatever_the_mask(filled: Filled) -> None:
    workspace, manifest, texts = filled
    before = os.umask(0)
    try:
        workspace.install_summary("v1\n", None)
        workspace.save_version(1, "v1\n", manifest, texts)
        workspace.reset_baseline(manifest, texts, "v1\n")
        workspace.write_instructions(extract="x", consolidate="y")
        paths = list(workspace.home.joinpath("generations").rglob("*"))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_dir()} == {0o700}
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_file()} == {0o600}
    assert stat.S_IMODE(workspace.home.stat().st_mode) == 0o700


def test_eight_processes_opening_the_same_new_home_at_once_all_succeed(
    tmp_path: Path, in_children: Callable[[Sequence[Callable[[], None]]], list[int]]
) -> None:
    def start() -> None:
        Workspace.open(tmp_path / "home", "g1").heal()

    assert in_children([start] * 8) == [0] * 8


def test_an_existing_home_keeps_its_mode(tmp_path: Path) -> None:
    """It may be a folder that others need; what lies in it is closed anyway."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home").chmod(0o755)
    Workspace.open(tmp_path / "home", "g1")
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "home/generations").stat().st_mode) == 0o700


@pytest.mark.req("Z044")
def test_another_generation_is_not_read(filled: Filled) -> None:
    workspace, *_ = filled
    workspace.install_summary("v1\n", None)
    other = Workspace.open(workspace.home, "g2")
    assert other.summary() is None
    assert other.rollout_summaries() == {}
    assert other.notes().notes == []


@pytest.mark.req("Z060")
def test_legacy_memories_that_somebody_plants_are_not_read(filled: Filled) -> None:
    workspace, *_ = filled
    (workspace.root / "MEMORY.md").write_text("SECRET")
    (workspace.root / "raw_memories").mkdir()
    (workspace.root / "raw_memories/x.md").write_text("SECRET")
    (workspace.root / "rollout_summaries/MEMORY.md").write_text("SECRET")
    assert set(workspace.rollout_summaries()) == {ONE, TWO}
    assert "SECRET" not in str(workspace.notes())


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("at", ["", "generations", "generations/g1", "generations/g1/memories_v2"])
def test_a_home_or_workspace_that_is_a_link_is_refused(tmp_path: Path, at: str, create: bool) -> None:
    (tmp_path / "elsewhere/generations/g1/memories_v2").mkdir(parents=True)
    link = tmp_path / "home" / at if at else tmp_path / "home"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(tmp_path / "elsewhere" / at)
    before = snapshot(tmp_path / "elsewhere")
    with pytest.raises(PathRefused):
        Workspace.open(tmp_path / "home", "g1", create=create)
    assert snapshot(tmp_path / "elsewhere") == before


def test_a_link_above_the_home_is_the_users_own_affair(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Workspace.open(tmp_path / "link/home", "g1").install_summary("v1\n", None)
    assert (tmp_path / "real/home/generations/g1/memories_v2/memory_summary.md").read_text() == "v1\n"


@pytest.mark.fault("O32")
def test_opening_to_read_writes_nothing(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "home", "g1", create=False)
    assert (workspace.summary(), workspace.rollout_summaries(), workspace.versions()) == (None, {}, [])
    assert workspace.notes().notes == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("generation", ["", ".", "..", "a/b", ".x", "x\0", "x" * 65])
def test_a_generation_cannot_have_a_name_that_leads_elsewhere(tmp_path: Path, generation: str) -> None:
    with pytest.raises(UsageError):
        Workspace.open(tmp_path, generation)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
@pytest.mark.fault("X18")
def test_a_disk_that_cannot_be_written_is_found_by_the_probe_and_named(workspace: Workspace, code: int) -> None:
    workspace.probe()
    before = sorted(workspace.home.rglob("*"))
    with disk(FaultySyscalls("open", 1, code)), pytest.raises(StorageError) as caught:
        workspace.probe()
    assert str(workspace.root) in caught.value.message
    assert caught.value.hint
    assert sorted(workspace.home.rglob("*")) == before


# -- inputs -------------------------------------------------------------------------------------------


@pytest.mark.req("Z054")
def test_a_rollout_has_one_file_whose_name_only_its_source_decides(workspace: Workspace) -> None:
    first = workspace.write_rollout_summary(ONE, "# first\n")
    second = workspace.write_rollout_summary(ONE, "# second, another slug\n")
    workspace.write_rollout_summary(TWO, "# two\n")
    assert first != second == sha256_text("# second, another slug\n")
    assert workspace.rollout_summaries() == {ONE: "# second, another slug\n", TWO: "# two\n"}
    assert sorted(p.name for p in (workspace.root / "rollout_summaries").iterdir()) == [f"{ONE}.md", f"{TWO}.md"]
    assert workspace.remove_rollout_summary(ONE)
    assert not workspace.remove_rollout_summary(ONE)


@pytest.mark.req("Z055")
def test_a_rollout_summary_of_9000_bytes_is_stored_and_one_of_9001_is_not(workspace: Workspace) -> None:
    workspace.write_rollout_summary(ONE, "记" * 3_000)
    with pytest.raises(WorkspaceError, match="9,001 bytes"):
        workspace.write_rollout_summary(ONE, "记" * 3_000 + "x")
    assert workspace.rollout_summaries()[ONE] == "记" * 3_000


@pytest.mark.parametrize("source_id", ["", "1" * 15, "1" * 17, "A" * 16, "../../../../etc/x", "1" * 15 + "/"])
def test_a_source_id_cannot_lead_elsewhere(workspace: Workspace, source_id: str) -> None:
    with pytest.raises(UsageError):
        workspace.write_rollout_summary(source_id, "x")
    with pytest.raises(UsageError):
        workspace.remove_rollout_summary(source_id)


@pytest.mark.req("Z058")
@pytest.mark.parametrize("kind", ["link", "hard link", "not UTF-8", "too large"])
def test_a_damaged_rollout_summary_is_an_error_and_never_a_missing_one(
    filled: Filled, tmp_path: Path, kind: str
) -> None:
    workspace, *_ = filled
    path = workspace.root / f"rollout_summaries/{ONE}.md"
    (tmp_path / "other").write_text("SECRET")
    path.unlink()
    make: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(tmp_path / "other"),
        "hard link": lambda: path.hardlink_to(tmp_path / "other"),
        "not UTF-8": lambda: path.write_bytes(b"\xff"),
        "too large": lambda: path.write_text("x" * 9_001),
    }
    make[kind]()
    with pytest.raises(WorkspaceError, match=f"{ONE}.md"):
        workspace.rollout_summaries()


def test_instructions_are_written_only_when_they_change(workspace: Workspace) -> None:
    workspace.write_instructions(extract="a", consolidate="b")
    path = workspace.root / "instructions/extract.md"
    before = path.stat().st_ino
    workspace.write_instructions(extract="a", consolidate="c")
    assert path.stat().st_ino == before
    assert (workspace.root / "instructions/consolidate.md").read_text() == "c"


# -- publishing ---------------------------------------------------------------------------------------


@pytest.mark.req("Z046", "Z101")
def test_a_summary_of_9999_bytes_is_published_and_one_of_10000_is_not(workspace: Workspace) -> None:
    good = "v1\n" + "记" * 3_332
    assert len(good.encode()) == 9_999
    workspace.install_summary(good, None)
    with pytest.raises(WorkspaceError, match="10,000 bytes"):
        workspace.install_summary(good + "x", sha256_text(good))
    assert workspace.summary() == good


@pytest.mark.req("Z047")
@pytest.mark.parametrize("text", ["V1\n", " v1\n", "\ufeffv1\n", "\nv1\n", "v1", "v10\n", "v1 \n", "", "v1\r\n"])
def test_a_summary_that_does_not_begin_with_v1_is_not_published(workspace: Workspace, text: str) -> None:
    with pytest.raises(WorkspaceError):
        workspace.install_summary(text, None)
    assert workspace.summary() is None


@pytest.mark.req("Z103")
def test_a_summary_is_replaced_only_if_it_is_still_the_expected_one(workspace: Workspace) -> None:
    first = workspace.install_summary("v1\none\n", None)
    second = workspace.install_summary("v1\ntwo\n", first)
    for stale in (None, first, "0" * 64):
        with pytest.raises(InputsChangedError):
            workspace.install_summary("v1\nthree\n", stale)
    assert workspace.summary_sha() == second == sha256_text("v1\ntwo\n")


def test_of_many_writers_with_the_same_expectation_exactly_one_publishes(workspace: Workspace) -> None:
    workspace.install_summary("v1\n", None)
    base, won, gate = workspace.summary_sha(), [], threading.Barrier(8)

    def publish(number: int) -> None:
        gate.wait()
        try:
            workspace.install_summary(f"v1\n{number}\n", base)
            won.append(number)
        except InputsChangedError:
            pass

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [workspace.summary()] == [f"v1\n{number}\n" for number in won]


@pytest.mark.req("Z105")
def test_readers_that_never_stop_see_two_hundred_publishes_as_whole_texts_in_order(workspace: Workspace) -> None:
    texts = [f"v1\n{number:03}\n" + f"{number:03} 记忆\n" * 700 for number in range(201)]
    order = {text: number for number, text in enumerate(texts)}
    workspace.install_summary(texts[0], None)
    stop = threading.Event()
    seen: list[list[int]] = [[], []]

    def poll(mine: list[int], read: Callable[[], str | None]) -> None:
        while not stop.is_set():
            text = read()
            mine.append(-1 if text is None else order.get(text, -2))

    readers = [
        threading.Thread(target=poll, args=(seen[0], workspace.summary)),
        threading.Thread(target=poll, args=(seen[1], lambda: workspace.summary_path.read_bytes().decode())),
    ]
    for reader in readers:
        reader.start()
    for before, after in itertools.pairwise(texts):
        workspace.install_summary(after, sha256_text(before))
    stop.set()
    for reader in readers:
        reader.join()
    for mine in seen:
        assert len(mine) > 20
        assert min(mine) >= 0
        assert mine == sorted(mine)


@pytest.mark.req("Z103")
@pytest.mark.fault("O41")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_whichever_call_fails_a_publish_raises_and_the_hash_tells_what_stands(workspace: Workspace, code: int) -> None:
    old, new = "v1\nold\n", "v1\nnew\n"
    workspace.install_summary(old, None)
    counting = FaultySyscalls()
    with disk(counting):
        workspace.install_summary(new, sha256_text(old))
    for name, count in counting.calls.items():
        for nth in range(1, count + 1):
            current = workspace.summary_sha()
            if current != sha256_text(old):
                workspace.install_summary(old, current)
            with disk(FaultySyscalls(name, nth, code)), pytest.raises(StorageError):
                workspace.install_summary(new, sha256_text(old))
            verdict = decide(workspace.summary_sha(), sha256_text(old), sha256_text(new))
            assert verdict is (Verdict.FINISH if (name, nth) == ("fsync", 2) else Verdict.UNDO), (name, nth)
            assert not [p for p in workspace.root.iterdir() if p.name.startswith(".tmp")]


# -- healing ------------------------------------------------------------------------------------------


@pytest.mark.req("Z106")
@pytest.mark.parametrize(
    ("current", "old", "new", "verdict"),
    [
        ("n", "o", "n", Verdict.FINISH),
        ("o", "o", "n", Verdict.UNDO),
        (None, None, "n", Verdict.UNDO),
        ("n", None, "n", Verdict.FINISH),
        ("n", "n", "n", Verdict.FINISH),
        ("x", "o", "n", Verdict.FOREIGN),
        (None, "o", "n", Verdict.FOREIGN),
        ("x", None, "n", Verdict.FOREIGN),
    ],
)
def test_an_intent_is_judged_by_what_stands_on_disk(
    current: str | None, old: str | None, new: str, verdict: Verdict
) -> None:
    assert decide(current, old, new) is verdict


_HASHES = st.sampled_from(["a", "b", "c"])


@given(current=st.none() | _HASHES, old=st.none() | _HASHES, new=_HASHES)
@settings(max_examples=60)
def test_a_judgement_never_calls_a_text_new_or_old_that_is_not(current: str | None, old: str | None, new: str) -> None:
    verdict = decide(current, old, new)
    assert (verdict is Verdict.FINISH) == (current == new)
    assert (verdict is Verdict.UNDO) == (current == old != new)


@pytest.mark.req("Z106")
def test_healing_judges_every_open_intent_and_changes_no_text(filled: Filled) -> None:
    workspace, *_ = filled
    sha = workspace.install_summary("v1\nnew\n", None)
    before = snapshot(workspace.root)
    report = workspace.heal(
        [PendingIntent(1, "0" * 64, sha), PendingIntent(2, sha, "1" * 64), PendingIntent(3, None, "2" * 64)]
    )
    assert report.verdicts == {1: Verdict.FINISH, 2: Verdict.UNDO, 3: Verdict.FOREIGN}
    assert snapshot(workspace.root) == before


def test_healing_removes_what_interrupted_writes_left_and_nothing_else(filled: Filled) -> None:
    workspace, *_ = filled
    before = snapshot(workspace.home)
    for place in ("", "rollout_summaries", "extensions/ad_hoc/notes", "../versions", ".."):
        (workspace.root / place / ".tmp-1-abc").write_text("half")
    (workspace.root / "../versions/.tmp-2-def").mkdir()
    (workspace.home / "generations/.tmp-cleared-1-2").mkdir()
    report = workspace.heal()
    assert len(report.removed) == 7
    assert report.problems == []
    assert {k: v for k, v in snapshot(workspace.home).items() if not k.endswith(".lock")} == {
        k: v for k, v in before.items() if not k.endswith(".lock")
    }


def test_what_cannot_be_healed_is_reported_and_not_raised(filled: Filled) -> None:
    workspace, *_ = filled
    (workspace.root / ".tmp-1-abc").write_text("half")
    (workspace.root / "workspace/dead").mkdir()
    workspace.summary_path.mkdir()
    with disk(FaultySyscalls("unlink", 1, errno.EACCES)):
        report = workspace.heal([PendingIntent(1, None, "0" * 64)])
    assert len(report.problems) == 2
    assert "memory_summary.md" in report.problems[1]
    assert report.verdicts == {}
    assert not (workspace.root / "workspace/dead").exists()


def test_a_summary_with_a_bad_byte_is_foreign_and_can_be_replaced_by_who_knows_it(filled: Filled) -> None:
    workspace, manifest, texts = filled
    sha = workspace.install_summary("v1\n", None)
    workspace.summary_path.write_bytes(b"v1\n\xff")
    assert workspace.heal([PendingIntent(1, None, sha)]).verdicts == {1: Verdict.FOREIGN}
    assert workspace.diff(manifest, texts).summary_changed
    with pytest.raises(WorkspaceError, match="byte 3 is not valid UTF-8"):
        workspace.summary()
    with workspace.stage("run-1", manifest, texts, "", summary="v1\n") as staging:
        assert staging.candidate() == "v1\n"
    workspace.install_summary("v1\n", workspace.summary_sha())
    assert workspace.summary() == "v1\n"


# -- restore and clear --------------------------------------------------------------------------------


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
