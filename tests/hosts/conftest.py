"""A user's data folder in mode long, with a published summary and short files, and the checkout of a project."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from memory.project import project_of
from tests.plugins.published import PREFERENCES, THERE, publish

A, B = "aaaa0001", "bbbb0002"


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both, made once; a test has copies. The project is known by its origin, wherever it lies."""
    folder = tmp_path_factory.mktemp("made")
    shop, home = folder / "shop", folder / "data"
    subprocess.run(["git", "init", "-q", str(shop)], check=True)
    subprocess.run(["git", "-C", str(shop), "remote", "add", "origin", "https://example.com/acme/shop"], check=True)
    lines = [f"In shop: new tests use Vitest. [{A}]", f"In api: MARK-OF-API. [{B}]"]
    publish(home, {PREFERENCES: lines}, {A: project_of(shop).id, B: THERE})
    (home / "config.toml").write_text('[memory]\nmode = "long"\n', "utf-8")
    (home / "short").mkdir()
    (home / "short" / "user.md").write_text("- [lang] Answer in German.\n", "utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path, _made: Path) -> Path:
    """A checkout with an origin."""
    return Path(shutil.copytree(_made / "shop", tmp_path / "shop"))


@pytest.fixture
def home(tmp_path: Path, _made: Path) -> Path:
    """The data folder."""
    return Path(shutil.copytree(_made / "data", tmp_path / "data"))
