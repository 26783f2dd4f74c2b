"""Which rollouts are taken: a boundary table for time, a precedence for reasons, bounds for the batch."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from memory.model import Boundary, Host, Outcome, Reason, RolloutId, RolloutKind
from memory.settings import ExtractSettings, RolloutSettings
from memory.state import JobRow, OutputRow, RolloutRow
from rollouts.eligibility import Picks, Selection, activity, boundary_of, classify, judge, select

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
EXTRACT = ExtractSettings()
ROLLOUTS = RolloutSettings()


def ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def row(
    name: str = "s1", *, ago: timedelta = timedelta(hours=7), host: Host = Host.CODEX, **changes: Any
) -> RolloutRow:
    last = NOW - ago
    base = RolloutRow(
        id=RolloutId(host, name),
        path=Path(f"/sessions/{name}.jsonl"),
        size=1000,
        mtime_ns=ns(last),
        inode=7,
        last_event=last,
        user_chars=40,
        fingerprint="aabbccddeeff0011",
    )
    return replace(base, **changes)


def job(target: RolloutRow, **changes: Any) -> JobRow:
    base = JobRow(
        kind="extract",
        key=str(target.id),
        generation="g",
        status="failed",
        boundary=boundary_of(target),
        done_boundary=None,
        owner="worker-1",
        token=1,
        attempts=1,
        lease_until=None,
        retry_at=None,
        updated=NOW - timedelta(minutes=5),
        finished=None,
        error_code="timeout",
        error_message="The deadline ran out.",
    )
    return replace(base, **changes)


def output(target: RolloutRow, **changes: Any) -> OutputRow:
    base = OutputRow(
        rollout=target.id,
        generation="g",
        boundary=Boundary(target.size, 10, "ab"),
        kept=True,
        outcome=Outcome.SUCCESS,
        slug="slug",
        sha256="00",
        project="p",
        project_name="p",
        ended=target.last_event,
        written=NOW,
        model="m",
    )
    return replace(base, **changes)


def reason(target: RolloutRow, **arguments: Any) -> Reason:
    given: dict[str, Any] = {"now": NOW, "extract": EXTRACT, "rollouts": ROLLOUTS}
    return classify(target, **(given | arguments))[0]


def choose(rows: list[RolloutRow], **arguments: Any) -> Selection:
    given: dict[str, Any] = {"now": NOW, "extract": EXTRACT, "rollouts": ROLLOUTS}
    return select(rows, **(given | arguments))


@pytest.mark.req("Z064")
@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        (timedelta(hours=5, minutes=59), Reason.NOT_IDLE),
        (timedelta(hours=5, minutes=59, seconds=59), Reason.NOT_IDLE),
        (timedelta(hours=6), Reason.ELIGIBLE),
        (timedelta(hours=6, minutes=1), Reason.ELIGIBLE),
        (timedelta(0), Reason.NOT_IDLE),
    ],
)
def test_a_session_is_taken_from_six_idle_hours_on(ago: timedelta, expected: Reason) -> None:
    assert reason(row(ago=ago)) is expected


@pytest.mark.req("Z063")
@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        (timedelta(days=9, hours=23), Reason.ELIGIBLE),
        (timedelta(days=10), Reason.ELIGIBLE),
        (timedelta(days=10, seconds=1), Reason.TOO_OLD),
        (timedelta(days=10, hours=1), Reason.TOO_OLD),
    ],
)
def test_a_session_is_taken_up_to_ten_days_back(ago: timedelta, expected: Reason) -> None:
    assert reason(row(ago=ago)) is expected


@pytest.mark.fault("M36")
def test_an_event_a_second_before_the_idle_time_ends_starts_the_idle_time_again() -> None:
    almost = row(ago=timedelta(hours=6))
    grown = replace(almost, last_event=NOW - timedelta(seconds=1), size=1200, mtime_ns=ns(NOW))
    assert reason(almost) is Reason.ELIGIBLE
    verdict = judge(grown, now=NOW, extract=EXTRACT, rollouts=ROLLOUTS)
    assert verdict.reason is Reason.NOT_IDLE
    assert verdict.until == NOW - timedelta(seconds=1) + timedelta(hours=6)


def test_copying_or_touching_a_file_changes_neither_idle_time_nor_age() -> None:
    assert reason(row(ago=timedelta(hours=7), mtime_ns=ns(NOW))) is Reason.ELIGIBLE
    assert reason(row(ago=timedelta(days=30), mtime_ns=ns(NOW))) is Reason.TOO_OLD
    assert reason(row(ago=timedelta(hours=1), mtime_ns=ns(NOW - timedelta(days=40)))) is Reason.NOT_IDLE


def test_the_mtime_stands_in_where_no_event_has_a_time() -> None:
    assert reason(row(last_event=None, mtime_ns=ns(NOW - timedelta(hours=7)))) is Reason.ELIGIBLE
    assert reason(row(last_event=None, mtime_ns=ns(NOW - timedelta(hours=1)))) is Reason.NOT_IDLE
    assert reason(row(last_event=None, mtime_ns=0)) is Reason.TOO_OLD


def test_an_event_in_the_future_counts_as_now() -> None:
    assert reason(row(last_event=NOW + timedelta(hours=3))) is Reason.NOT_IDLE
    assert activity(row(last_event=NOW + timedelta(hours=3)), now=NOW) == NOW


def test_a_clock_years_ahead_does_not_keep_a_session_waiting_for_years() -> None:
    ahead = NOW + timedelta(days=900)
    assert reason(row(last_event=ahead, mtime_ns=ns(NOW - timedelta(hours=8)))) is Reason.ELIGIBLE
    assert reason(row(last_event=ahead, mtime_ns=ns(ahead))) is Reason.NOT_IDLE


@pytest.mark.req("Z022", "Z115")
def test_nothing_at_or_before_the_clear_comes_back_until_the_session_goes_on() -> None:
    target = row(ago=timedelta(hours=8))
    assert target.last_event is not None
    for watermark in (target.last_event, target.last_event + timedelta(minutes=1), NOW):
        assert reason(target, watermark=watermark) is Reason.BEFORE_WATERMARK
    assert reason(target, watermark=target.last_event - timedelta(seconds=1)) is Reason.ELIGIBLE
    grown = replace(target, last_event=NOW - timedelta(hours=6), mtime_ns=ns(NOW - timedelta(hours=6)))
    assert reason(grown, watermark=NOW - timedelta(hours=7)) is Reason.ELIGIBLE


@pytest.mark.req("Z022")
@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=900)])
def test_a_session_from_a_fast_clock_does_not_slip_past_the_clear(ahead: timedelta) -> None:
    target = row(last_event=NOW + ahead, mtime_ns=ns(NOW - timedelta(hours=8)))
    for later in (timedelta(0), timedelta(days=1), ahead + timedelta(hours=7)):
        verdict = reason(target, now=NOW + later, watermark=NOW)
        assert verdict is Reason.BEFORE_WATERMARK


@pytest.mark.req("Z022")
def test_a_touched_file_does_not_slip_past_the_clear() -> None:
    target = row(ago=timedelta(hours=8), mtime_ns=ns(NOW + timedelta(hours=1)))
    assert reason(target, now=NOW + timedelta(hours=9), watermark=NOW) is Reason.BEFORE_WATERMARK


@pytest.mark.req("Z067", "Z068", "Z069", "Z070", "Z020")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (RolloutKind.SUBAGENT, Reason.SUBAGENT),
        (RolloutKind.AUXILIARY, Reason.AUXILIARY),
        (RolloutKind.ARCHIVED, Reason.ARCHIVED),
        (RolloutKind.DIAGNOSTIC, Reason.DIAGNOSTIC),
        (RolloutKind.OWN, Reason.OWN),
        (RolloutKind.INTERACTIVE, Reason.ELIGIBLE),
        (RolloutKind.EXEC, Reason.ELIGIBLE),
    ],
)
def test_only_ordinary_tasks_of_the_user_are_sources(kind: RolloutKind, expected: Reason) -> None:
    assert reason(row(kind=kind)) is expected


@pytest.mark.fault("X15")
def test_exec_sessions_follow_the_policy_and_subagents_name_their_parent() -> None:
    off = RolloutSettings(exec_sessions=False)
    assert reason(row(kind=RolloutKind.EXEC), rollouts=off) is Reason.EXEC_OFF
    child = row(kind=RolloutKind.SUBAGENT, parent=RolloutId(Host.CODEX, "boss"))
    found, detail = classify(child, now=NOW, extract=EXTRACT, rollouts=ROLLOUTS)
    assert found is Reason.SUBAGENT
    assert "codex:boss" in detail


@pytest.mark.fault("X5", "M66", "O10")
def test_a_recorded_own_session_is_refused_whatever_its_file_says() -> None:
    assert reason(row(), tombstones={("own", "codex:s1")}) is Reason.OWN
    assert reason(row(), tombstones={("own", "codex:s2")}) is Reason.ELIGIBLE


def test_a_host_that_is_switched_off_says_so() -> None:
    assert reason(row(host=Host.PI), rollouts=RolloutSettings(hosts=("codex",))) is Reason.HOST_OFF


def test_no_user_text_needs_the_whole_file_as_proof() -> None:
    assert reason(row(user_chars=0)) is Reason.NO_USER_TEXT
    assert reason(row(user_chars=0, report={"whole": True})) is Reason.NO_USER_TEXT
    assert reason(row(user_chars=0, report={"whole": False})) is Reason.ELIGIBLE


@pytest.mark.parametrize("found", [Reason.MISSING, Reason.UNREADABLE, Reason.DUPLICATE])
def test_what_discovery_found_stays_with_its_detail(found: Reason) -> None:
    target = row(reason=found, detail="the file is gone")
    assert classify(target, now=NOW, extract=EXTRACT, rollouts=ROLLOUTS) == (found, "the file is gone")


def test_finished_work_is_up_to_date_until_the_file_grows() -> None:
    target = row()
    done = job(target, status="done", done_boundary=boundary_of(target), attempts=0)
    assert reason(target, job=done) is Reason.UP_TO_DATE
    assert reason(target, output=output(target)) is Reason.UP_TO_DATE
    grown = replace(target, size=2000)
    assert reason(grown, job=done, output=output(target)) is Reason.ELIGIBLE


def test_compressing_a_finished_session_is_no_new_work() -> None:
    target = row()
    packed = replace(target, path=Path("/sessions/s1.jsonl.zst"), size=120, mtime_ns=ns(NOW))
    done = job(target, status="done", done_boundary=boundary_of(target), attempts=0)
    assert reason(packed, job=done, output=output(target)) is Reason.UP_TO_DATE
    later = replace(packed, last_event=NOW - timedelta(hours=6))
    assert reason(later, job=done, output=output(target)) is Reason.ELIGIBLE


@pytest.mark.req("Z081", "Z082")
def test_failures_hold_at_their_boundary_only() -> None:
    target = row()
    waiting = job(target, retry_at=NOW + timedelta(minutes=10))
    spent = job(target, attempts=3)
    running = job(target, status="running", lease_until=NOW + timedelta(minutes=4))
    assert reason(target, job=waiting) is Reason.BACKOFF
    assert reason(target, job=spent) is Reason.EXHAUSTED
    assert reason(target, job=running) is Reason.CLAIMED
    grown = replace(target, size=2000)
    assert reason(grown, job=waiting) is Reason.ELIGIBLE
    assert reason(grown, job=spent) is Reason.ELIGIBLE
    assert reason(target, job=waiting, now=NOW + timedelta(minutes=10)) is Reason.ELIGIBLE


MOMENTS = st.integers(-20_000, 20_000).map(lambda hours: NOW + timedelta(hours=hours)) | st.just(NOW)

PRECEDENCE = [
    (Reason.FORGOTTEN, {"tombstones": {("rollout", "codex:s1"), ("own", "codex:s1")}}, {"reason": Reason.MISSING}),
    (Reason.OWN, {"tombstones": {("own", "codex:s1")}}, {"reason": Reason.UNREADABLE}),
    (Reason.MISSING, {"rollouts": RolloutSettings(hosts=())}, {"reason": Reason.MISSING}),
    (Reason.HOST_OFF, {"rollouts": RolloutSettings(hosts=())}, {"kind": RolloutKind.SUBAGENT}),
    (Reason.SUBAGENT, {"watermark": NOW}, {"kind": RolloutKind.SUBAGENT}),
    (Reason.EXEC_OFF, {"rollouts": RolloutSettings(exec_sessions=False), "watermark": NOW}, {"kind": RolloutKind.EXEC}),
    (Reason.BEFORE_WATERMARK, {"watermark": NOW}, {"user_chars": 0}),
    (Reason.NO_USER_TEXT, {"job": job(row(), attempts=3)}, {"user_chars": 0}),
    (Reason.UP_TO_DATE, {"output": output(row()), "job": job(row(), attempts=3)}, {}),
    (Reason.EXHAUSTED, {"job": job(row(), attempts=3, retry_at=NOW + timedelta(hours=1))}, {}),
    (Reason.BACKOFF, {"job": job(row(), retry_at=NOW + timedelta(hours=1)), "live": {row().id}}, {}),
    (Reason.NOT_IDLE, {"live": {row().id}}, {}),
]


@pytest.mark.parametrize(("expected", "arguments", "changes"), PRECEDENCE)
def test_one_reason_wins_over_those_below_it(
    expected: Reason, arguments: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert reason(row(**changes), **arguments) is expected


@pytest.mark.req("Z065")
def test_a_batch_takes_the_two_newest_of_ten() -> None:
    rows = [row(f"s{n}", ago=timedelta(hours=7 + n)) for n in (3, 9, 1, 0, 5, 2, 8, 4, 7, 6)]
    found = choose(rows)
    assert [item.id.session for item in found.chosen] == ["s0", "s1"]
    assert found.waiting == 8
    assert found.counts() == {Reason.ELIGIBLE: 10}


def test_equal_times_are_taken_in_the_order_of_ids() -> None:
    rows = [row(name) for name in ("c", "a", "b")]
    assert [item.id.session for item in choose(rows).chosen] == ["a", "b"]


@pytest.mark.req("Z066")
def test_the_scan_is_bounded_and_says_what_it_left_out() -> None:
    rows = [row(f"s{n:05}", ago=timedelta(hours=7, seconds=n)) for n in range(10_000)]
    found = choose(rows, extract=ExtractSettings(scan_limit=50))
    assert len(found.verdicts) == 50
    assert found.unscanned == 9_950
    assert found.chosen[0].id.session == "s00000"


@pytest.mark.fault("X14")
def test_since_reaches_back_beyond_the_usual_age_and_limit_beyond_the_batch() -> None:
    rows = [row(f"s{n}", ago=timedelta(days=40, hours=n)) for n in range(5)]
    assert choose(rows).chosen == ()
    found = choose(rows, picks=Picks(since=NOW - timedelta(days=60), limit=4))
    assert [item.id.session for item in found.chosen] == ["s0", "s1", "s2", "s3"]
    assert choose(rows, picks=Picks(since=NOW - timedelta(days=30))).chosen == ()


def test_a_host_can_be_picked() -> None:
    rows = [row("a"), row("b", host=Host.PI)]
    found = choose(rows, picks=Picks(hosts=frozenset({Host.PI})))
    assert [str(item.id) for item in found.chosen] == ["pi:b"]
    assert set(found.verdicts) == {RolloutId(Host.PI, "b")}


def test_a_rollout_picked_by_hand_is_taken_though_young_old_or_archived() -> None:
    rows = [
        row("young", ago=timedelta(minutes=1)),
        row("old", ago=timedelta(days=99)),
        row("archived", kind=RolloutKind.ARCHIVED),
        row("other"),
    ]
    ids = frozenset(item.id for item in rows[:3])
    found = choose(rows, picks=Picks(rollouts=ids), extract=ExtractSettings(scan_limit=1))
    assert {item.id for item in found.chosen} == ids
    assert found.waiting == 0


@pytest.mark.req("Z022", "Z068")
def test_picking_by_hand_never_reaches_what_is_forgotten_own_or_cleared() -> None:
    mine, gone, cleared = row("own", kind=RolloutKind.OWN), row("gone"), row("cleared", ago=timedelta(days=2))
    picks = Picks(rollouts=frozenset({mine.id, gone.id, cleared.id}), limit=9)
    found = choose(
        [mine, gone, cleared],
        picks=picks,
        tombstones={("rollout", "codex:gone")},
        watermark=NOW - timedelta(days=1),
    )
    assert found.chosen == ()
    assert [found.verdicts[item.id].reason for item in (mine, gone, cleared)] == [
        Reason.OWN,
        Reason.FORGOTTEN,
        Reason.BEFORE_WATERMARK,
    ]


def test_a_pick_nobody_answers_to_is_named() -> None:
    unknown = RolloutId(Host.CODEX, "nobody")
    assert choose([row()], picks=Picks(rollouts=frozenset({unknown}))).unknown == (unknown,)


def test_the_next_check_is_when_time_alone_makes_one_eligible() -> None:
    young = row("young", ago=timedelta(hours=5))
    failed = row("failed")
    found = choose(
        [young, failed],
        jobs={"codex:failed": job(failed, retry_at=NOW + timedelta(minutes=20))},
    )
    assert found.next_check == NOW + timedelta(minutes=20)
    assert choose([young]).next_check == NOW + timedelta(hours=1)
    assert choose([]).next_check is None


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(
    event=st.none() | MOMENTS,
    mtime=st.integers(-(2**62), 2**62),
    kind=st.sampled_from(RolloutKind),
    watermark=st.none() | MOMENTS,
)
def test_every_row_gets_one_reason_and_what_is_eligible_is_idle_recent_and_after_the_clear(
    event: datetime | None, mtime: int, kind: RolloutKind, watermark: datetime | None
) -> None:
    target = row(last_event=event, mtime_ns=mtime, kind=kind)
    found = judge(target, now=NOW, extract=EXTRACT, rollouts=ROLLOUTS, watermark=watermark)
    last = activity(target, now=NOW)
    assert last is None or last <= NOW
    if found.reason is Reason.ELIGIBLE:
        assert last is not None
        assert timedelta(hours=6) <= NOW - last <= timedelta(days=10)
        assert watermark is None or event is None or event > watermark
