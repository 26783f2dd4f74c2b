"""The application: pages, API, files and the wall around them, made from what `cli` hands in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from dashboard import api, pages
from dashboard.api.models import Problem
from dashboard.desk import CsrfError, Desk, Visitor
from dashboard.ports import HostSetup, Planner, Runs, no_planner
from dashboard.security import Guard, Wall
from memory.clock import Clock
from memory.errors import (
    FencedError,
    InputsChangedError,
    SettingsError,
    SlowwaveError,
    StateBusyError,
    UnknownReference,
    UnreadableRollout,
    UsageError,
    WorkspaceError,
)
from memory.settings import Settings

DESCRIPTION = """\
What the dashboard shows and does, for programs. Reading needs nothing on loopback. A change needs the header
`X-CSRF-Token` with the token of `GET /api/v1/session` and the cookie set there, or the server's token as `Bearer`.
Errors are `application/problem+json`."""


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
    app = FastAPI(
        title="slowwave",
        version="1",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{api.PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    guard = Guard(token, allowed_hosts)
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


def status_of(error: SlowwaveError) -> int:
    """Which answer an error is: the asker's, another process's that works just now, or ours."""
    if isinstance(error, CsrfError):
        return HTTPStatus.FORBIDDEN
    if isinstance(error, UnknownReference | UnreadableRollout):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, StateBusyError | FencedError | InputsChangedError):
        return HTTPStatus.CONFLICT
    if isinstance(error, UsageError | SettingsError):
        return HTTPStatus.BAD_REQUEST
    if type(error) is WorkspaceError:
        return HTTPStatus.BAD_REQUEST  # a note that cannot be kept as it was sent, a version that is damaged
    return HTTPStatus.INTERNAL_SERVER_ERROR


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
    return _answer(request, status, status.name.lower(), status.phrase, "", error.headers)


def _answer(request: Request, status: int, code: str, message: str, hint: str, headers: object = None) -> Response:
    """The error as a page, or as a problem where a program asked."""
    more = dict(headers) if isinstance(headers, dict) else {}
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
    response = visitor.page("error.html", status=status, code=code, status_code=status, message=message, hint=hint)
    response.headers.update(more)
    return response
