"""`slowwave doctor --fix`: a damaged database costs no summary, nothing cleared comes back, nothing is deleted."""

from __future__ import annotations

import os
import random
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from consolidate.service import LongMemory
from memory.errors import StateCorruptError
from memory.model import Reason, RolloutId
from memory.state import Ledger, Store, checking
from memory.testing import FrozenClock
from recall.doctor import FIX
from tests.recall.desk import Damage, Desk, poke


def pages(path: Path) -> None:
    """Random bytes over one page in three, the first one spared."""
    noise = random.Random(7)
    for page in range(1, path.stat().st_size // 4096, 3):
        poke(path, page * 4096, noise.randbytes(4096))


DAMAGES: dict[str, Damage] = {
    "a bad header": lambda path: poke(path, 0, b"X" * 40),
    "an empty file": lambda path: path.write_bytes(b""),
    "a file of zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "a file cut short": lambda path: os.truncate(path, 12_288),
    "random bytes in the middle": pages,
    "another program's file": lambda path: path.write_bytes(b"not a database\n" * 300),
    "no file": lambda path: path.unlink(),
}


@pytest.mark.req("Z119")
@pytest.mark.fault("M4", "X11")
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_database_is_named_set_aside_and_rebuilt_from_the_files(desk: Desk, name: str) -> None:
    before, records = desk.summary.read_bytes(), sorted((desk.memories / "rollout_summaries").iterdir())
    generation = (desk.data / "generation.json").read_bytes()
    state = desk.data / "state.db"
    DAMAGES[name](state)
    damaged = state.read_bytes() if state.exists() else None
    with pytest.raises(StateCorruptError) as caught, desk.runtime():
        pass
    assert str(state) in caught.value.message
    assert FIX in caught.value.hint
    assert (state.read_bytes() if state.exists() else None) == damaged
    (finding,) = desk.errors()
    assert (finding.check, finding.mend) == ("state", FIX)
    told = " ".join(one.did for one in desk.fix())
    assert "2 rollout summaries, 1 version;" in told
    assert "nothing that sessions hold up to now becomes memory" in told
    assert desk.errors() == []
    assert desk.summary.read_bytes() == before
    assert (desk.data / "generation.json").read_bytes() == generation
    assert sorted((desk.memories / "rollout_summaries").iterdir()) == records
    kept = list((desk.data / "quarantine").glob("*/state.db"))
    assert [path.read_bytes() for path in kept] == ([] if damaged is None else [damaged])
    again = desk.run()
    assert again.outcome == "nothing", again
    assert desk.summary.read_bytes() == before


@pytest.mark.req("Z115", "Z118")
@pytest.mark.fault("M48")
def test_nothing_cleared_or_forgotten_comes_back_over_a_rebuilt_database(desk: Desk) -> None:
    with desk.runtime() as runtime:
        LongMemory(runtime).forget(rollouts=[RolloutId.parse("generic:one")])
    desk.write("three")
    (desk.data / "state.db").write_bytes(b"")
    told = " ".join(one.did for one in desk.fix())
    assert "repeat `slowwave forget`" in told
    assert desk.run().outcome == "nothing"
    with desk.store() as store:
        reasons = {str(row.id): row.reason for row in store.rollouts.all()}
    assert reasons["generic:one"] is reasons["generic:three"] is Reason.BEFORE_WATERMARK
    text = desk.summary.read_text()
    assert RolloutId.parse("generic:one").citation not in text
    assert RolloutId.parse("generic:two").citation in text


def test_what_can_still_be_read_of_a_damaged_database_is_taken_over(desk: Desk) -> None:
    with desk.store() as store:
        store.tombstones.add("own", "codex:mine")
        calls = len(Ledger(store, store.settings.budget, desk.clock, "x").rows())
    desk.sql("DROP TABLE rollouts")
    with pytest.raises(StateCorruptError, match="lacks tables"), desk.store():
        pass
    told = " ".join(one.did for one in desk.fix())
    assert f"1 tombstones, {calls} ledger" in told
    assert "repeat `slowwave forget`" not in told
    with desk.store() as store:
        assert store.tombstones.has("own", "codex:mine")
    assert desk.errors() == []


def test_rows_behind_a_destroyed_header_are_taken_over(desk: Desk) -> None:
    with desk.store() as store:
        store.tombstones.add("own", "codex:mine")
        calls = len(Ledger(store, store.settings.budget, desk.clock, "x").rows())
        store.scrub()
    poke(desk.data / "state.db", 0, b"X" * 96)
    told = " ".join(one.did for one in desk.fix())
    assert f"1 tombstones, {calls} ledger" in told
    assert calls
    assert desk.errors() == []


def test_a_torn_write_ahead_log_is_noticed_before_it_costs_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "_LOOKS", (0.0, 0.01))  # nobody else writes here: the second look sees the same
    desk = Desk(tmp_path)
    desk.configure()
    child = os.fork()
    if not child:
        store = Store.open(desk.settings(), FrozenClock())
        for number in range(20):
            store.tombstones.add("rollout", f"generic:gone{number}")
        os._exit(0)
    os.waitpid(child, 0)
    log = desk.data / "state.db-wal"
    whole = log.read_bytes()
    assert len(whole) > 100_000
    poke(log, 32 + 4 * (24 + 4096) + 700, b"\xff" * 64)
    for _ in range(2):  # looking does not destroy the evidence
        with pytest.raises(StateCorruptError), desk.store():
            pass
        assert log.exists()
    told = " ".join(one.did for one in desk.fix())
    assert "repeat `slowwave forget`" in told or "tombstones" in told
    assert desk.errors() == []
    (kept,) = (desk.data / "quarantine").glob("*/state.db-wal")
    assert len(kept.read_bytes()) == len(whole)
    with desk.store() as store:
        assert store.clear_watermark is not None


def test_a_log_that_a_killed_process_left_unfinished_is_no_damage(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.configure()
    child = os.fork()
    if not child:
        store = Store.open(desk.settings(), FrozenClock())
        for number in range(5):
            store.tombstones.add("own", f"generic:mine{number}")
        os._exit(0)
    os.waitpid(child, 0)
    log = desk.data / "state.db-wal"
    with log.open("ab") as file:  # the first frame of a transaction that never ended
        frame = log.read_bytes()[32 : 32 + 24 + 4096]
        file.write(frame[:4] + bytes(4) + frame[8:2000])
    with desk.store() as store:
        assert len(store.tombstones.all()) == 5


def test_a_database_older_than_its_files_is_not_trusted(desk: Desk) -> None:
    """A restored backup, or a lost log: the clear is unknown to it, and its generation must not come back."""
    old = (desk.data / "state.db").read_bytes()
    with desk.runtime() as runtime:
        LongMemory(runtime).clear()
    (desk.data / "state.db").write_bytes(old)
    with pytest.raises(StateCorruptError, match="lost a clear"), desk.store():
        pass
    desk.fix()
    assert desk.errors() == []
    assert desk.run().outcome == "nothing"
    assert not desk.summary.exists()


def test_a_generation_file_that_cannot_be_read_is_set_aside_and_written_again(desk: Desk) -> None:
    file = desk.data / "generation.json"
    before = file.read_bytes()
    file.write_bytes(b"{")
    assert [finding.mend for finding in desk.errors()] == [FIX]
    assert "set aside" in desk.fix()[0].did
    assert file.read_bytes() == before
    assert desk.errors() == []
    assert [path.read_bytes() for path in (desk.data / "quarantine").glob("*/generation.json")] == [b"{"]


def test_orphans_and_damaged_versions_are_set_aside_with_their_place(desk: Desk) -> None:
    orphan = desk.memories / "rollout_summaries" / "0123456789abcdef.md"
    orphan.write_text("left over\n")
    stray = desk.memories.parent / "versions" / "7"
    stray.mkdir()
    (stray / "memory_summary.md").write_text("v1\n")
    assert {(finding.check, finding.mend) for finding in desk.problems()} >= {
        ("rollout summaries", FIX),
        ("versions", FIX),
    }
    desk.fix()
    assert {finding.check for finding in desk.problems()} == {"quarantine"}
    kept = {path.name for path in (desk.data / "quarantine").rglob("*") if path.is_file()}
    assert kept == {"0123456789abcdef.md", "memory_summary.md"}
    assert desk.run().outcome == "nothing"


def test_a_version_in_force_that_the_database_lost_is_taken_up_again(desk: Desk) -> None:
    desk.sql("DELETE FROM versions")
    assert "versions" in {finding.check for finding in desk.errors()}
    assert "in force" in desk.fix()[0].did
    assert desk.errors() == []
    with desk.store() as store:
        assert store.clear_watermark is not None
    assert desk.run().outcome == "nothing"


@pytest.mark.parametrize("damage", ["missing", "damaged", "another"])
def test_the_baseline_is_made_anew_from_the_version_in_force(desk: Desk, damage: str) -> None:
    git = desk.memories / ".git"
    if damage == "missing":
        (git / "HEAD").unlink()
        (git / "refs" / "heads" / "main").unlink()
    elif damage == "damaged":
        for path in (git / "objects").rglob("*"):
            if path.is_file():
                path.write_bytes(b"x")
    else:
        with desk.runtime() as runtime:
            version = runtime.workspace.read_version(1)
            runtime.workspace.reset_baseline(version.manifest, version.texts, "v1\nanother\n")
            empty = replace(version.manifest, inputs=())
            runtime.workspace.reset_baseline(empty, {}, version.summary)
    assert [(finding.level, finding.check) for finding in desk.problems()] == [("warning", "baseline")]
    desk.fix()
    assert desk.problems() == []


def test_expired_claims_stagings_and_open_modes_are_mended(desk: Desk) -> None:
    clock = FrozenClock(desk.clock.now() - timedelta(days=2))
    with Store.open(desk.settings(), clock) as store:
        store.jobs.claim("extract", "generic:x", boundary="b", owner="gone", lease_seconds=60, max_failures=3)
    staging = desk.memories / "workspace" / "run-1"
    staging.mkdir()
    (staging / "memory_summary.md").write_text("v1\n")
    config = desk.data / "config.toml"
    desk.data.chmod(0o755)
    config.chmod(0o644)
    found = {finding.check for finding in desk.problems()}
    assert found == {"permissions", "leases", "left-overs"}
    desk.fix()
    assert desk.problems() == []
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    assert not staging.exists()


def test_a_home_that_was_never_used_is_left_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "new")
    assert desk.errors() == []
    assert desk.fix() == []
    assert not desk.data.exists()


def test_other_files_in_a_shared_home_are_none_of_ours(desk: Desk) -> None:
    other = desk.data / "thesis"
    other.mkdir(mode=0o755)
    (other / "chapter.txt").write_text("mine")
    (other / "chapter.txt").chmod(0o644)
    desk.fix()
    assert stat.S_IMODE((other / "chapter.txt").stat().st_mode) == 0o644
    assert stat.S_IMODE(other.stat().st_mode) == 0o755
