"""The pages, one module each with a router. Add a page here: its router, and its place in the navigation."""

from __future__ import annotations

from dashboard.pages import common, costs, history, memory, notes, runs, sessions

ROUTERS = [common.router, memory.router, sessions.router, runs.router, history.router, notes.router, costs.router]

NAVIGATION = [
    # (key of its name, address)
    ("nav.memory", "/memory"),
    ("nav.sessions", "/sessions"),
    ("nav.runs", "/runs"),
    ("nav.history", "/history"),
    ("nav.notes", "/notes"),
    ("nav.costs", "/costs"),
]
