"""What a server does otherwise than a file of our own: rights, sorting, several looks at one moment, deleted rows, its
going away and coming back."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy.exc import DBAPIError

from dashboard.errors import status_of
from memory.errors import StateBusyError, StateCorruptError, StateError, StateLostError, StateVersionError
from memory.model import Host, RolloutId
from memory.settings import Settings, StateSettings
from memory.state import RolloutRow, Store
from memory.state.dialect import translate
from memory.testing import FrozenClock
from recall import doctor, mending
from tests.plugins.postgres import QUOTED, Server, running

CANARY = "zebra-umbrella-9417"
_numbers = itertools.count(1)


def settings_of(url: str, home: Path, *, store: str = "default", busy_seconds: float = 30) -> Settings:
    return Settings(home=home, store=store, state=StateSettings(url=SecretStr(url), busy_seconds=busy_seconds))


def row(session: str, title: str = "") -> RolloutRow:
    return RolloutRow(RolloutId(Host.CODEX, session), Path(f"/s/{session}.jsonl"), 1, 2, 3, title=title)


@pytest.fixture
def database(postgres_server: Server) -> Iterator[str]:
    """The name of an empty database that belongs to `guarded`."""
    name = f"state{next(_numbers)}"
    postgres_server.guarded(name)
    yield name
    postgres_server.drop(name)


@pytest.fixture
def url(postgres_server: Server, database: str) -> str:
    return postgres_server.url(database, user="guarded", password=QUOTED)


@pytest.fixture
def opened(url: str, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    stores: list[Store] = []

    def opener(**values: object) -> Store:
        stores.append(Store.open(settings_of(url, tmp_path / "home", **values), FrozenClock()))  # type: ignore[arg-type]
        return stores[-1]

    yield opener
    for store in stores:
        store.close()


# -- what is connected ---------------------------------------------------------------------------------------


def test_a_connection_gives_up_what_it_holds_when_its_other_end_goes_silent(opened: Callable[..., Store]) -> None:
    with opened(busy_seconds=7).read() as tx:
        shown = {
            name: tx.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("idle_in_transaction_session_timeout", "lock_timeout", "application_name")
        }
    assert shown == {
        "idle_in_transaction_session_timeout": "1min",
        "lock_timeout": "7s",
        "application_name": "slowwave",
    }


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("53100", "disk of the server"),
        ("53300", "takes no more connections"),
        ("25006", "is read-only"),
        ("40P01", "locked for longer"),
        ("57P01", "was lost"),
        ("08006", "was lost"),
        ("XX001", "damaged data"),
        ("22P05", "every character"),
        ("42P01", "lacks tables"),
        ("42601", "refused a statement (Error 42601)"),
    ],
)
def test_what_the_server_reports_by_a_number_is_told_in_words(state: str, says: str) -> None:
    class Error(Exception):
        sqlstate = state

    told = translate(DBAPIError("SELECT secret", {}, Error("secret")), "postgresql://h/d")
    assert says in str(told)
    assert "postgresql://h/d" in str(told)
    assert "secret" not in str(told)
    assert (status_of(told) == HTTPStatus.SERVICE_UNAVAILABLE) == (told.code == "state_lost")


# -- what is read -----------------------------------------------------------------------------------------


def test_rows_come_in_the_order_of_their_bytes_whatever_language_the_server_sorts_by(
    opened: Callable[..., Store], postgres_server: Server, database: str
) -> None:
    names = ["a-1", "A2", "B", "b", "a_1", "Z", "ä"]
    store = opened()
    for name in names:
        store.jobs.claim("extract", f"codex:{name}", boundary="b", owner="o", lease_seconds=60, max_failures=3)
    assert [job.key.removeprefix("codex:") for job in store.jobs.all("extract")] == sorted(names)
    sorted_there = postgres_server.sql("SELECT x FROM (VALUES ('B'), ('a'), ('Z')) t(x) ORDER BY x", database)
    assert [found for (found,) in sorted_there] == ["a", "B", "Z"], "this server proves nothing here"


def test_everything_in_one_reading_is_of_one_moment(opened: Callable[..., Store]) -> None:
    reader, writer = opened(), opened()
    writer.rollouts.upsert_many([row("one")])
    with reader.read() as tx:
        before = len(reader.rollouts.all(tx))
        writer.rollouts.upsert_many([row("two")])
        assert len(reader.rollouts.all(tx)) == before == 1
    assert len(reader.rollouts.all()) == 2


@pytest.mark.fault("M43", "X19")
def test_writers_take_turns_so_that_two_who_need_the_same_rows_in_another_order_cannot_block_each_other(
    opened: Callable[..., Store], url: str
) -> None:
    first, second = opened(), opened(busy_seconds=0.3)
    with first.write() as tx:
        first.rollouts.upsert_many([row("one")], tx)
        with pytest.raises(StateBusyError), second.write():
            raise AssertionError("it got in")
        assert second.rollouts.all() == []  # a reader waits for nobody
    second.rollouts.upsert_many([row("two")])
    assert len(first.rollouts.all()) == 2


# -- what is deleted ----------------------------------------------------------------------------------------


@pytest.mark.req("Z111")
@pytest.mark.fault("M48")
def test_what_was_deleted_stands_in_no_file_of_the_servers_tables_once_it_was_scrubbed(
    opened: Callable[..., Store], postgres_server: Server
) -> None:
    store = opened()
    store.rollouts.upsert_many([row("one", CANARY), row("two")])
    assert postgres_server.holding(CANARY)
    store.meta.new_generation(FrozenClock().now())
    assert store.meta.scrub_due()
    assert postgres_server.holding(CANARY), "a deleted row is still there: else this would prove nothing"
    store.scrub()
    assert not store.meta.scrub_due()
    assert postgres_server.holding(CANARY) == []


def test_while_somebody_may_still_see_deleted_rows_they_count_as_not_scrubbed_yet(
    opened: Callable[..., Store], url: str, postgres_server: Server
) -> None:
    store = opened(busy_seconds=0.3)
    store.rollouts.upsert_many([row("one", CANARY)])
    with psycopg.connect(url) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT count(*) FROM slowwave_default.rollouts")
        store.meta.new_generation(FrozenClock().now())
        with pytest.raises(StateBusyError, match=r"could not be scrubbed from it yet.*next start"):
            store.scrub()
        assert store.meta.scrub_due()
    store.scrub()
    assert not store.meta.scrub_due()
    assert postgres_server.holding(CANARY) == []


def test_a_transaction_of_another_database_that_began_before_is_waited_for(
    opened: Callable[..., Store], postgres_server: Server
) -> None:
    """It reads nothing here, but what a new snapshot takes for over depends on it."""
    store = opened(busy_seconds=0.3)
    store.rollouts.upsert_many([row("one", CANARY)])
    with psycopg.connect(postgres_server.url("postgres")) as other:
        other.execute("SELECT txid_current()")
        store.meta.new_generation(FrozenClock().now())
        with pytest.raises(StateBusyError, match="could not be scrubbed from it yet"):
            store.scrub()
        assert store.meta.scrub_due()
    store.scrub()
    assert postgres_server.holding(CANARY) == []


def test_a_table_that_is_in_use_puts_the_scrubbing_off(opened: Callable[..., Store], url: str) -> None:
    store = opened(busy_seconds=0.3)
    store.meta.new_generation(FrozenClock().now())
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE slowwave_default.ledger IN ACCESS SHARE MODE")
        with pytest.raises(StateBusyError):
            store.scrub()
    assert store.meta.scrub_due()


def test_tables_that_are_not_the_users_own_are_never_called_scrubbed(
    opened: Callable[..., Store], postgres_server: Server, database: str
) -> None:
    store = opened(busy_seconds=0.3)
    postgres_server.sql(f"ALTER DATABASE {database} OWNER TO test")  # the owner of a database may do all of it
    postgres_server.sql("ALTER TABLE slowwave_default.rollouts OWNER TO test", database)
    postgres_server.sql("GRANT ALL ON slowwave_default.rollouts TO guarded", database)
    store.meta.new_generation(FrozenClock().now())
    with pytest.raises(StateBusyError):
        store.scrub()
    assert store.meta.scrub_due()


# -- what is refused ----------------------------------------------------------------------------------------


def test_a_schema_that_an_administrator_made_is_used_without_the_right_to_make_one(
    opened: Callable[..., Store], postgres_server: Server, database: str
) -> None:
    postgres_server.sql(f"ALTER DATABASE {database} OWNER TO test", database)
    postgres_server.sql("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database)
    with pytest.raises(StateError, match="GRANT CREATE ON DATABASE"):
        opened()
    postgres_server.sql("CREATE SCHEMA slowwave_default AUTHORIZATION guarded", database)
    assert opened().writable


def test_a_database_that_cannot_hold_every_character_is_refused_before_anything_is_made(
    postgres_server: Server, tmp_path: Path
) -> None:
    postgres_server.sql("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0 LOCALE 'C' LOCALE_PROVIDER libc")
    with pytest.raises(StateError, match="UTF8"):
        Store.open(settings_of(postgres_server.url("latin"), tmp_path), FrozenClock())
    assert postgres_server.sql("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'slowwave%'", "latin") == []
    postgres_server.drop("latin")


def test_a_second_data_folder_does_not_get_the_state_of_another(
    opened: Callable[..., Store], url: str, tmp_path: Path
) -> None:
    store = opened()
    (tmp_path / "home" / "generations").mkdir()
    Store.open(settings_of(url, tmp_path / "early"), FrozenClock()).close()  # there is nothing to mix up yet
    with store.write() as tx:
        tx.exec_driver_sql(
            "INSERT INTO slowwave_default.versions VALUES (1, 'g', '', '', '{}', '', 1, 1, 1, NULL, '[]')"
        )
    with pytest.raises(StateError, match=r"another data folder \(store default\).*SLOWWAVE_STORE"):
        Store.open(settings_of(url, tmp_path / "second"), FrozenClock())
    opened()


def test_another_version_names_the_store_to_change_not_the_folder(
    opened: Callable[..., Store], postgres_server: Server, database: str, url: str, tmp_path: Path
) -> None:
    opened()
    postgres_server.sql("UPDATE slowwave_default.meta SET value = '3' WHERE name = 'version'", database)
    with pytest.raises(StateVersionError, match=r"version 3.*SLOWWAVE_STORE"):
        opened()
    (found,) = [
        one for one in doctor.diagnose(settings_of(url, tmp_path / "home"), FrozenClock()) if one.check == "state"
    ]
    assert "SLOWWAVE_STORE" in found.mend


@pytest.mark.parametrize("loss", ["DROP SCHEMA slowwave_default CASCADE", "DROP TABLE slowwave_default.versions"])
def test_state_that_is_gone_is_the_servers_to_restore_and_doctor_touches_nothing(
    opened: Callable[..., Store], postgres_server: Server, database: str, url: str, tmp_path: Path, loss: str
) -> None:
    opened()
    postgres_server.sql(loss, database)
    settings = settings_of(url, tmp_path / "home")
    (found,) = [one for one in doctor.diagnose(settings, FrozenClock()) if one.check == "state"]
    assert (found.level, "backup of the server" in found.mend) == ("error", True)
    before = sorted(path.name for path in settings.home.iterdir())
    with pytest.raises(StateCorruptError, match="backup of the server"):
        mending.before_opening(settings, FrozenClock())
    assert sorted(path.name for path in settings.home.iterdir() if path.name != "writer.lock") == before


def test_a_user_who_may_only_read_sees_everything_and_doctor_says_that_no_run_can_work(
    opened: Callable[..., Store], postgres_server: Server, database: str, tmp_path: Path
) -> None:
    opened().rollouts.upsert_many([row("one")])
    postgres_server.sql("CREATE ROLE reader LOGIN")
    try:
        for right in ("USAGE ON SCHEMA", "SELECT ON ALL TABLES IN SCHEMA"):
            postgres_server.sql(f"GRANT {right} slowwave_default TO reader", database)
        url = postgres_server.url(database, user="reader")
        settings = settings_of(url, tmp_path / "home")
        with Store.open(settings, FrozenClock()) as store:
            assert len(store.rollouts.all()) == 1
            with pytest.raises(StateError, match="may not do that there"):
                store.rollouts.upsert_many([row("two")])
        found = [one for one in doctor.diagnose(settings, FrozenClock()) if one.check == "state"]
        assert [(one.level, "no run can work" in one.means) for one in found] == [("error", True)]
        late = settings_of(f"{url}?options=-c%20default_transaction_read_only%3Don", tmp_path / "home")
        with Store.open(late, FrozenClock()) as store, pytest.raises(StateError, match=r"read-only|may not"):
            store.rollouts.upsert_many([row("two")])
        postgres_server.sql("REVOKE ALL ON SCHEMA slowwave_default FROM reader", database)
        with pytest.raises(StateError, match="may not do that there"):  # not: "there is no state"
            Store.open(settings, FrozenClock())
    finally:
        postgres_server.sql("DROP OWNED BY reader", database)
        postgres_server.sql("DROP ROLE reader")


# -- a server that goes away --------------------------------------------------------------------------------


@contextmanager
def back_after(server: Server, seconds: float) -> Iterator[None]:
    """The server is stopped and started again by somebody else while the block runs."""
    server.stop("fast")
    helper = threading.Timer(seconds, server.start)
    helper.start()
    try:
        yield
    finally:
        helper.join()


@pytest.mark.deep
@pytest.mark.fault("M74")
def test_a_server_that_is_started_again_is_waited_for_and_one_that_stays_away_is_named(tmp_path: Path) -> None:
    with running() as server:
        settings = settings_of(server.url(), tmp_path / "home", busy_seconds=20)
        with Store.open(settings, FrozenClock()) as store:
            with back_after(server, 0.5):
                store.rollouts.upsert_many([row("one")])
            assert len(store.rollouts.all()) == 1
            with pytest.raises(StateLostError, match="Nothing is lost"), store.write() as tx:  # noqa: PT012
                store.rollouts.upsert_many([row("half")], tx)
                server.stop("immediate")
                store.rollouts.upsert_many([row("other half")], tx)
            began = time.monotonic()
            with pytest.raises(StateLostError, match=r"127\.0\.0\.1:\d+/postgres cannot be reached"):
                Store.open(settings, FrozenClock())
            assert time.monotonic() - began < 5, "a command does not wait for a server that is not there"
            server.start()
            assert [found.id.session for found in store.rollouts.all()] == ["one"]
        with Store.open(settings_of(server.url(), tmp_path / "home", busy_seconds=2), FrozenClock()) as store:
            server.stop("immediate")
            seconds = [_seconds_of(store.rollouts.all) for _ in range(3)]
            assert seconds[0] >= 2
            assert max(seconds[1:]) < 1, "who tidies up after it waits again for what did not come"
            server.start()
            assert len(store.rollouts.all()) == 1
            with back_after(server, 0.5):
                assert len(store.rollouts.all()) == 1, "the next time it is waited for again"


def _seconds_of(asked: Callable[[], object]) -> float:
    began = time.monotonic()
    with pytest.raises(StateLostError):
        asked()
    return time.monotonic() - began
