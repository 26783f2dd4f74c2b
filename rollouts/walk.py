"""The walk over the hosts' session folders: `scandir` and `stat`, nothing is opened, nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from memory.model import Host
from memory.settings import Settings
from memory.state.schema import path_text
from rollouts.adapters import ADAPTERS

PLAIN = ".jsonl"
PACKED = (".jsonl.zst", ".jsonl.gz")
Mark = tuple[str, int, int, str, str]
"""(path, size, mtime_ns, inode, id) of a row as the state stores it."""

_REGULAR, _LINK, _FOLDER, _FORMAT = 0o100000, 0o120000, 0o040000, 0o170000


class Found(NamedTuple):
    """A file that is new or changed. `hosts` whose roots it lies under, nearest first; `known` is its row's id."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    hosts: tuple[Host, ...]
    known: str | None


@dataclass(slots=True)
class Walk:
    """What a walk met. `files` counts session files looked at, `left_out` those beyond the bound.

    `unseen` are rows whose file the walk would have met had it been there: empty where the bound cut the walk short,
    and without those below a folder that could not be listed.
    """

    roots: tuple[str, ...] = ()
    hosts: tuple[Host, ...] = ()
    files: int = 0
    left_out: int = 0
    fresh: list[Found] = field(default_factory=list)
    unseen: list[Mark] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    by_host: dict[Host, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


def roots_of(settings: Settings) -> dict[str, tuple[Host, ...]]:
    """Real path of each folder to walk -> the hosts whose sessions lie in it.

    Configured roots take the place of a host's own folders. The generic format's own folder is `rollouts` in the
    data folder.
    """
    roots: dict[str, tuple[Host, ...]] = {}
    user = settings.host_environment.get("HOME")
    for name in settings.rollouts.hosts:
        host = Host(name)
        places: tuple[Path, ...] = getattr(settings.rollouts, f"{name}_roots")
        if not places:
            own = [settings.home / "rollouts"] if host is Host.GENERIC else []
            places = (*ADAPTERS[host].default_roots(settings.host_environment), *own)
        for place in places:
            text = str(place)
            if user and (text == "~" or text.startswith("~/")):
                text = user + text[1:]
            real = os.path.realpath(text)
            if host not in roots.get(real, ()):
                roots[real] = (*roots.get(real, ()), host)
    return roots


def walk(roots: dict[str, tuple[Host, ...]], known: dict[str, Mark], *, limit: int) -> Walk:
    """Compares what lies below the roots with the rows in `known` (by path), which it uses up.

    Later names first, so that where `limit` binds the newest dated folders and files are the ones looked at.
    """
    hosts = tuple(dict.fromkeys(host for owners in roots.values() for host in owners))
    found = Walk(tuple(roots), hosts, by_host=dict.fromkeys(hosts, 0))
    for root in _outermost(roots):
        stack = [(root, _owners(root, (), roots))]
        while stack:
            folder, owners = stack.pop()
            entries = _list(folder, found)
            folders = sorted(_visit(entries, owners, known, found, limit))
            stack += [(name, _owners(name, owners, roots)) for name in folders]
    if not found.left_out:
        failed = tuple(f"{folder}{os.sep}" for folder in found.failed)
        found.unseen = [mark for mark in known.values() if not (failed and mark[0].startswith(failed))]
    return found


def _visit(
    entries: list[os.DirEntry[str]], owners: tuple[Host, ...], known: dict[str, Mark], found: Walk, limit: int
) -> list[str]:
    """One folder's files; returns its sub-folders. The loop every file of every walk goes through."""
    room = limit - found.files
    if len(entries) > room:
        entries.sort(key=lambda entry: entry.name, reverse=True)
    folder = _Folder(owners, known, found)
    pop, taken = known.pop, 0
    others: list[os.DirEntry[str]] = []
    for entry in entries:
        if entry.name[-6:] != PLAIN or taken >= room:
            others.append(entry)
            continue
        try:
            stat = entry.stat(follow_symlinks=False)
        except OSError:
            found.skipped.append((entry.path, "vanished"))
            continue
        mark = pop(entry.path, None)
        if mark and mark[1] == stat.st_size and mark[2] == stat.st_mtime_ns and mark[3] == str(stat.st_ino):
            taken += 1
        else:
            taken += folder.take(entry, stat, mark)
    if others:
        taken += folder.take_others(others, {entry.name for entry in entries}, room - taken)
    found.files += taken
    if owners:
        found.by_host[owners[0]] += taken
    return folder.folders


class _Folder:
    """What the quick loop leaves: new and changed files, compressed ones, folders, and what is neither."""

    def __init__(self, owners: tuple[Host, ...], known: dict[str, Mark], found: Walk) -> None:
        self.folders: list[str] = []
        self._owners = owners
        self._known = known
        self._found = found

    def take(self, entry: os.DirEntry[str], stat: os.stat_result, mark: Mark | None) -> int:
        """1 for a session file, 0 for a folder named like one, a link, or what must never be opened."""
        form, path = stat.st_mode & _FORMAT, entry.path
        if form == _FOLDER:
            self.folders.append(path)
            return 0
        if form != _REGULAR:
            self._found.skipped.append((path, "symlink" if form == _LINK else "not_a_file"))
            return 0
        mark = mark or self._known.pop(path if path.isascii() else path_text(path), None)
        if mark is None or mark[1:4] != (stat.st_size, stat.st_mtime_ns, str(stat.st_ino)):
            known = None if mark is None else mark[4]
            self._found.fresh.append(Found(path, stat.st_size, stat.st_mtime_ns, stat.st_ino, self._owners, known))
        return 1

    def take_others(self, entries: list[os.DirEntry[str]], names: set[str], room: int) -> int:
        """How many of them are session files that were looked at; `room` is how many may be."""
        taken = 0
        for entry in entries:
            packed = entry.name.endswith(PACKED)
            if entry.is_dir(follow_symlinks=False):
                self.folders.append(entry.path)
            elif packed and entry.name.rpartition(".")[0] in names:
                self._found.skipped.append((entry.path, "twin"))
            elif packed and taken < room:
                taken += self._take_packed(entry)
            elif packed or entry.name.endswith(PLAIN):
                self._found.left_out += 1
            elif entry.is_symlink() and _is(entry.is_dir):
                self._found.skipped.append((entry.path, "symlink"))
        return taken

    def _take_packed(self, entry: os.DirEntry[str]) -> int:
        try:
            stat = entry.stat(follow_symlinks=False)
        except OSError:
            self._found.skipped.append((entry.path, "vanished"))
            return 0
        return self.take(entry, stat, self._known.pop(entry.path, None))


def _list(folder: str, found: Walk) -> list[os.DirEntry[str]]:
    """A folder that is not there is empty; one that cannot be listed is told, and its rows are left alone."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        found.failed.append(folder)
        found.skipped.append((folder, "denied" if isinstance(error, PermissionError) else "io_error"))
        return []


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:
        return False


def _outermost(roots: dict[str, tuple[Host, ...]]) -> list[str]:
    """Roots that lie in no other one; the others are met on the way."""
    return [root for root in roots if not any(root != top and root.startswith(_slashed(top)) for top in roots)]


def _owners(folder: str, above: tuple[Host, ...], roots: dict[str, tuple[Host, ...]]) -> tuple[Host, ...]:
    """Hosts of the nearest root first."""
    here = roots.get(folder)
    return above if here is None else (*here, *(host for host in above if host not in here))


def _slashed(folder: str) -> str:
    return folder if folder.endswith(os.sep) else folder + os.sep
