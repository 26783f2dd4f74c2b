"""Redaction costs no more than its share: linear in the text whatever it holds, fast where it holds nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from memory.redact import Redactor
from memory.settings import RedactSettings

SIMPLE = "hunter" + "2"


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(RedactSettings())


@pytest.fixture(scope="module")
def quick() -> Redactor:
    return Redactor(RedactSettings(), quick=True)


_HOSTILE: list[tuple[str, str]] = [
    ("naming words", "token"),
    ("assignments", "token="),
    ("quotes", 'password="'),
    ("prose", "password is "),
    ("url", "://a:b"),
    ("url with @", "://a:b@"),
    ("jwt", "eyJa."),
    ("pem", "-----BEGIN RSA PRIVATE KEY-----\n"),
    ("pem ends", "-----END RSA PRIVATE KEY-----\n"),
    ("letters", "a"),
    ("spaces", " "),
    ("newlines", "\n"),
    ("colons", ":"),
    ("base64", "QUJD"),
    ("backslashes", "\\"),
    ("named values", "name: token\n"),
    ("marks", "[redacted:x]"),
    ("secrets", f"password={SIMPLE}\n"),
]


def _best(run: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize(("name", "unit"), _HOSTILE, ids=[name for name, _ in _HOSTILE])
def test_time_grows_with_the_text_and_no_faster(quick: Redactor, name: str, unit: str) -> None:
    small, large = unit * (2_000 // len(unit)), unit * (16_000 // len(unit))
    quick.findings(large)
    assert _best(lambda: quick.findings(large)) < 8 * 2.5 * max(_best(lambda: quick.findings(small)), 0.001)


def test_ordinary_text_passes_at_twenty_megabytes_a_second(redactor: Redactor) -> None:
    line = "The agent read src/app/token_store.py:42 and ran `pytest -q tests/test_auth.py`; input_tokens: 4096, ok.\n"
    text = line * 20_000
    redactor.redact(text)
    assert len(text) / _best(lambda: redactor.redact(text)) > 20e6
