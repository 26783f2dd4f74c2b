"""Claims, attempts, back-off and fences."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Table, update

from memory.errors import FencedError, QuotaModelError, TransientModelError
from memory.state import JobRow, Lease, OutputRow, Refused, Store
from memory.state.schema import jobs, meta
from memory.testing import FrozenClock

Claim = Callable[..., Lease]
HOUR = timedelta(hours=1)
ERROR = TransientModelError("The provider answered 503.")


def row(store: Store, key: str = "codex:s1", kind: Any = "extract") -> JobRow:
    found = store.jobs.get(kind, key)
    assert found is not None
    return found


def ask(store: Store, key: str = "codex:s1", *, boundary: str = "b1", **values: Any) -> Lease | Refused:
    wanted = {"owner": "other", "lease_seconds": 60, "max_failures": 3, **values}
    return store.jobs.claim(wanted.pop("kind", "extract"), key, boundary=boundary, **wanted)


def fail(store: Store, lease: Lease, after: timedelta | None = None) -> None:
    store.jobs.fail(lease, ERROR, None if after is None else store.clock.now() + after)


def test_a_claimed_job_is_refused_to_others_until_its_lease_ends(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    lease = claim(store)
    assert (lease.token, lease.attempt, lease.generation) == (1, 1, store.generation)
    assert ask(store) == Refused("running", clock.now() + timedelta(seconds=60))
    clock.advance(59.9)
    assert isinstance(ask(store), Refused)
    clock.advance(0.1)
    assert isinstance(ask(store), Lease)


def test_a_heartbeat_prolongs_the_lease_from_now(store: Store, clock: FrozenClock, claim: Claim) -> None:
    lease = claim(store)
    clock.advance(50)
    store.jobs.heartbeat(lease, 60)
    clock.advance(59)
    assert isinstance(ask(store), Refused)
    clock.advance(1)
    assert isinstance(ask(store), Lease)


@pytest.mark.req("Z084")
def test_success_moves_the_boundary_and_the_same_one_is_up_to_date(store: Store, claim: Claim) -> None:
    store.jobs.succeed(claim(store))
    assert ask(store) == Refused("up_to_date")
    assert row(store).done_boundary == "b1"
    assert claim(store, boundary="b2").attempt == 1


def test_again_takes_a_boundary_that_succeeded_and_nothing_else(store: Store, claim: Claim) -> None:
    store.jobs.succeed(claim(store))
    second = claim(store, again=True)
    assert ask(store, again=True) == Refused("running", row(store).lease_until)
    store.jobs.succeed(second)


@pytest.mark.req("Z080", "Z081", "Z104")
def test_after_a_failure_nothing_is_claimed_before_the_back_off_ends(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    store.jobs.succeed(claim(store, boundary="b0"))
    fail(store, claim(store), HOUR)
    until = clock.now() + HOUR
    assert row(store).done_boundary == "b0"
    assert row(store).error_code == "transient"
    clock.advance(59 * 60 + 59)
    assert ask(store) == Refused("backoff", until)
    clock.advance(1)
    assert claim(store).attempt == 2


@pytest.mark.req("Z080", "Z082")
@pytest.mark.fault("O9")
def test_three_failures_at_one_boundary_exhaust_it_until_it_moves(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    for attempt in (1, 2, 3):
        lease = claim(store)
        assert lease.attempt == attempt
        fail(store, lease, HOUR)
        clock.advance(3600)
    for _ in range(5):
        assert ask(store) == Refused("exhausted")
        clock.advance(86_400)
    assert claim(store, boundary="b2").attempt == 1


def test_new_content_ends_the_back_off_of_an_extraction(store: Store, claim: Claim) -> None:
    fail(store, claim(store), HOUR)
    assert isinstance(ask(store, boundary="b2"), Lease)


@pytest.mark.req("Z080")
def test_new_input_rearms_a_consolidation_but_never_skips_its_back_off(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    for _ in range(3):
        fail(store, claim(store, "default", kind="consolidate"), HOUR)
        until = clock.now() + HOUR
        assert ask(store, "default", boundary="b2", kind="consolidate") == Refused("backoff", until)
        clock.advance(3600)
    assert ask(store, "default", kind="consolidate") == Refused("exhausted")
    assert claim(store, "default", boundary="b2", kind="consolidate").attempt == 1


@pytest.mark.req("Z083")
def test_five_cancellations_cost_no_attempt(store: Store, claim: Claim) -> None:
    for _ in range(5):
        lease = claim(store)
        assert lease.attempt == 1
        store.jobs.release(lease)
    assert row(store).attempts == 0


@pytest.mark.req("Z083")
def test_a_release_keeps_the_failures_before_it(store: Store, claim: Claim) -> None:
    fail(store, claim(store))
    store.jobs.release(claim(store))
    assert (row(store).attempts, row(store).error_code) == (1, "transient")
    assert claim(store).attempt == 2


def test_a_success_forgets_earlier_failures(store: Store, claim: Claim) -> None:
    fail(store, claim(store))
    store.jobs.succeed(claim(store))
    found = row(store)
    assert (found.attempts, found.retry_at, found.error_code, found.error_message) == (0, None, None, None)


@pytest.mark.fault("M72")
@pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")
def test_a_job_that_kills_its_process_is_given_up_after_three_claims(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    started = 0
    for _ in range(5):
        child = os.fork()
        if child == 0:
            try:
                if isinstance(ask(store), Lease):
                    os.kill(os.getpid(), signal.SIGKILL)
                os._exit(0)
            finally:
                os._exit(1)
        started += os.waitpid(child, 0)[1] == signal.SIGKILL
        clock.advance(61)
    assert started == 3
    assert ask(store) == Refused("exhausted")
    assert [found.status for found in store.jobs.reap()] == ["failed"]
    assert row(store).error_code == "lease_expired"


@pytest.mark.fault("M74")
def test_reap_ends_silent_claims_and_leaves_living_ones(store: Store, clock: FrozenClock, claim: Claim) -> None:
    claim(store, "codex:dead", lease_seconds=10)
    alive = claim(store, "codex:alive", lease_seconds=600)
    clock.advance(11)
    assert [found.key for found in store.jobs.reap()] == ["codex:dead"]
    assert row(store, "codex:dead").status == "failed"
    assert row(store, "codex:dead").lease_until is None
    store.jobs.succeed(alive)
    assert store.jobs.reap() == []


def test_a_claim_that_takes_over_says_what_became_of_the_one_before(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    claim(store)
    clock.advance(61)
    assert claim(store).attempt == 2
    assert row(store).error_code == "lease_expired"


@pytest.mark.fault("M76", "M73")
def test_one_failing_job_holds_up_no_other(store: Store, claim: Claim) -> None:
    fail(store, claim(store, "codex:bad"), HOUR)
    assert isinstance(ask(store, "codex:good"), Lease)


def test_tokens_only_rise_whatever_happens_to_the_job(store: Store, clock: FrozenClock, claim: Claim) -> None:
    def abandon(lease: Lease) -> None:
        clock.advance(61)

    tokens = []
    for end in (lambda lease: fail(store, lease), store.jobs.release, abandon, store.jobs.succeed):
        lease = claim(store)
        tokens.append(lease.token)
        end(lease)
    assert tokens == [1, 2, 3, 4]


# -- fences -----------------------------------------------------------------------------------------------


def refuses_everything(store: Store, lease: Lease, output: Callable[..., OutputRow]) -> None:
    """No write under this lease is let in, and none leaves a trace."""
    before = (store.jobs.all("extract"), store.outputs.all(), store.intents.pending())

    def save() -> None:
        with store.write() as tx:
            store.outputs.save(lease, output(lease), tx)

    def intent() -> None:
        with store.write() as tx:
            store.intents.open(lease, "publish", None, "x", {}, tx)

    writes: list[Callable[[], object]] = [
        lambda: store.jobs.heartbeat(lease, 60),
        lambda: store.jobs.succeed(lease),
        lambda: store.jobs.fail(lease, ERROR, None),
        lambda: store.jobs.release(lease),
        save,
        intent,
    ]
    for write in writes:
        with pytest.raises(FencedError):
            write()
    assert (store.jobs.all("extract"), store.outputs.all(), store.intents.pending()) == before


def test_a_late_worker_cannot_write_over_the_one_that_took_its_job(
    store: Store, clock: FrozenClock, claim: Claim, output: Callable[..., OutputRow]
) -> None:
    late = claim(store)
    clock.advance(61)
    current = claim(store)
    refuses_everything(store, late, output)
    store.jobs.succeed(current)


def test_a_late_worker_nobody_replaced_may_still_finish(store: Store, clock: FrozenClock, claim: Claim) -> None:
    lease = claim(store)
    clock.advance(3600)
    store.jobs.heartbeat(lease, 60)
    store.jobs.succeed(lease)
    assert row(store).status == "done"


def test_an_ended_claim_writes_no_more(store: Store, claim: Claim, output: Callable[..., OutputRow]) -> None:
    for end in (store.jobs.succeed, store.jobs.release, lambda lease: fail(store, lease)):
        lease = claim(store, again=True)
        end(lease)
        refuses_everything(store, lease, output)


def test_a_reaped_claim_writes_no_more(
    store: Store, clock: FrozenClock, claim: Claim, output: Callable[..., OutputRow]
) -> None:
    lease = claim(store)
    clock.advance(61)
    store.jobs.reap()
    refuses_everything(store, lease, output)


def test_a_claim_with_another_boundary_or_generation_than_granted_is_no_claim(
    store: Store, claim: Claim, output: Callable[..., OutputRow]
) -> None:
    lease = claim(store)
    for change in ({"boundary": "b2"}, {"generation": "x"}, {"token": 2}, {"key": "codex:s2"}, {"kind": "consolidate"}):
        refuses_everything(store, dataclasses.replace(lease, **change), output)
    store.jobs.succeed(lease)


@pytest.mark.fault("X8")
def test_clearing_fences_off_every_claim_and_every_process_of_the_old_generation(
    open_store: Any, claim: Claim, output: Callable[..., OutputRow]
) -> None:
    old = open_store()
    lease = claim(old)
    old.meta.new_generation(old.clock.now())
    refuses_everything(old, lease, output)
    assert ask(old) == Refused("generation")
    new = open_store()
    assert claim(new).token == lease.token + 1
    refuses_everything(new, lease, output)


@pytest.mark.parametrize("table", [jobs, meta])
def test_either_mark_of_another_generation_fences_a_claim(
    store: Store, claim: Claim, output: Callable[..., OutputRow], table: Table
) -> None:
    """A clear moves both; a claim that slipped in between them finds one."""
    lease = claim(store)
    with store.write() as tx:
        if table is jobs:
            tx.execute(update(jobs).values(generation="other"))
        else:
            tx.execute(update(meta).where(meta.c.name == "generation").values(value="other"))
    refuses_everything(store, lease, output)


@pytest.mark.fault("X8")
def test_what_is_forgotten_is_neither_claimed_nor_written(
    store: Store, claim: Claim, output: Callable[..., OutputRow]
) -> None:
    lease = claim(store)
    store.tombstones.add("rollout", "codex:s1")

    def save() -> None:
        with store.write() as tx:
            store.outputs.save(lease, output(lease), tx)

    with pytest.raises(FencedError, match="forgotten"):
        save()
    store.jobs.release(lease)
    assert ask(store) == Refused("forgotten")
    assert isinstance(ask(store, "codex:s2"), Lease)


@pytest.mark.req("Z106")
def test_recovery_settles_the_attempt_it_found_done_and_no_later_one(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    dead = claim(store, "default", kind="consolidate")
    clock.advance(61)
    store.jobs.reap()

    def settle(lease: Lease) -> bool:
        with store.write() as tx:
            return store.jobs.succeed_interrupted(
                lease.kind, lease.key, token=lease.token, generation=lease.generation, tx=tx
            )

    assert settle(dead)
    found = row(store, "default", "consolidate")
    assert (found.status, found.done_boundary, found.attempts, found.error_code) == ("done", "b1", 0, None)
    claim(store, "default", kind="consolidate", boundary="b2")
    assert not settle(dead)
    assert not settle(dataclasses.replace(dead, generation="x"))


# -- time -------------------------------------------------------------------------------------------------


def test_a_clock_set_back_makes_a_dead_claim_wait_its_own_length_at_most(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    claim(store, lease_seconds=600)
    clock.set(clock.now() - timedelta(days=400))
    assert ask(store) == Refused("running", clock.now() + timedelta(seconds=600))
    clock.advance(600)
    assert isinstance(ask(store), Lease)


def test_a_clock_set_back_makes_a_back_off_wait_its_own_length_at_most(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    fail(store, claim(store), HOUR)
    clock.set(clock.now() - timedelta(days=400))
    assert ask(store) == Refused("backoff", clock.now() + HOUR)
    clock.advance(3600)
    assert isinstance(ask(store), Lease)


def test_a_living_holder_keeps_its_claim_when_the_clock_is_set_back(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    lease = claim(store)
    clock.set(clock.now() - timedelta(hours=3))
    store.jobs.heartbeat(lease, 60)
    assert ask(store) == Refused("running", clock.now() + timedelta(seconds=60))
    store.jobs.succeed(lease)


def test_a_clock_that_jumps_ahead_costs_the_holder_its_lease_and_nothing_more(
    store: Store, clock: FrozenClock, claim: Claim, output: Callable[..., OutputRow]
) -> None:
    lease = claim(store)
    clock.advance(86_400)
    other = claim(store)
    clock.set(clock.now() - timedelta(days=1))
    refuses_everything(store, lease, output)
    store.jobs.succeed(other)


def test_clocks_a_few_seconds_apart_change_nothing(store: Store, clock: FrozenClock, claim: Claim) -> None:
    lease_end = clock.now() + timedelta(seconds=60)
    claim(store)
    clock.set(clock.now() - timedelta(seconds=30))
    assert ask(store) == Refused("running", lease_end)


# -- looking ----------------------------------------------------------------------------------------------


def test_a_job_row_tells_what_a_claim_would_answer(store: Store, clock: FrozenClock, claim: Claim) -> None:
    fail(store, claim(store), HOUR)
    found = row(store)
    now = clock.now()
    assert found.refusal("b1", now=now, max_failures=3) == Refused("backoff", now + HOUR)
    assert found.refusal("b1", now=now + HOUR, max_failures=1) == Refused("exhausted")
    assert found.refusal("b2", now=now, max_failures=1) is None
    assert found.failures(now) == 1


def test_all_lists_one_kind_by_key(store: Store, claim: Claim) -> None:
    for key in ("codex:b", "codex:a"):
        claim(store, key)
    claim(store, "default", kind="consolidate")
    assert [found.key for found in store.jobs.all("extract")] == ["codex:a", "codex:b"]
    assert [found.failures(store.clock.now()) for found in store.jobs.all("extract")] == [0, 0]
    assert store.jobs.get("extract", "none") is None


@pytest.mark.fault("X13")
def test_rearming_makes_an_exhausted_job_claimable_and_keeps_its_success(
    store: Store, clock: FrozenClock, claim: Claim
) -> None:
    store.jobs.succeed(claim(store, boundary="b0"))
    assert not store.jobs.rearm("extract", "codex:s1")
    fail(store, claim(store), HOUR)
    assert ask(store, max_failures=1) == Refused("exhausted")
    assert store.jobs.rearm("extract", "codex:s1")
    assert row(store).done_boundary == "b0"
    assert claim(store).attempt == 1
    assert not store.jobs.rearm("extract", "codex:s1")


def test_a_long_error_is_kept_short(store: Store, claim: Claim) -> None:
    store.jobs.fail(claim(store), QuotaModelError("x" * 5000), None)
    assert len(row(store).error_message or "") == 500


@pytest.mark.fault("M74")
def test_a_claim_whose_owner_is_known_to_be_gone_does_not_wait_for_its_lease(store: Store, claim: Claim) -> None:
    claim(store, "codex:dead", lease_seconds=600)
    owner = row(store, "codex:dead").owner
    assert store.jobs.reap(lambda name: False) == []
    assert [found.key for found in store.jobs.reap(lambda name: name == owner)] == ["codex:dead"]
    assert row(store, "codex:dead").status == "failed"
