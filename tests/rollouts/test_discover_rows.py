"""One row per session, whatever becomes of its files; whose it is and which project it belongs to."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from memory.model import Reason, RolloutKind
from recall.project_marks import project_at
from rollouts.discover import choose, discover
from rollouts.eligibility import Picks
from tests.rollouts.machine import IDLE, Machine, append, opened, pack

# -- one row per session -----------------------------------------------------------------------------------


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


# -- work trees --------------------------------------------------------------------------------------------


def _trees(folder: Path, *names: str) -> list[Path]:
    """A repository without a remote and linked work trees beside it."""
    git = ["git", "-C", str(folder / "shop"), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "init", "-q", str(folder / "shop")], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(folder)], check=True)
    for name in names:
        subprocess.run([*git, "worktree", "add", "-q", "--detach", str(folder / name)], check=True)
    return [folder / "shop", *(folder / name for name in names)]


@pytest.mark.fault("M85", "X28")
def test_sessions_of_every_work_tree_belong_to_one_project_as_the_hook_has_it(machine: Machine, tmp_path: Path) -> None:
    trees = _trees(tmp_path, "wt1", "wt2")
    for number, tree in enumerate(trees):
        machine.pi_session(f"p{number}", cwd=str(tree))
    machine.look()
    rows = machine.store.rollouts.all()
    assert {(row.project, row.project_name) for row in rows} == {(project_at(str(trees[1]))["id"], "shop")}
    assert len(rows) == 3


@pytest.mark.fault("M85")
def test_a_session_stays_with_its_project_when_its_work_tree_is_removed(machine: Machine, tmp_path: Path) -> None:
    _, tree, never = _trees(tmp_path, "wt1", "wt2")
    first = machine.pi_session("p1", cwd=str(tree))
    machine.look()
    before = machine.row("pi:p1").project
    shutil.rmtree(tree)
    shutil.rmtree(never)
    append(first, {"type": "custom", "customType": "x", "data": {}})
    machine.pi_session("p2", cwd=str(tree))
    machine.pi_session("p3", cwd=str(never))
    machine.look()
    assert [machine.row(name).project for name in ("pi:p1", "pi:p2")] == [before, before]
    assert machine.row("pi:p3").project != before, "nobody ever saw whose it was"


@pytest.mark.fault("M87")
def test_a_folder_that_is_gone_and_held_several_projects_is_none_of_them(machine: Machine, tmp_path: Path) -> None:
    _, tree = _trees(tmp_path, "wt1")
    machine.pi_session("p1", cwd=str(tree))
    machine.look()
    shutil.rmtree(tree)
    _trees(tmp_path / "other", "wt1")[1].rename(tree)
    machine.pi_session("p2", cwd=str(tree))
    machine.look()
    shutil.rmtree(tree)
    machine.pi_session("p3", cwd=str(tree))
    machine.look()
    assert len({machine.row(f"pi:p{number}").project for number in (1, 2, 3)}) == 3
