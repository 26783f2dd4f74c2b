"""State on a real PostgreSQL server, from the command line down to kills."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "tests.torture.harness", "tests.torture.world", "tests.torture.crowd", "tests.torture.sleeper"
)

from tests.plugins.postgres import postgres_server, postgres_url  # noqa: E402

__all__ = ["postgres_server", "postgres_url"]
