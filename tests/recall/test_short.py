"""Short files: taken whole or not at all, in exactly one form, and never the same file twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory import failpoints
from memory.errors import StorageError, UsageError
from memory.redact import Redactor
from memory.settings import RedactSettings
from recall import remember as keep
from recall import short
from recall.short import END, HEAD, Entry

IDS = st.text("ABCxyz019._-", min_size=1, max_size=12)
PLAIN = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=40
)
WORDS = st.lists(PLAIN, min_size=1, max_size=4).map(" ".join)
TEXTS = st.lists(st.one_of(WORDS, st.just("")), min_size=0, max_size=3).flatmap(
    lambda rest: st.tuples(WORDS, st.just(rest)).map(lambda pair: "\n".join([pair[0], *pair[1]]))
)
FILES = st.lists(st.builds(Entry, IDS, TEXTS), max_size=6, unique_by=lambda entry: entry.id)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "short" / "user.md"


def write(path: Path, data: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


def fault(data: str | bytes) -> tuple[int, str]:
    with pytest.raises(short.Fault) as caught:
        short.parse_bytes(data if isinstance(data, bytes) else data.encode())
    return caught.value.line, caught.value.reason


def entries_of(count: int, size: int = 1) -> str:
    return "".join(f"- [e{number}] {'x' * size}\n" for number in range(count))


# -- the format ---------------------------------------------------------------------------------------


@pytest.mark.req("Z040", "Z033")
@settings(max_examples=150, deadline=None)
@given(FILES)
def test_every_set_of_entries_is_read_back_as_it_was_written(entries: list[Entry]) -> None:
    assert list(short.parse_bytes(short.print_entries(entries))) == entries


@pytest.mark.req("Z035", "Z037")
@settings(max_examples=40, deadline=None)
@given(FILES.filter(bool))
def test_every_prefix_of_a_written_file_gives_all_entries_or_none(entries: list[Entry]) -> None:
    data = short.print_entries(entries)
    for end in range(len(data) + 1):
        try:
            found = short.parse_bytes(data[:end])
        except short.Fault:
            found = ()
        assert found in ((), tuple(entries))


@pytest.mark.req("Z033", "Z034", "Z035")
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["- [a] x", "- [b] y", "  more", "", "   three", "\ttab", "text", "- x", "* [c] z"])))
def test_a_line_that_is_no_entry_and_no_line_of_one_costs_the_whole_file(lines: list[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    open_entry, ids, good = False, [], True
    for line in lines:
        if line.startswith("- ["):
            open_entry = True
            ids.append(line)
        elif line == "":
            open_entry = False
        elif not (line == "  more" and open_entry):
            good = False
    good = good and len(set(ids)) == len(ids)
    try:
        found = short.parse_bytes(text.encode())
    except short.Fault:
        assert not good
    else:
        assert good
        assert [entry.id for entry in found] == [line[3] for line in ids]


@pytest.mark.req("Z027")
def test_twenty_entries_are_taken_and_twenty_one_are_not() -> None:
    assert len(short.parse_bytes(entries_of(20).encode())) == 20
    assert fault(entries_of(21)) == (21, "there are 21 entries; 20 are allowed")


@pytest.mark.req("Z028")
@pytest.mark.parametrize("sign", ["x", "語", "🚀", "e\u0301"[1]])
def test_an_entry_holds_two_thousand_code_points_of_any_script(sign: str) -> None:
    text = "x" + sign * 1_999
    assert short.parse_bytes(f"- [a] {text}\n".encode())[0].text == text
    line, reason = fault(f"- [b] x\n- [a] {text}{sign}\n")
    assert line == 2
    assert "2,001" in reason


@pytest.mark.req("Z029")
def test_a_file_of_64_kib_is_taken_and_one_byte_more_is_refused_before_it_is_read(path: Path) -> None:
    blank = short.MAX_BYTES - len(entries_of(19, 1_990))
    text = entries_of(19, 1_990) + "\n" * blank
    assert len(short.read(write(path, text)).entries) == 19
    found = short.read(write(path, text + "\n"))
    assert found.entries == ()
    assert found.diagnostic is not None
    assert "65,537 bytes" in found.diagnostic.reason
    with path.open("ab") as file:
        file.truncate(50_000_000_000)  # a hole of 50 GB is not read
    assert short.read(str(path)).entries == ()


@pytest.mark.req("Z030", "Z031")
@pytest.mark.parametrize(
    ("name", "good"),
    [
        *[("a", True), ("a" * 64, True), ("A-z.0_9", True), ("..", True)],
        *[("", False), ("a" * 65, False), ("ü", False), ("a b", False), ("a/b", False), ("a\x07", False)],
        *[("語", False), ("a:b", False)],
    ],
)
def test_an_id_is_one_to_64_plain_ascii_letters(name: str, good: bool) -> None:
    assert short.is_id(name) is good
    if good:
        assert short.parse_bytes(f"- [{name}] x\n".encode())[0].id == name
    else:
        assert fault(f"- [{name}] x\n")[0] == 1


@pytest.mark.req("Z032")
@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"])
def test_bytes_that_are_not_strict_utf8_cost_the_whole_file(bad: bytes) -> None:
    assert fault(b"- [a] good\n- [b] " + bad + b"\n") == (2, "a byte is not valid UTF-8")


@pytest.mark.req("Z033", "Z034", "Z036")
@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("- [a] x\n one\n", 2, "exactly two spaces"),
        ("- [a] x\n   three\n", 2, "exactly two spaces"),
        ("- [a] x\n\ttab\n", 2, "exactly two spaces"),
        ("- [a] x\n  \ttab\n", 2, "exactly two spaces"),
        ("  before\n- [a] x\n", 1, "before the first entry"),
        ("- [a] x\n\n  after\n", 3, "follows an empty line"),
        ("- [a] x\nplain\n", 2, "neither the begin"),
        ("- [a]\n", 1, "one space and the text"),
        ("- [a]x\n", 1, "one space and the text"),
        ("- [a]    \n", 1, "one space and the text"),
        ("- a x\n", 1, "begins with `- [id] `"),
        ("- [a] x\n- [a] y\n", 2, "stands twice"),
        ("- [a] x\x00\n", 1, "control character (U+0000)"),
        ("- [a] x\r\n", 1, "control character (U+000D)"),
        ("- [a] x\u2028y\n", 1, "control character (U+2028)"),
        ("\ufeff- [a] x\n", 1, "byte order mark"),
        ("- [a] x\n- [b] y", 2, "cut off"),
        (f"{HEAD}\n- [a] x\n", 2, "cut off"),
        (f"- [a] x\n{END}\n", 2, "neither the begin"),
    ],
)
def test_each_fault_names_its_line_and_its_reason(text: str, line: int, reason: str) -> None:
    found = fault(text)
    assert found[0] == line
    assert reason in found[1]


def test_a_file_by_hand_may_have_empty_lines_and_no_frame() -> None:
    assert short.parse_bytes(b"\n- [a] x\n  y\n  \n  z\n\n- [b] w\n\n") == (Entry("a", "x\ny\n\nz"), Entry("b", "w"))
    assert short.parse_bytes(b"") == short.parse_bytes(b"\n\n") == ()
    assert short.parse_bytes(f"{HEAD}\n- [a] x\n{END}\n\n".encode()) == (Entry("a", "x"),)


# -- two files ----------------------------------------------------------------------------------------


@pytest.mark.req("Z026", "Z036")
@pytest.mark.parametrize("broken", ["user", "project"])
def test_a_fault_in_one_file_leaves_the_other_alone(tmp_path: Path, broken: str) -> None:
    places = {name: tmp_path / name / "m.md" for name in ("user", "project")}
    for name, place in places.items():
        write(place, "nonsense\n" if name == broken else f"- [a] {name}\n")
    both = short.read_both(str(places["user"]), str(places["project"]))
    texts = [entry.text for file in (both.user, both.project) for entry in file.entries]
    assert texts == [name for name in places if name != broken]
    (diagnostic,) = both.diagnostics
    assert (diagnostic.path, diagnostic.line) == (str(places[broken]), 1)
    assert "nonsense" not in str(diagnostic)


@pytest.mark.req("Z038", "Z039")
@pytest.mark.parametrize("how", ["symbolic link", "hard link", "linked folder"])
def test_the_same_file_under_two_names_is_taken_once(tmp_path: Path, how: str) -> None:
    user = tmp_path / "home" / "user.md"
    write(user, "- [a] once\n")
    project = tmp_path / "project.md"
    if how == "symbolic link":
        project.symlink_to(user)
    elif how == "hard link":
        project.hardlink_to(user)
    else:
        (tmp_path / "other").symlink_to(user.parent)
        project = tmp_path / "other" / "user.md"
    both = short.read_both(str(user), str(project))
    assert both.same
    assert [e.text for e in both.user.entries] == ["once"]
    assert both.project.entries == ()
    assert both.diagnostics == []


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "device", "dangling", "no folder"])
def test_what_is_no_plain_file_is_skipped_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "m.md"
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "dangling":
            path.symlink_to(tmp_path / "nowhere")
        case "no folder":
            path = tmp_path / "a" / "b"
    found = short.read(str(path))
    assert found.entries == ()
    assert (found.diagnostic is None) == (kind in {"missing", "no folder"})


# -- writing ------------------------------------------------------------------------------------------

REDACTOR = Redactor(RedactSettings())


def save(path: Path, text: str, name: str = "") -> keep.Saved:
    return keep.remember(path, text, name=name, redactor=REDACTOR, private=True)


def texts(path: Path) -> dict[str, str]:
    found = short.read(str(path))
    assert found.diagnostic is None
    return dict(found.entries)


def test_remembering_adds_an_entry_and_the_same_id_replaces_it(path: Path) -> None:
    first = save(path, "New tests use Jest.", "tests")
    assert (first.replaced, save(path, "Something else.").id) == (False, "something-else")
    assert save(path, "New tests use Vitest.\n\n    Old ones move.\t", "tests").replaced
    assert texts(path) == {"tests": "New tests use Vitest.\n\nOld ones move.", "something-else": "Something else."}
    assert save(path, "something else").id == "something-else-2"
    assert save(path, "始终用中文回答").id == "entry"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["user.md"]


@pytest.mark.req("P026")
def test_the_same_text_twice_is_one_entry_whatever_space_it_was_typed_with(path: Path) -> None:
    save(path, "New tests use Vitest.\nOld ones move.", "tests")
    before = path.stat().st_mtime_ns
    again = save(path, "  New tests use Vitest.\n\tOld ones move. \n")
    assert (again.id, again.known, again.replaced) == ("tests", True, False)
    assert save(path, "New tests use Vitest.\nOld ones move.", "tests").known
    assert path.stat().st_mtime_ns == before
    assert save(path, "New tests use Vitest.", "other").id == "other"
    assert list(texts(path)) == ["tests", "other"]


@pytest.mark.fault("X35")
def test_a_secret_is_taken_out_before_anything_is_written(path: Path) -> None:
    key = "ghp_" + "x7Kq2mZ9vB4tR8wL1nC6yH3dF5gJ0pSaEuTi"
    saved = save(path, f"Deploy with {key}.")
    assert saved.redacted
    assert key.encode() not in path.read_bytes()
    assert "[redacted:" in path.read_text("utf-8")


def test_a_file_with_a_fault_is_never_written_over(path: Path) -> None:
    write(path, "- [a] kept\nbroken\n")
    with pytest.raises(UsageError, match="line 2"):
        save(path, "more")
    assert path.read_text("utf-8") == "- [a] kept\nbroken\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [("", ""), (" \n\t", ""), ("x" * 2_001, ""), ("x", "a b"), ("x", "a" * 65), ("x\x00y", ""), ("\ud800", "")],
)
def test_what_cannot_be_an_entry_is_refused_and_changes_nothing(path: Path, text: str, name: str) -> None:
    save(path, "here")
    before = path.read_bytes()
    with pytest.raises(UsageError):
        save(path, text, name)
    assert path.read_bytes() == before


def test_the_twenty_first_entry_is_refused(path: Path) -> None:
    write(path, entries_of(20))
    with pytest.raises(UsageError, match="--note"):
        save(path, "one more")
    assert save(path, "in place of one", "e3").replaced


def test_a_link_is_written_through_and_a_hard_link_is_not_broken(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "memory.md"
    write(real, "- [a] x\n")
    path.parent.mkdir()
    path.symlink_to(real)
    save(path, "through")
    assert path.is_symlink()
    assert set(texts(real)) == {"a", "through"}
    (tmp_path / "second.md").hardlink_to(real)
    with pytest.raises(UsageError, match="hard-linked"):
        save(path, "again")


def test_many_writers_at_once_lose_nothing(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from recall import remember as keep; from recall.short import Entry\n"
        "path, name = Path(sys.argv[1]), sys.argv[2]\n"
        "for i in range(4): keep.update(path, lambda old: [*old, Entry(f'{name}-{i}', 'x')], private=True)"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name], cwd=Path(keep.__file__).parents[1])
        for name in "abc"
    ]
    threads = [threading.Thread(target=lambda n=n: save(path, f"t {n}", f"t{n}"), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert len(texts(path)) == 16


@pytest.mark.req("Z037")
@pytest.mark.fault("X49", "X47")
@pytest.mark.parametrize("point", ["short.before_write", "short.after_fsync", "short.after_rename"])
def test_killed_at_any_step_the_file_is_the_old_one_or_the_new_one(path: Path, point: str) -> None:
    save(path, "old", "a")
    code = (
        "import os, signal, sys; from pathlib import Path; from memory import failpoints\n"
        "from recall import remember as k; from recall.short import Entry\n"
        f"failpoints.arm({point!r}, lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
        "k.update(Path(sys.argv[1]), lambda old: [*old, Entry('b', 'new')], private=True); print('saved')"
    )
    root = Path(keep.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == ""
    assert texts(path) == ({"a": "old", "b": "new"} if point == "short.after_rename" else {"a": "old"})
    save(path, "next", "c")
    assert "c" in texts(path)


@pytest.mark.fault("X49")
def test_a_disk_that_refuses_is_an_error_and_leaves_the_old_file(path: Path) -> None:
    save(path, "old", "a")

    def full() -> None:
        raise OSError(28, "No space left on device")

    failpoints.arm("short.after_fsync", full)
    try:
        with pytest.raises(StorageError, match="No space"):
            save(path, "new", "b")
    finally:
        failpoints.disarm("short.after_fsync")
    assert texts(path) == {"a": "old"}
    assert [p.name for p in path.parent.iterdir()] == ["user.md"]
