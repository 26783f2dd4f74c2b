"""What a person asks of a run, read from words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flows.choices import parse_since, picks_of
from memory.errors import UnknownReference, UsageError
from memory.model import Host, RolloutId
from rollouts.eligibility import NO_PICKS, Picks
from tests.flows.home import Home

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("60d", NOW - timedelta(days=60)),
        ("12h", NOW - timedelta(hours=12)),
        ("90m", NOW - timedelta(minutes=90)),
        ("0d", NOW),
        (" 7d ", NOW - timedelta(days=7)),
        ("999999d", datetime.min.replace(tzinfo=UTC)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T08:30", datetime(2026, 11, 1, 8, 30, tzinfo=UTC)),
        ("2026-11-01T08:30:00+02:00", datetime(2026, 11, 1, 6, 30, tzinfo=UTC)),
        ("2026-11-01T08:30:00Z", datetime(2026, 11, 1, 8, 30, tzinfo=UTC)),
    ],
)
def test_a_length_counts_back_from_now_and_a_date_is_taken_as_utc(text: str, moment: datetime) -> None:
    assert parse_since(text, NOW) == moment


@pytest.mark.parametrize("text", ["yesterday", "7", "d", "-7d", "7 d", "1w", "2026-13-01", "1234567d", "7D", "", "١d"])
def test_anything_else_is_refused_with_the_ways_to_say_it(text: str) -> None:
    with pytest.raises(UsageError, match="60d"):
        parse_since(text, NOW)


def test_no_words_are_no_picks(home: Home) -> None:
    assert picks_of(home.settings(), NOW, since="", limit=None, host="", rollouts=[]) == NO_PICKS


def test_since_limit_and_host_become_picks(home: Home) -> None:
    picks = picks_of(home.settings(), NOW, since="60d", limit=0, host="pi", rollouts=[])
    assert picks == Picks(since=NOW - timedelta(days=60), limit=0, hosts=frozenset({Host.PI}))


def test_a_host_nobody_knows_is_refused_with_those_we_do(home: Home) -> None:
    with pytest.raises(UsageError, match="codex, claude, pi, generic"):
        picks_of(home.settings(), NOW, since="", limit=None, host="emacs", rollouts=[])


def test_a_session_is_named_by_its_id_or_its_beginning(home: Home) -> None:
    home.write("apples", "pears")
    picks = picks_of(home.settings(), NOW, since="", limit=None, host="", rollouts=["generic:apples", "pear"])
    assert picks.rollouts == {RolloutId.parse("generic:apples"), RolloutId.parse("generic:pears")}


def test_a_beginning_that_several_sessions_share_is_refused_with_their_ids(home: Home) -> None:
    home.write("apple-pie", "apple-tree")
    with pytest.raises(UnknownReference, match=r"2 sessions begin so .*generic:apple-.*generic:apple-"):
        picks_of(home.settings(), NOW, since="", limit=None, host="", rollouts=["apple"])


@pytest.mark.parametrize("name", ["plums", "app"])
def test_a_session_nobody_has_or_too_short_a_beginning_is_refused(home: Home, name: str) -> None:
    home.write("apples")
    with pytest.raises(UnknownReference, match="no session has this id"):
        picks_of(home.settings(), NOW, since="", limit=None, host="", rollouts=[name])
