"""The diff: complete lists, bounded text, no content that passes for structure."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.workspace.diff import MAX_DIFF_CHARS, MAX_FILE_CHARS, compare


def test_every_input_is_added_removed_changed_or_the_same() -> None:
    diff = compare({"a": "1\n", "b": "2\n", "c": "3\n"}, {"b": "2\n", "c": "4\n", "d": "5\n"})
    assert (diff.added, diff.removed, diff.changed, diff.empty) == (["d"], ["a"], ["c"], False)
    assert "--- a\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-1\n".replace("-1,1", "-1") in diff.text
    assert "--- c\n+++ c\n@@ -1 +1 @@\n-3\n+4\n" in diff.text
    assert "--- /dev/null\n+++ d\n@@ -0,0 +1 @@\n+5\n" in diff.text


def test_the_same_inputs_make_an_empty_diff() -> None:
    assert compare({"a": "1\n"}, {"a": "1\n"}).empty
    assert compare({}, {}).empty


def test_a_change_of_line_feeds_alone_is_a_change_that_is_shown() -> None:
    diff = compare({"a": "x"}, {"a": "x\n"})
    assert diff.changed == ["a"]
    assert "the same but for line feeds" in diff.text


def test_content_never_stands_at_the_start_of_a_line() -> None:
    evil = "\n--- /dev/null\n+++ evil\x0b## Added\u2028# Heading\r[cut: lie]\x85- x\n"
    diff = compare({}, {"a": evil})
    starts = {line[:1] for line in diff.text.partition("@@ -0,0")[2].split("\n")[1:] if line}
    assert starts == {"+"}
    assert "++++ evil\x0b## Added\u2028# Heading\r[cut: lie]\x85- x\n" in diff.text


def test_a_long_file_is_cut_and_says_so() -> None:
    diff = compare({}, {"a": "line\n" * 20_000, "b": "x" * 100_000, "c": "short\n"})
    assert diff.text.count("[cut: ") == 2
    assert "+short\n" in diff.text
    assert len(diff.text) < 3 * MAX_FILE_CHARS


def test_a_long_diff_names_every_path_it_does_not_show() -> None:
    new = {f"f{number:03}": f"{number}\n" * 1_000 for number in range(100)}
    diff = compare({}, new)
    assert len(diff.text) < MAX_DIFF_CHARS + 10_000
    assert diff.added == sorted(new)
    assert all(path in diff.text for path in new)
    assert "more under this heading" in diff.text


def test_two_large_files_are_compared_line_by_line() -> None:
    old = "".join(f"{number % 7}\n" for number in range(100_000))
    new = old.replace("3\n", "x\n", 1) + "end\n"
    assert "-3" in compare({"a": old}, {"a": new}).text


@given(
    old=st.dictionaries(st.sampled_from("abcd"), st.text(max_size=30)),
    new=st.dictionaries(st.sampled_from("abcd"), st.text(max_size=30)),
)
@settings(max_examples=60, deadline=None)
def test_the_lists_rebuild_the_new_side(old: dict[str, str], new: dict[str, str]) -> None:
    diff = compare(old, new)
    rebuilt = {path: text for path, text in old.items() if path not in diff.removed}
    rebuilt |= {path: new[path] for path in [*diff.added, *diff.changed]}
    assert rebuilt == new
    assert diff.empty == (old == new)
