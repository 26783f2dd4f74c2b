"""Stores for tests: every test that takes `store` or `open_store` runs on SQLite and, where its server binaries are
installed, on PostgreSQL. The server listens on loopback only and lives in a temporary folder."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from memory.model import Boundary, Host, Outcome, RolloutId
from memory.settings import Settings, StateSettings
from memory.state import Lease, OutputRow, Refused, RolloutRow, Store
from memory.testing import FrozenClock
from tests.plugins.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

_numbers = itertools.count(1)


class OpenStore(Protocol):
    def __call__(self, other: FrozenClock | None = None, *, busy_seconds: float = 30) -> Store: ...


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings of an unused store."""
    home = tmp_path / "home"
    if request.param == "sqlite":
        return Settings(home=home)
    url = request.getfixturevalue("postgres_url")
    return Settings(home=home, store=f"t{next(_numbers)}", state=StateSettings(url=url))


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def open_store(settings: Settings, clock: FrozenClock) -> Iterator[OpenStore]:
    """Opens the same state again and again, as other processes would."""
    with contextlib.ExitStack() as stack:

        def opener(other: FrozenClock | None = None, *, busy_seconds: float = 30) -> Store:
            state = settings.state.model_copy(update={"busy_seconds": busy_seconds})
            store = Store.open(settings.model_copy(update={"state": state}), other or clock)
            stack.callback(store.close)
            return store

        yield opener


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


@pytest.fixture
def sqlite_store(tmp_path: Path, clock: FrozenClock) -> Iterator[Store]:
    """For what is true of SQLite alone, or needs no database in particular."""
    with Store.open(Settings(home=tmp_path / "home"), clock) as opened:
        yield opened


@pytest.fixture
def rollout() -> Callable[..., RolloutRow]:
    """A rollout row with the given session id."""

    def make(session: str = "s1", **values: Any) -> RolloutRow:
        known: dict[str, Any] = {"path": Path(f"/sessions/{session}.jsonl"), "size": 1, "mtime_ns": 2, "inode": 3}
        return RolloutRow(id=RolloutId(Host.CODEX, session), **{**known, **values})

    return make


@pytest.fixture
def claim() -> Callable[..., Lease]:
    """A granted claim, by default on the extraction of `codex:s1` at boundary `b1`."""

    def take(store: Store, key: str = "codex:s1", *, boundary: str = "b1", **values: Any) -> Lease:
        wanted = {"owner": "test", "lease_seconds": 60, "max_failures": 3, **values}
        lease = store.jobs.claim(wanted.pop("kind", "extract"), key, boundary=boundary, **wanted)
        assert not isinstance(lease, Refused), lease
        return lease

    return take


@pytest.fixture
def output(clock: FrozenClock) -> Callable[..., OutputRow]:
    """An output row of the given lease."""

    def make(lease: Lease, **values: Any) -> OutputRow:
        known: dict[str, Any] = {
            "rollout": RolloutId.parse(lease.key),
            "generation": lease.generation,
            "boundary": Boundary(10, 2, "ab" * 32),
            "kept": True,
            "outcome": Outcome.SUCCESS,
            "slug": "fix-build",
            "sha256": "cd" * 32,
            "project": "p1",
            "project_name": "shop",
            "ended": clock.now(),
            "written": clock.now(),
            "model": "m",
        }
        return OutputRow(**{**known, **values})

    return make
