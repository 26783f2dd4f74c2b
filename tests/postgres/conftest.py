"""State on a real PostgreSQL server, from the command line down to kills."""

from __future__ import annotations

from tests.plugins.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]
