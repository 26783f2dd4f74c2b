"""Provider failures as pure functions."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import ModelError, PermanentModelError, TransientModelError
from memory.llm import classify
from memory.llm.classify import Refused

NEWER = Refused.MAX_COMPLETION_TOKENS
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 30 Nov 2026 12:01:00 GMT"}, 60.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:01:00"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert classify.retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("You've hit your usage limit. Upgrade or try again later.", True),
        ("Rate limit reached for requests.", True),
        ("额度不足，请充值", True),
        ('{"rollout_summary": "insufficient quota", "rollout_slug": ""}', False),
        ("# Insufficient quota on the build server", False),
        ("The person asked about tabs.", False),
        ("insufficient quota " * 60, False),
        ("", False),
    ],
)
def test_only_a_short_notice_is_quota_prose(text: str, quota: bool) -> None:
    assert classify.is_quota_prose(text) is quota


@pytest.mark.parametrize(
    ("status", "text", "used", "part"),
    [
        (400, "response_format is unsupported", (Refused.JSON_SCHEMA,), Refused.JSON_SCHEMA),
        (400, "response_format is unsupported", (), None),
        (400, "response_format is unsupported", (Refused.TOOLS,), None),
        (401, "response_format is unsupported", (Refused.JSON_SCHEMA,), None),
        (503, "response_format is unsupported", (Refused.JSON_SCHEMA,), None),
        (500, "internal error", (Refused.JSON_SCHEMA,), None),
        (400, "maximum context length is 9; response_format", (Refused.JSON_SCHEMA,), None),
        (400, "max_tokens is too large: 9", (Refused.MAX_TOKENS,), None),
        (400, "Unrecognized argument: max_completion_tokens", (NEWER,), NEWER),
        (400, "temperature: only the default is supported", (Refused.TEMPERATURE,), Refused.TEMPERATURE),
    ],
)  # fmt: skip
def test_a_part_counts_as_refused_only_where_it_was_sent_and_the_answer_speaks_of_it(
    status: int, text: str, used: tuple[Refused, ...], part: Refused | None
) -> None:
    assert classify.refused_part(status, text, used) is part


@given(
    st.integers(300, 599),
    st.text(max_size=300),
    st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_every_status_and_body_has_a_class_and_no_message_repeats_the_body(
    status: int, text: str, headers: dict[str, str]
) -> None:
    canary = f"{text} CANARY-7f3a"
    error = classify.http_error(status, canary, headers, model="m", now=NOW)
    assert isinstance(error, ModelError)
    assert "CANARY" not in str(error)
    assert error.status == status


def test_a_missing_body_is_judged_by_its_status_alone() -> None:
    assert isinstance(classify.http_error(502, "", {}, model="m", now=NOW), TransientModelError)
    assert isinstance(classify.http_error(418, "", {}, model="m", now=NOW), PermanentModelError)
    assert classify.searchable(None, "x") == "\nx"
    assert len(classify.searchable({"a": "x" * 99_999})) == classify.MAX_LOOKED_AT
