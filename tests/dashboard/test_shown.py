"""Text of sessions on a page."""

from __future__ import annotations

import html
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.desk import local_path
from dashboard.shown import plain, prose, shown, visible
from memory.redact import Redactor
from memory.settings import RedactSettings

REDACTOR = Redactor(RedactSettings(), quick=True)
ODD = st.text(
    st.sampled_from("ab<>&\"'` \n\t\u202e\u2066\u200b\u200d\x00\x1b\x7f\x85\u2028\ufeff\U000e0041用é\ud800"),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(ODD | st.text(max_size=60))
def test_no_sign_that_cannot_be_seen_stays_and_no_markup_is_made(text: str) -> None:
    found = str(visible(text))
    bare = found.replace('<span class="hidden-sign">', "").replace("</span>", "")
    assert "<" not in bare
    assert '"' not in bare
    for at, char in enumerate(found):
        if char.isprintable() or char in "\n\t":
            continue
        joins = char in "\u200c\u200d" and not found[at - 1].isascii() and not found[at + 1].isascii()
        assert joins or unicodedata.category(char) in {"Zs", "Cn"}, repr(char)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=60))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert html.unescape(str(visible(text))) == text


def test_json_gets_the_same_text_without_markup() -> None:
    assert plain("a\u202eb <b>\x1b", REDACTOR) == "a<U+202E>b <b><U+001B>"


def test_what_stands_in_backticks_is_code_and_nothing_else_is() -> None:
    assert prose("run `make <b>` twice", REDACTOR) == "run <code>make &lt;b&gt;</code> twice"
    assert prose("one ` alone", REDACTOR) == "one ` alone"
    secret = "hunter2-Xk93jdlq02"
    assert secret not in prose(f"`password`: {secret}", REDACTOR) or secret in shown(f"`password`: {secret}", REDACTOR)


def test_writing_that_needs_joiners_keeps_them() -> None:
    family = "👨\u200d👩\u200d👧 می\u200cخواهم"
    assert str(visible(family)) == family


def test_a_secret_is_taken_out_before_a_text_is_shown() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert secret not in shown(f"token {secret}", REDACTOR)


@pytest.mark.parametrize(
    ("given_path", "expected"),
    [
        ("/memory?project=x", "/memory?project=x"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nSet-Cookie: x", "/"),
        ("", "/"),
    ],
)
def test_a_way_back_leads_to_this_server_alone(given_path: str, expected: str) -> None:
    assert local_path(given_path) == expected
