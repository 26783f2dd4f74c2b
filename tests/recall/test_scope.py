"""Scope: what a project may see of the summary, through one door that only narrows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.documents import claims, print_summary, without_marks
from memory.model import HEADINGS
from memory.model import SUMMARY_NAME as KERNEL_SUMMARY_NAME
from memory.state.schema import VERSION
from recall import scope
from recall.scope import NOBODY, Line, Source, Viewer, visible_lines
from tests.plugins.published import (
    ELSEWHERE,
    HERE,
    INDEX,
    PREFERENCES,
    PROFILE,
    THERE,
    TIPS,
    generation_of,
    publish,
    workspace_of,
)

A, B, C, D = "aaaa0001", "bbbb0002", "cccc0003", "dddd0004"
SOURCES = {
    A: Source(HERE),
    B: Source(THERE),
    C: Source(ELSEWHERE),
    D: Source("unknown"),
    "note:all": Source("", everywhere=True),
    "note:here": Source(HERE),
    "note:name": Source("shop"),
}
SHOP = Viewer(HERE, "shop")
BULLETS = {
    PROFILE: [f"Works in Berlin. [{B}]"],
    PREFERENCES: [
        f"In shop: tests use Vitest. [{A}]",
        f"In api: never use classes. [{B}]",
        f"Answers in German. [{A}] [{B}]",
        "Never force-push. [note:all]",
        "Deploys from main. [note:here]",
        "Colours are green. [note:name]",
        f"Said in no folder. [{D}]",
    ],
    TIPS: [f"The api key is in the vault. [{B}]", f"Said twice in one project. [{B}] [note:there]"],
    INDEX: [f"shop: Vitest. [{A}]", f"api: classes. [{B}]", f"web: colours. [{C}]"],
}
SUMMARY = print_summary(BULLETS)


def seen(viewer: Viewer, setting: str = "project", only: str | None = None) -> list[str]:
    view = visible_lines(SUMMARY, SOURCES, viewer, setting, only=only)
    return [without_marks(line.text) for line in view.lines]


# -- the rule -----------------------------------------------------------------------------------------


@pytest.mark.req("C023", "P017", "P034")
@pytest.mark.fault("M5", "M6", "M87", "O18", "X24", "X25")
def test_a_project_sees_its_own_lines_those_of_several_projects_global_notes_and_the_profile() -> None:
    assert seen(SHOP) == [
        "Works in Berlin.",
        "In shop: tests use Vitest.",
        "Answers in German.",
        "Never force-push.",
        "Deploys from main.",
        "Colours are green.",
        "shop: Vitest.",
    ]
    assert visible_lines(SUMMARY, SOURCES, SHOP, "project").elsewhere == 2


@pytest.mark.fault("M6", "X25")
def test_a_rule_of_one_project_becomes_everybodys_only_with_a_second_project() -> None:
    rule = Line(PREFERENCES, "x", (B,), 1)
    assert not scope.is_visible(rule, SOURCES, SHOP)
    # Two sessions of one project, a session of no folder, a note that only names its project: still one project.
    for more in ("bbbb9999", D, "note:name2"):
        sources = {**SOURCES, "bbbb9999": Source(THERE), "note:name2": Source("api")}
        assert not scope.is_visible(rule._replace(citations=(B, more)), sources, SHOP)
    assert scope.is_visible(rule._replace(citations=(B, C)), SOURCES, SHOP)


@pytest.mark.req("C030")
def test_without_a_project_only_what_holds_everywhere_is_seen() -> None:
    everywhere = ["Works in Berlin.", "Answers in German.", "Never force-push."]
    assert seen(NOBODY) == everywhere
    assert seen(Viewer("unknown", "unknown")) == everywhere
    assert seen(Viewer("eeeeeeeeeeee", "other")) == everywhere


def test_a_line_that_cites_nothing_known_belongs_to_nobody() -> None:
    for section in HEADINGS:
        assert not scope.is_visible(Line(section, "x", (), 1), SOURCES, SHOP)
        assert not scope.is_visible(Line(section, "x", ("99999999",), 1), SOURCES, SHOP)


@pytest.mark.req("C063")
def test_a_caller_narrows_and_never_widens() -> None:
    assert seen(SHOP, only=HERE) == seen(SHOP)
    assert seen(SHOP, only="shop") == seen(SHOP)
    for other in (THERE, "api", ""):
        assert seen(SHOP, only=other) == seen(NOBODY)


@pytest.mark.req("C063")
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([*SOURCES, "99999999"]),
    st.sampled_from([*SOURCES, "88888888"]),
    st.sampled_from([SHOP, NOBODY, Viewer(THERE, "api")]),
    st.sampled_from(["project", "all"]),
    st.sampled_from([None, HERE, THERE, "shop", "zzz", ""]),
)
def test_whatever_a_caller_asks_for_it_gets_a_part_of_what_it_may_see(
    first: str, second: str, viewer: Viewer, setting: str, only: str | None
) -> None:
    summary = print_summary(
        {PREFERENCES: [f"One. [{first}]", f"Two. [{second}] [{first}]"], INDEX: [f"Three. [{second}]"]}
    )
    whole = visible_lines(summary, SOURCES, viewer, setting)
    part = visible_lines(summary, SOURCES, viewer, setting, only=only)
    assert set(part.lines) <= set(whole.lines)


def test_the_user_may_open_the_whole_summary_to_every_project() -> None:
    assert len(seen(SHOP, "all")) == sum(map(len, BULLETS.values()))
    assert seen(NOBODY, "all", only=HERE) == seen(SHOP)[:5] + seen(SHOP)[6:]


# -- one form with the kernel -------------------------------------------------------------------------

MARKS = st.sampled_from([f"[{A}]", "[0123456789abcdef]", "[note:a.b-c]", "[xyz]", ""])
BULLET = st.tuples(
    st.text(st.characters(codec="ascii", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e"), max_size=20), MARKS
).map(" ".join)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from([*HEADINGS, "v1", "", "  more [aaaa0001]", "## Other"]), BULLET.map("- ".__add__)),
        max_size=12,
    )
)
def test_lines_are_those_the_kernel_finds(lines: list[str]) -> None:
    text = "\n".join(lines)
    mine = [(line.section, without_marks(line.text), line.citations, line.number) for line in scope.lines_of(text)]
    theirs = [(claim.section, without_marks(claim.text), claim.citations, claim.line) for claim in claims(text)]
    assert mine == theirs


def test_names_and_limits_are_those_of_the_kernel() -> None:
    from memory import model

    assert scope.HEADINGS == model.HEADINGS
    assert scope.SUMMARY_NAME == KERNEL_SUMMARY_NAME
    assert scope.MAX_SUMMARY_BYTES == model.MAX_SUMMARY_BYTES
    assert scope.STATE_VERSION == VERSION


# -- the files ----------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def published(home: Path) -> str:
    return publish(home, {PREFERENCES: [f"Tests use Vitest. [{A}]"]}, {A: HERE, "note:all": None})


def test_a_published_summary_is_read_with_the_projects_of_its_sources(home: Path) -> None:
    text = published(home)
    found = scope.read_published(str(home))
    assert (found.text, found.problem, found.version) == (text, "", 1)
    assert found.sources == {A: Source(HERE), "note:all": Source("", everywhere=True)}
    assert Path(found.folder) == workspace_of(home).root


def test_where_nothing_was_published_there_is_nothing_and_no_problem(home: Path) -> None:
    assert scope.read_published(str(home)) == scope.Published()
    generation_of(home)
    workspace_of(home)
    found = scope.read_published(str(home))
    assert (found.text, found.problem) == ("", "")


@pytest.mark.req("Z052")
@pytest.mark.fault("M7")
@pytest.mark.parametrize(
    "damage",
    ["empty", "half", "edited", "first line", "gone", "folder", "link", "fifo", "huge", "not utf-8", "no version"],
)
def test_what_is_not_a_published_text_is_no_memory_and_says_why(home: Path, tmp_path: Path, damage: str) -> None:
    text = published(home)
    workspace = workspace_of(home)
    path = workspace.summary_path
    path.unlink()
    match damage:
        case "empty":
            path.write_bytes(b"")
        case "half":
            path.write_text(text[: len(text) // 2], "utf-8")
        case "edited":
            path.write_text(text + f"- Added by hand. [{A}]\n", "utf-8")
        case "first line":
            path.write_text(text.replace("v1", "v2", 1), "utf-8")
        case "folder":
            path.mkdir()
        case "link":
            other = tmp_path / "other.md"
            other.write_text(text, "utf-8")
            path.symlink_to(other)
        case "fifo":
            os.mkfifo(path)
        case "huge":
            path.write_text(text + "- x\n" * 5_000, "utf-8")
        case "not utf-8":
            path.write_bytes(text.encode() + b"\xff")
        case "no version":
            path.write_text(text, "utf-8")
            workspace.drop_version(1)
    found = scope.read_published(str(home))
    assert found.text == ""
    assert found.sources == {}
    assert str(path) in found.problem


@pytest.mark.req("Z012")
@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 1, "generation": "abc"}', '{"version": 2}', "{"])
def test_a_generation_file_of_another_form_is_not_interpreted(home: Path, content: str) -> None:
    published(home)
    (home / "generation.json").write_text(content, "utf-8")
    found = scope.read_published(str(home))
    assert found.text == ""
    assert "generation.json" in found.problem
    (home / "generation.json").write_text('{"version": 2, "generation": "../../etc"}', "utf-8")
    assert scope.read_published(str(home)).problem


def test_between_the_two_steps_of_a_publish_the_former_text_is_read_with_its_own_sources(home: Path) -> None:
    text = published(home)
    workspace = workspace_of(home)
    version = workspace.read_version(1)
    workspace.save_version(2, text + "\n", version.manifest, version.texts)
    assert scope.read_published(str(home)).version == 1
    workspace.install_summary(text + "\n", workspace.summary_sha())
    assert scope.read_published(str(home)).version == 2


@pytest.mark.fault("X40", "O44")
def test_after_a_clear_nothing_of_the_old_generation_is_read(home: Path) -> None:
    published(home)
    from memory.state.meta import new_generation_id, write_generation_file

    write_generation_file(home, new_generation_id())
    assert scope.read_published(str(home)).text == ""
