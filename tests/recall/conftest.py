"""A real home with state and workspace; and one that a whole run has filled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory.testing import StoreBench, store_bench
from tests.recall.desk import Desk
from tests.recall.rig import Rig


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StoreBench]:
    with store_bench(tmp_path) as made:
        yield made


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture(scope="session")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, Path]:
    folder = tmp_path_factory.mktemp("filled")
    made = Desk(folder / "desk")
    made.configure()
    (made.data / "config.toml").chmod(0o600)
    made.write("one", "two")
    assert made.run().outcome == "ok"
    shutil.copytree(made.folder, folder / "kept")
    return made, folder / "kept"


@pytest.fixture
def after_run(_filled: tuple[Desk, Path]) -> Callable[[], Desk]:
    """Puts the home back as it was after its run: at the same place, since the state knows sessions by path."""

    def back() -> Desk:
        made, kept = _filled
        shutil.rmtree(made.folder)
        shutil.copytree(kept, made.folder)
        return made

    return back


@pytest.fixture
def desk(after_run: Callable[[], Desk]) -> Desk:
    return after_run()
