"""The pages, one module each with a router. Add a page here: its router, and its place in the navigation."""

from __future__ import annotations

from dashboard.pages import common, history, memory, notes, sessions

ROUTERS = [common.router, memory.router, sessions.router, history.router, notes.router]

NAVIGATION = [
    # (key of its name, address)
    ("nav.memory", "/memory"),
    ("nav.sessions", "/sessions"),
    ("nav.history", "/history"),
    ("nav.notes", "/notes"),
]
