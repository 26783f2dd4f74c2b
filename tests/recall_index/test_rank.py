"""Ranking: the right line first, nothing where nothing answers, only what one may see."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.index import rank
from recall.index.build import rows_of
from recall.index.file import IndexFile
from recall.index.unit import Scope, Unit

SHOP, API = Scope(("aaaaaaaaaaaa",)), Scope(("bbbbbbbbbbbb",))


def index_of(*units: Unit) -> IndexFile:
    return IndexFile.in_memory(rows_of(units, {}))


def line(ref: str, text: str, **values: object) -> Unit:
    return Unit(ref, str(values.pop("group", ref)), text, **values)  # type: ignore[arg-type]


def refs(index: IndexFile, text: str, **values: object) -> list[str]:
    return [hit.unit.ref for hit in rank.search(index, text, **values)]  # type: ignore[arg-type]


FACTS = (
    line("db", "The database moved from MySQL to PostgreSQL in March."),
    line("pnpm", "Use pnpm, never npm: npm writes a second lock file.", names=("pnpm",)),
    line("port", "The gateway listens on port 8080, not 8000."),
    line("vitest", "New tests use Vitest instead of Jest.", names=("vitest",)),
    line("redis", "Redis is the cache; keys live for one hour.", names=("redis cache",)),
    line("cents", "Amounts are whole cents everywhere, never floats."),
    line("zh", "退款超过七天要走线下转账。"),
)


@pytest.mark.fault("M9")
@pytest.mark.req("P031")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("which database did we move to?", "db"),
        ("npm or pnpm", "pnpm"),
        ("what port does the gateway listen on", "port"),
        ("退款要走什么", "zh"),
        ("redis cache key lifetime", "redis"),
        ("are floats fine for amounts", "cents"),
    ],
)
def test_the_line_that_answers_comes_first(asked: str, found: str) -> None:
    assert refs(index_of(*FACTS), asked)[0] == found


@pytest.mark.req("P023")
@pytest.mark.parametrize(
    "asked", ["", "   ", "?!", "kubernetes helm charts", "the weather in Lisbon", "天气预报", "who is it"]
)
def test_where_nothing_answers_nothing_is_found(asked: str) -> None:
    assert refs(index_of(*FACTS), asked) == []


def test_a_long_question_finds_what_it_names() -> None:
    asked = (
        "so I have been thinking about this for quite a while, the reviewers were unhappy with the structure, the "
        "naming and the layout of our components, and somebody said vitest could help, is that so?"
    )
    assert refs(index_of(*FACTS), asked) == ["vitest"]


@pytest.mark.parametrize(
    ("slip", "found"),
    [("Reedis cache", "redis"), ("vitset setup", "vitest"), ("postgresq migration of the database", "db")],
)
def test_a_slip_of_the_pen_is_mended(slip: str, found: str) -> None:
    assert refs(index_of(*FACTS), slip)[:1] == [found]


def test_a_word_of_its_own_is_not_taken_for_a_slip() -> None:
    index = index_of(
        line("mongo", "Mongo holds the sessions.", names=("mongo",)), line("k8s", "k8s runs it", names=("k8s",))
    )
    assert refs(index, "mango pooling") == []
    assert refs(index, "k9s pods") == []


@settings(max_examples=120, deadline=None)
@given(st.text(max_size=80))
def test_any_text_may_be_asked(text: str) -> None:
    rank.search(INDEX, text)


INDEX = index_of(*FACTS)


@pytest.mark.parametrize(
    "text",
    [
        '"',
        "NEAR(a b)",
        "*",
        "-port",
        "port OR",
        "a AND (b",
        "x:y",
        "{col}: port",
        "\0port\0",
        "port^2",
        "'; DROP TABLE terms",
        "\ud800 port",
    ],
)
def test_what_would_be_syntax_elsewhere_is_text(text: str) -> None:
    found = refs(INDEX, text)
    assert found in ([], ["port"])


def test_a_question_of_a_megabyte_is_answered_from_its_beginning() -> None:
    assert refs(INDEX, "gateway port " + "x" * 1_000_000) == refs(INDEX, "gateway port")
    assert isinstance(refs(INDEX, "port " * 200_000), list)


@pytest.mark.req("P017", "C023", "P067")
@pytest.mark.fault("O18", "M52")
def test_only_what_one_may_see_is_found_and_the_rest_lends_no_words() -> None:
    index = index_of(
        line("a", "The port is 8080.", scope=SHOP),
        line("b", "The port is 9090.", scope=API),
        line("b2", "Deploy the gateway on Friday.", scope=API, group="b-session"),
        line("b3", "The gateway port opens late.", scope=API, group="b-session"),
        line("all", "Ports are written in the README.", scope=Scope((), True)),
    )

    def visible(scope: Scope) -> bool:
        return scope.everywhere or "aaaaaaaaaaaa" in scope.projects

    found = rank.search(index, "which port", visible=visible, answers_only=False)
    assert {hit.unit.ref for hit in found} == {"a", "all"}
    groups = rank.search_groups(index, "gateway port", visible=visible, answers_only=False)
    assert {group.name for group in groups} <= {"a", "all"}


@pytest.mark.fault("M9")
def test_a_group_never_spans_two_scopes() -> None:
    index = index_of(line("a", "one", scope=SHOP, group="g"), line("b", "two", scope=API, group="g"))
    assert [count for _, _, count in index.groups] == [1, 1]


@pytest.mark.fault("O29", "M41", "M39", "M40")
def test_what_was_superseded_comes_last_and_says_so() -> None:
    index = index_of(
        line("old", "Package manager: use npm for the package manager.", superseded=True, successor="use pnpm"),
        line("new", "The package manager is pnpm."),
    )
    found = rank.search(index, "package manager")
    assert [(hit.unit.ref, hit.unit.superseded) for hit in found] == [("new", False), ("old", True)]
    assert found[1].unit.successor == "use pnpm"


def test_of_equal_lines_the_newer_wins_and_then_the_more_used() -> None:
    index = index_of(
        line("old", "The port is 8080.", time="2026-01-01", used=3),
        line("new", "The port is 8081.", time="2026-05-01"),
    )
    assert refs(index, "port")[0] == "new"
    index = index_of(line("a", "The port is 8080."), line("b", "The port is 8081.", used=9))
    assert refs(index, "port")[0] == "b"


@pytest.mark.fault("O21", "M42")
def test_sixty_variants_of_one_fact_do_not_hide_another() -> None:
    many = [line(f"v{n}", f"Variant {n}: the build takes long on machine {n}.") for n in range(60)]
    index = index_of(*many, line("key", "The signing key is rotated every March."))
    assert refs(index, "when is the signing key rotated") == ["key"]


@pytest.mark.req("P055")
def test_a_session_is_found_by_what_its_lines_say_together() -> None:
    index = index_of(
        line("a1", "We looked at the login page.", group="a", about="login page 2026-05-01"),
        line("a2", "It returns 429 after five tries.", group="a", about="login page 2026-05-01"),
        line("b1", "The invoice page was slow.", group="b"),
        line("b2", "An index on orders helped.", group="b"),
    )
    best = rank.search_groups(index, "login 429", answers_only=False)
    assert best[0].name == "a"
    assert {hit.unit.ref for hit in best[0].best} == {"a1", "a2"}


def test_a_line_is_understood_where_it_stands() -> None:
    index = index_of(
        line("a1", "Payments: the webhook fires twice.", group="a"),
        line("a2", "We stay on 4.1 until it is fixed.", group="a"),
        line("b1", "Images: we stay on the old codec.", group="b"),
    )
    assert refs(index, "payments webhook stay version", answers_only=False)[:2] in (["a1", "a2"], ["a2", "a1"])


@pytest.mark.req("P045")
def test_kinds_and_limit_narrow() -> None:
    index = index_of(line("a", "port one"), line("b", "port two", kind="note"), line("c", "port three", kind="note"))
    assert set(refs(index, "port", kinds={"note"})) == {"b", "c"}
    assert len(refs(index, "port", limit=1)) == 1
    assert refs(index, "port", limit=0) == []


def test_the_same_question_gets_the_same_answer() -> None:
    assert refs(index_of(*FACTS), "database port cache") == refs(index_of(*FACTS), "database port cache")
