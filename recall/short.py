"""The two short files, read: `short/user.md` in the data folder and `.slowwave/memory.md` at a project's root [Z026].

    <!-- slowwave short memory -->
    - [tests] New tests use Vitest.
      Old Jest cases move over when they are touched.
    - [style] No semicolons.
    <!-- end -->

One entry is `- [id] text`; later lines of its text are indented by exactly two spaces, an empty one is these two spaces
alone. Empty lines may stand between entries. The two comment lines are written by slowwave and may both be missing in
a file made by hand; where the first stands, a file without the second was cut off. The last line ends with a newline.

A file is taken whole or not at all: at most 20 entries of at most 2,000 code points, 64 KiB, strict UTF-8, no control
characters. The first fault found is the diagnostic [Z027-Z037 Z040].

Standard library only: a hook reads these files at every turn of the user.
"""

from __future__ import annotations

import os
import stat
from typing import NamedTuple

MAX_ENTRIES = 20
MAX_TEXT_POINTS = 2_000
MAX_BYTES = 65_536
MAX_ID = 64
HEAD = "<!-- slowwave short memory -->"
END = "<!-- end -->"
INDENT = "  "
USER_PATH = ("short", "user.md")
PROJECT_PATH = (".slowwave", "memory.md")

_ID_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_BREAKS = "\x85\u2028\u2029"
"""What some readers take for the end of a line and we do not."""


class Entry(NamedTuple):
    """`id` is 1 to 64 of `A-Za-z0-9._-`, unique in its file; `text` may have several lines."""

    id: str
    text: str


class Diagnostic(NamedTuple):
    """Why a file was skipped. `line` is 1-based, 0 for the whole file; `reason` never quotes the file."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line else self.path
        return f"{where}: {self.reason}"


class ShortFile(NamedTuple):
    """One file as it was read: its entries, or none and the reason. A missing file has neither.

    `identity` is (device, inode): the same file under two names has one [Z038 Z039].
    """

    path: str
    entries: tuple[Entry, ...] = ()
    diagnostic: Diagnostic | None = None
    identity: tuple[int, int] | None = None


class Short(NamedTuple):
    """Both files. `project` has no entries where it is the user's file under another name (`same`)."""

    user: ShortFile
    project: ShortFile
    same: bool = False

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return [file.diagnostic for file in (self.user, self.project) if file.diagnostic is not None]


class Fault(Exception):
    """The first thing wrong with a text. `line` as in Diagnostic."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


def user_path(home: str) -> str:
    """The user's file in a data folder."""
    return os.path.join(home, *USER_PATH)


def project_path(root: str) -> str:
    """A project's file; `root` is its checkout, or the folder itself outside of any repository.

    A linked work tree that has none of its own, since it is not checked in, takes that of the main one [M85].
    """
    own = own_path(root)
    if os.path.lexists(own) or not os.path.isfile(os.path.join(root, ".git")):
        return own
    from pathlib import Path

    from memory.project import main_tree

    main = main_tree(Path(root))
    return own if main is None else own_path(str(main))


def own_path(root: str) -> str:
    """Where a folder's own file lies, or would."""
    return os.path.join(root, *PROJECT_PATH)


def read_both(user: str, project: str | None) -> Short:
    """Reads both files apart; a fault in one never touches the other [Z026]."""
    first = read(user)
    second = read(project) if project else ShortFile("")
    if second.identity is not None and second.identity == first.identity:
        return Short(first, ShortFile(second.path, identity=second.identity), same=True)
    return Short(first, second)


def read(path: str) -> ShortFile:
    """Never raises. Links are followed; what is no plain file is not read, and a pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        if not os.path.lexists(path):
            return ShortFile(path)
        return _skipped(path, 0, "it is a link to nothing")
    except (OSError, ValueError) as error:
        return _skipped(path, 0, f"it cannot be opened ({type(error).__name__})")
    try:
        return _read_open(descriptor, path)
    except OSError as error:
        return _skipped(path, 0, f"it cannot be read ({type(error).__name__})")
    finally:
        os.close(descriptor)


def _read_open(descriptor: int, path: str) -> ShortFile:
    status = os.fstat(descriptor)
    identity = (status.st_dev, status.st_ino)
    if not stat.S_ISREG(status.st_mode):
        return _skipped(path, 0, "it is no plain file")
    if status.st_size > MAX_BYTES:
        return _skipped(path, 0, f"it has {status.st_size:,} bytes; {MAX_BYTES:,} are allowed", identity)
    data = b""
    while len(data) <= MAX_BYTES and (chunk := os.read(descriptor, MAX_BYTES + 1 - len(data))):
        data += chunk
    try:
        return ShortFile(path, parse_bytes(data), None, identity)
    except Fault as fault:
        return _skipped(path, fault.line, fault.reason, identity)


def _skipped(path: str, line: int, reason: str, identity: tuple[int, int] | None = None) -> ShortFile:
    return ShortFile(path, (), Diagnostic(path, line, reason), identity)


# -- the format ---------------------------------------------------------------------------------------


def parse_bytes(data: bytes) -> tuple[Entry, ...]:
    """Every entry of a file. Raises Fault for the first thing that is wrong."""
    if len(data) > MAX_BYTES:
        raise Fault(0, f"it has more than the {MAX_BYTES:,} bytes allowed")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault(data.count(b"\n", 0, error.start) + 1, "a byte is not valid UTF-8") from None
    if text.startswith("\ufeff"):
        raise Fault(1, "it begins with a byte order mark")
    if not text:
        return ()
    if not text.endswith("\n"):
        raise Fault(text.count("\n") + 1, "its last line does not end with a newline: it may have been cut off")
    return _parse(text[:-1].split("\n"))


def _parse(lines: list[str]) -> tuple[Entry, ...]:
    first, last = 0, len(lines)
    if lines[0] == HEAD:
        while last > 1 and not lines[last - 1]:
            last -= 1
        if lines[last - 1] != END:
            raise Fault(last, f"the closing line {END} is missing: it may have been cut off")
        first, last = 1, last - 1
    found: list[tuple[str, list[str], int]] = []
    open_entry = False
    for at in range(first, last):
        line, number = lines[at], at + 1
        _check_line(line, number)
        if not line:
            open_entry = False
        elif line.startswith("- "):
            found.append((*_entry_start(line, number), number))
            open_entry = True
        elif open_entry and _is_continuation(line):
            found[-1][1].append(line[len(INDENT) :])
        else:
            raise Fault(number, _what_is_wrong(line, found=bool(found), open_entry=open_entry))
    return _checked(found)


def _check_line(line: str, number: int) -> None:
    if line.isprintable():
        return
    for char in line:
        if (char < " " and char != "\t") or char == "\x7f" or char in _BREAKS:
            raise Fault(number, f"there is a control character (U+{ord(char):04X})")


def _entry_start(line: str, number: int) -> tuple[str, list[str]]:
    end = line.find("]")
    if not line.startswith("- [") or end < 0:
        raise Fault(number, "an entry begins with `- [id] ` and then its text")
    name, rest = line[3:end], line[end + 1 :]
    if not is_id(name):
        raise Fault(number, f"an id is 1 to {MAX_ID} of the letters A-Z a-z, digits, `.`, `_` and `-`")
    if not rest.startswith(" ") or not rest.strip():
        raise Fault(number, "after `- [id]` comes one space and the text")
    return name, [rest[1:]]


def _is_continuation(line: str) -> bool:
    return line.startswith(INDENT) and not line[len(INDENT) : len(INDENT) + 1].isspace()


def _what_is_wrong(line: str, *, found: bool, open_entry: bool) -> str:
    if not line[0].isspace():
        return "it is neither the beginning of an entry (`- [id] text`) nor indented by two spaces"
    if found and not open_entry:
        return "a line of an entry follows an empty line; inside an entry an empty line is two spaces"
    if not found:
        return "a line of an entry stands before the first entry"
    return "lines of an entry are indented by exactly two spaces"


def _checked(found: list[tuple[str, list[str], int]]) -> tuple[Entry, ...]:
    if len(found) > MAX_ENTRIES:
        raise Fault(found[MAX_ENTRIES][2], f"there are {len(found)} entries; {MAX_ENTRIES} are allowed")
    seen: set[str] = set()
    entries = []
    for name, lines, number in found:
        text = "\n".join(lines)
        if name in seen:
            raise Fault(number, "this id stands twice in the file")
        if len(text) > MAX_TEXT_POINTS:
            raise Fault(number, f"the entry has {len(text):,} characters; {MAX_TEXT_POINTS:,} are allowed")
        seen.add(name)
        entries.append(Entry(name, text))
    return tuple(entries)


def is_id(name: str) -> bool:
    """Whether a name can be an entry's id [Z030 Z031]."""
    return 1 <= len(name) <= MAX_ID and _ID_LETTERS.issuperset(name)


def tidy(text: str) -> str:
    """A text as an entry can hold it: tabs and space around its lines gone, no empty lines at its ends."""
    return "\n".join(line.strip() for line in text.splitlines()).strip()


def print_entries(entries: tuple[Entry, ...] | list[Entry]) -> bytes:
    """The whole file, framed. Reading it gives the same entries; raises Fault where that cannot be."""
    lines = [HEAD]
    for entry in entries:
        first, *rest = entry.text.split("\n")
        lines += [f"- [{entry.id}] {first}", *(INDENT + line for line in rest)]
    text = "\n".join([*lines, END, ""])
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Fault(0, "the text holds characters that are not valid Unicode") from None
    if parse_bytes(data) != tuple(entries):
        raise Fault(0, "the text cannot be written as an entry")
    return data
