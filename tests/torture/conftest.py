"""The helpers' assertions say what they compared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory import failpoints

pytest.register_assert_rewrite("tests.torture.harness", "tests.torture.world", "tests.torture.crowd")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()
