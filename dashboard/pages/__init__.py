"""The pages, one module each with a router. Add a page here: its router, and its place in the navigation."""

from __future__ import annotations

from dashboard.pages import common, memory, sessions

ROUTERS = [common.router, memory.router, sessions.router]

NAVIGATION = [
    # (key of its name, address)
    ("nav.memory", "/memory"),
    ("nav.sessions", "/sessions"),
]
