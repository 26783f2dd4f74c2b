"""Leafing through the state: the database narrows and counts as the rows themselves would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory.model import Boundary, Outcome, Reason, RolloutId
from memory.state import OutputRow, RolloutRow, Store, VersionRow
from memory.state.browse import FATES, Wanted, changes_between, fate_counts, session, sessions, version_heads

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def _row(name: str, *, reason: Reason | None = None, at: datetime | None = NOW, host: str = "codex") -> RolloutRow:
    return RolloutRow(RolloutId.parse(f"{host}:{name}"), Path(name), 1, 1, 1, reason=reason, last_event=at)


def _output(store: Store, rollout: RolloutId, *, kept: bool) -> OutputRow:
    return OutputRow(
        rollout, store.generation, Boundary(1, 1, "a"), kept, Outcome.SUCCESS, "the-slug", "", "p", "p", NOW, NOW, "m"
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from([None, *Reason]), st.sampled_from([None, True, False]), st.integers(0, 5)),
        max_size=12,
    )
)
def test_each_session_has_one_fate_and_the_filter_finds_it_by_that(
    sqlite_store: Store, made: list[tuple[Reason | None, bool | None, int]]
) -> None:
    store = sqlite_store
    store.rollouts.delete([row.id for row in store.rollouts.all()])
    for number, (reason, kept, days) in enumerate(made):
        row = _row(f"s{number}", reason=reason, at=NOW - timedelta(days=days) if days else None)
        store.rollouts.upsert_many([row])
        store.outputs.delete(row.id)
        if kept is not None:
            store.outputs.rewrite(_output(store, row.id, kept=kept))
    everything, total = sessions(store, Wanted(), limit=100)
    assert total == len(everything) == len(made)
    times = [one.row.last_event for one in everything]
    known = [time for time in times if time is not None]
    assert times == sorted(known, reverse=True) + [None] * (len(times) - len(known))
    for fate in FATES:
        found, count = sessions(store, Wanted(fate=fate), limit=100)
        assert [one.row.id for one in found] == [one.row.id for one in everything if one.fate == fate]
        assert count == len(found)


def test_the_filter_by_fate_is_the_same_in_every_database(store: Store) -> None:
    for number, reason in enumerate([None, *Reason]):
        for kept in (None, True, False):
            row = _row(f"s{number}{kept}", reason=reason)
            store.rollouts.upsert_many([row])
            if kept is not None:
                store.outputs.rewrite(_output(store, row.id, kept=kept))
    everything, _ = sessions(store, Wanted(), limit=100)
    for fate in FATES:
        found, count = sessions(store, Wanted(fate=fate), limit=100)
        assert [one.row.id for one in found] == [one.row.id for one in everything if one.fate == fate]
        assert count == len(found)


def test_fates_are_counted_as_the_rows_say(store: Store) -> None:
    for number, (reason, kept) in enumerate(
        [
            (None, None),
            (Reason.UP_TO_DATE, True),
            (Reason.NOT_IDLE, True),
            (Reason.UP_TO_DATE, False),
            (Reason.EXHAUSTED, None),
            (Reason.OWN, None),
        ]
    ):
        row = _row(f"s{number}", reason=reason)
        store.rollouts.upsert_many([row])
        if kept is not None:
            store.outputs.rewrite(_output(store, row.id, kept=kept))
    assert fate_counts(store) == {"remembered": 2, "nothing": 1, "waiting": 1, "failed": 1, "skipped": 1}


def test_pages_follow_each_other_without_a_gap(store: Store) -> None:
    store.rollouts.upsert_many(_row(f"s{number:02}", at=NOW) for number in range(25))
    found = [one.row.id for at in (0, 10, 20) for one in sessions(store, Wanted(), limit=10, offset=at)[0]]
    assert len(found) == len(set(found)) == 25


def test_signs_of_a_pattern_in_a_text_are_only_signs(store: Store) -> None:
    store.rollouts.upsert_many([_row("a_b"), _row("axb"), _row("100%"), _row("100x")])
    assert [one.row.id.session for one in sessions(store, Wanted(text="a_b"), limit=9)[0]] == ["a_b"]
    assert [one.row.id.session for one in sessions(store, Wanted(text="100%"), limit=9)[0]] == ["100%"]
    assert sessions(store, Wanted(host="co"), limit=9)[1] == 0


def test_a_session_is_found_by_its_source_id_or_citation_and_named_by_what_the_model_called_it(store: Store) -> None:
    rollout = RolloutId.parse("codex:s")
    store.rollouts.upsert_many([_row("s"), _row("t")])
    store.outputs.rewrite(_output(store, rollout, kept=True))
    for name in (rollout.source_id, rollout.citation):
        found = session(store, name)
        assert found is not None
        assert found.row.id == rollout
        assert found.name == "the-slug"
    assert session(store, "0" * 16) is None


def test_projects_are_counted_and_their_folders_stand_newest_first(store: Store) -> None:
    def row(name: str, project: str, cwd: str, days: int) -> RolloutRow:
        at = NOW - timedelta(days=days)
        return RolloutRow(
            RolloutId.parse(f"codex:{name}"), Path(name), 1, 1, 1, cwd=cwd, project=project, project_name=f"{project}!",
            last_event=at,
        )  # fmt: skip

    store.rollouts.upsert_many(
        [row("a", "p", "/old", 3), row("b", "p", "/new", 1), row("c", "p", "/old", 2), row("d", "q", "/else", 0)]
    )
    assert [(one.id, one.name, one.rollouts) for one in store.rollouts.projects()] == [("p", "p!", 3), ("q", "q!", 1)]
    assert store.rollouts.folders("p") == ["/new", "/old"]
    assert store.rollouts.folders("nobody") == []


def test_versions_are_leafed_through_without_their_manifests_and_only_those_of_this_generation(store: Store) -> None:
    with store.write() as tx:
        for number in range(1, 6):
            generation = "another" if number == 1 else store.generation
            changes = [{"kind": "added", "text": str(number), "reason": "new"}]
            store.versions.add(VersionRow(number, generation, NOW, "a" * 64, {}, "m", changes=changes), tx)
    found, total = version_heads(store, limit=3)
    assert ([one.number for one in found], total) == ([5, 4, 3], 4)
    assert [one.number for one in version_heads(store, limit=3, offset=3)[0]] == [2]
    assert [one.changes[0]["text"] for one in changes_between(store, 2, 4)] == ["3", "4"]
    assert changes_between(store, 0, 1) == []
