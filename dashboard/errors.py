"""Which answer an error is: the asker's fault, another process that is at work just now, or ours."""

from __future__ import annotations

from http import HTTPStatus

from memory.errors import (
    FencedError,
    InputsChangedError,
    ModelError,
    SettingsError,
    SlowwaveError,
    StateBusyError,
    StateLostError,
    UnknownReference,
    UnreadableRollout,
    UsageError,
    WorkspaceError,
)


class CsrfError(UsageError):
    """A change was asked for without the token of this browser and this server."""

    code = "csrf"


def status_of(error: SlowwaveError) -> HTTPStatus:
    """The HTTP status of an error."""
    if isinstance(error, CsrfError):
        return HTTPStatus.FORBIDDEN
    if isinstance(error, UnknownReference | UnreadableRollout):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, StateBusyError | FencedError | InputsChangedError):
        return HTTPStatus.CONFLICT
    if isinstance(error, UsageError | SettingsError):
        return HTTPStatus.BAD_REQUEST
    if isinstance(error, ModelError):
        return HTTPStatus.BAD_GATEWAY
    if isinstance(error, StateLostError) or error.code == "service_down":  # a class of a neighbouring room
        return HTTPStatus.SERVICE_UNAVAILABLE
    if type(error) is WorkspaceError:
        return HTTPStatus.BAD_REQUEST  # a note that cannot be kept as it was sent, a version that is damaged
    return HTTPStatus.INTERNAL_SERVER_ERROR
