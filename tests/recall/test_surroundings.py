"""Home, file system and permissions: what is wrong is named with its cure, and a run leaves nothing open to others."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from memory.errors import PathRefused, SlowwaveError, StateError
from memory.state import Store
from memory.workspace import Workspace
from recall import surroundings
from recall.doctor import diagnose
from tests.flows.home import ROOT
from tests.recall.desk import Desk

UNSHARE = shutil.which("unshare")
NOBODY = 65534

MASK = """
import os, sys
os.umask(0)
from cli.main import main
main(sys.argv[1:])
"""
READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77
shift
exec "$@"
"""


def command(desk: Desk, *arguments: str) -> list[str]:
    return [sys.executable, "-c", MASK, *arguments]


def carried_out(desk: Desk, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    line = [*prefix, *command(desk, *arguments)]
    return subprocess.run(
        line, cwd=ROOT, env=desk.environment(), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def fresh(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.configure()
    made.write("one")
    return made


@pytest.mark.req("Z119")
def test_a_run_with_an_open_mask_leaves_folders_0700_and_files_0600(fresh: Desk) -> None:
    for _ in range(2):
        assert carried_out(fresh, "run").returncode == 0
    with fresh.store() as store:
        store.scrub()
    for path in sorted(fresh.data.rglob("*")):
        if path.name != "config.toml":  # the user's own
            wanted = 0o700 if path.is_dir() else 0o600
            assert stat.S_IMODE(path.stat().st_mode) == wanted, path
    assert stat.S_IMODE(fresh.data.stat().st_mode) == 0o700
    assert {finding.check for finding in fresh.problems()} <= {"permissions"}


def test_a_linked_home_and_a_link_in_it_are_refused_and_named(desk: Desk, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(desk.data)
    settings = desk.settings().model_copy(update={"home": link})
    with pytest.raises(StateError, match="symbolic link"):
        Store.open(settings, desk.clock)
    with pytest.raises(PathRefused):
        Workspace.open(link, "abc")
    (finding,) = surroundings.home(link)
    assert finding.level == "error"
    assert "real folder" in finding.mend
    elsewhere = tmp_path / "elsewhere"
    desk.memories.rename(elsewhere)
    (generation,) = (desk.data / "generations").iterdir()
    (generation / "memories_v2").symlink_to(elsewhere)
    with pytest.raises(SlowwaveError, match="link"), desk.runtime():
        pass
    assert any("link" in finding.says for finding in desk.errors())


@pytest.mark.skipif(os.getuid() != 0 or UNSHARE is None, reason="needs root and unshare for a mount of its own")
def test_a_home_on_a_read_only_file_system_is_named_by_run_and_doctor(fresh: Desk) -> None:
    prefix = ("unshare", "-m", "sh", "-c", READ_ONLY, "sh", str(fresh.data))
    done = carried_out(fresh, "run", prefix=prefix)
    if done.returncode == 77:
        pytest.skip("this machine allows no mount")
    assert done.returncode == 1
    assert done.stderr.startswith(f"slowwave: The data folder {fresh.data} lies on a read-only file system.")
    assert "Traceback" not in done.stderr
    doctor = carried_out(fresh, "doctor", prefix=prefix)
    assert doctor.returncode == 1
    assert "file system that is read-only" in doctor.stdout
    assert not (fresh.data / "state.db").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_home_that_may_not_be_written_to_is_named_by_run_and_doctor() -> None:
    with tempfile.TemporaryDirectory() as folder:  # the folders of a test are closed to other users
        Path(folder).chmod(0o755)
        desk = Desk(Path(folder))
        desk.configure()
        desk.data.chmod(0o555)
        (desk.data / "config.toml").chmod(0o444)
        settings, report = desk.settings(), Path(folder) / "report"
        report.touch()
        report.chmod(0o666)
        child = os.fork()
        if not child:
            lines = []
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                try:
                    Store.open(settings, desk.clock)
                except StateError as error:
                    lines.append(str(error))
                lines += [f"{finding.level} {finding.says}" for finding in diagnose(settings, desk.clock)]
                report.write_text("\n".join(lines))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        said = report.read_text()
        assert said.startswith(f"The data folder {desk.data} may not be written to by this user.")
        assert f"error {desk.data} may not be written to by this user" in said
        assert f"error {desk.data} belongs to another user" in said
        assert sorted(path.name for path in desk.data.iterdir()) == ["config.toml"]


def test_a_network_file_system_and_a_synchronised_folder_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "Dropbox" / "slowwave"
    home.mkdir(parents=True)
    table = tmp_path / "mountinfo"
    spaced = str(tmp_path).replace(" ", "\\040")
    table.write_text(
        "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"31 20 0:50 / {spaced} rw,relatime shared:2 - nfs4 files.example:/home rw\n"
        "garbage\n"
    )
    assert surroundings.mount_of(home, table) == ("nfs4", "files.example:/home")
    assert surroundings.mount_of(Path("/usr"), table) == ("ext4", "/dev/sda1")
    assert surroundings.mount_of(home, tmp_path / "none") == ("", "")
    monkeypatch.setattr(surroundings.mount_of, "__defaults__", (table,))
    said = [finding.says for finding in surroundings.file_system(home)]
    assert any("nfs4" in text and "files.example:/home" in text for text in said)
    assert any("Dropbox" in text for text in said)


def test_the_latest_mount_on_a_point_and_escaped_names_count(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    home.mkdir()
    table = tmp_path / "mountinfo"
    escaped = str(home).replace(" ", "\\040")
    table.write_text(f"1 0 8:1 / {escaped} rw - ext4 a rw\n2 1 8:1 / {escaped} rw - cifs //b/c rw\n")
    assert surroundings.mount_of(home, table) == ("cifs", "//b/c")


def test_little_space_and_a_quarantine_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=10, used=9, free=1))
    assert [finding.level for finding in surroundings.disk(tmp_path)] == ["warning"]
    assert list(surroundings.quarantine(tmp_path)) == []
    (tmp_path / "quarantine" / "20261130T120000").mkdir(parents=True)
    (finding,) = surroundings.quarantine(tmp_path)
    assert "20261130T120000" in finding.says
