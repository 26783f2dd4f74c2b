"""Discovery on real folders: what is found, what is opened, what is written, and what a damaged file may not do."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import zstandard
from hypothesis import strategies as st

from memory.errors import UnreadableRollout
from memory.model import Host, Reason, RolloutId, RolloutKind
from memory.progress import Step
from memory.project import project_of
from memory.settings import RolloutSettings, Settings
from memory.state import Lease, RolloutRow, Store
from memory.testing import FrozenClock
from rollouts.discover import DiscoverReport, choose, discover
from rollouts.eligibility import Picks, boundary_of
from rollouts.pi import PiAdapter

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
IDLE = NOW - timedelta(hours=7)

# -- what was opened ---------------------------------------------------------------------------------------

_opened: list[str] = []
_watching = [False]


def _hook(name: str, arguments: tuple[Any, ...]) -> None:
    if _watching[0] and name == "open" and isinstance(arguments[0], str):
        _opened.append(arguments[0])


sys.addaudithook(_hook)


@contextmanager
def opened(below: Path) -> Iterator[list[str]]:
    """The files below a folder that were opened inside the block, by whatever means."""
    _opened.clear()
    _watching[0] = True
    found: list[str] = []
    try:
        yield found
    finally:
        _watching[0] = False
        found += [path for path in _opened if path.startswith(str(below))]


# -- a machine with sessions -------------------------------------------------------------------------------


class Machine:
    """A home with session folders, a state and a clock."""

    def __init__(self, base: Path, **rollouts: Any) -> None:
        self.user = base / "user"
        self.user.mkdir()
        self.clock = FrozenClock(NOW)
        self.settings = Settings(
            home=base / "slowwave",
            rollouts=RolloutSettings(**rollouts),
            host_environment={"HOME": str(self.user)},
        )
        self.store = Store.open(self.settings, self.clock)

    def look(self, **rollouts: Any) -> DiscoverReport:
        return discover(self.with_(**rollouts), self.clock, self.store)

    def with_(self, **rollouts: Any) -> Settings:
        changed = self.settings.rollouts.model_copy(update=rollouts)
        return self.settings.model_copy(update={"rollouts": changed})

    def row(self, name: str) -> RolloutRow:
        found = self.store.rollouts.get(RolloutId.parse(name))
        assert found is not None, [str(row.id) for row in self.store.rollouts.all()]
        return found

    def reasons(self) -> dict[str, Reason | None]:
        return {str(row.id): row.reason for row in self.store.rollouts.all()}

    @property
    def pi(self) -> Path:
        return self.user / ".pi" / "agent" / "sessions" / "--w-app--"

    @property
    def codex(self) -> Path:
        return self.user / ".codex" / "sessions" / "2026" / "11" / "30"

    def pi_session(
        self, name: str, *texts: str, at: datetime = IDLE, folder: Path | None = None, **header: Any
    ) -> Path:
        stamp = at.isoformat().replace("+00:00", "Z")
        head = {"type": "session", "version": 3, "id": name, "timestamp": stamp, "cwd": "/w/app", **header}
        lines = [head]
        for number, text in enumerate(texts or ("do it",)):
            message = {"role": "user", "content": [{"type": "text", "text": text}]}
            one = {"type": "message", "id": f"{number:08x}", "parentId": None, "timestamp": stamp, "message": message}
            lines.append(one)
        return write((folder or self.pi) / f"2026-11-30T05-00-00-000Z_{name}.jsonl", *lines)

    def codex_session(self, number: int, *, folder: Path | None = None, at: datetime = IDLE, **meta: Any) -> Path:
        name = f"01a00000-0000-7000-8000-{number:012}"
        stamp = at.isoformat().replace("+00:00", "Z")
        head = {"id": name, "timestamp": stamp, "cwd": "/w/app", "originator": "codex-tui", "source": "cli", **meta}
        said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"task {number}"}]}
        return write(
            (folder or self.codex) / f"rollout-2026-11-30T05-00-00-{name}.jsonl",
            {"timestamp": stamp, "type": "session_meta", "payload": head},
            {"timestamp": stamp, "type": "response_item", "payload": said},
        )

    def claude_session(self, number: int, *, at: datetime = IDLE) -> Path:
        name = f"00000000-0000-4000-8000-{number:012}"
        stamp = at.isoformat().replace("+00:00", "Z")
        line = {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": None,
            "sessionId": name,
            "timestamp": stamp,
            "version": "2.1.237",
            "cwd": "/w/app",
            "isSidechain": False,
            "userType": "external",
            "message": {"role": "user", "content": f"task {number}"},
        }
        return write(self.user / ".claude" / "projects" / "-w-app" / f"{name}.jsonl", line)

    def generic_session(self, name: str) -> Path:
        return write(
            self.settings.home / "rollouts" / f"{name}.jsonl",
            {"type": "session", "version": 1, "id": name, "host_name": "aider", "cwd": "/w/app"},
            {"type": "event", "role": "user", "text": "hello", "time": IDLE.isoformat()},
        )


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def append(path: Path, *records: Any) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.store.close()


def snapshot(folder: Path) -> list[tuple[str, int, int, int]]:
    return sorted(
        (str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns, stat.st_mode)
        for path in folder.rglob("*")
        if (stat := path.lstat())
    )


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


# -- one row per session -----------------------------------------------------------------------------------


def pack(path: Path) -> Path:
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    return packed


def test_packing_a_session_keeps_its_one_row(machine: Machine) -> None:
    path = machine.codex_session(1)
    machine.look()
    name = str(machine.store.rollouts.all()[0].id)
    packed = pack(path)
    both = machine.look()
    assert (both.skipped, machine.row(name).path) == ({"twin": 1}, path)
    path.unlink()
    machine.look()
    assert [(row.path, row.reason) for row in machine.store.rollouts.all()] == [(packed, Reason.ELIGIBLE)]
    assert machine.look().read == 0


def test_of_two_files_with_one_id_the_latest_is_read_and_the_other_explained(machine: Machine) -> None:
    old = machine.pi_session("p1", at=IDLE - timedelta(hours=2), folder=machine.pi / "old")
    new = machine.pi_session("p1", at=IDLE, folder=machine.pi / "new")
    machine.look()
    assert machine.row("pi:p1").path == new
    (other,) = [row for row in machine.store.rollouts.all() if row.reason is Reason.DUPLICATE]
    assert (other.path, str(other.id).partition("~")[0]) == (old, "pi:p1")
    assert str(new) in other.detail
    with opened(machine.pi) as seen:
        assert machine.look().unchanged == 2
    assert seen == []
    chosen = choose(machine.settings, machine.clock, machine.store, picks=Picks(limit=9)).chosen
    assert [row.path for row in chosen] == [new]


def test_when_the_file_of_a_session_goes_its_duplicate_takes_over(machine: Machine) -> None:
    old = machine.pi_session("p1", at=IDLE - timedelta(hours=2), folder=machine.pi / "old")
    new = machine.pi_session("p1", at=IDLE, folder=machine.pi / "new")
    machine.look()
    new.unlink()
    machine.look()
    assert [(str(row.id), row.path, row.reason) for row in machine.store.rollouts.all()] == [
        ("pi:p1", old, Reason.ELIGIBLE)
    ]
    assert machine.look().unchanged == 1


def test_when_the_file_of_a_session_breaks_its_duplicate_takes_over(machine: Machine) -> None:
    old = machine.pi_session("p1", at=IDLE - timedelta(hours=2), folder=machine.pi / "old")
    new = machine.pi_session("p1", at=IDLE, folder=machine.pi / "new")
    machine.look()
    new.write_text("garbage\n")
    machine.look()
    assert machine.row("pi:p1").path == old
    assert {row.path: row.reason for row in machine.store.rollouts.all()} == {
        old: Reason.ELIGIBLE,
        new: Reason.UNREADABLE,
    }
    assert machine.look().unchanged == 2


def test_a_duplicate_that_goes_on_becomes_the_session(machine: Machine) -> None:
    old = machine.pi_session("p1", at=IDLE - timedelta(hours=2), folder=machine.pi / "old")
    new = machine.pi_session("p1", at=IDLE - timedelta(hours=1), folder=machine.pi / "new")
    machine.look()
    machine.pi_session("p1", "do it", "go on", at=IDLE, folder=machine.pi / "old")
    machine.look()
    assert machine.row("pi:p1").path == old
    assert {row.path: row.reason for row in machine.store.rollouts.all()} == {
        old: Reason.ELIGIBLE,
        new: Reason.DUPLICATE,
    }
    machine.pi_session("p1", "do it", "go on", "and on", at=IDLE, folder=machine.pi / "new")
    machine.pi_session("p1", "do it", "go on", at=IDLE - timedelta(minutes=1), folder=machine.pi / "old")
    machine.look()
    assert {row.path: row.reason for row in machine.store.rollouts.all()} == {
        new: Reason.ELIGIBLE,
        old: Reason.DUPLICATE,
    }
    assert machine.look().unchanged == 2


def test_a_moved_session_keeps_its_row(machine: Machine) -> None:
    path = machine.codex_session(1)
    machine.look()
    archive = machine.user / ".codex" / "archived_sessions" / path.name
    archive.parent.mkdir()
    path.rename(archive)
    report = machine.look()
    assert (report.new, report.missing) == (1, 0)
    assert [(row.path, row.reason) for row in machine.store.rollouts.all()] == [(archive, Reason.ARCHIVED)]


def test_a_session_whose_file_is_gone_is_kept_as_missing_and_comes_back(machine: Machine) -> None:
    path = machine.pi_session("p1")
    machine.look()
    data, stat = path.read_bytes(), path.stat()
    path.unlink()
    assert machine.look().missing == 1
    assert (machine.row("pi:p1").reason, machine.row("pi:p1").detail) == (Reason.MISSING, "the file is gone")
    assert machine.look().missing == 0
    assert choose(machine.settings, machine.clock, machine.store).chosen == ()
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    machine.look()
    assert machine.row("pi:p1").reason is Reason.ELIGIBLE


def test_a_session_outside_the_folders_in_the_settings_is_missing(machine: Machine, tmp_path: Path) -> None:
    machine.pi_session("p1")
    machine.look()
    machine.look(pi_roots=(tmp_path / "empty",))
    assert "outside" in machine.row("pi:p1").detail
    machine.look()
    assert machine.row("pi:p1").reason is Reason.ELIGIBLE


def test_sessions_of_a_host_that_is_off_are_left_as_they_are(machine: Machine) -> None:
    machine.pi_session("p1")
    machine.look()
    machine.look(hosts=("codex",))
    assert machine.row("pi:p1").reason is Reason.ELIGIBLE
    off = machine.with_(hosts=("codex",))
    assert choose(off, machine.clock, machine.store).counts() == {Reason.HOST_OFF: 1}


def test_a_file_that_now_holds_another_session_leaves_the_first_as_missing(machine: Machine) -> None:
    path = machine.pi_session("p1")
    machine.look()
    path.write_text(machine.pi_session("p2", folder=machine.pi / "x").read_text())
    shutil.rmtree(machine.pi / "x")
    machine.look()
    assert machine.reasons() == {"pi:p1": Reason.MISSING, "pi:p2": Reason.ELIGIBLE}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "grow", "delete", "move", "copy", "break", "pack", "look", "look", "look"]),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=12,
)


def change(machine: Machine, what: str, one: int, two: int, tick: int) -> None:
    """One thing that happens to a folder between two walks. Sessions 0 and 1 may lie in four files each."""
    path = machine.pi / f"f{one}" / f"2026-11-30T05-00-00-000Z_s{one % 2}.jsonl"
    other = machine.pi / f"f{two}" / f"2026-11-30T05-00-00-000Z_s{two % 2}.jsonl"
    other.parent.mkdir(parents=True, exist_ok=True)
    at = IDLE + timedelta(seconds=tick)
    if what == "write":
        machine.pi_session(f"s{one % 2}", *["x"] * (1 + tick % 3), at=at, folder=path.parent)
    elif not path.exists():
        return
    elif what == "grow":
        append(path, {"type": "custom", "id": f"{tick:08x}", "parentId": None, "timestamp": at.isoformat()})
    elif what == "delete":
        path.unlink()
    elif what == "move":
        path.rename(other)
    elif what == "copy" and path != other:
        shutil.copy2(path, other)
    elif what == "break":
        path.write_text(f"garbage {tick}\n")
    elif what == "pack":
        pack(path)
        path.unlink()


@hypothesis.settings(
    max_examples=20, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
@hypothesis.given(STEPS)
def test_whatever_happens_each_file_has_one_row_and_each_session_one_file(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    machine = Machine(tmp_path_factory.mktemp("m"))
    for tick, (what, one, two) in enumerate([*steps, ("look", 0, 0)]):
        if what != "look":
            change(machine, what, one, two, tick)
            continue
        machine.look()
        files = {path for path in machine.pi.rglob("*.jsonl*")} if machine.pi.exists() else set()
        read = {path for path in files if path.suffix == ".jsonl" or path.with_suffix("") not in files}
        rows = machine.store.rollouts.all()
        present = [row for row in rows if row.reason is not Reason.MISSING]
        assert sorted(row.path for row in present) == sorted(read)
        sessions = [row.id.session for row in present if row.reason not in {Reason.DUPLICATE, Reason.UNREADABLE}]
        assert len(sessions) == len(set(sessions))
        for row in present:
            if row.reason is Reason.DUPLICATE:
                assert row.id.session.partition("~")[0] in sessions
        assert all("~" not in row.id.session for row in rows if row.reason is Reason.MISSING)
        again = machine.look()
        assert (again.read, again.missing) == (0, 0)
        assert machine.store.rollouts.all() == rows
    machine.store.close()


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


# -- our own sessions ----------------------------------------------------------------------------------------


@pytest.mark.req("Z068")
@pytest.mark.fault("X5", "M66", "O10")
def test_each_of_three_gates_alone_keeps_our_own_sessions_out(machine: Machine) -> None:
    home = machine.settings.home
    machine.codex_session(1, cwd=str(home / "generations" / "g1" / "memories_v2" / "workspace"))
    machine.codex_session(2, cwd=str(home / "anywhere"))
    machine.codex_session(3)
    machine.pi_session("p4", "<slowwave-own-session>\nconsolidate", cwd="/w/app")
    machine.store.tombstones.add("own", "codex:01a00000-0000-7000-8000-000000000003")
    machine.look()
    assert set(machine.reasons().values()) == {Reason.OWN}
    assert all(row.detail for row in machine.store.rollouts.all())
    assert {row.kind for row in machine.store.rollouts.all() if "3" not in row.id.session[-1]} == {RolloutKind.OWN}


@pytest.mark.fault("X5")
def test_ten_rounds_over_our_own_sessions_find_no_work(machine: Machine) -> None:
    for number in range(10):
        machine.codex_session(number, cwd=str(machine.settings.home / "workspace"))
        machine.look()
        machine.clock.advance(7 * 3600)
        assert choose(machine.settings, machine.clock, machine.store).chosen == ()
    assert machine.store.rollouts.counts() == {Reason.OWN: 10}


def test_a_home_of_the_user_inside_the_data_folder_does_not_make_everything_ours(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    settings = machine.settings.model_copy(update={"home": tmp_path})
    machine.pi_session("p1", cwd=str(tmp_path / "user" / "app"))
    machine.pi_session("p2", cwd=str(tmp_path / "generations" / "g" / "workspace"))
    discover(settings, machine.clock, machine.store)
    assert machine.reasons() == {"pi:p1": Reason.ELIGIBLE, "pi:p2": Reason.OWN}
    machine.store.close()


def test_a_session_recorded_as_ours_later_is_refused_at_the_next_choice(machine: Machine) -> None:
    machine.pi_session("p1")
    machine.look()
    machine.store.tombstones.add("own", "pi:p1")
    assert choose(machine.settings, machine.clock, machine.store).chosen == ()
    assert machine.row("pi:p1").reason is Reason.OWN


# -- projects ------------------------------------------------------------------------------------------------


@pytest.mark.fault("M85", "X28", "M86")
def test_checkout_worktree_subfolder_and_link_are_one_project(machine: Machine, tmp_path: Path) -> None:
    main, tree = tmp_path / "repo", tmp_path / "tree"
    (main / ".git" / "worktrees" / "tree").mkdir(parents=True)
    (main / "src").mkdir()
    (main / ".git" / "objects").mkdir()
    (main / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (main / ".git" / "worktrees" / "tree" / "HEAD").write_text("ref: refs/heads/tree\n")
    (main / ".git" / "config").write_text('[remote "origin"]\n\turl = git@example.com:team/repo.git\n')
    (main / ".git" / "worktrees" / "tree" / "commondir").write_text("../..\n")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")
    (tmp_path / "link").symlink_to(main)
    for number, folder in enumerate((main, tree, main / "src", tmp_path / "link")):
        machine.pi_session(f"p{number}", cwd=str(folder))
    other = tmp_path / "other" / "repo"
    other.mkdir(parents=True)
    machine.pi_session("other", cwd=str(other))
    machine.look()
    rows = {row.id.session: row for row in machine.store.rollouts.all()}
    assert len({rows[f"p{number}"].project for number in range(4)}) == 1
    assert rows["other"].project != rows["p0"].project
    assert (rows["other"].project_name, rows["p0"].project_name) == ("repo", "repo")


@pytest.mark.fault("O14")
def test_a_folder_of_a_plugin_is_no_project(machine: Machine) -> None:
    machine.pi_session("p1", cwd=str(machine.user / ".claude" / "plugins" / "cache" / "memory" / "1.2.3"))
    machine.pi_session("p2", cwd=str(machine.user / ".pi" / "agent" / "extensions" / "memory"))
    machine.pi_session("p3", cwd=str(machine.user / "plugins" / "app"))
    machine.look()
    assert [machine.row(f"pi:p{number}").project_name for number in (1, 2, 3)] == ["unknown", "unknown", "app"]


# -- choosing ------------------------------------------------------------------------------------------------


@pytest.mark.req("Z065")
def test_a_choice_takes_the_newest_two_and_stores_what_changed(machine: Machine) -> None:
    for number in range(5):
        machine.pi_session(f"p{number}", at=IDLE - timedelta(hours=number))
    machine.pi_session("young", at=NOW - timedelta(hours=1))
    machine.look()
    found = choose(machine.settings, machine.clock, machine.store)
    assert [row.id.session for row in found.chosen] == ["p0", "p1"]
    assert (found.waiting, found.next_check) == (3, NOW + timedelta(hours=5))
    machine.clock.advance(11 * 24 * 3600)
    choose(machine.settings, machine.clock, machine.store)
    assert set(machine.reasons().values()) == {Reason.TOO_OLD}


def test_picks_by_hand_reach_settled_rows_and_store_no_verdict(machine: Machine) -> None:
    machine.pi_session("old", at=NOW - timedelta(days=40))
    machine.look()
    pick = Picks(rollouts=frozenset({RolloutId(Host.PI, "old")}))
    for picks in (pick, Picks(since=NOW - timedelta(days=60))):
        chosen = choose(machine.settings, machine.clock, machine.store, picks=picks).chosen
        assert [row.id.session for row in chosen] == ["old"]
    assert machine.row("pi:old").reason is Reason.TOO_OLD


def test_a_picked_host_is_found_behind_thousands_of_others(machine: Machine) -> None:
    machine.pi_session("p0", at=IDLE - timedelta(days=3))
    for number in range(5):
        machine.codex_session(number)
    machine.look()
    small = machine.settings.extract.model_copy(update={"scan_limit": 3})
    settings = machine.settings.model_copy(update={"extract": small})
    found = choose(settings, machine.clock, machine.store, picks=Picks(hosts=frozenset({Host.PI})))
    assert [row.id.session for row in found.chosen] == ["p0"]


def test_a_longer_age_in_the_settings_brings_old_sessions_back(machine: Machine) -> None:
    machine.pi_session("old", at=NOW - timedelta(days=40))
    machine.look()
    choose(machine.settings, machine.clock, machine.store)
    longer = machine.settings.extract.model_copy(update={"max_age_days": 60})
    settings = machine.settings.model_copy(update={"extract": longer})
    assert len(choose(settings, machine.clock, machine.store).chosen) == 1


def test_an_extracted_session_is_up_to_date_until_it_goes_on(machine: Machine) -> None:
    path = machine.pi_session("p1")
    machine.look()
    (row,) = choose(machine.settings, machine.clock, machine.store).chosen
    lease = machine.store.jobs.claim(
        "extract", str(row.id), boundary=boundary_of(row), owner="w", lease_seconds=60, max_failures=3
    )
    assert isinstance(lease, Lease)
    assert choose(machine.settings, machine.clock, machine.store).counts() == {Reason.CLAIMED: 1}
    machine.store.jobs.succeed(lease)
    assert choose(machine.settings, machine.clock, machine.store).counts() == {Reason.UP_TO_DATE: 1}
    assert choose(machine.settings, machine.clock, machine.store).counts() == {}
    assert machine.row("pi:p1").reason is Reason.UP_TO_DATE
    append(path, {"type": "label", "id": "l", "parentId": "00000000"})
    machine.look()
    assert len(choose(machine.settings, machine.clock, machine.store).chosen) == 1


@pytest.mark.req("Z022", "Z115")
def test_after_a_clear_nothing_comes_back_until_a_session_goes_on(machine: Machine) -> None:
    path = machine.pi_session("p1")
    os.utime(path, (IDLE.timestamp(), IDLE.timestamp()))
    machine.look()
    machine.store.meta.new_generation(NOW - timedelta(hours=1))
    store = Store.open(machine.settings, machine.clock)
    for _ in range(3):
        discover(machine.settings, machine.clock, store)
        assert choose(machine.settings, machine.clock, store).chosen == ()
        machine.clock.advance(24 * 3600)
    found = store.rollouts.get(RolloutId(Host.PI, "p1"))
    assert found is not None
    assert found.reason is Reason.BEFORE_WATERMARK
    line = json.loads(path.read_text().splitlines()[-1])
    append(path, {**line, "id": "ffffffff", "timestamp": machine.clock.now().isoformat()})
    os.utime(path, (machine.clock.now().timestamp(), machine.clock.now().timestamp()))
    machine.clock.advance(7 * 3600)
    discover(machine.settings, machine.clock, store)
    assert len(choose(machine.settings, machine.clock, store).chosen) == 1
    store.close()


def test_rows_of_thousands_are_bounded_and_counted(machine: Machine) -> None:
    machine.pi_session("p0")
    machine.look()
    base = machine.row("pi:p0")
    machine.store.rollouts.upsert_many(
        replace(base, id=RolloutId(Host.PI, f"q{number}"), last_event=IDLE - timedelta(minutes=number))
        for number in range(300)
    )
    small = machine.settings.extract.model_copy(update={"scan_limit": 100})
    settings = machine.settings.model_copy(update={"extract": small})
    found = choose(settings, machine.clock, machine.store)
    assert (len(found.verdicts), found.unscanned, found.waiting) == (100, 201, 98)


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
