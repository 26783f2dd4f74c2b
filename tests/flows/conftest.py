"""A home with settings and nothing in it yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.configure()
    return made
