"""A real home with state and workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.testing import StoreBench, store_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[StoreBench]:
    with store_bench(tmp_path) as made:
        yield made
