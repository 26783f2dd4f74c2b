"""Tidying changes the form of a record, never its words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extract import form
from memory.model import SUMMARY_SECTIONS, Outcome

TIDY = "# Title\nOutcome: success\n\n## Task\n- Moved to `vitest`. [e1] [e2]\n- 统一用 `vitest`。 [e3]"


def test_what_is_tidy_stays_as_it_is() -> None:
    assert form.tidy(TIDY) == TIDY


@pytest.mark.parametrize(
    "untidy",
    [
        f"```markdown\n{TIDY}\n```",
        TIDY.replace("\n", "\r\n"),
        TIDY.replace("- ", "* "),
        TIDY.replace("Outcome: success", "**Outcome:** Success"),
        TIDY.replace("\n\n", "\n").replace("\n", "\n\n"),
        TIDY.replace("[e1] [e2]", "[e1, e2]"),
        TIDY.replace("[e1] [e2]", "[E1;e2]"),
        TIDY.replace("Moved to", "Moved\n  to"),
        TIDY + "   \n\n",
    ],
)
def test_the_many_ways_to_write_one_record_become_one(untidy: str) -> None:
    assert form.tidy(untidy) == TIDY


@given(st.text(alphabet="#-* \n[]e1,`aあ:。Outcome", max_size=200))
@settings(max_examples=150, deadline=None)
def test_tidying_twice_is_tidying_once(text: str) -> None:
    once = form.tidy(text)
    assert form.tidy(once) == once


def test_a_body_is_read_and_written_back() -> None:
    body = form.read(TIDY)
    assert (body.title, body.outcome, len(body.bullets), body.odd) == ("Title", Outcome.SUCCESS, 2, [])
    assert form.write(body.title, Outcome.SUCCESS, body.bullets) == TIDY


def test_lines_that_belong_nowhere_are_kept_as_odd() -> None:
    body = form.read("intro\n# Title\nOutcome: great\n- early\n## Task\nprose\n- fine [e1]")
    assert [line for line, _ in body.odd] == [1, 2, 4, 6]
    assert body.outcome is None


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("vitest-migration", "vitest-migration"),
        (" Vitest Migration! ", "vitest-migration"),
        ("迁移", "session"),
        ("", "session"),
        ("Été à Paris", "ete-a-paris"),
        ("../../etc/passwd\n", "etc-passwd"),
        ("x" * 200, "x" * 60),
    ],
)
def test_a_slug_is_always_a_safe_short_word(text: str, slug: str) -> None:
    assert form.slug_of(text) == slug


def test_sections_are_written_in_their_order_and_equal_bullets_once() -> None:
    bullets = [form.Bullet(SUMMARY_SECTIONS[3], "b [e1]", 9), form.Bullet(SUMMARY_SECTIONS[0], "a [e1]", 5)]
    text = form.write("T", Outcome.FAIL, [*bullets, *bullets])
    assert text == "# T\nOutcome: fail\n\n## Task\n- a [e1]\n\n## What failed\n- b [e1]"
