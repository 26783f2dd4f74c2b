"""What a killed run left is judged by what stands on disk, and only its remains are removed."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import WorkspaceError
from memory.workspace import PendingIntent, Verdict
from memory.workspace.healing import decide
from memory.workspace.testing import FaultySyscalls, disk
from tests.memory.workspace.trees import Filled, snapshot


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
