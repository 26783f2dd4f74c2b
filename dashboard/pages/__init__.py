"""The pages, one module each with a router. Add a page here: its router, and its place in the navigation."""

from __future__ import annotations

from dashboard.pages import common, costs, entries, history, memory, notes, runs, sessions, settings

PAGES = (common, memory, sessions, runs, history, notes, entries, costs, settings)
ROUTERS = [page.router for page in PAGES]

NAVIGATION = [
    # (key of its name, address)
    ("nav.memory", "/memory"),
    ("nav.sessions", "/sessions"),
    ("nav.runs", "/runs"),
    ("nav.history", "/history"),
    ("nav.notes", "/notes"),
    ("nav.costs", "/costs"),
    ("nav.settings", "/settings"),
]
