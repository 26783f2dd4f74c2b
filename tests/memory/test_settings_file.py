"""Changing config.toml: one value, nothing else, or nothing at all."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import InputsChangedError, SettingsError
from memory.settings import load
from memory.settings_file import UNSET, Changes, check, edited, fingerprint, read, write

TEXT = """\
# mine
[memory]
mode = "long"   # as I like it
# kept

# about reading
[extract]
idle_hours=0

[budget.prices."a"]
input = 1
output = 2.5
"""
PATH = Path("/home/dev/config.toml")


def change(text: str, changes: Changes) -> str:
    return edited(text, changes, PATH)


def test_a_value_is_replaced_where_it_stands_and_every_other_byte_stays() -> None:
    assert change(TEXT, {("memory", "mode"): "off"}) == TEXT.replace('"long"', '"off"')
    assert change(TEXT, {("extract", "idle_hours"): 2.5}) == TEXT.replace("=0", "=2.5")
    assert change(TEXT, {("budget", "prices", "a"): {"input": 3, "output": 2.5}}).startswith(TEXT.split("[budget")[0])


def test_a_new_key_stands_in_its_section_and_leaves_the_comments_of_the_next_one() -> None:
    assert change(TEXT, {("memory", "enabled"): False}) == TEXT.replace("[memory]\n", "[memory]\nenabled = false\n")


def test_a_key_that_is_taken_out_leaves_the_rest() -> None:
    made = change(TEXT, {("extract", "idle_hours"): UNSET})
    assert "idle_hours" not in made
    assert "# about reading\n[extract]\n" in made
    assert "[budget" not in change(TEXT, {("budget", "prices", "a"): UNSET})
    assert change(TEXT, {("extract", "batch"): UNSET}) == TEXT
    assert change(TEXT, {("schedule", "cron"): UNSET}) == TEXT


def test_a_section_or_a_price_that_is_not_there_yet_is_made() -> None:
    made = change(
        TEXT, {("schedule", "cron"): "0 3 * * *", ("budget", "prices", "b.c-d"): {"input": 1.0, "output": 2.0}}
    )
    assert made.startswith(TEXT.split("[budget")[0])
    data = tomllib.loads(made)
    assert data["schedule"] == {"cron": "0 3 * * *"}
    assert data["budget"]["prices"] == {"a": {"input": 1, "output": 2.5}, "b.c-d": {"input": 1.0, "output": 2.0}}
    assert tomllib.loads(change("", {("memory", "mode"): "long"})) == {"memory": {"mode": "long"}}
    assert tomllib.loads(change("", {("budget", "prices", "m"): {"input": 1}})) == {
        "budget": {"prices": {"m": {"input": 1}}}
    }


@pytest.mark.parametrize(
    "text",
    [
        'memory.mode = "long"\n',
        'memory = {mode = "long"}\n',
        '[memory]\r\nmode = "long"\r\n',
        '[memory]\nmode = "long"',
        "[ memory ] # here\nmode = '''long'''\n",
        '[model]\nname = """\n[memory]\n"""\n[memory]\nmode = "long"\n',
        '["memory"]\nmode = "long"\n',
    ],
)
def test_every_way_of_writing_it_is_changed_or_refused_never_broken(text: str) -> None:
    cases: list[Changes] = [{("memory", "mode"): "off"}, {("memory", "language"): "zh"}, {("memory", "mode"): UNSET}]
    for changes in cases:
        try:
            made = change(text, changes)
        except SettingsError:
            continue
        data = tomllib.loads(text)
        ((key, value),) = changes.items()
        if value is UNSET:
            del data["memory"]["mode"]
            assert tomllib.loads(made).get("memory", {}) == data["memory"]  # an empty section may go
            continue
        data["memory"][key[1]] = value
        assert tomllib.loads(made) == data


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(st.characters(codec="utf-8"), max_size=40),
    where=st.sampled_from([("model", "name"), ("model", "base_url"), ("schedule", "cron")]),
)
def test_any_text_comes_back_as_it_was_given(text: str, where: tuple[str, str]) -> None:
    made = change(TEXT, {where: text})
    assert tomllib.loads(made)[where[0]][where[1]] == text
    assert "# about reading\n[extract]" in made


LISTS = """\
[rollouts]
# where they lie
generic_roots = [   # of mine
  # first ones
  "/a",  # work
  # old
  '/b',
  "/c"  # last
  # end
]  # tail
hosts = ["codex", "pi"] # some
"""


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        (
            ["/a", "/b", "/c", "/d"],
            ["# first ones", '"/a",  # work', "# old", "'/b',", '"/c",  # last', '"/d",', "# end"],
        ),
        (["/b", "/c"], ["# first ones", "# old", "'/b',", '"/c"  # last', "# end"]),
        (
            ["/a", "/x", "/b", "/c"],
            ["# first ones", '"/a",  # work', "# old", '"/x",', "'/b',", '"/c"  # last', "# end"],
        ),
        (["/c", "/a"], ["# first ones", '"/c",  # last', '"/a",  # work', "# old", "# end"]),
        ([r"^\w+$"], ["# first ones", r"'^\w+$',", "# old", "# end"]),
        ([], ["# first ones", "# old", "# end"]),
    ],
)
def test_a_list_is_changed_entry_by_entry_and_keeps_every_comment_of_what_stays(
    values: list[str], lines: list[str]
) -> None:
    made = change(LISTS, {("rollouts", "generic_roots"): values})
    head, tail = LISTS.split("  # first ones\n")[0], "]  # tail\n" + LISTS.split("]  # tail\n")[1]
    assert made == head + "".join(f"  {line}\n" for line in lines) + tail


def test_a_list_on_one_line_is_written_anew_and_what_stands_behind_it_stays() -> None:
    made = change(LISTS, {("rollouts", "hosts"): ["codex"]})
    assert made == LISTS.replace('["codex", "pi"] # some', '["codex"] # some')


def test_a_list_that_is_not_there_yet_has_an_entry_on_each_line() -> None:
    made = change(
        TEXT, {("extract", "idle_hours"): 1, ("redact", "extra_patterns"): [r"\bA{3}", 'it"s'], ("mcp", "names"): ["a"]}
    )
    assert '[redact]\nextra_patterns = [\n    \'\\bA{3}\',\n    "it\\"s",\n]\n' in made
    assert made.endswith('[mcp]\nnames = ["a"]\n')


def test_a_list_with_comments_between_its_entries_of_one_line_is_left_to_its_owner() -> None:
    text = '[mcp]\nnames = ["a", "b", # two\n  "c"]\n'
    with pytest.raises(SettingsError, match="by hand"):
        change(text, {("mcp", "names"): ["a"]})


@given(
    st.lists(st.sampled_from(["/a", "/b", "/c", "/d e", "/#f", "'", '"\\', "\x7f", "文"]), unique=True, max_size=6),
    st.lists(st.sampled_from(["/a", "/b", "/c", "/d e", "/#f", "'", '"\\', "\x7f", "文"]), unique=True, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_any_list_becomes_any_other(before: list[str], after: list[str]) -> None:
    text = change("# top\n[mcp]\n", {("mcp", "names"): before})
    assert tomllib.loads(change(text, {("mcp", "names"): after}))["mcp"].get("names", []) == after


def test_a_bad_value_is_refused_with_its_name_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    cases: list[tuple[Changes, str]] = [
        ({("extract", "idle_hours"): -1}, "extract.idle_hours"),
        ({("extract", "batch"): 1, ("memory", "mode"): "loud"}, "memory.mode"),
        ({("memory", "mdoe"): "long"}, "memory.mdoe"),
        ({("budget", "prices", "x"): {"input": 1}}, "budget.prices.x"),
    ]
    for changes, name in cases:
        with pytest.raises(SettingsError, match=name):
            write(path, changes)
        assert path.read_text() == TEXT
    assert [one.name for one in tmp_path.iterdir() if one.suffix != ".lock"] == ["config.toml"]


def test_a_file_that_is_broken_already_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[memory\nmode =")
    with pytest.raises(SettingsError, match="not valid TOML"):
        write(path, {("memory", "mode"): "long"})
    assert path.read_text() == "[memory\nmode ="


def test_a_file_somebody_changed_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    seen = fingerprint(read(path))
    path.write_text(TEXT)
    with pytest.raises(InputsChangedError):
        write(path, {("memory", "mode"): "off"}, expect=seen)
    assert path.read_text() == TEXT
    assert write(path, {("memory", "mode"): "off"}, expect=fingerprint(TEXT))
    assert not write(path, {("memory", "mode"): "off"})


def test_a_new_file_is_the_owners_alone_a_mode_is_kept_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path = tmp_path / "data" / "config.toml"
    assert write(path, {("memory", "mode"): "long"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    real = tmp_path / "dotfiles.toml"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    assert write(path, {("extract", "batch"): 5})
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert load(home=tmp_path / "data").extract.batch == 5


def test_a_folder_that_cannot_be_written_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(SettingsError):
        write(tmp_path / "config.toml", {("memory", "mode"): "long"})


def test_a_text_is_checked_as_the_whole_it_would_be() -> None:
    check(TEXT, PATH)
    with pytest.raises(SettingsError, match="unknown section"):
        check("[nothing]\nx = 1\n", PATH)
