"""Discovery on real folders: what is found, what is opened, what is written, and what a damaged file may not do."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory.errors import UnreadableRollout
from memory.model import Host, Reason, RolloutId
from memory.progress import Step
from memory.project import project_of
from rollouts.discover import choose, discover
from rollouts.eligibility import Picks, boundary_of
from rollouts.pi import PiAdapter
from tests.rollouts.machine import IDLE, NOW, Machine, append, opened, snapshot

# -- finding -----------------------------------------------------------------------------------------------


@pytest.mark.req("Z061")
@pytest.mark.fault("X14")
def test_sessions_of_every_host_are_found_though_no_hook_ever_ran(machine: Machine) -> None:
    machine.codex_session(1)
    machine.codex_session(2, source="exec", originator="codex_exec")
    machine.codex_session(3, source="vscode")
    machine.codex_session(4, source=None)
    machine.claude_session(1)
    machine.pi_session("p1")
    machine.generic_session("aider-1")
    report = machine.look()
    assert (report.new, report.read, report.unreadable) == (7, 7, [])
    assert report.by_host == {Host.CODEX: 4, Host.CLAUDE: 1, Host.PI: 1, Host.GENERIC: 1}
    assert report.by_reason == {Reason.ELIGIBLE: 7}
    assert len(choose(machine.settings, machine.clock, machine.store, picks=Picks(limit=99)).chosen) == 7


def test_the_hosts_own_variables_lead_to_their_folders(machine: Machine, tmp_path: Path) -> None:
    machine.codex_session(1, folder=tmp_path / "elsewhere" / "sessions")
    environment = {**machine.settings.host_environment, "CODEX_HOME": str(tmp_path / "elsewhere")}
    report = discover(
        machine.settings.model_copy(update={"host_environment": environment}), machine.clock, machine.store
    )
    assert report.by_host[Host.CODEX] == 1


def test_configured_roots_take_the_place_of_a_hosts_own(machine: Machine, tmp_path: Path) -> None:
    machine.pi_session("default")
    machine.pi_session("mine", folder=machine.user / "mine")
    report = machine.look(pi_roots=(Path("~/mine"),))
    assert report.by_host[Host.PI] == 1
    assert list(machine.reasons()) == ["pi:mine"]


@pytest.mark.fault("O13")
def test_nothing_in_the_hosts_folders_is_touched(machine: Machine) -> None:
    machine.codex_session(1)
    machine.pi_session("p1")
    (machine.pi / "broken.jsonl").write_text("{")
    before = snapshot(machine.user)
    machine.look()
    choose(machine.settings, machine.clock, machine.store)
    assert snapshot(machine.user) == before


def test_a_row_says_what_the_head_and_the_tail_say(machine: Machine) -> None:
    path = machine.pi_session("p1", "fix the tests", parentSession="/x/2026-11-30T05-00-00-000Z_p0.jsonl")
    machine.look()
    row, peek, stat = machine.row("pi:p1"), PiAdapter().peek(path), path.stat()
    assert (row.path, row.size, row.mtime_ns, row.inode) == (path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
    assert (row.cwd, row.started, row.last_event) == ("/w/app", IDLE, IDLE)
    assert (row.user_chars, row.fingerprint, row.version) == (peek.user_chars, peek.fingerprint, "3")
    assert (row.project, row.project_name) == (project_of("/w/app").id, "app")
    assert row.forked_from == RolloutId(Host.PI, "p0")
    assert row.report["whole"] is True
    assert boundary_of(row) == f"{stat.st_size}:{peek.fingerprint[:8]}"


# -- what a walk costs -------------------------------------------------------------------------------------


@pytest.mark.req("Z066")
def test_a_second_walk_over_ten_thousand_files_opens_none_and_writes_nothing(machine: Machine) -> None:
    folder = machine.pi
    for number in range(10_000):
        machine.pi_session(f"p{number}", f"task {number}", folder=folder / f"d{number % 50:02}")
    with opened(folder) as first:
        report = machine.look()
    assert (report.files, report.new, report.read) == (10_000, 10_000, 10_000)
    assert len(set(first)) == 10_000
    rows = machine.store.rollouts.all()
    with opened(folder) as second:
        again = machine.look()
    assert second == []
    assert (again.unchanged, again.new, again.changed, again.read, again.missing) == (10_000, 0, 0, 0, 0)
    assert machine.store.rollouts.all() == rows
    path = folder / "d07" / "2026-11-30T05-00-00-000Z_p7.jsonl"
    append(path, {"type": "label", "id": "l", "parentId": None})
    with opened(folder) as third:
        assert machine.look().changed == 1
    assert set(third) == {str(path)}


def test_an_unchanged_walk_writes_nothing_to_the_state(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.pi_session("p1")
    machine.codex_session(1)
    gone = machine.pi_session("p2")
    machine.look()
    gone.unlink()
    machine.look()
    choose(machine.settings, machine.clock, machine.store)

    def refuse(*arguments: Any, **more: Any) -> Any:
        raise AssertionError("a write")

    monkeypatch.setattr(type(machine.store), "write", refuse)
    assert machine.look().unchanged == 2
    choose(machine.settings, machine.clock, machine.store)


def test_a_changed_size_mtime_or_inode_is_looked_at_again(machine: Machine) -> None:
    path = machine.pi_session("p1")
    machine.look()
    append(path, {"type": "label", "id": "l", "parentId": None})
    assert machine.look().changed == 1
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))
    assert machine.look().changed == 1
    stat = path.stat()
    shutil.copy(path, path.with_suffix(".new"))
    path.with_suffix(".new").replace(path)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert machine.look().changed == 1
    assert machine.look().changed == 0


@pytest.mark.fault("M36")
def test_a_line_more_starts_the_idle_time_again(machine: Machine) -> None:
    path = machine.pi_session("p1", at=NOW - timedelta(hours=6) + timedelta(seconds=1))
    machine.look()
    assert machine.row("pi:p1").reason is Reason.NOT_IDLE
    line = json.loads(path.read_text().splitlines()[-1])
    append(path, {**line, "id": "ffffffff", "timestamp": "2026-11-30T11:59:59Z"})
    machine.look()
    machine.clock.advance(2)
    assert choose(machine.settings, machine.clock, machine.store).chosen == ()
    machine.clock.advance(6 * 3600)
    assert len(choose(machine.settings, machine.clock, machine.store).chosen) == 1


@pytest.mark.fault("M35")
def test_a_session_whose_host_was_killed_in_a_line_is_taken_once_it_is_idle(machine: Machine) -> None:
    path = machine.pi_session("p1", at=NOW)
    with path.open("a") as file:
        file.write('{"type":"message","id":"00000009","par')
    machine.look()
    assert choose(machine.settings, machine.clock, machine.store).chosen == ()
    machine.clock.advance(6 * 3600)
    assert machine.look().read == 0
    assert [str(row.id) for row in choose(machine.settings, machine.clock, machine.store).chosen] == ["pi:p1"]


@pytest.mark.req("Z066")
def test_the_bound_takes_the_newest_names_and_says_what_it_left_out(machine: Machine) -> None:
    for day in ("28", "29", "30"):
        for number in range(4):
            name = int(f"{day}{number}")
            machine.codex_session(name, folder=machine.user / ".codex" / "sessions" / "2026" / "11" / day)
    report = machine.look(max_files=6)
    assert (report.files, report.left_out, report.new) == (6, 6, 6)
    assert sorted(row.path.parent.name for row in machine.store.rollouts.all()) == ["29", "29", "30", "30", "30", "30"]
    whole = machine.look()
    assert (whole.left_out, whole.new) == (0, 6)
    again = machine.look(max_files=6)
    assert (again.left_out, again.missing) == (6, 0)
    assert Reason.MISSING not in machine.reasons().values()


def test_progress_tells_ids_and_counts_only(machine: Machine) -> None:
    machine.pi_session("p1", "private words")
    steps: list[Step] = []

    def note(step: Step) -> None:
        steps.append(step)

    discover(machine.settings, machine.clock, machine.store, progress=note)
    assert (steps[-1].stage, steps[-1].done, steps[-1].total) == ("discover", 1, 1)
    assert "private" not in str(steps)


# -- what is not a session ---------------------------------------------------------------------------------


def test_links_are_not_followed_and_rings_end(machine: Machine, tmp_path: Path) -> None:
    inside = machine.pi_session("p1")
    outside = machine.pi_session("p2", folder=tmp_path / "outside")
    (machine.pi / "link.jsonl").symlink_to(outside)
    (machine.pi / "folder").symlink_to(tmp_path / "outside")
    (machine.pi / "ring").symlink_to(machine.pi)
    (machine.pi / "nowhere.jsonl").symlink_to(tmp_path / "nothing")
    with opened(tmp_path) as seen:
        report = machine.look()
    assert [row.path for row in machine.store.rollouts.all()] == [inside]
    assert report.skipped == {"symlink": 4}
    assert (machine.pi / "link.jsonl", "symlink") in report.skipped_paths
    assert not [path for path in seen if "outside" in path]


def test_a_root_may_be_a_link(machine: Machine, tmp_path: Path) -> None:
    machine.pi_session("p1", folder=tmp_path / "disk")
    (machine.user / ".pi" / "agent").mkdir(parents=True)
    (machine.user / ".pi" / "agent" / "sessions").symlink_to(tmp_path / "disk")
    assert machine.look().new == 1
    assert machine.look().unchanged == 1


def test_what_is_no_file_is_never_opened(machine: Machine) -> None:
    machine.pi.mkdir(parents=True)
    os.mkfifo(machine.pi / "pipe.jsonl")
    (machine.pi / "folder.jsonl").mkdir()
    machine.pi_session("p1", folder=machine.pi / "folder.jsonl")
    report = machine.look()
    assert (report.skipped, report.new) == ({"not_a_file": 1}, 1)


@pytest.mark.fault("M67", "O5")
def test_another_tools_file_is_unreadable_with_a_reason_and_spoils_nothing(machine: Machine) -> None:
    machine.pi_session("p1")
    codex = machine.codex_session(1)
    (machine.pi / "stray.jsonl").write_bytes(codex.read_bytes())
    (machine.pi / "empty.jsonl").touch()
    (machine.pi / "noise.jsonl").write_bytes(os.urandom(3_000) + b"\n")
    report = machine.look()
    assert report.unreadable_count == len(report.unreadable) == 3
    assert report.by_reason == {Reason.ELIGIBLE: 2, Reason.UNREADABLE: 3}
    (stray,) = [row for row in machine.store.rollouts.all() if row.path.name == "stray.jsonl"]
    assert "holds no Pi session" in stray.detail
    with opened(machine.pi) as seen:
        assert machine.look().unchanged == 5
    assert seen == []


def test_a_file_that_becomes_a_session_loses_its_stand_in(machine: Machine) -> None:
    path = machine.pi / "2026-11-30T05-00-00-000Z_p1.jsonl"
    path.parent.mkdir(parents=True)
    path.touch()
    machine.look()
    assert list(machine.reasons().values()) == [Reason.UNREADABLE]
    machine.pi_session("p1")
    machine.look()
    assert machine.reasons() == {"pi:p1": Reason.ELIGIBLE}
    path.write_text("garbage\n")
    machine.look()
    assert machine.reasons() == {"pi:p1": Reason.UNREADABLE}
    path.unlink()
    machine.look()
    assert machine.reasons() == {"pi:p1": Reason.MISSING}


def test_a_file_that_may_not_be_opened_is_tried_again_though_nothing_shows(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.pi_session("p1")

    def deny(self: PiAdapter, path: Path) -> Any:
        raise UnreadableRollout(f"{path} cannot be opened (PermissionError).")

    with monkeypatch.context() as patch:
        patch.setattr(PiAdapter, "peek", deny)
        patch.setattr(os, "access", lambda *a, **k: False)
        report = machine.look()
    assert report.unreadable == [(path, "it may not be read by this user")]
    machine.look()
    assert machine.reasons() == {"pi:p1": Reason.ELIGIBLE}


def test_a_reader_that_breaks_on_one_file_does_not_stop_the_walk(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.pi_session("p1")
    machine.pi_session("p2")
    peek = PiAdapter.peek

    def broken(self: PiAdapter, path: Path) -> Any:
        if "p1" in path.name:
            raise KeyError("private words")
        return peek(self, path)

    monkeypatch.setattr(PiAdapter, "peek", broken)
    machine.look()
    assert sorted(map(str, machine.reasons().values())) == ["eligible", "unreadable"]
    assert "private" not in str(machine.store.rollouts.all())


def test_rows_below_a_folder_that_cannot_be_listed_are_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.pi_session("p1")
    machine.codex_session(1)
    machine.look()
    scandir = os.scandir

    def deny(path: str) -> Any:
        if str(path) == str(machine.pi):
            raise PermissionError(13, "denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deny)
    report = machine.look()
    assert (report.skipped, report.missing) == ({"denied": 1}, 0)
    assert machine.row("pi:p1").reason is Reason.ELIGIBLE


def test_names_that_are_no_utf8_are_found_again(machine: Machine) -> None:
    machine.pi.mkdir(parents=True)
    source = machine.pi_session("p1", folder=machine.pi / "x")
    target = os.fsencode(machine.pi) + b"/2026-11-30T05-00-00-000Z_\xff\xfe.jsonl"
    Path(os.fsdecode(target)).write_bytes(source.read_bytes().replace(b'"p1"', b'"p2"'))
    assert machine.look().new == 2
    assert machine.look().unchanged == 2


def test_folders_of_two_hosts_may_lie_inside_each_other(machine: Machine, tmp_path: Path) -> None:
    base = tmp_path / "all"
    machine.pi_session("p1", folder=base / "pi")
    machine.codex_session(1, folder=base)
    roots: dict[str, Any] = {"codex_roots": (base,), "pi_roots": (base / "pi", base), "generic_roots": (base,)}
    report = machine.look(**roots)
    assert (report.new, report.unreadable_count) == (2, 0)
    assert sorted(str(name).partition(":")[0] for name in machine.reasons()) == ["codex", "pi"]
    assert machine.look(**roots).unchanged == 2


@pytest.mark.corpus
def test_the_corpus_is_found_whole(corpus: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    roots: dict[str, Any] = {f"{host}_roots": (corpus / host,) for host in ("codex", "claude", "pi")}
    report = machine.look(**roots)
    assert report.unreadable_count <= 2, report.unreadable
    assert report.by_host[Host.PI] == 15
    assert sum(report.by_reason.values()) == report.new
    assert machine.look(**roots).read == 0
    machine.store.close()
