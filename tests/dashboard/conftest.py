"""Dashboards to be visited: of an empty home, and of one in which the sample sessions have become memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import main
from memory.testing import FrozenClock
from tests.plugins.command_line import CONFIG, SAMPLES
from tests.plugins.dashboard_site import Site, serving

TOKEN = "token-of-the-api-test"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The edges of the API are worked out at once where they are collected: only where they are asked."""
    return True if collection_path.name == "test_api_edges.py" and "not torture" in config.option.markexpr else None


def _home(folder: Path) -> Path:
    folder.mkdir(mode=0o700)
    (folder / "config.toml").write_text(CONFIG.format(samples=SAMPLES), encoding="utf-8")
    (folder / "config.toml").chmod(0o600)
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which one run has been made; to be copied, never used."""
    folder = _home(tmp_path_factory.mktemp("finished") / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLOWWAVE_HOME", str(folder))
        with pytest.raises(SystemExit) as ended:
            main(["run", "--json"])
    assert not ended.value.code
    return folder


@pytest.fixture(scope="session")
def empty_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """As `new_site`, shared by the tests that change nothing."""
    with serving(_home(tmp_path_factory.mktemp("empty") / "data")) as site:
        yield site


@pytest.fixture(scope="session")
def read_site(tmp_path_factory: pytest.TempPathFactory, finished: Path) -> Iterator[Site]:
    """As `site`, shared by the tests that only read."""
    with serving(Path(shutil.copytree(finished, tmp_path_factory.mktemp("read") / "data"))) as site:
        yield site


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, finished: Path) -> Iterator[Site]:
    """A dashboard to be asked anything, with a token in place of CSRF."""
    with serving(Path(shutil.copytree(finished, tmp_path_factory.mktemp("api") / "data")), token=TOKEN) as site:
        yield site


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[Site]:
    """A dashboard of a home in which nothing has happened yet."""
    with serving(_home(tmp_path / "data")) as site:
        yield site


@pytest.fixture
def still_site(tmp_path: Path) -> Iterator[Site]:
    """As `new_site`, with the moment of a new FrozenClock for ever: for pages that tell ages, or what a day cost."""
    with serving(_home(tmp_path / "data"), clock=FrozenClock()) as site:
        yield site


@pytest.fixture
def site(tmp_path: Path, finished: Path) -> Iterator[Site]:
    """A dashboard of a home with sessions, sources and a published summary."""
    with serving(Path(shutil.copytree(finished, tmp_path / "data"))) as found:
        yield found
