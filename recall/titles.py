"""The title index for hosts that want one: what there is to recall, without a word of it [P019 P020 P022].

    # Memory Index
    - [project/profile] testing/New test framework
    - [user/note] style/Commit messages

Profile before log before note; whole lines within the room, and a last line that counts what had none.
"""

from __future__ import annotations

from collections.abc import Sequence

from recall.answers import Titles
from recall.topics import Kept

HEADING = "# Memory Index"
MAX_LINE = 200


def print_titles(entries: Sequence[Kept], room: int) -> Titles:
    """At most `room` code points; `entries` in their order."""
    lines = [_line(entry) for entry in entries]
    if not lines:
        return Titles()
    shown = 0
    size = len(HEADING) + 1
    tail = len(_left_out(len(lines))) + 1
    for number, line in enumerate(lines, start=1):
        last = 0 if number == len(lines) else tail
        if size + len(line) + 1 + last > room:
            break
        size += len(line) + 1
        shown = number
    left = len(lines) - shown
    parts = [HEADING, *lines[:shown], *([_left_out(left)] if left else [])]
    text = "\n".join(parts) + "\n"
    return Titles(text if shown else "", shown, left)


def _line(entry: Kept) -> str:
    name = f"{entry.topic}/{entry.title}" if entry.topic else entry.title
    line = f"- [{entry.scope}/{entry.tier}] {name}"
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 1]}…"


def _left_out(count: int) -> str:
    return f"- … and {count} more: memory_list"
