"""What `doctor --fix` set aside, `<home>/quarantine/<time>/...`: kept for a person to look at, but not longer than what
it came from may be kept [Z111 X40].

A clear takes all of it. A forget takes what holds the forgotten thing and what cannot be searched for it: a damaged
database, bytes that are no text, a file of which nobody can say whose it is. What is taken is deleted whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memory.errors import WorkspaceError
from memory.workspace import files as layer
from memory.workspace import layout
from memory.workspace.files import Files, temporary_name

RETIRE = layer.moving("workspace.quarantine.retire")
CLEARED = layer.emptying("workspace.quarantine.delete")
FORGOTTEN = layer.emptying("workspace.quarantine.forget")

MAX_SEARCHED_BYTES = 16_000_000
_DATABASE = ".db"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for: `names` are ids and citations that give a source away, `holds` recognises a text."""

    names: Collection[str]
    holds: Callable[[str], bool] | None = None


def count(home: Path) -> int:
    """How many files lie there; links count as files."""
    return sum(1 for _ in _paths(Files(home), layout.QUARANTINE))


def remove_all(home: Path) -> bool:
    """Deletes all of it, out of sight at once; what a kill leaves goes as a cleared generation does. False when there
    was none. Raises StorageError when the disk refuses."""
    files = Files(home)
    if not any(entry.name == layout.QUARANTINE for entry in files.entries() or ()):
        return False
    gone = layout.gone_name(temporary_name())
    files.move(layout.QUARANTINE, gone, RETIRE)
    return files.remove_tree(gone, CLEARED)


def remove(home: Path, wanted: Wanted) -> tuple[str, ...]:
    """Deletes what may hold what is wanted; returns the paths below the home. Doing it twice does no harm."""
    files = Files(home)
    gone = []
    for unit, paths in _units(files):
        if _may_hold(files, unit, paths, wanted):
            files.remove_tree(unit, FORGOTTEN)
            gone.append(unit)
    if gone:
        _remove_empty(files)
    return tuple(gone)


def holding(home: Path, holds: Callable[[str], bool]) -> tuple[str, ...]:
    """The files in which a text can be seen to stand, as paths below the home."""
    files = Files(home)
    return tuple(
        path for path in _paths(files, layout.QUARANTINE) if (text := _text(files, path)) is not None and holds(text)
    )


# -- below


def _remove_empty(files: Files) -> None:
    """Takes the folders away in which no file is left."""
    for entry in files.entries(layout.QUARANTINE) or ():
        folder = f"{layout.QUARANTINE}/{entry.name}"
        if entry.kind == "folder" and not any(_paths(files, folder)):
            files.remove_tree(folder, FORGOTTEN)
    if not any(_paths(files, layout.QUARANTINE)):
        files.remove_tree(layout.QUARANTINE, FORGOTTEN)


def _paths(files: Files, folder: str) -> Iterator[str]:
    """Everything below a folder that is no folder."""
    for entry in files.entries(folder) or ():
        path = f"{folder}/{entry.name}"
        if entry.kind == "folder":
            yield from _paths(files, path)
        else:
            yield path


def _units(files: Files) -> list[tuple[str, list[str]]]:
    """What stays or goes together: a version's folder, else a single file."""
    units: dict[str, list[str]] = {}
    for path in _paths(files, layout.QUARANTINE):
        units.setdefault(_version_of(path) or path, []).append(path)
    return sorted(units.items())


def _version_of(path: str) -> str:
    """`quarantine/<time>/generations/<id>/versions/<number>` when the path lies in one."""
    parts = path.split("/")
    if len(parts) > 6 and parts[2] == layout.GENERATIONS and parts[4] == layout.VERSIONS:
        return "/".join(parts[:6])
    return ""


def _may_hold(files: Files, unit: str, paths: list[str], wanted: Wanted) -> bool:
    texts = [_text(files, path) for path in paths]
    if any(text is None for text in texts) or _betrays(" ".join(paths), wanted):
        return True
    if any(_betrays(text or "", wanted) or (wanted.holds and wanted.holds(text or "")) for text in texts):
        return True
    return bool(wanted.names) and not _attributed(unit, dict(zip(paths, texts, strict=True)))


def _betrays(text: str, wanted: Wanted) -> bool:
    return any(name in text for name in wanted.names)


def _attributed(unit: str, texts: dict[str, str | None]) -> bool:
    """Whether it is known whose words stand there: of a version by its manifest, of a record by its name."""
    if _version_of(f"{unit}/x"):
        try:
            inputs = json.loads(texts.get(f"{unit}/manifest.json") or "")["inputs"]
            return all(isinstance(item["citation"], str) for item in inputs)
        except (ValueError, KeyError, TypeError):
            return False
    path = PurePosixPath(unit)
    return path.parent.name != layout.ROLLOUTS or layout.SOURCE_ID.fullmatch(path.stem) is not None


def _text(files: Files, path: str) -> str | None:
    """None for what cannot be searched."""
    if _DATABASE in path.rpartition("/")[2]:
        return None  # deleted rows, overflow pages, torn logs: a text may stand there in pieces
    try:
        content = files.read(path, limit=MAX_SEARCHED_BYTES)
    except WorkspaceError:
        return None
    if content is None:
        return ""
    try:
        text = content.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
