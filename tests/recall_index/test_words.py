"""Text to terms: what is stored and what is asked meet, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.index import marks, words


def shared(left: str, right: str) -> set[str]:
    return set(words.term_texts(left)) & set(words.term_texts(right))


@pytest.mark.fault("M25")
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("重跑gen-itgc后要提交报告", "gen-itgc"),
        ("重跑gen-itgc后要提交报告", "itgc"),
        ("def getUserName(self)", "user name"),
        ("def getUserName(self)", "getUserName"),
        ("MAX_RETRY_COUNT = 3", "retry count"),
        ("the user_name column", "userName"),
        ("kebab-case-name", "kebab_case_name"),
        ("see src/cli/main.py", "main.py"),
        ("see src/cli/main.py", "src/cli/main.py"),
        ("prefect 3.9.1 is pinned", "prefect 3.9"),
        ("prefect v3.9.1", "3.9.1"),
        ("Python3 only", "python"),
        ("written in C++", "C++"),
        ("Caroline’s café", "cafe caroline"),
        ("the tests were rewritten", "rewriting a test"),
        ("they bought it", "buying"),
        ("ＦＵＬＬ width", "full"),
    ],
)
def test_what_is_asked_meets_what_is_stored(stored: str, asked: str) -> None:
    assert shared(stored, asked) - {"the", "a"}


@pytest.mark.fault("M25", "O31")
@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("数据库从 MySQL 迁移到了 PostgreSQL", "迁移"),
        ("データベースを移行した", "移行"),
        ("データベースを移行した", "データベース"),
        ("데이터베이스 마이그레이션", "데이터베이스를"),
        ("猫叫咪咪", "猫"),
        ("ตั้งค่าพอร์ตเป็น 8080", "พอร์ต"),
    ],
)
def test_a_word_inside_a_run_without_spaces_is_found(stored: str, asked: str) -> None:
    assert shared(stored, asked)


@pytest.mark.fault("M25")
def test_different_words_of_the_same_script_do_not_meet() -> None:
    pairs = {term for term in shared("猫喜欢睡觉", "狗讨厌洗澡") if len(term) > 1}
    assert not pairs


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200))
def test_terms_hold_nothing_that_could_be_syntax_and_places_are_inside_the_text(text: str) -> None:
    found = [term for run in words.runs(text) for term in run.terms]
    assert sorted(words.term_texts(text)) == sorted(term.text for term in found)
    for term in found:
        assert 0 <= term.start < term.end <= len(text)
        assert term.text
        assert not set(term.text) & set(" \t\r\n\0\"'()*")


def test_what_is_marked_is_what_was_asked() -> None:
    def marked(text: str, asked: str) -> list[str]:
        return [text[start:end] for start, end in marks.spans(text, set(words.term_texts(asked)))]

    assert marked("We run the tests with pytest.", "test pytest") == ["tests", "pytest"]
    assert marked("call getUserName now", "user") == ["User"]
    assert marked("call getUserName now", "get_user_name") == ["getUserName"]
    assert marked("数据库迁移完成了", "迁移") == ["迁移"]
    assert marked("重跑gen-itgc后", "gen-itgc") == ["gen-itgc"]
    assert marked("nothing here", "elsewhere") == []


@pytest.mark.req("C041")
def test_an_excerpt_is_bounded_and_shows_the_place_that_was_asked_for() -> None:
    text = "filler " * 300 + "the port is 8080 " + "filler " * 300
    shown, inside, cut = marks.excerpt(text, marks.spans(text, {"port", "8080"}), 80)
    assert cut
    assert len(shown) <= 80
    assert {shown[start:end] for start, end in inside} == {"port", "8080"}
    assert marks.excerpt("short", [(0, 5)], 80) == ("short", [(0, 5)], False)
