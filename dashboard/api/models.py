"""What the API answers with. Texts are redacted; times are ISO 8601 in UTC."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Root of every answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(Answer):
    """An error (RFC 9457). `code` is a stable word, `detail` what happened, `hint` what to do."""

    type: str = "about:blank"
    title: str
    status: int
    code: str = ""
    detail: str = ""
    hint: str = ""


class Check(Answer):
    """Whether a text could be saved, and a sentence about it."""

    ok: bool
    says: str


class Session(Answer):
    """The CSRF token of this client: send it back as `X-CSRF-Token`, with the cookie that came along."""

    csrf_token: str
    language: str
