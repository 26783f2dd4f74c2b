"""Doctor and start-up see topic files."""

from __future__ import annotations

from memory.testing import StoreBench
from memory.workspace.files import TEMP_PREFIX
from recall.doctor import examine
from recall.scope import Viewer
from recall.tools import MemoryTools


def said(bench: StoreBench) -> list[tuple[str, str]]:
    found = examine(bench.settings, bench.store, bench.workspace, bench.clock)
    return [(finding.check, finding.level) for finding in found if finding.level != "ok"]


def test_doctor_names_files_that_cannot_be_read_and_start_up_sweeps_what_a_kill_left(bench: StoreBench) -> None:
    memory = MemoryTools(bench.settings, Viewer("aaaaaaaaaaaa", "shop"), clock=bench.clock)
    memory.remember(scope="project", tier="log", topic="testing", title="One", content="Text")
    assert said(bench) == []
    folder = bench.workspace.root / "extensions" / "topics" / "aaaaaaaaaaaa"
    (folder / f"{TEMP_PREFIX}1-ab").write_text("half")
    (folder / "gone.json").write_text("{}")
    (folder / "broken.md").write_bytes(b"\xff")
    (folder / "link.md").symlink_to("/etc/passwd")
    (folder.parent / "nobody").mkdir()
    assert sorted(said(bench)) == [("left-overs", "warning")] * 2 + [("topics", "warning")] * 3
    report = bench.workspace.heal()
    assert report.problems == []
    assert sorted(path.name for path in folder.iterdir()) == ["broken.md", "link.md", "testing.json", "testing.md"]
    assert sorted(said(bench)) == [("topics", "warning")] * 3
    assert [one.title for one in memory.list().entries] == ["One"]
