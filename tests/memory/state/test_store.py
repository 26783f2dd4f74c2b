"""Opening the state, refusing what is not ours, transactions and error texts."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from memory.errors import SettingsError, StateBusyError, StateCorruptError, StateError, StateVersionError
from memory.settings import Settings, StateSettings
from memory.state import RolloutRow, Store, dialect
from memory.state.dialect import parse_url, translate_sqlite
from memory.state.schema import jobs
from memory.testing import FrozenClock
from tests.plugins.pace import within

pytestmark = pytest.mark.filterwarnings("ignore:This process.*fork:DeprecationWarning")


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below a folder with its hash: what "untouched" means."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refusal(home: Path, expected: type[StateError]) -> StateError:
    """Opens, expects an error and that no byte and no file changed."""
    before = snapshot(home)
    with pytest.raises(expected) as caught:
        Store.open(Settings(home=home), FrozenClock())
    assert type(caught.value) is expected
    assert snapshot(home) == before
    return caught.value


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def made(home: Path, *statements: str) -> Path:
    """A database in the home made by the given SQL."""
    path = home / "state.db"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_a_new_store_has_a_generation_that_the_file_in_the_home_repeats(store: Store) -> None:
    written = json.loads((store.settings.home / "generation.json").read_text())
    assert written == {"version": 2, "generation": store.generation}
    assert store.clear_watermark is None


def test_a_home_with_characters_that_mean_something_in_urls_is_a_home(tmp_path: Path) -> None:
    home = tmp_path / "a?b#c%20d 客"
    for _ in range(2):
        with Store.open(Settings(home=home), FrozenClock()) as store:
            assert (home / "state.db").is_file()
            assert store.place == str(home / "state.db")


def test_a_second_opener_sees_the_same_state(open_store: Any, rollout: Callable[..., RolloutRow]) -> None:
    first, second = open_store(), open_store()
    first.rollouts.upsert_many([rollout()])
    assert second.generation == first.generation
    assert second.rollouts.all() == [rollout()]


def test_home_is_0700_and_every_file_0600_whatever_the_umask(
    tmp_path: Path, rollout: Callable[..., RolloutRow]
) -> None:
    before = os.umask(0)
    try:
        with Store.open(Settings(home=tmp_path / "a" / "home"), FrozenClock()) as store:
            store.rollouts.upsert_many([rollout()])
            assert stat.S_IMODE(store.settings.home.stat().st_mode) == 0o700
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in store.settings.home.iterdir()}
    finally:
        os.umask(before)
    assert modes.keys() >= {"state.db", "state.db-wal", "generation.json"}
    assert set(modes.values()) == {0o600}


def test_a_home_of_ours_left_open_to_others_is_narrowed(home: Path) -> None:
    Store.open(Settings(home=home), FrozenClock()).close()
    home.chmod(0o755)
    (home / "state.db").chmod(0o644)
    Store.open(Settings(home=home), FrozenClock()).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "state.db").stat().st_mode) == 0o600


def test_a_folder_with_other_peoples_files_keeps_its_mode(home: Path) -> None:
    (home / "thesis.txt").write_text("x")
    home.chmod(0o755)
    Store.open(Settings(home=home), FrozenClock()).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


@pytest.mark.req("Z012", "Z013", "Z119", "Z120")
@pytest.mark.parametrize("version", [0, 1, 3, 99])
def test_a_database_of_another_version_is_refused_and_left_as_it_is(home: Path, version: int) -> None:
    path = made(home, "CREATE TABLE memories (id, text)", f"PRAGMA user_version={version}")
    error = refusal(home, StateVersionError)
    assert str(path) in error.message
    assert (str(version) if version else "none") in error.message
    assert "never converted" in error.hint


@pytest.mark.req("Z119")
@pytest.mark.parametrize(
    "rows",
    [
        [],
        ["INSERT INTO meta VALUES ('generation', 'abc')"],
        ["INSERT INTO meta VALUES ('version', '1'), ('generation', 'abc')"],
        ["INSERT INTO meta VALUES ('version', '3'), ('generation', 'abc')"],
        ["INSERT INTO meta VALUES ('version', '2')"],
    ],
)
def test_a_meta_table_that_does_not_say_version_2_is_refused(home: Path, rows: list[str]) -> None:
    made(home, "CREATE TABLE meta (name TEXT, value TEXT)", *rows, "PRAGMA user_version=2")
    refusal(home, StateVersionError)


@pytest.mark.req("Z119")
def test_version_2_without_a_meta_table_or_with_another_one_is_refused(home: Path) -> None:
    made(home, "CREATE TABLE meta (version INTEGER)", "PRAGMA user_version=2")
    refusal(home, StateVersionError)


def test_version_2_without_our_tables_is_incomplete(home: Path) -> None:
    made(
        home,
        "CREATE TABLE meta (name TEXT, value TEXT)",
        "INSERT INTO meta VALUES ('version', '2'), ('generation', 'abc')",
        "PRAGMA user_version=2",
    )
    assert "lacks tables or columns" in refusal(home, StateCorruptError).message


def test_version_2_without_one_of_our_columns_is_incomplete(home: Path) -> None:
    Store.open(Settings(home=home), FrozenClock()).close()
    path = made(home, "ALTER TABLE ledger DROP COLUMN money")
    before = path.read_bytes()
    with pytest.raises(StateCorruptError, match="lacks tables or columns"):
        Store.open(Settings(home=home), FrozenClock())
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + b"\xff" * 50, b"\0" * 8192])
def test_a_file_that_is_no_database_is_called_so_and_left_as_it_is(home: Path, content: bytes) -> None:
    (home / "state.db").write_bytes(content)
    error = refusal(home, StateCorruptError)
    assert str(home / "state.db") in error.message
    assert "backup" in error.hint


def test_a_database_cut_short_is_called_damaged(home: Path, rollout: Callable[..., RolloutRow]) -> None:
    with Store.open(Settings(home=home), FrozenClock()) as store:
        store.rollouts.upsert_many([rollout(f"s{n}") for n in range(500)])
    data = (home / "state.db").read_bytes()
    (home / "state.db").write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    with pytest.raises(StateCorruptError), Store.open(Settings(home=home), FrozenClock()) as store:
        store.rollouts.all()


@pytest.mark.req("Z119")
@pytest.mark.parametrize(
    "content", ['{"version": 1, "generation": "a"}', '{"generation": "a"}', '{"version": true}', "[2]"]
)
def test_a_generation_file_of_another_version_is_refused(home: Path, content: str) -> None:
    (home / "generation.json").write_text(content)
    assert "generation.json" in refusal(home, StateVersionError).message


@pytest.mark.parametrize("content", ["{", '{"version": 2}', '{"version": 2, "generation": "../x"}', "\udcff"])
def test_a_damaged_generation_file_is_refused_with_the_way_out(home: Path, content: str) -> None:
    (home / "generation.json").write_text(content, errors="surrogateescape")
    assert "written again" in refusal(home, StateCorruptError).hint


def test_a_missing_or_older_generation_file_follows_the_database(open_store: Any, store: Store) -> None:
    file = store.settings.home / "generation.json"
    file.unlink()
    assert open_store().generation == json.loads(file.read_text())["generation"]
    before = file.read_text()
    new = store.meta.new_generation(store.clock.now())
    file.write_text(before)
    assert open_store().generation == new == json.loads(file.read_text())["generation"]


@pytest.mark.fault("X11")
def test_a_generation_file_that_is_ahead_of_the_database_proves_a_lost_clear(open_store: Any, store: Store) -> None:
    file = store.settings.home / "generation.json"
    text = '{"version": 2, "generation": "0123456789ab"}'
    file.write_text(text)
    with pytest.raises(StateCorruptError, match="lost a clear"):
        open_store()
    assert file.read_text() == text


@pytest.mark.req("Z119")
def test_a_home_that_is_a_link_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    error = refusal(tmp_path / "link", StateError)
    assert "symbolic link" in error.message
    assert str(tmp_path / "real") in error.hint
    assert not any((tmp_path / "real").iterdir())


def test_a_database_that_vanished_is_not_made_anew_behind_the_users_back(home: Path) -> None:
    """Its tombstones and watermark would be gone, and the forgotten would come back."""
    Store.open(Settings(home=home), FrozenClock()).close()
    (home / "state.db").unlink()
    error = refusal(home, StateCorruptError)
    assert "forgotten" in error.message


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="SLOWWAVE_HOME"):
        Store.open(Settings(home=tmp_path / "file" / "home"), FrozenClock())


@pytest.mark.parametrize("url", ["nonsense", "mysql://u:secret@h/d", "sqlite://", "sqlite:///:memory:"])
def test_a_database_url_that_will_not_do_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_down_is_said_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://u:hunter2@127.0.0.1:1/none"
    with pytest.raises(StateError) as caught:
        Store.open(Settings(home=tmp_path, state=StateSettings(url=url)), FrozenClock())  # type: ignore[arg-type]
    assert "127.0.0.1:1" in str(caught.value)
    assert "hunter2" not in str(caught.value)


# -- transactions -----------------------------------------------------------------------------------------


def test_an_exception_undoes_everything_in_its_transaction(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    def work() -> None:
        with store.write() as tx:
            store.rollouts.upsert_many([rollout()], tx)
            store.tombstones.add("note", "n", tx)
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert store.rollouts.all() == []
    assert store.tombstones.all() == set()


def test_a_call_without_tx_inside_write_joins_it_instead_of_waiting_for_itself(
    store: Store, rollout: Callable[..., RolloutRow]
) -> None:
    with store.write():
        store.rollouts.upsert_many([rollout()])
        store.tombstones.add("note", "n")
        assert store.rollouts.get(rollout().id) == rollout()
    assert store.tombstones.has("note", "n")


def test_a_reader_sees_one_moment_while_a_writer_commits(
    sqlite_store: Store, rollout: Callable[..., RolloutRow]
) -> None:
    with sqlite_store.read() as tx:
        assert sqlite_store.rollouts.all(tx) == []
        thread = threading.Thread(target=sqlite_store.rollouts.upsert_many, args=([rollout()],))
        thread.start()
        thread.join()
        assert sqlite_store.rollouts.all(tx) == []
    assert len(sqlite_store.rollouts.all()) == 1


@pytest.mark.fault("X19")
def test_a_lock_that_outlasts_the_busy_timeout_is_busy_never_corrupt(
    open_store: Any, claim: Callable[..., Any]
) -> None:
    holder, waiter = open_store(), open_store(busy_seconds=0.2)
    claim(holder)
    with holder.write() as tx:
        tx.execute(jobs.update().values(owner="x"))
        with pytest.raises(StateBusyError) as caught:
            _apart(lambda: waiter.meta.new_generation(holder.clock.now()))
    assert "locked" in caught.value.message
    assert "Nothing is damaged" in caught.value.hint
    assert "state.busy_seconds" in str(caught.value)


@pytest.mark.fault("X19")
def test_a_writer_waits_for_busy_seconds_once_and_its_connection_is_as_before(
    sqlite_store: Store, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its own waiting is in a time of its own; SQLite's would be in real time.
    waiting = FrozenClock()
    monkeypatch.setattr(dialect, "time", SimpleNamespace(monotonic=waiting.monotonic, sleep=waiting.advance))
    state = sqlite_store.settings.state.model_copy(update={"busy_seconds": 1.5})
    with Store.open(sqlite_store.settings.model_copy(update={"state": state}), clock) as waiter:

        def timeout() -> int:
            with waiter.read() as tx:
                return int(tx.exec_driver_sql("PRAGMA busy_timeout").scalar_one())

        assert timeout() == 1500
        with sqlite_store.write():
            began = waiting.monotonic(), time.monotonic()
            with pytest.raises(StateBusyError):
                _apart(lambda: waiter.tombstones.add("rollout", "codex:a"))
            assert waiting.monotonic() - began[0] == pytest.approx(1.5)
            assert time.monotonic() - began[1] < within(1)
        assert timeout() == 1500
        waiter.tombstones.add("rollout", "codex:a")
        with waiter.write() as tx:
            assert tx.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 1500


def _apart(work: Callable[[], Any]) -> None:
    """Runs in a thread of its own, so that it does not join the caller's transaction; raises its error."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except StateError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


@pytest.mark.req("C022")
def test_a_refused_statement_shows_neither_sql_nor_values(sqlite_store: Store) -> None:
    sqlite_store.runs.start("canary-4711", "manual")
    with pytest.raises(StateError) as caught:
        sqlite_store.runs.start("canary-4711", "manual")
    assert caught.value.__cause__ is None
    assert "canary" not in f"{caught.value!r}{caught.value}{caught.value.__context__}"
    assert "INSERT" not in f"{caught.value!r}{caught.value}"


def test_a_full_disk_and_a_read_only_file_are_named_as_such() -> None:
    def said(code: int) -> str:
        error = sqlite3.OperationalError("x")
        error.sqlite_errorcode = code
        return str(translate_sqlite(error, "/h/state.db"))

    assert "disk is full" in said(sqlite3.SQLITE_FULL)
    assert "read-only" in said(sqlite3.SQLITE_READONLY)
    assert "I/O error" in said(sqlite3.SQLITE_IOERR_FSYNC)
    assert "locked" in said(sqlite3.SQLITE_BUSY_SNAPSHOT)
    assert "damaged" in said(sqlite3.SQLITE_CORRUPT_VTAB)


def test_a_forked_child_uses_connections_of_its_own(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    store.rollouts.upsert_many([rollout("parent")])
    child = os.fork()
    if child == 0:
        try:
            store.rollouts.upsert_many([rollout("child")])
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert {row.id.session for row in store.rollouts.all()} == {"parent", "child"}


def test_text_no_database_accepts_is_cleaned_on_its_way_in(store: Store, rollout: Callable[..., RolloutRow]) -> None:
    row = rollout("s\0\ud800", path=Path("/p"), title="a\0b", cwd="/x\0\udcff", report={"n\0": "\0c"})
    store.rollouts.upsert_many([row])
    found = store.rollouts.get(row.id)
    assert found is not None
    assert (found.title, found.report) == ("ab", {"n": "c"})
    assert found.cwd is not None
    assert found.cwd.startswith("/x")
    assert "\0" not in found.cwd
    found.cwd.encode()


def test_two_stores_on_one_server_share_nothing(
    postgres_url: str, tmp_path: Path, rollout: Callable[..., RolloutRow]
) -> None:
    state = StateSettings(url=postgres_url)  # type: ignore[arg-type]
    names = ("team-a", "team-b")
    stores = [Store.open(Settings(home=tmp_path / n, store=n, state=state), FrozenClock()) for n in names]
    stores[0].rollouts.upsert_many([rollout()])
    assert stores[1].rollouts.all() == []
    assert stores[0].generation != stores[1].generation
    for store in stores:
        store.close()


def test_a_postgres_schema_of_another_version_is_refused_and_kept(postgres_url: str, tmp_path: Path) -> None:
    def settings(home: str) -> Settings:
        return Settings(home=tmp_path / home, store="old", state=StateSettings(url=postgres_url))  # type: ignore[arg-type]

    with Store.open(settings("a"), FrozenClock()) as store, store.write() as tx:
        tx.execute(text("UPDATE slowwave_old.meta SET value = '1' WHERE name = 'version'"))
    with pytest.raises(StateVersionError):
        Store.open(settings("b"), FrozenClock())
