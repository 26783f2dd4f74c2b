"""Rollout rows: written whole, read back equal, compared cheaply."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.model import Host, Reason, RolloutId, RolloutKind
from memory.state import RolloutRow, Store
from memory.state.rollouts import stale

AT = datetime(2026, 11, 28, 8, 14, 0, 123456, tzinfo=UTC)


def full(session: str = "full") -> RolloutRow:
    return RolloutRow(
        id=RolloutId(Host.CLAUDE, session),
        path=Path(f"/home/x/客户/{session}.jsonl"),
        size=2**40,
        mtime_ns=1_796_000_000_123_456_789,
        inode=2**64 - 1,
        kind=RolloutKind.EXEC,
        cwd="/home/x/客户",
        branch="main",
        remote="git@example.org:a/b.git",
        project="0123456789ab",
        project_name="b",
        started=AT - timedelta(hours=1),
        last_event=AT,
        user_chars=12,
        parent=RolloutId(Host.CLAUDE, "p"),
        forked_from=RolloutId(Host.CLAUDE, "f"),
        fingerprint="ff",
        version="1.2.3",
        title="Fix the 构建",
        reason=Reason.NOT_IDLE,
        detail="idle in 5 h",
        report={"lines": 3, "unknown_types": {"x": 1}},
    )


def test_a_row_comes_back_as_it_went_in(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    store.rollouts.upsert_many([full(), rollout()])
    assert store.rollouts.get(full().id) == full()
    assert store.rollouts.get(rollout().id) == rollout()
    assert store.rollouts.get(RolloutId(Host.PI, "none")) is None


def test_a_second_upsert_replaces_the_row_whole(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    store.rollouts.upsert_many([full("s"), rollout("t")])
    newer = rollout("t", size=99, title="new")
    store.rollouts.upsert_many([rollout("t", size=98), newer])
    assert store.rollouts.get(newer.id) == newer
    assert len(store.rollouts.all()) == 2
    store.rollouts.upsert_many([])


def test_rows_come_newest_activity_first_and_unknown_last(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    times = {"old": AT - timedelta(days=1), "new": AT, "none": None, "newest": AT + timedelta(microseconds=1)}
    store.rollouts.upsert_many([rollout(name, last_event=at) for name, at in times.items()])
    assert [row.id.session for row in store.rollouts.all()] == ["newest", "new", "old", "none"]


def test_reasons_are_set_in_one_go_and_counted(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    store.rollouts.upsert_many([rollout("a"), rollout("b"), rollout("c")])
    ids = [rollout(name).id for name in ("a", "b", "missing")]
    store.rollouts.set_reasons({id_: (Reason.TOO_OLD, "11 days") for id_ in ids})
    found = store.rollouts.get(ids[0])
    assert found is not None
    assert (found.reason, found.detail) == (Reason.TOO_OLD, "11 days")
    assert store.rollouts.counts() == {Reason.TOO_OLD: 2, None: 1}
    store.rollouts.set_reasons({})


def test_fingerprints_hold_what_stat_says_by_path(store: Store, tmp_path: Path) -> None:
    """A name that is no UTF-8 is a name like any other."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jsonl"))
    odd.write_text("x")
    at = odd.stat()
    row = RolloutRow(RolloutId(Host.PI, "s"), odd, at.st_size, at.st_mtime_ns, at.st_ino)
    store.rollouts.upsert_many([row, full()])
    marks = store.rollouts.fingerprints()
    assert marks[str(odd)] == (at.st_size, at.st_mtime_ns, at.st_ino, row.id)
    assert marks[str(full().path)].inode == 2**64 - 1
    assert store.rollouts.get(row.id) == row
    assert stale(marks, [str(odd)]) == {full().id}


def test_marks_are_the_rows_as_stored(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    store.rollouts.upsert_many([rollout("a", size=5, inode=2**64 - 1)])
    assert store.rollouts.marks() == [("/sessions/a.jsonl", 5, 2, str(2**64 - 1), "codex:a")]


def test_candidates_are_the_rows_whose_verdict_may_have_changed(
    store: Store, rollout: Callable[..., RolloutRow]
) -> None:
    rows = {
        "new": (None, AT),
        "waits": (Reason.NOT_IDLE, AT - timedelta(hours=1)),
        "sub": (Reason.SUBAGENT, AT),
        "old": (Reason.TOO_OLD, AT - timedelta(days=99)),
        "aged": (Reason.TOO_OLD, AT - timedelta(days=2)),
        "timeless": (Reason.TOO_OLD, None),
        "forgotten": (Reason.SUBAGENT, AT - timedelta(days=3)),
    }
    store.rollouts.upsert_many([rollout(name, reason=why, last_event=at) for name, (why, at) in rows.items()])

    def asked(limit: int, **values: Any) -> tuple[list[str], int]:
        settled = {Reason.SUBAGENT, Reason.TOO_OLD}
        found, more = store.rollouts.candidates(settled=settled, limit=limit, **values)
        return [row.id.session for row in found], more

    since = AT - timedelta(days=10)
    assert asked(9, since=since) == (["new", "waits", "aged", "timeless"], 0)
    assert asked(9, since=since, again=["codex:forgotten"]) == (["new", "waits", "aged", "forgotten", "timeless"], 0)
    assert asked(2, since=since) == (["new", "waits"], 2)
    assert asked(9, since=None) == (["new", "waits", "timeless"], 0)


def test_deleted_rows_are_gone_and_deleting_twice_is_no_error(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    store.rollouts.upsert_many([rollout("a"), rollout("b")])
    for _ in range(2):
        store.rollouts.delete([rollout("a").id])
    assert [row.id.session for row in store.rollouts.all()] == ["b"]
