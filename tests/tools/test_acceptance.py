"""From end to end: an agreement is kept, read back elsewhere, hidden from others, corrected, forgotten."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cli import change, look
from memory.settings import Settings, load
from recall.answers import Remembered
from recall.tools import MemoryTools

HTTPS, SSH = "https://git.example/acme/payments.git", "git@git.example:acme/payments.git"


def checkout(folder: Path, remote: str = "") -> Path:
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    if remote:
        subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", remote], check=True)
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(environ={"SLOWWAVE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})


@pytest.mark.req("P001", "P013", "P015", "P016", "P017", "P025", "P027", "P067", "P008", "P050", "P058")
@pytest.mark.fault("O18", "O19", "O29", "M5", "M9")
def test_an_agreement_is_kept_read_back_hidden_and_corrected(tmp_path: Path, settings: Settings) -> None:
    one, two = checkout(tmp_path / "one", HTTPS), checkout(tmp_path / "two", SSH)
    below = one / "src" / "callbacks"
    below.mkdir(parents=True)
    other, plain = checkout(tmp_path / "other"), tmp_path / "plain"
    plain.mkdir()
    asked = "which framework do new tests of the payments callbacks use"

    def tell(folder: Path, content: str) -> Remembered:
        return MemoryTools.of_folder(settings, folder).remember(
            scope="project", tier="profile", topic="testing", title="New test framework", content=content
        )

    # 1. A session keeps an agreement.
    first = tell(below, "New tests in payments use Jest.")
    # 2. A later session of another checkout reads it back; other projects do not see it.
    assert [hit.text for hit in MemoryTools.of_folder(settings, two).recall(asked).hits] == [
        "New tests in payments use Jest."
    ]
    for folder in (other, plain, None):
        stranger = MemoryTools.of_folder(settings, folder)
        assert stranger.recall(asked, near=True).hits == ()
        assert stranger.list().total == 0
        assert stranger.recall(id=first.id).text is None
    # 3. A correction reuses its identity and changes what is on disk.
    corrected = "From now on new tests in payments use Vitest; old Jest cases migrate gradually."
    second = tell(two, corrected)
    assert (second.id, second.updated) == (first.id, True)
    # 4. The next task is told what holds now.
    hits = MemoryTools.of_folder(settings, one).recall(asked).hits
    assert [hit.text for hit in hits] == [corrected]
    stale = [path for path in settings.home.rglob("*.md") if "payments use Jest" in path.read_text()]
    assert stale == []


@pytest.mark.req("P066", "P013")
def test_steps_of_a_task_an_error_and_an_agreement_go_to_three_places(tmp_path: Path, settings: Settings) -> None:
    folder = checkout(tmp_path / "one", HTTPS)
    memory = MemoryTools.of_folder(settings, folder)
    step = memory.remember(scope="agent", tier="log", topic="task", title="Left to do", content="Wire the callback")
    rule = memory.remember(
        scope="project", tier="profile", topic="testing", title="Framework", content="New tests use Vitest"
    )
    note = memory.remember(
        scope="project", tier="note", topic="errors", title="Time-out", content="The gateway answered 504 at 8080"
    )
    assert (step.id.partition(":")[0], rule.id.partition(":")[0], note.id.partition(":")[0]) == ("agent", "mem", "note")
    memory.close()
    later = MemoryTools.of_folder(settings, folder)
    assert {one.id for one in later.list().entries} == {rule.id, note.id}
    assert [session.id for session in later.search("gateway 504").sessions] == [note.id]


@pytest.mark.fault("M48", "M50", "M52", "M54")
def test_the_forget_command_takes_an_entry_or_those_of_a_project_and_no_others(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLOWWAVE_HOME", str(settings.home))
    monkeypatch.setenv("HOME", str(tmp_path))
    one, other = checkout(tmp_path / "one", HTTPS), checkout(tmp_path / "other", "https://git.example/acme/shop")
    made = {}
    for folder in (one, other):
        memory = MemoryTools.of_folder(settings, folder)
        for number in (1, 2):
            made[folder, number] = memory.remember(
                scope="project", tier="log", topic="t", title=f"T {number}", content=f"canary-{folder.name}-{number}"
            ).id
    everywhere = MemoryTools.of_folder(settings, one).remember(
        scope="user", tier="log", topic="t", title="All", content="canary-all"
    )

    def forget(reference: str, project: str = "") -> int:
        change.forget(reference, text="", project=project, yes=True, as_json=True)
        return int(json.loads(capsys.readouterr().out)["entries"])

    look.status(as_json=True)
    assert json.loads(capsys.readouterr().out)["entries"] == {"log": 5}
    look.status(as_json=False)
    assert "5 log (memory tools)" in capsys.readouterr().out
    assert forget(made[one, 1]) == 1
    assert kept(settings.home) == {"canary-one-2", "canary-other-1", "canary-other-2", "canary-all"}
    assert forget("", project="payments") == 1
    assert kept(settings.home) == {"canary-other-1", "canary-other-2", "canary-all"}
    assert forget(everywhere.id) == 1
    assert kept(settings.home) == {"canary-other-1", "canary-other-2"}


def kept(home: Path) -> set[str]:
    names = [f"canary-{name}-{number}" for name in ("one", "other") for number in (1, 2)] + ["canary-all"]
    data = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    return {name for name in names if any(name.encode() in one for one in data)}
