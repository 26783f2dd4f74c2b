"""What the API answers with. Texts are redacted; times are ISO 8601 in UTC."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Root of every answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def filled(cls, source: object, **others: Any) -> Self:
        """Filled from what has fields of these names; `others` are those it has under another name, or not at all."""
        named = {name: getattr(source, name) for name in cls.model_fields if name not in others}
        return cls(**named, **others)


class Problem(Answer):
    """An error (RFC 9457). `code` is a stable word, `detail` what happened, `hint` what to do."""

    type: str = "about:blank"
    title: str
    status: int
    code: str = ""
    detail: str = ""
    hint: str = ""


class Check(Answer):
    """Whether a text could be saved, and a sentence about it; `warns` where it could be, but not as one may think."""

    ok: bool
    says: str
    warns: bool = False


class Session(Answer):
    """The CSRF token of this client: send it back as `X-CSRF-Token`, with the cookie that came along."""

    csrf_token: str
    language: str
