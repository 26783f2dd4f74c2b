"""Claims with leases and fencing tokens.

A job is one row for (kind, key). Its boundary says which input an attempt is about. Rules:

- The attempt is counted at the claim, so a process that dies has spent it [M72]. `release` gives it back [Z083].
- `max_failures` attempts at one boundary: exhausted until the boundary moves [Z082]. Success starts afresh.
- After a failure nothing is claimed before `retry_at` [Z080 Z081]. A new boundary re-arms the count; for `extract`
  it also ends the back-off, for `consolidate` it never does.
- Every claim raises the token. A write that shows an older token, another generation or another boundary is
  refused with FencedError, also when its own lease ran out and nobody else has come: then the token is still the
  latest and the write is let in.
- Times compare with the UTC stored in the row. When the clock was set back by more than a minute since the row
  was written, a running lease or back-off is measured again from now, so it ends after its own length at most;
  until then two holders are impossible, and a clock that jumps ahead only costs the holder its lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import and_, bindparam, exists, select, update
from sqlalchemy.sql import ColumnElement

from memory.errors import FencedError, SlowwaveError
from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.schema import jobs, meta, tombstones

JobKind = Literal["extract", "consolidate"]
RefusedReason = Literal["running", "backoff", "exhausted", "up_to_date", "forgotten", "generation"]
Status = Literal["new", "running", "done", "failed", "released"]

LOST_LEASE = "lease_expired"
"""Error code of an attempt whose process went silent."""
CLOCK_TOLERANCE = timedelta(seconds=60)
MAX_MESSAGE = 500


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that was granted. `attempt` counts from 1 at this boundary."""

    kind: JobKind
    key: str
    boundary: str
    owner: str
    token: int
    generation: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A claim that was not granted. `until` is when it may be: lease end or back-off end, else None."""

    reason: RefusedReason
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as stored. `attempts` is counted at `boundary`; `error_*` tell of the last failure there."""

    kind: JobKind
    key: str
    generation: str
    status: Status
    boundary: str
    done_boundary: str | None
    owner: str
    token: int
    attempts: int
    lease_until: datetime | None
    retry_at: datetime | None
    updated: datetime
    finished: datetime | None
    error_code: str | None
    error_message: str | None

    def running(self, now: datetime) -> bool:
        """Held by a lease that has not run out."""
        return self.status == "running" and self.lease_until is not None and self.lease_until > now

    def failures(self, now: datetime) -> int:
        """Attempts at `boundary` that came to nothing."""
        return self.attempts - 1 if self.running(now) else self.attempts

    def refusal(self, boundary: str, *, now: datetime, max_failures: int) -> Refused | None:
        """What `claim` would answer for this boundary, or None: it would be granted. Pure."""
        if self.running(now):
            return Refused("running", self.lease_until)
        if boundary == self.done_boundary:
            return Refused("up_to_date")
        same = boundary == self.boundary
        if same and self.attempts >= max_failures:
            return Refused("exhausted")
        if self.retry_at is not None and self.retry_at > now and (same or self.kind == "consolidate"):
            return Refused("backoff", self.retry_at)
        return None


# Made once: a crowd of claimers asks them thousands of times, and putting one together costs more than its answer.
_ONE = select(*jobs.c).where(jobs.c.kind == bindparam("of_kind"), jobs.c.key == bindparam("of_key"))
_ONE_HELD = _ONE.with_for_update(skip_locked=True)
_GENERATION = select(meta.c.value).where(meta.c.name == "generation")
_STONE = select(tombstones.c.key).where(
    tombstones.c.kind.in_(("rollout", "own")), tombstones.c.key == bindparam("of_key")
)


class Jobs(Aggregate):
    def claim(
        self,
        kind: JobKind,
        key: str,
        *,
        boundary: str,
        owner: str,
        lease_seconds: float,
        max_failures: int,
        again: bool = False,
        holder_gone: bool = False,
    ) -> Lease | Refused:
        """Takes the job for `lease_seconds`, or says why not.

        `again` takes a boundary that already succeeded. `holder_gone` takes a running claim over: only for a caller
        who holds the kernel lock that every holder of this job works under, which proves that the former one is dead.
        """
        passed_over = {"up_to_date"} if again else set()
        passed_over |= {"running"} if holder_gone else set()
        early = self._refused_at_sight(kind, key, boundary, max_failures)
        if early is not None and early.reason not in passed_over:
            return early
        with self._db.write() as tx:
            now = self._now()
            if self._generation(tx) != self._db.generation:
                return Refused("generation")
            if kind == "extract" and _forgotten(tx, key):
                return Refused("forgotten")
            row = self._lock(tx, kind, key, now)
            if row is None:
                return Refused("running")
            row = self._settle_time(tx, row, now)
            refused = row.refusal(boundary, now=now, max_failures=max_failures)
            if refused is not None and refused.reason not in passed_over:
                return refused
            fresh = boundary != row.boundary or row.status in {"new", "done"}
            attempt = 1 if fresh else row.attempts + 1
            lease = Lease(kind, key, boundary, owner, row.token + 1, self._db.generation, attempt)
            values: dict[str, Any] = {
                "generation": lease.generation,
                "status": "running",
                "boundary": boundary,
                "owner": owner,
                "token": lease.token,
                "attempts": lease.attempt,
                "lease_until": now + timedelta(seconds=lease_seconds),
                "updated": now,
            }
            if fresh:
                values |= {"error_code": None, "error_message": None}
            elif row.status == "running":
                values |= _lost()
            self._put(tx, _same(row), values)
            return lease

    def heartbeat(self, lease: Lease, lease_seconds: float) -> None:
        """Prolongs the lease from now. Raises FencedError when it is no longer ours."""
        with self._db.write() as tx:
            now = self._now()
            values = {"lease_until": now + timedelta(seconds=lease_seconds), "updated": now}
            self._fenced(tx, lease, values)

    def check(self, lease: Lease, tx: Tx) -> None:
        """Holds the row for this transaction, or raises FencedError: then write nothing.

        Call it first in every transaction that stores a worker's result.
        """
        self._fenced(tx, lease, {"updated": jobs.c.updated})
        if lease.kind == "extract" and _forgotten(tx, lease.key):
            raise FencedError(f"Rollout {lease.key} was forgotten while it was being extracted; nothing was written.")

    @staticmethod
    def must_match(lease: Lease, *, kind: JobKind, key: str, generation: str) -> None:
        """Raises FencedError when a result is stored under a lease that was taken for something else."""
        if (lease.kind, lease.key, lease.generation) != (kind, key, generation):
            raise FencedError(f"A result of {kind} {key} came with the claim on {lease.kind} {lease.key}.")

    def succeed(self, lease: Lease, tx: Tx | None = None) -> None:
        """Ends the attempt and moves the success boundary. Raises FencedError."""
        with self._db.write(tx) as connection:
            now = self._now()
            values = {
                "status": "done",
                "done_boundary": lease.boundary,
                "attempts": 0,
                "retry_at": None,
                "error_code": None,
                "error_message": None,
            }
            self._fenced(connection, lease, values | _ended(now))

    def fail(self, lease: Lease, error: SlowwaveError, retry_at: datetime | None, tx: Tx | None = None) -> None:
        """Ends the attempt; it stays counted and the success boundary stays [Z104]. Raises FencedError.

        Keeps the error's code and its message, which by contract has no content, up to 500 code points.
        """
        with self._db.write(tx) as connection:
            values = {
                "status": "failed",
                "retry_at": retry_at,
                "error_code": error.code,
                "error_message": str(error)[:MAX_MESSAGE],
            }
            self._fenced(connection, lease, values | _ended(self._now()))

    def release(self, lease: Lease, tx: Tx | None = None) -> None:
        """Gives the claim and its attempt back: cancelled, out of quota or budget. Raises FencedError."""
        with self._db.write(tx) as connection:
            values = {"status": "released", "attempts": jobs.c.attempts - 1}
            self._fenced(connection, lease, values | _ended(self._now()))

    def succeed_interrupted(self, kind: str, key: str, *, token: int, generation: str, tx: Tx) -> bool:
        """Records the success of an attempt whose process died after its work was durable; True when it counted.

        Only recovery may: it has seen the result on disk. A job that was claimed again since is left alone.
        """
        same = and_(jobs.c.kind == kind, jobs.c.key == key, jobs.c.token == token, jobs.c.generation == generation)
        values = {
            "status": "done",
            "done_boundary": jobs.c.boundary,
            "attempts": 0,
            "retry_at": None,
            "error_code": None,
            "error_message": None,
        }
        return bool(tx.execute(update(jobs).where(same).values(**values | _ended(self._now()))).rowcount)

    def reap(self, gone: Callable[[str], bool] = lambda owner: False) -> list[JobRow]:
        """Turns claims whose lease ran out, or whose owner is known to be gone, into failures; returns them as they
        are now.

        Their attempt was counted when they were claimed. Call it at the start of a run: a claim does the same
        for its own job, this does it for those nobody claims again [M74].
        """
        with self._db.write() as tx:
            now = self._now()
            reaped = []
            for row in self._select(tx, jobs.c.status == "running"):
                settled = self._settle_time(tx, row, now)
                if not settled.running(now) or gone(settled.owner):
                    self._put(tx, _same(settled), {"status": "failed", **_lost(), **_ended(now)})
                    reaped += self._select(tx, and_(jobs.c.kind == row.kind, jobs.c.key == row.key))
            return reaped

    def rearm(self, kind: JobKind, key: str) -> bool:
        """Forgets failures and back-off of a job that is not running, at the user's wish. True when there was one."""
        with self._db.write() as tx:
            wanted = and_(jobs.c.kind == kind, jobs.c.key == key, jobs.c.status != "running")
            values = {"attempts": 0, "retry_at": None, "status": "released", "error_code": None, "error_message": None}
            done = update(jobs).where(wanted, jobs.c.status != "done").values(**values)
            return bool(tx.execute(done).rowcount)

    def get(self, kind: JobKind, key: str, tx: Tx | None = None) -> JobRow | None:
        with self._db.read(tx) as connection:
            found = connection.execute(_ONE, {"of_kind": kind, "of_key": key}).one_or_none()
        return None if found is None or found.status == "new" else _row(found)

    def all(self, kind: JobKind, tx: Tx | None = None) -> list[JobRow]:
        """Every job of a kind that was ever claimed, by key."""
        with self._db.read(tx) as connection:
            return self._select(connection, jobs.c.kind == kind)

    # -- inside -------------------------------------------------------------------------------------

    def _generation(self, tx: Tx) -> str | None:
        return tx.execute(_GENERATION).scalar_one_or_none()

    def _refused_at_sight(self, kind: JobKind, key: str, boundary: str, max_failures: int) -> Refused | None:
        """What a plain look already tells: a crowd that asks for jobs others have must not queue up for the one
        writer's place. A grant is decided under the lock alone."""
        now = self._now()
        row = self.get(kind, key)
        if row is None or row.generation != self._db.generation or now < row.updated - CLOCK_TOLERANCE:
            return None
        return row.refusal(boundary, now=now, max_failures=max_failures)

    def _select(self, tx: Tx, condition: ColumnElement[bool]) -> list[JobRow]:
        query = select(*jobs.c).where(condition, jobs.c.status != "new").order_by(jobs.c.key)
        return [_row(row) for row in tx.execute(query)]

    def _lock(self, tx: Tx, kind: JobKind, key: str, now: datetime) -> JobRow | None:
        """The row, created when new and held until the transaction ends; None when another claimer holds it."""
        first: dict[str, Any] = {
            "kind": kind,
            "key": key,
            "generation": self._db.generation,
            "status": "new",
            "boundary": "",
            "owner": "",
            "token": 0,
            "attempts": 0,
            "updated": now,
        }
        tx.execute(insert(tx, jobs).on_conflict_do_nothing(), first)
        row = tx.execute(_ONE_HELD, {"of_kind": kind, "of_key": key}).one_or_none()
        return None if row is None else _row(row)

    def _settle_time(self, tx: Tx, row: JobRow, now: datetime) -> JobRow:
        """Measures lease and back-off again from now when the clock was set back since they were written."""
        if now >= row.updated - CLOCK_TOLERANCE:
            return row
        values: dict[str, Any] = {"updated": now}
        if row.lease_until is not None:
            values["lease_until"] = now + (row.lease_until - row.updated)
        if row.retry_at is not None:
            values["retry_at"] = now + (row.retry_at - row.updated)
        self._put(tx, _same(row), values)
        return self._select(tx, and_(jobs.c.kind == row.kind, jobs.c.key == row.key))[0]

    def _put(self, tx: Tx, condition: ColumnElement[bool], values: dict[str, Any]) -> None:
        if tx.execute(update(jobs).where(condition).values(**values)).rowcount != 1:
            raise FencedError("Another process took the job at the same moment; nothing was written.")

    def _fenced(self, tx: Tx, lease: Lease, values: dict[str, Any]) -> None:
        """One UPDATE that names key, token, generation, boundary and status; its row count decides."""
        held = and_(
            jobs.c.kind == lease.kind,
            jobs.c.key == lease.key,
            jobs.c.token == lease.token,
            jobs.c.generation == lease.generation,
            jobs.c.boundary == lease.boundary,
            jobs.c.status == "running",
            exists().where(meta.c.name == "generation", meta.c.value == lease.generation),
        )
        if tx.execute(update(jobs).where(held).values(**values)).rowcount != 1:
            raise FencedError(
                f"The claim on {lease.kind} {lease.key} is no longer ours (attempt {lease.attempt}); nothing was"
                " written.",
                hint="Another process went on with it, or memory was cleared meanwhile.",
            )


def _same(row: JobRow) -> ColumnElement[bool]:
    return and_(jobs.c.kind == row.kind, jobs.c.key == row.key, jobs.c.token == row.token)


def _ended(now: datetime) -> dict[str, Any]:
    return {"lease_until": None, "updated": now, "finished": now}


def _lost() -> dict[str, Any]:
    return {"error_code": LOST_LEASE, "error_message": "The process that held the job ended or went silent."}


def _forgotten(tx: Tx, key: str) -> bool:
    """Forgotten by the user, or recorded as a session of our own."""
    return tx.execute(_STONE, {"of_key": key}).first() is not None


def _row(row: Sequence[Any]) -> JobRow:
    return JobRow(*row)
