"""Which statements are about the same thing, and which of two replaces the other."""

from __future__ import annotations

import pytest

from memory.offline.subjects import replaces, same


@pytest.mark.req("P036", "P057")
@pytest.mark.fault("M2", "M39", "M40", "M41", "X9", "O29")
@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("From now on use Vitest for all new tests, not Jest.", "New tests use Jest, and they go under tests/"),
        ("后续新增测试统一用 Vitest，历史 Jest 用例逐步迁移。", "新增测试使用 Jest"),
        ("We migrated to MySQL.", "We use Postgres."),
        ("数据库已经迁移到 MySQL 了", "我们的数据库用 Postgres"),
        ("moved to 9090", "The dev server listens on port 8080."),
        ("端口改成 9000 了", "开发服务器端口是 8000"),
        ("the dev server runs on port 9000 now", "the dev server runs on port 8000"),
        ("不是 8000，是 8080。", "监听 8000 端口"),
        ("we now use pnpm", "use npm"),
        ("I hate semicolons", "I love semicolons"),
        ("no need to run make lint before committing", "always run make lint before committing"),
        ("回复用英文", "以后请用中文回答"),
        ("Python 3.12 now", "we use Python 3.11"),
        ("以后都用 npm", "不要用 npm，统一用 pnpm。"),
        ("これからは npm ではなく pnpm を使ってください", "パッケージ管理は npm を使ってください"),
        ("ab jetzt pnpm statt npm verwenden", "wir verwenden npm"),
        ("на самом деле порт 9000", "порт 8000"),
    ],
)
def test_a_later_statement_on_the_same_subject_replaces_the_earlier(new: str, old: str) -> None:
    assert replaces(new, old)
    assert not same(new, old)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("MySQL for analytics, we use MySQL there", "we use Postgres for billing"),
        ("use pytest for the backend", "use vitest for the frontend"),
        ("never commit .env files", "put secrets in .env"),
        ("the metrics server is on port 9100", "the dev server listens on port 8080"),
        ("always use tabs in Go files", "use spaces in Python files"),
        ("写注释用英文", "commit 信息用中文"),
        ("never push to main", "always run the tests"),
    ],
)
def test_statements_on_different_subjects_stand_side_by_side(new: str, old: str) -> None:
    assert not replaces(new, old)
    assert not replaces(old, new)


@pytest.mark.fault("M42", "X31")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("From now on use Vitest for all new tests, not Jest.", "use Vitest for new tests"),
        ("以后请用中文回答", "请用中文回复"),
        ("always answer in Chinese", "请用中文回复"),
        ("always run `make lint` before committing", "run make lint before every commit"),
        ("never force-push", "don't force-push, ever"),
        ("以后 commit 信息统一用中文。", "提交信息用中文写"),
        ("不要用 npm，统一用 pnpm。", "use pnpm, not npm"),
    ],
)
def test_one_thing_in_two_wordings_is_one_thing(left: str, right: str) -> None:
    assert same(left, right)
    assert same(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("use tabs", "use spaces"),
        ("commit messages in English", "comments in English"),
        ("never push to main", "never push to develop"),
        ("keep functions under 40 lines", "keep functions under 80 lines"),
        ("always use mocks", "never use mocks"),
    ],
)
def test_things_that_differ_in_a_value_are_not_the_same(left: str, right: str) -> None:
    assert not same(left, right)
