"""Wrappers come off an answer; what is left is taken only when there is no doubt."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from memory.errors import InvalidAnswerError
from memory.llm import answers


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str


GOOD = '{"text": "a {b} c"}'


@pytest.mark.fault("M13", "M14")
@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"```\n{GOOD}\n```",
        f"Here:\n```json\n{GOOD}\n```\nand again\n```json\n{GOOD}\n```",
        f"{GOOD} as asked",
        f'An example is {{"other": 1}}, the answer {GOOD}',
        f"<thinking>{{}}</thinking>{GOOD}",
        f"The set {{1, 2}} is empty. {GOOD}",
    ],
)
def test_the_one_answer_is_found(text: str) -> None:
    assert answers.parse(text, Answer, model="m").text == "a {b} c"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("prose", "parse"),
        (f'{GOOD} {{"text": "other"}}', "parse"),
        ("[1]", "parse"),
        ('{"text": 1}', "schema"),
        ('{"text": "a", "more": 1}', "schema"),
        ('{"text": "\\ud800"}', "schema"),
        ("{" * 500, "parse"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "parse"),
        ("I'm sorry, but I can't help.", "refusal"),
    ],
)
def test_doubt_is_an_error_with_its_kind(text: str, kind: str) -> None:
    with pytest.raises(InvalidAnswerError) as caught:
        answers.parse(text, Answer, model="m")
    assert caught.value.kind == kind
    assert caught.value.reasons


@given(st.text(max_size=200), st.text(max_size=80))
@settings(max_examples=150, deadline=None)
def test_no_text_raises_anything_else_and_an_object_survives_any_prose_without_braces(noise: str, value: str) -> None:
    for text in (noise, noise + "{" + value):
        with contextlib.suppress(InvalidAnswerError):
            answers.parse(text, Answer, model="m")
    plain = noise.replace("{", "").replace("}", "").replace("<", "").replace("`", "")
    text = f"{plain}\n{json.dumps({'text': value})}\n{plain}"
    assert answers.parse(text, Answer, model="m").text == value
