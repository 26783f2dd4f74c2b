"""SIGKILL before and after every durable step of remembering and forgetting, and several processes at once.

After each kill a reader sees the entries as they were before or after, never others and never one without its tier; the
next start takes every left-over away; doing it again ends where it would have ended without the kill.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory import failpoints
from memory.errors import SlowwaveError, StorageError
from memory.settings import Settings, load
from memory.testing import FrozenClock
from memory.workspace import Workspace, healing
from memory.workspace.healing import HealReport
from memory.workspace.testing import FaultySyscalls, disk
from recall import scope
from recall.scope import Viewer
from recall.tools import MemoryTools

SHOP = Viewer("aaaaaaaaaaaa", "shop")
State = frozenset[tuple[str, str, str, str]]


def settings_of(home: Path) -> Settings:
    return load(environ={"SLOWWAVE_HOME": str(home), "HOME": str(home.parent)})


def tools(home: Path, *, later: float = 0.0) -> MemoryTools:
    clock = FrozenClock(FrozenClock().now())
    clock.advance(later)
    workspace = workspace_of(home)
    return MemoryTools(settings_of(home), SHOP, clock=clock, forgetting=workspace.remove_note if workspace else None)


def workspace_of(home: Path) -> Workspace | None:
    generation, _ = scope.read_generation(str(home))
    return Workspace.open(home, generation, create=False) if generation else None


def save(home: Path, title: str, content: str, **changes: Any) -> None:
    values = {"scope": "project", "tier": "profile", "topic": "testing", "later": 60.0, **changes}
    later = values.pop("later")
    tools(home, later=later).remember(title=title, content=content, **values)


def state(home: Path) -> State:
    entries = tools(home).list().entries
    assert len({(one.scope, one.topic, one.title) for one in entries}) == len(entries)
    return frozenset((one.title, one.tier, one.text, one.asked_by) for one in entries)


def start(home: Path) -> None:
    save(home, "Framework", "Jest", later=0)
    save(home, "Runner", "Node", tier="log", later=0)
    save(home, "Alone", "In a topic of its own", topic="other", later=0)
    save(home, "Noted", "A note", tier="note", later=0)


def forget(title: str) -> Callable[[Path], None]:
    def deed(home: Path) -> None:
        memory = tools(home)
        for one in memory.list().entries:
            if one.title == title:
                memory.forget(one.id)

    return deed


DEEDS: dict[str, Callable[[Path], None]] = {
    "first of all": lambda home: save(home, "New", "Text", scope="user"),
    "another entry": lambda home: save(home, "Brand new", "Text"),
    "another text": lambda home: save(home, "Framework", "Vitest"),
    "another tier": lambda home: save(home, "Framework", "Jest", tier="log"),
    "another text and tier": lambda home: save(home, "Framework", "Vitest", tier="log"),
    "an entry becomes a note": lambda home: save(home, "Framework", "Vitest", tier="note"),
    "a note becomes an entry": lambda home: save(home, "Noted", "An entry", tier="log"),
    "forget one of several": forget("Framework"),
    "forget the last one": forget("Alone"),
    "forget a note": forget("Noted"),
}


def killed(deed: Callable[[Path], None], home: Path, point: str, nth: int) -> bool:
    child = os.fork()
    if child == 0:
        failpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL), at=nth)
        try:
            deed(home)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("begun") / "home"
    start(home)
    return home


@pytest.mark.req("P011", "P025")
@pytest.mark.fault("X49", "M48")
@pytest.mark.parametrize("name", DEEDS)
def test_a_kill_at_any_step_leaves_the_entries_as_before_or_after(tmp_path: Path, begun: Path, name: str) -> None:
    deed = DEEDS[name]
    before = state(begun)
    whole = shutil.copytree(begun, tmp_path / "whole")
    with failpoints.recorded() as seen:
        deed(whole)
    after = state(whole)
    assert after != before
    mine = [point for point in seen if point.startswith(("topics.", "workspace.note", "workspace.index"))]
    # What stands after one step stands before the next one too.
    points = Counter(point for point in mine if point.endswith(".before") or point == mine[-1])
    assert points
    for point, count in points.items():
        for nth in range(1, count + 1):
            home = shutil.copytree(begun, tmp_path / "home")
            assert killed(deed, home, point, nth), point
            assert state(home) in {before, after}, (point, nth)
            settled(home)
            assert state(home) in {before, after}, (point, nth)
            deed(home)
            assert state(home) == after, (point, nth)
            settled(home)
            shutil.rmtree(home)


def settled(home: Path) -> None:
    workspace = workspace_of(home)
    assert workspace is not None
    report = HealReport()
    healing.mend_topics(workspace.topics, workspace.notes, workspace.remove_note, report)
    assert report.problems == []
    assert workspace.topics.half_done() == []
    assert healing.twins(workspace.topics, workspace.notes().notes) == []


def test_every_point_of_topics_is_passed_by_a_deed(tmp_path: Path, begun: Path) -> None:
    passed: set[str] = set()
    for name, deed in DEEDS.items():
        home = shutil.copytree(begun, tmp_path / name)
        with failpoints.recorded() as seen:
            deed(home)
        passed.update(seen)
    home = shutil.copytree(begun, tmp_path / "left")
    assert killed(DEEDS["another text"], home, "topics.text.rename.before", 1)
    with failpoints.recorded() as seen:
        settled(home)
    passed.update(seen)
    assert {point for point in failpoints.known() if point.startswith("topics.")} - passed == set()


@pytest.mark.fault("X49")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_is_said_and_loses_nothing(tmp_path: Path, begun: Path, code: int) -> None:
    before = state(begun)
    for call in ("write", "fsync", "rename"):
        for nth in (1, 2):
            home = shutil.copytree(begun, tmp_path / f"{call}{nth}")
            with disk(FaultySyscalls(call, nth, code)), pytest.raises(StorageError):
                save(home, "Framework", "Vitest")
            assert state(home) == before
            save(home, "Framework", "Vitest")
            assert ("Framework", "profile", "Vitest", "agent") in state(home)


@pytest.mark.req("P011", "P025")
def test_processes_at_once_lose_no_entry_and_agree_on_one_of_the_same_title(tmp_path: Path, begun: Path) -> None:
    home = shutil.copytree(begun, tmp_path / "home")
    children = []
    for worker in range(4):
        child = os.fork()
        if child == 0:
            try:
                for number in range(4):
                    save(home, f"Of {worker} number {number}", f"Text {worker} {number}")
                    save(home, "Shared", f"By {worker}")
                    tools(home).recall("text")
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    titles = Counter(title for title, *_ in state(home))
    assert {title for title in titles if title.startswith("Of ")} == {
        f"Of {w} number {n}" for w in range(4) for n in range(4)
    }
    assert titles["Shared"] == 1
    settled(home)
    found = {hit.title for hit in tools(home).recall("Of 3 number 2", near=True).hits}
    assert "Of 3 number 2" in found


@pytest.mark.fault("M55")
def test_a_clear_takes_entries_away_and_tools_that_were_open_work_in_the_new_generation(
    tmp_path: Path, begun: Path
) -> None:
    home = shutil.copytree(begun, tmp_path / "home")
    memory = tools(home)
    assert memory.recall("framework jest").hits
    from consolidate.service import LongMemory
    from memory.runtime import open_runtime

    with open_runtime(settings_of(home)) as runtime:
        service = LongMemory(runtime)
        assert service.preview_clear().entries == 3
        assert service.clear().clean
    assert memory.list().entries == ()
    assert memory.recall("framework jest").hits == ()
    memory.remember(scope="project", tier="log", topic="new", title="After", content="The clear")
    assert [one.title for one in memory.list().entries] == ["After"]
    assert [path for path in home.rglob("*") if path.is_file() and b"Jest" in path.read_bytes()] == []


@pytest.mark.fault("M48", "M50", "M54")
def test_forgetting_a_text_reaches_entries_titles_headings_and_files_nobody_can_read(
    tmp_path: Path, begun: Path
) -> None:
    home = shutil.copytree(begun, tmp_path / "home")
    save(home, "The zebra-umbrella", "One")
    save(home, "Body", "Says zebra-umbrella\nand more")
    save(home, "Under it", "Two", topic="zebra-umbrella")
    workspace = workspace_of(home)
    assert workspace is not None
    folder = workspace.root / "extensions" / "topics" / SHOP.id
    (folder / "broken.md").write_bytes(b"# broken\n\nzebra-umbrella \xff\n")
    from consolidate.service import LongMemory
    from memory.runtime import open_runtime

    with open_runtime(settings_of(home)) as runtime:
        service = LongMemory(runtime)
        assert len(service.find("zebra-umbrella").entries) == 4
        assert service.forget(text="zebra-umbrella").entries == 3
    assert [path for path in home.rglob("*") if path.is_file() and b"zebra-umbrella" in path.read_bytes()] == []
    assert {one.title for one in tools(home).list().entries} == {"Framework", "Runner", "Alone", "Noted"}
    with pytest.raises(SlowwaveError, match="forgotten at the user's wish"):
        save(home, "Again", "the Zebra-Umbrella is back")
