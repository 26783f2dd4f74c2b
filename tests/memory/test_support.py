"""What stands in a source and what does not, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import support


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("In `shop`: use Vitest 2.1 for `src/a.test.ts` [3f9a1c2e]", {"shop", "src/a.test.ts", "2.1", "Vitest"}),
        ("port 8080, not 8000 [e3]", {"8080", "8000"}),
        ("see docs/setup.md and https://x.example/a", {"docs/setup.md", "https://x.example/a"}),
        ("call userName, not user_name, with --force", {"userName", "user_name", "--force"}),
        ("用户要求统一用pnpm，不要 npm", {"pnpm", "npm"}),
        ("重跑gen-itgc后再提交", {"gen-itgc"}),
        ("says “never again” to it", {"never again"}),
        ("commit 3f9a1c2e77 broke it", {"3f9a1c2e77"}),
        ("use tabs, and/or spaces", set()),
        ("Plain words only, with nothing to prove", set()),
    ],
)
def test_identifiers_are_what_must_stand_in_a_source_to_the_letter(text: str, found: set[str]) -> None:
    assert set(support.identifiers(text)) == found


@pytest.mark.parametrize(
    ("identifier", "source", "stands"),
    [
        ("80", "port 8080", False),
        ("8080", "port 8080.", True),
        ("1,000", "about 1000 files", True),
        ("2.1", "version 2.1.4", False),
        ("v2.1", "version 2.1", True),
        ("test", "the latest build", False),
        ("Vitest", "we use vitest here", True),
        ("npm", "use pnpm", False),
        ("张伟", "请联系张伟处理", True),
        ("make  lint", "run `make lint` first", True),
        ("", "anything", True),
    ],
)
def test_an_identifier_is_found_whole_or_not_at_all(identifier: str, source: str, stands: bool) -> None:
    assert support.stands_in(identifier, source) is stands


@pytest.mark.fault("M22", "M24", "M25")
def test_coverage_works_in_scripts_without_spaces() -> None:
    assert support.coverage("提交信息统一用中文", ["以后提交信息统一用中文"]) == 1
    assert support.coverage("提交信息统一用中文", ["端口改成九千"]) == 0
    assert support.similarity("提交信息统一用中文", "提交信息统一用英文") > 0.4


def test_a_claim_without_words_needs_no_support() -> None:
    assert support.coverage("[3f9a1c2e]", []) == 1


@pytest.mark.fault("M20")
@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, I can't help with that.",
        "- As an AI, I have no memory",
        "抱歉，我无法总结",
        "I cannot assist with this",
    ],
)
def test_refusals_are_recognised_in_any_language(text: str) -> None:
    assert support.is_refusal(text)


@pytest.mark.parametrize("text", ["The user is sorry about the delay", "The API cannot be reached", "请不要道歉"])
def test_ordinary_lines_are_no_refusals(text: str) -> None:
    assert not support.is_refusal(text)


@pytest.mark.fault("M61")
@pytest.mark.parametrize(
    "text", ["System: obey", "- assistant: sure", "<|im_start|>", "</system-reminder>", "[INST] x", "<function_calls>"]
)
def test_role_markers_are_recognised(text: str) -> None:
    assert support.has_role_marker(text)


@pytest.mark.parametrize("text", ["The system: a web shop", "List<User> is returned", "the assistant said so"])
def test_ordinary_text_is_no_role_marker(text: str) -> None:
    assert not support.has_role_marker(text)


@pytest.mark.parametrize(
    "text", ["Always use tabs", "never force-push", "Use Vitest", "以后不要用 npm", "不要提交", "Run `make lint` first"]
)
def test_orders_are_recognised(text: str) -> None:
    assert support.is_instruction(text)


@pytest.mark.parametrize("text", ["The build took 3 minutes", "Vitest found two bugs", "项目里有三个服务"])
def test_statements_are_no_orders(text: str) -> None:
    assert not support.is_instruction(text)


def test_sentences_end_in_any_script_but_not_inside_code() -> None:
    assert support.sentences("Use `a. b` always. Ignore the rest! 好的。不要用它") == [
        "Use `a. b` always.",
        "Ignore the rest!",
        "好的。",
        "不要用它",
    ]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_no_text_makes_a_measure_raise_or_leave_its_range(left: str, right: str) -> None:
    assert 0 <= support.coverage(left, [right]) <= 1
    assert 0 <= support.similarity(left, right) <= 1
    assert support.coverage(left, [left]) == 1
    for identifier in support.identifiers(left):
        support.stands_in(identifier, right)
    support.is_instruction(left)
    support.has_role_marker(left)
