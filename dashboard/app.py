"""The application: pages, API, files and the wall around them, made from what `cli` hands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.staticfiles import StaticFiles

from dashboard import api, pages
from dashboard.api.models import Problem
from dashboard.desk import Desk, Visitor
from dashboard.errors import status_of
from dashboard.ports import HostSetup, Planner, Runs, no_planner
from dashboard.security import Guard, Wall
from memory.clock import Clock
from memory.errors import SlowwaveError
from memory.settings import Settings

DESCRIPTION = """\
What the dashboard shows and does, for programs. Reading needs nothing on loopback. A change needs the header
`X-CSRF-Token` with the token of `GET /api/v1/session` and the cookie set there, or the server's token as `Bearer`.
Errors are `application/problem+json`."""


class Application(FastAPI):
    """Describes its errors as problems, and says of each address what may be done there."""

    def openapi(self) -> dict[str, Any]:
        found = super().openapi()
        found["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        return found

    def allowed(self, request: Request) -> str:
        """The methods of an address: of all routes that would take it, not of the first alone."""
        found: set[str] = set()
        for route in self.routes:
            if route.matches(request.scope)[0] is not Match.NONE:
                found |= getattr(route, "methods", None) or set()
        return ", ".join(sorted(found))


def create_app(
    settings_loader: Callable[[], Settings],
    *,
    runs: Runs,
    hosts: HostSetup,
    clock: Clock,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    planner: Planner = no_planner,
) -> FastAPI:
    """The dashboard of the store that `settings_loader` names; it is asked anew for every request.

    `allowed_hosts` are the values of `Host` that are answered, with a port or for every port; none given: the names of
    loopback. A `token` is required of everybody who asks: give one wherever the server is bound elsewhere.
    """
    app = Application(
        title="slowwave",
        version="1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{api.PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    guard = Guard(token or None, allowed_hosts)
    app.state.desk = Desk(settings_loader, runs=runs, hosts=hosts, clock=clock, guard=guard, planner=planner)
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"), name="static")
    for router in pages.ROUTERS:
        app.include_router(router, include_in_schema=False)
    for router in api.ROUTERS:
        app.include_router(router, prefix=api.PREFIX, responses=api.PROBLEMS)

    @app.get("/", include_in_schema=False)
    def home() -> Response:
        return RedirectResponse("/memory", 303)

    app.add_exception_handler(SlowwaveError, _own_error)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Wall, guard=guard)
    return app


def _own_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, SlowwaveError)
    return _answer(request, status_of(error), error.code, error.message, error.hint)


def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    places = [".".join(str(part) for part in one["loc"]) + f": {one['msg']}" for one in error.errors()]
    text = "; ".join(places[:5])
    return _answer(request, HTTPStatus.UNPROCESSABLE_ENTITY, "not_valid", "The request is not valid.", text)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    if status == HTTPStatus.NOT_FOUND:
        return _answer(request, status, "not_found", "There is nothing at this address.", "")
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = request.app.allowed(request)
    return _answer(request, status, status.name.lower(), status.phrase, "", headers)


def _answer(
    request: Request, status: int, code: str, message: str, hint: str, headers: dict[str, str] | None = None
) -> Response:
    """The error as a page, or as a problem where a program asked."""
    more = headers or {}
    visitor = Visitor(request.app.state.desk, request)
    if request.url.path.startswith("/api/"):
        problem = Problem(
            title=HTTPStatus(status).phrase,
            status=status,
            code=code,
            detail=visitor.redactor.redact(message),
            hint=visitor.redactor.redact(hint),
        )
        return JSONResponse(problem.model_dump(), status, more, media_type="application/problem+json")
    response = visitor.page(
        "error.html",
        status=status,
        code=code,
        status_code=status,
        message=message,
        hint=hint,
        can_repeat=request.method == "GET" and status != 404,
    )
    response.headers.update(more)
    return response
