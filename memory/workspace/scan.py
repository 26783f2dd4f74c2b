"""The proof of a forget: does any file of the data folder still hold a text? [M54 X40]

Every file is looked at as it lies on disk, whoever wrote it: the database, the index, the objects of the git baseline,
what hooks keep. Session files a user keeps inside the data folder are a host's own and are left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

SESSIONS = "rollouts"
"""Folder of the home in which other programs may leave their session files."""


def holding(home: Path, holds: Callable[[str], bool]) -> tuple[str, ...]:
    """Paths below the home, sorted. A file that cannot be read counts as holding it: nobody can say it does not."""
    found = []
    for path in _files(home):
        try:
            text = _plain(path)
        except FileNotFoundError:
            continue
        except OSError:
            text = None
        if text is None or holds(text):
            found.append(str(path.relative_to(home)))
    return tuple(sorted(found))


def _files(home: Path) -> Iterator[Path]:
    for path in home.rglob("*"):
        inside = path.relative_to(home).parts
        if inside[0] != SESSIONS and path.is_file() and not path.is_symlink():
            yield path


def _plain(path: Path) -> str:
    data = path.read_bytes()
    if "objects" in path.parts:  # loose git objects are compressed
        with suppress(zlib.error):
            data = zlib.decompress(data)
    return data.decode("utf-8", "replace")
