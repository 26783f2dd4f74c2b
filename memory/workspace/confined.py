"""The only files a consolidation agent can reach [Z090 Z091].

Two defences that do not rely on each other: a path must be, letter by letter, one of the staged paths; and it is
opened relative to a descriptor of the staging folder without ever following a link, so that a folder swapped for
a link in between leads nowhere.
"""

from __future__ import annotations

import builtins
import contextlib
import difflib
import errno
import hashlib
import os
import stat
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from memory.errors import InputsChangedError, PathRefused, StorageError, WorkspaceError
from memory.model import MAX_SUMMARY_BYTES, SUMMARY_NAME
from memory.workspace import files as layer
from memory.workspace.layout import encode

CANDIDATE = layer.scratch_writing("workspace.candidate")


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one agent's file work: bytes are UTF-8 bytes, operations count reads, writes and edits.

    `read_bytes` bounds one answer; by default it does not bind, since the agent's tool cuts by its own measure.
    """

    file_bytes: int = 2_000_000
    read_bytes: int = 2_000_000
    write_bytes: int = 2 * MAX_SUMMARY_BYTES
    operations: int = 4_000
    depth: int = 6
    path_bytes: int = 512


def judge_path(path: str, readable: Collection[str], limits: Limits) -> None:
    """Raises PathRefused, saying why and what would do, unless `path` is exactly one of `readable`."""
    reason = _malformed(path, limits)
    if reason:
        raise PathRefused(
            f"The path {_shown(path)} was refused: {reason}.",
            hint="Use a path exactly as it stands in the list of files.",
        )
    if path in readable:
        return
    twin = next((known for known in readable if _folded(known) == _folded(path)), None)
    if twin is not None:
        raise PathRefused(
            f"The path {_shown(path)} was refused: it only looks like {twin}.", hint=f"Use {twin} exactly."
        )
    near = difflib.get_close_matches(path, list(readable), n=1, cutoff=0.7)
    raise PathRefused(
        f"The path {_shown(path)} was refused: it is not one of the files of this run.",
        hint=f"Did you mean {near[0]}?" if near else "Use a path exactly as it stands in the list of files.",
    )


def _malformed(path: str, limits: Limits) -> str | None:
    parts = path.split("/")
    size = len(path.encode("utf-8", "surrogatepass"))
    invisible = any(unicodedata.category(letter) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for letter in path)
    edges = any(part != part.strip() or part.endswith(".") for part in parts)
    rules = (
        (not path, "it is empty"),
        (size > limits.path_bytes, f"it is longer than {limits.path_bytes} bytes"),
        (invisible, "it holds control characters"),
        ("\\" in path, "it holds a backslash"),
        (path.startswith(("/", "~")) or ":" in parts[0], "it is absolute"),
        (".." in parts, "it leads upwards"),
        ("" in parts or "." in parts, "it has empty parts"),
        (len(parts) > limits.depth, f"it is deeper than {limits.depth} folders"),
        (any(part.startswith(".") for part in parts), "hidden files are out of reach"),
        (edges, "a part of it begins or ends with a space or dot"),
    )
    return next((reason for broken, reason in rules if broken), None)


def _folded(path: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())


def _shown(path: str) -> str:
    return ascii(path if len(path) <= 80 else path[:77] + "...")


class ConfinedFiles:
    """Reads exactly the staged files, writes exactly `memory_summary.md`.

    Every refusal is a PathRefused, every other failure a WorkspaceError (InputsChangedError when a staged input
    is no longer what was staged); the messages are fit to be sent back to the agent and hold no content.
    """

    def __init__(self, folder: int, hashes: Mapping[str, str], limits: Limits | None = None) -> None:
        """`folder` is an open descriptor of the staging folder, which this object then owns; `hashes` is path ->
        sha256 of the read-only files."""
        self._folder: int | None = folder
        self._hashes = dict(hashes)
        self._readable = frozenset((*hashes, SUMMARY_NAME))
        self._limits = limits or Limits()
        self._operations = 0

    def list(self) -> builtins.list[str]:
        """Every readable path, sorted; `memory_summary.md` only once it exists."""
        try:
            os.close(self._open(SUMMARY_NAME))
        except FileNotFoundError:
            return sorted(self._readable - {SUMMARY_NAME})
        except OSError as error:
            raise self._explain(error, SUMMARY_NAME, "read") from error
        return sorted(self._readable)

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> str:
        """The text from character `offset` on, at most `limit` characters (code points).

        When characters follow the last one returned, one more line says so and how to go on; a result never
        exceeds `Limits.read_bytes` besides that line.
        """
        self._count()
        judge_path(path, self._readable, self._limits)
        if offset < 0 or (limit is not None and limit < 1):
            raise WorkspaceError("offset must be 0 or more and limit 1 or more.")
        text = self._text(path)
        if text is None:
            raise WorkspaceError(f"{path} does not exist yet.", hint=f"Write it first: {SUMMARY_NAME} may be written.")
        if offset > len(text):
            raise WorkspaceError(f"{path} has only {len(text)} characters.", hint="Use a smaller offset.")
        part = text[offset:] if limit is None else text[offset : offset + limit]
        part = part.encode()[: self._limits.read_bytes].decode("utf-8", "ignore")
        end = offset + len(part)
        if end == len(text):
            return part
        return f"{part}\n[cut: characters {offset} to {end} of {len(text)}; go on with offset {end}]"

    def write(self, path: str, text: str) -> None:
        """Replaces the whole summary, atomically."""
        self._count()
        self._judge_writable(path)
        self._write(text)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces `old`, which must stand exactly once; else the error says how often it does."""
        self._count()
        self._judge_writable(path)
        text = self._text(path)
        if text is None:
            raise WorkspaceError(f"{path} does not exist yet.", hint="Write it first.")
        if not old:
            raise WorkspaceError("The text to replace is empty.", hint="Give the exact text to replace.")
        if old == new:
            raise WorkspaceError("The old and the new text are the same: nothing would change.")
        found = _occurrences(text, old)
        if found == 0:
            raise WorkspaceError(
                f"The text to replace stands 0 times in {path}.", hint="Read the file and copy the text exactly."
            )
        if found > 1:
            raise WorkspaceError(
                f"The text to replace stands {found} times in {path}.", hint="Give more of the text around it."
            )
        self._write(text.replace(old, new, 1))

    def candidate(self) -> str | None:
        """The summary as it stands; None when there is none. Costs no operation."""
        return self._text(SUMMARY_NAME)

    def close(self) -> None:
        """Gives the descriptor back; every later call is a WorkspaceError."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                os.close(self._folder)
            self._folder = None

    # -- below: no path from outside any more

    def _count(self) -> None:
        if self._operations >= self._limits.operations:
            raise WorkspaceError(f"The limit of {self._limits.operations} file operations is used up.")
        self._operations += 1

    def _judge_writable(self, path: str) -> None:
        judge_path(path, self._readable, self._limits)
        if path != SUMMARY_NAME:
            raise PathRefused(f"{path} is read-only.", hint=f"Only {SUMMARY_NAME} may be written.")

    def _open(self, path: str) -> int:
        if self._folder is None:
            raise WorkspaceError("The staging folder is closed.", hint="Start a new run.")
        return layer.syscalls.open(path, os.O_RDONLY | os.O_NONBLOCK, 0, folder=self._folder)

    def _text(self, path: str) -> str | None:
        try:
            fd = self._open(path)
        except FileNotFoundError:
            if path != SUMMARY_NAME:
                raise InputsChangedError(f"{path} is gone from the staging folder.", hint="Run again.") from None
            return None
        except OSError as error:
            raise self._explain(error, path, "read") from error
        try:
            status = os.fstat(fd)
            folder = os.fstat(self._folder if self._folder is not None else fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_dev != folder.st_dev:
                raise PathRefused(f"{path} was refused: it is not a plain file of its own.")
            data = layer.read_open_file(fd, Path(path), limit=self._limits.file_bytes).data
        except OSError as error:
            raise self._explain(error, path, "read") from error
        finally:
            os.close(fd)
        expected = self._hashes.get(path)
        if expected is not None and hashlib.sha256(data).hexdigest() != expected:
            raise InputsChangedError(f"{path} is no longer what was staged.", hint="Run again.")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise WorkspaceError(f"{path} is not valid UTF-8 text and cannot be read.") from None

    def _write(self, text: str) -> None:
        data = encode(text)
        if len(data) > self._limits.write_bytes:
            raise WorkspaceError(
                f"The text has {len(data)} bytes; at most {self._limits.write_bytes} can be written.",
                hint=f"{SUMMARY_NAME} must stay below {MAX_SUMMARY_BYTES} bytes: say less.",
            )
        self._text(SUMMARY_NAME)  # refuses to replace anything but a plain file
        folder = self._folder
        if folder is None:
            raise WorkspaceError("The staging folder is closed.", hint="Start a new run.")
        try:
            layer.write_in_folder(folder, SUMMARY_NAME, data, CANDIDATE)
        except OSError as error:
            raise self._explain(error, SUMMARY_NAME, "written") from error

    def _explain(self, error: OSError, path: str, deed: str) -> WorkspaceError:
        """The agent sees the path it used, never where the folder lies."""
        if error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENXIO, errno.EISDIR}:
            return PathRefused(f"{path} was refused: it is, or leads through, a link or special file.")
        return StorageError(f"{path} could not be {deed}: {layer.explain(error, Path(path), deed).message}")


def _occurrences(text: str, part: str) -> int:
    """Overlapping ones count: replacing either would be a guess."""
    count, at = 0, text.find(part)
    while at >= 0:
        count += 1
        at = text.find(part, at + 1)
    return count
