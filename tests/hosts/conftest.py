"""A user's data folder in mode long, with a published summary and short files, and the checkout of a project."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from memory.project import project_of
from tests.plugins.published import PREFERENCES, THERE, publish

A, B = "aaaa0001", "bbbb0002"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A checkout with an origin."""
    root = tmp_path / "shop"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "-C", str(root), "remote", "add", "origin", "https://example.com/acme/shop"], check=True)
    return root


@pytest.fixture
def home(tmp_path: Path, shop: Path) -> Path:
    """The data folder."""
    folder = tmp_path / "data"
    lines = [f"In shop: new tests use Vitest. [{A}]", f"In api: MARK-OF-API. [{B}]"]
    publish(folder, {PREFERENCES: lines}, {A: project_of(shop).id, B: THERE})
    (folder / "config.toml").write_text('[memory]\nmode = "long"\n', "utf-8")
    (folder / "short").mkdir()
    (folder / "short" / "user.md").write_text("- [lang] Answer in German.\n", "utf-8")
    return folder
