"""Outputs, versions, intents, runs, usage, tombstones and the data epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.errors import FencedError, UsageError
from memory.model import Boundary, Host, InputFile, LeftOut, Manifest, Outcome, RolloutId
from memory.state import (
    IntentRow,
    Lease,
    OutputRow,
    RolloutRow,
    Store,
    VersionRow,
    manifest_from_dict,
    manifest_to_dict,
)
from memory.testing import FrozenClock

Claim = Callable[..., Lease]
MakeOutput = Callable[..., OutputRow]
MANIFEST = Manifest(
    generation="g",
    inputs=(
        InputFile(
            "3f9a1c2e", "rollout_summaries/3f9a1c2e00000000.md", "aa", 9, "p1", time=datetime(2026, 1, 2, tzinfo=UTC)
        ),
        InputFile("note:style", "extensions/ad_hoc/notes/style.md", "bb", 5, "", projects_global=True, pinned=True),
    ),
    left_out=(LeftOut("00000001", "rollout_summaries/x.md", "max_chars"),),
    removed=("00000002",),
)


def version(number: int, at: datetime, **values: Any) -> VersionRow:
    known: dict[str, Any] = {"generation": "g", "sha256": "ab", "manifest": manifest_to_dict(MANIFEST), "model": "m"}
    return VersionRow(number=number, published=at, **{**known, **values})


def save(store: Store, lease: Lease, row: OutputRow) -> None:
    with store.write() as tx:
        store.outputs.save(lease, row, tx)
        store.jobs.succeed(lease, tx)


# -- outputs ----------------------------------------------------------------------------------------------


def test_an_output_comes_back_as_it_went_in_and_the_later_one_replaces_it(
    store: Store, claim: Claim, output: MakeOutput
) -> None:
    lease = claim(store)
    row = output(lease, kept=False, outcome=Outcome.UNCERTAIN, ended=None, sha256="", shrinks=2, coverage={"tool": 1})
    save(store, lease, row)
    assert store.outputs.get(row.rollout) == row
    other = claim(store, "codex:s0")
    save(store, other, output(other))
    newer = replace(row, boundary=Boundary(99, 9, "ef" * 32), kept=True)
    save(store, claim(store, boundary="b2"), newer)
    assert store.outputs.all() == [output(other), newer]
    assert store.outputs.get(RolloutId(Host.PI, "none")) is None


def test_an_output_under_another_rollouts_claim_is_refused(store: Store, claim: Claim, output: MakeOutput) -> None:
    lease = claim(store)
    row = replace(output(lease), rollout=RolloutId(Host.PI, "other"))
    with pytest.raises(FencedError):
        save(store, lease, row)
    with pytest.raises(FencedError):
        save(store, lease, replace(output(lease), generation="old"))
    assert store.outputs.all() == []


def test_a_deleted_output_is_gone(store: Store, claim: Claim, output: MakeOutput) -> None:
    lease = claim(store)
    save(store, lease, output(lease))
    assert store.outputs.delete(output(lease).rollout)
    assert not store.outputs.delete(output(lease).rollout)
    assert store.outputs.all() == []


@pytest.mark.fault("M74")
def test_an_output_and_its_success_are_stored_together_or_not_at_all(
    store: Store, claim: Claim, output: MakeOutput
) -> None:
    lease = claim(store)

    def half() -> None:
        with store.write() as tx:
            store.outputs.save(lease, output(lease), tx)
            raise KeyError

    with pytest.raises(KeyError):
        half()
    assert store.outputs.all() == []
    save(store, lease, output(lease))


# -- versions and intents ---------------------------------------------------------------------------------


def test_a_manifest_survives_its_way_through_json() -> None:
    assert manifest_from_dict(manifest_to_dict(MANIFEST)) == MANIFEST
    assert manifest_from_dict(manifest_to_dict(MANIFEST)).key() == MANIFEST.key()


def test_versions_are_kept_in_order_and_numbered_on(store: Store, clock: FrozenClock) -> None:
    assert store.versions.latest() is None
    assert store.versions.next_number() == 1
    changes = [{"kind": "added", "text": "Use pnpm.", "reason": ""}]
    rows = [version(1, clock.now()), version(2, clock.now(), money=0.25, requests=3, changes=changes)]
    with store.write() as tx:
        for row in rows:
            store.versions.add(row, tx)
    assert store.versions.all() == rows
    assert store.versions.latest() == rows[1]
    assert store.versions.next_number() == 3
    assert manifest_from_dict(rows[1].manifest) == MANIFEST


@pytest.mark.req("Z106")
def test_an_intent_is_pending_until_it_is_closed_once(store: Store, clock: FrozenClock, claim: Claim) -> None:
    lease = claim(store, "default", kind="consolidate")
    with store.write() as tx:
        number = store.intents.open(lease, "publish", None, "new", {"version": 1}, tx)
    expected = IntentRow(
        number, "publish", "consolidate", "default", store.generation, lease.token, None, "new", {"version": 1},
        clock.now(),
    )  # fmt: skip
    assert store.intents.pending() == [expected]

    def close() -> None:
        with store.write() as tx:
            store.intents.close(number, tx)

    close()
    assert store.intents.pending() == []
    with pytest.raises(FencedError):
        close()


# -- runs, usage, tombstones ------------------------------------------------------------------------------


def test_runs_are_listed_newest_first_with_how_they_ended(store: Store, clock: FrozenClock) -> None:
    for name in ("r1", "r2", "r3"):
        store.runs.start(name, "schedule")
        clock.advance(10)
    store.runs.finish("r2", "ok", {"extracted": 2})
    runs = store.runs.last(2)
    assert [(run.run_id, run.outcome, run.detail) for run in runs] == [("r3", None, {}), ("r2", "ok", {"extracted": 2})]
    assert runs[1].finished == clock.now()
    with pytest.raises(UsageError):
        store.runs.finish("r9", "ok", {})


@pytest.mark.req("Z018")
def test_a_run_keeps_the_models_it_started_with(store: Store) -> None:
    models = {"extract": "small", "consolidate": "large"}
    store.runs.start("r1", "manual", models=models)
    store.runs.finish("r1", "ok", {})
    store.runs.start("r2", "manual", models={"extract": "other"})
    assert [run.models for run in store.runs.last(2)] == [{"extract": "other"}, models]


def test_usage_counts_and_keeps_the_latest_time(store: Store, clock: FrozenClock) -> None:
    store.usage.touch(["3f9a1c2e", "note:style", "3f9a1c2e"], clock.now())
    store.usage.touch(["3f9a1c2e"], clock.now() - timedelta(days=1))
    store.usage.touch(["note:style"], clock.now() + timedelta(days=1))
    store.usage.touch([], clock.now())
    assert store.usage.last_used() == {"3f9a1c2e": clock.now(), "note:style": clock.now() + timedelta(days=1)}
    assert store.usage.counts() == {"3f9a1c2e": 2, "note:style": 2}


def test_a_tombstone_is_set_once_and_found(store: Store) -> None:
    for _ in range(2):
        store.tombstones.add("rollout", "codex:s1")
    store.tombstones.add("note", "codex:s1")
    assert store.tombstones.all() == {("rollout", "codex:s1"), ("note", "codex:s1")}
    assert store.tombstones.has("note", "codex:s1")
    assert not store.tombstones.has("note", "other")


# -- the data epoch ---------------------------------------------------------------------------------------


def test_a_new_generation_keeps_tombstones_runs_and_nothing_of_what_was_remembered(
    open_store: Any, clock: FrozenClock, claim: Claim, output: MakeOutput, rollout: Callable[..., RolloutRow]
) -> None:
    store = open_store()
    store.rollouts.upsert_many([rollout()])
    lease = claim(store)
    save(store, lease, output(lease))
    with store.write() as tx:
        store.versions.add(version(1, clock.now()), tx)
        store.intents.open(claim(store, "default", kind="consolidate"), "publish", None, "x", {}, tx)
    store.usage.touch(["3f9a1c2e"], clock.now())
    store.tombstones.add("note", "n")
    store.runs.start("r", "manual")
    generation = store.meta.new_generation(clock.now())
    fresh = open_store()
    assert fresh.generation == generation != lease.generation
    assert fresh.clear_watermark == clock.now()
    left = (fresh.rollouts.all(), fresh.outputs.all(), fresh.versions.all(), fresh.usage.last_used())
    assert left == ([], [], [], {})
    assert fresh.intents.pending() == []
    assert fresh.tombstones.has("note", "n")
    assert len(fresh.runs.last()) == 1
    assert claim(fresh).attempt == 1


@pytest.mark.req("Z022", "Z115")
def test_a_clear_remembers_how_each_rollout_stood(
    store: Store, clock: FrozenClock, rollout: Callable[..., RolloutRow]
) -> None:
    now, ahead = clock.now(), clock.now() + timedelta(days=2)
    mtime = int(now.timestamp() * 1e9)
    store.rollouts.upsert_many(
        [
            rollout("ahead", last_event=ahead, size=70, inode=9, mtime_ns=mtime, fingerprint="ab"),
            rollout("plain", last_event=None, size=30, inode=8, mtime_ns=1),
        ]
    )
    assert store.meta.cleared("codex:ahead").watermark is None
    store.meta.new_generation(now)
    cleared, plain = store.meta.cleared("codex:ahead"), store.meta.cleared("codex:plain")
    assert (cleared.watermark, plain.watermark, store.meta.cleared("codex:new").watermark) == (ahead, now, now)
    assert (cleared.end_in(9, "ab"), cleared.end_in(9, "cd"), cleared.end_in(1, "ab")) == (70, 0, 0)
    assert plain.end_in(8, "") == 30
    clock.advance(60)
    store.rollouts.upsert_many([rollout("ahead", last_event=ahead, size=90, inode=9, fingerprint="ab")])
    store.meta.new_generation(clock.now())
    assert store.meta.cleared("codex:ahead").end_in(9, "ab") == 90


def test_the_watermark_never_moves_back(store: Store, clock: FrozenClock) -> None:
    now = clock.now()
    store.meta.new_generation(now)
    store.meta.new_generation(now - timedelta(days=1))
    assert store.clear_watermark == now
