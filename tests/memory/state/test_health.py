"""Health facts: four words that cannot be mistaken for each other, and the invariants behind them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from memory.errors import GateRejected
from memory.model import InputFile, LeftOut, Manifest, RolloutId
from memory.state import Lease, OutputRow, Store, VersionRow, manifest_to_dict
from memory.testing import FrozenClock

Claim = Callable[..., Lease]
MakeOutput = Callable[..., OutputRow]


def extracted(store: Store, claim: Claim, output: MakeOutput, session: str, **values: Any) -> OutputRow:
    lease = claim(store, f"codex:{session}")
    row = output(lease, **values)
    with store.write() as tx:
        store.outputs.save(lease, row, tx)
        store.jobs.succeed(lease, tx)
    return row


def consolidated(store: Store, claim: Claim, inputs: list[OutputRow], *left_out: OutputRow) -> None:
    """A consolidation that publishes with exactly these inputs."""
    lease = claim(store, store.settings.store, kind="consolidate", boundary=f"b{len(store.versions.all())}")
    files = tuple(InputFile(row.rollout.citation, "x", row.sha256, 1, "p") for row in inputs)
    left = tuple(LeftOut(row.rollout.citation, "x", "unused") for row in left_out)
    manifest = manifest_to_dict(Manifest(store.generation, files, left))
    with store.write() as tx:
        number = store.versions.next_number(tx)
        store.versions.add(VersionRow(number, store.generation, store.clock.now(), "ab", manifest, "m"), tx)
        store.jobs.succeed(lease, tx)


@pytest.mark.fault("X23")
def test_a_store_where_nothing_was_consolidated_never_ran(store: Store, claim: Claim, output: MakeOutput) -> None:
    assert store.health().state == "never_ran"
    extracted(store, claim, output, "s1")
    lease = claim(store, store.settings.store, kind="consolidate")
    assert (store.health().state, store.health().running) == ("never_ran", True)
    store.jobs.release(lease)
    assert (store.health().state, store.health().running) == ("never_ran", False)


@pytest.mark.fault("X23")
def test_a_consolidation_that_found_nothing_to_take_is_empty(store: Store, claim: Claim, output: MakeOutput) -> None:
    extracted(store, claim, output, "s1", kept=False)
    store.jobs.succeed(claim(store, store.settings.store, kind="consolidate"))
    health = store.health()
    assert (health.state, health.kept, health.nothing_kept, health.problems) == ("empty", 0, 1, ())


@pytest.mark.fault("X23")
def test_a_failed_consolidation_is_failed_even_with_a_summary_published_before(
    store: Store, clock: FrozenClock, claim: Claim, output: MakeOutput
) -> None:
    consolidated(store, claim, [extracted(store, claim, output, "s1")])
    clock.advance(3_600)
    lease = claim(store, store.settings.store, kind="consolidate", boundary="next")
    store.jobs.fail(lease, GateRejected("The gate refused it.", violations=[]), None)
    health = store.health()
    assert (health.state, health.error_code, health.age) == ("failed", "gate_rejected", timedelta(hours=1))


def test_a_consolidation_whose_process_died_is_failed_once_its_lease_is_over(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    claim(store, store.settings.store, kind="consolidate")
    clock.advance(61)
    assert (store.health().state, store.health().error_code) == ("failed", "lease_expired")


@pytest.mark.fault("X23")
def test_a_published_summary_is_ok_with_its_age(
    store: Store, clock: FrozenClock, claim: Claim, output: MakeOutput
) -> None:
    taken, left = extracted(store, claim, output, "s1"), extracted(store, claim, output, "s2")
    consolidated(store, claim, [taken], left)
    clock.advance(90)
    health = store.health()
    assert (health.state, health.age, health.unpublished, health.problems) == ("ok", timedelta(seconds=90), (), ())


@pytest.mark.fault("M4", "X11")
def test_success_with_0_inputs_while_outputs_exist_is_no_success(
    store: Store, claim: Claim, output: MakeOutput
) -> None:
    for session in ("s1", "s2", "s3"):
        extracted(store, claim, output, session)
    store.jobs.succeed(claim(store, store.settings.store, kind="consolidate"))
    health = store.health()
    assert health.state == "failed"
    assert health.problems == (
        "The last consolidation ended well with 0 inputs although 3 outputs wait.",
        "3 outputs not in the published set.",
    )
    consolidated(store, claim, [], *store.outputs.all())
    assert (store.health().state, store.health().problems) == ("ok", ())


@pytest.mark.fault("X11", "M69")
def test_outputs_newer_than_the_published_set_are_named(store: Store, claim: Claim, output: MakeOutput) -> None:
    first, gone = extracted(store, claim, output, "s1"), extracted(store, claim, output, "s0")
    consolidated(store, claim, [first, gone])
    lease = claim(store, "codex:s1", boundary="b2")
    with store.write() as tx:
        store.outputs.save(lease, output(lease, sha256="ee" * 32), tx)
    extracted(store, claim, output, "s2")
    store.outputs.delete(RolloutId.parse("codex:s0"))
    assert store.health().unpublished == ("codex:s1", "codex:s2")
    assert store.health().problems == ("2 outputs not in the published set.",)


@pytest.mark.req("Z106")
def test_a_publish_that_was_begun_and_not_finished_is_a_problem(store: Store, clock: FrozenClock, claim: Claim) -> None:
    lease = claim(store, store.settings.store, kind="consolidate")
    with store.write() as tx:
        store.intents.open(lease, "publish", None, "x", {}, tx)
    assert store.health().problems == ()
    clock.advance(61)
    assert store.health().open_intents == 1
    assert "begun and not finished" in store.health().problems[0]
