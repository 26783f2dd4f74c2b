"""The HTTP API, version 1: one module for each subject, each with a router; `ROUTERS` is what the app mounts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response

from dashboard.api.models import Session
from dashboard.desk import AnyVisitor
from dashboard.errors import CsrfError
from dashboard.security import CSRF_COOKIE, Guard, cookies

PREFIX = "/api/v1"

_PROBLEM: dict[str, Any] = {
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _PROBLEM | {"description": "The request cannot be carried out as it is"},
    401: _PROBLEM | {"description": "The server's token is missing"},
    403: _PROBLEM | {"description": "Another site sent it, or the CSRF token is missing"},
    404: _PROBLEM | {"description": "Nothing answers to it"},
    409: _PROBLEM | {"description": "Another process is at work on it; try again"},
    413: _PROBLEM | {"description": "The body is too large"},
    422: _PROBLEM | {"description": "A field is missing or not valid"},
    503: _PROBLEM
    | {"description": "The background service does not run, or it or the server of the state does not answer"},
}


def changing(request: Request, x_csrf_token: Annotated[str, Header(max_length=200)] = "") -> None:
    """Every change needs the CSRF token, or the server's own token, which no page can make a browser send."""
    guard: Guard = request.app.state.desk.guard
    if guard.bears(request.headers):
        return
    if not guard.is_csrf(cookies(request.headers).get(CSRF_COOKIE), x_csrf_token):
        raise CsrfError("The CSRF token is missing or out of date.", hint="Take it from GET /api/v1/session.")


CHANGING = [Depends(changing)]
"""`dependencies=CHANGING` on every route that changes something."""

session = APIRouter(tags=["session"])


@session.get("/session")
def read_session(visitor: AnyVisitor, response: Response) -> Session:
    """The CSRF token for changes."""
    if visitor.is_new:
        response.set_cookie(CSRF_COOKIE, visitor.seed, httponly=True, samesite="strict")
    return Session(csrf_token=visitor.csrf, language=visitor.language)


def _routers() -> list[APIRouter]:
    from dashboard.api import costs, history, memory, notes, runs, sessions, settings

    parts = (memory, sessions, runs, history, notes, costs, settings)
    return [session, *(part.router for part in parts)]


ROUTERS = _routers()
