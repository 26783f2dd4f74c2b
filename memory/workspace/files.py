"""The one layer through which files of ours change on disk.

A write is: a temporary file of a unique name in the same folder, written, flushed, renamed over the old one, the
folder flushed. Whoever reads sees the old file or the new one, and a crash leaves at most a temporary file. Every
step has a failpoint before and after it, and every system call goes through `syscalls`, which a test can replace.
No path is followed through a link. Every OSError leaves as a StorageError that names the file and the cure.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory import failpoints
from memory.errors import PathRefused, StorageError, WorkspaceError
from memory.workspace import beneath

TEMP_PREFIX = ".tmp-"
FILE_MODE = 0o600
FOLDER_MODE = 0o700
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_READ = os.O_RDONLY | os.O_NONBLOCK
_CHUNK = 1 << 20


class Syscalls:
    """The calls that touch the disk. A test puts a double in place of `syscalls` to make one of them fail."""

    def open(self, path: str, flags: int, mode: int, *, folder: int) -> int:
        return beneath.open_beneath(folder, path, flags, mode)

    def read(self, fd: int, count: int) -> bytes:
        return os.read(fd, count)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        return os.write(fd, data)

    def fsync(self, fd: int) -> None:
        """To the platters: macOS flushes the drive's own cache only when asked this way."""
        full = getattr(fcntl, "F_FULLFSYNC", None)
        if full is None:
            os.fsync(fd)
        else:
            fcntl.fcntl(fd, full)

    def rename(self, old: str, new: str, *, old_folder: int, new_folder: int) -> None:
        os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)

    def unlink(self, name: str, *, folder: int) -> None:
        os.unlink(name, dir_fd=folder)

    def mkdir(self, name: str, mode: int, *, folder: int) -> None:
        os.mkdir(name, mode, dir_fd=folder)

    def rmdir(self, name: str, *, folder: int) -> None:
        os.rmdir(name, dir_fd=folder)


syscalls = Syscalls()


@dataclass(frozen=True, slots=True)
class Durable:
    """A kind of durable change and its steps; making one declares its failpoints (`<name>.<step>.before|after`)."""

    name: str
    steps: tuple[str, ...]

    def __post_init__(self) -> None:
        failpoints.declare(*(f"{self.name}.{step}.{side}" for step in self.steps for side in ("before", "after")))

    def step(self, step: str) -> AbstractContextManager[None]:
        if step not in self.steps:
            raise AssertionError(f"{self.name} has no step {step}")
        return failpoints.step(f"{self.name}.{step}")


def writing(name: str) -> Durable:
    """A file that must be there after a power cut once the call returned."""
    return Durable(name, ("create", "write", "fsync", "rename", "fsync_folder"))


def scratch_writing(name: str) -> Durable:
    """A file that can be made again: atomic for readers, not flushed."""
    return Durable(name, ("create", "write", "rename"))


def removing(name: str) -> Durable:
    return Durable(name, ("unlink", "fsync_folder"))


def moving(name: str) -> Durable:
    return Durable(name, ("rename", "fsync_folder"))


def making(name: str) -> Durable:
    return Durable(name, ("mkdir", "fsync_folder"))


def touching(name: str) -> Durable:
    """An empty file that need only exist."""
    return Durable(name, ("create",))


def emptying(name: str) -> Durable:
    """A folder removed with all that is in it; one pair of points around the whole."""
    return Durable(name, ("empty",))


def flushing(name: str) -> Durable:
    """A whole folder flushed at once."""
    return Durable(name, ("flush",))


# -- errors -------------------------------------------------------------------------------------------

LINK_ERRORS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENXIO, errno.EISDIR})
_SAME = "Nothing of what was there before is lost."
_CURES = {
    errno.ENOSPC: ("the disk is full", f"Free some space and run again. {_SAME}"),
    errno.EDQUOT: ("the disk quota is used up", f"Free some space and run again. {_SAME}"),
    errno.EROFS: (
        "the file system is read-only",
        "Mount it writable, or set SLOWWAVE_HOME to a folder that is.",
    ),
    errno.EACCES: (
        "permission was denied",
        "The folder must belong to this user (folders 0700, files 0600); or set SLOWWAVE_HOME to one that does.",
    ),
    errno.EPERM: (
        "the system does not permit it",
        "The folder must belong to this user and not be immutable; or set SLOWWAVE_HOME to one that is so.",
    ),
    errno.EIO: ("the disk reported an I/O error", f"Check the disk, then run again. {_SAME}"),
    errno.EMFILE: ("too many files are open", "Raise the limit of open files (ulimit -n) and run again."),
    errno.ENFILE: ("too many files are open", "Close other programs and run again."),
    errno.ENOENT: ("it or its folder is gone", "Something else removed it; run again to have it made anew."),
    errno.ENOLCK: (
        "this file system has no locks",
        "Set SLOWWAVE_HOME to a local file system.",
    ),
    errno.ENOTEMPTY: ("the folder is not empty", "Another process is writing there; run again when it is done."),
}


def explain(error: OSError, path: Path, deed: str) -> WorkspaceError:
    """The error a user sees: `<path> could not be <deed>: <why>. <cure>`."""
    code = error.errno or 0
    if code in LINK_ERRORS:
        return PathRefused(
            f"{path} could not be {deed}: it is, or leads through, a link or what is neither plain file nor folder.",
            hint="Put a real file or folder in its place; links are never followed.",
        )
    why, cure = _CURES.get(code, (error.strerror or type(error).__name__, "Check the file and run again."))
    return StorageError(f"{path} could not be {deed}: {why}.", hint=cure)


@contextmanager
def explained(path: Path, deed: str) -> Iterator[None]:
    """Turns OSErrors of the block into ours."""
    try:
        yield
    except OSError as error:
        raise explain(error, path, deed) from error


# -- reading ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Content:
    """A file as it was read: bytes, modification time in ns."""

    data: bytes
    mtime_ns: int


def read_open_file(fd: int, path: Path, *, limit: int) -> Content:
    """The whole file behind a descriptor. Refuses all but plain files without a second name.

    A link count of 0 is fine: the file was replaced after we opened it, and we hold its full old text.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{path} is not a plain file.", hint="Links, folders, pipes and devices are never read.")
    if status.st_nlink > 1:
        raise PathRefused(
            f"{path} is hard-linked: the same file has {status.st_nlink} names.",
            hint="Put a copy in its place; it could be somebody else's file.",
        )
    chunks: list[bytes] = []
    left = limit + 1
    while left > 0 and (chunk := syscalls.read(fd, min(left, _CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    if left <= 0:
        raise WorkspaceError(
            f"{path} is larger than the {limit:,} bytes allowed.", hint="Shorten it or move it elsewhere."
        )
    return Content(b"".join(chunks), status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder. `kind` is `file`, `folder`, `link` or `other`; `size` in bytes."""

    name: str
    kind: str
    size: int = 0
    links: int = 1
    mtime_ns: int = 0


def _entry(found: os.DirEntry[str]) -> Entry | None:
    try:
        status = found.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "other")
    return Entry(found.name, kind, status.st_size, status.st_nlink, status.st_mtime_ns)


def _scan(folder: int) -> list[Entry]:
    with os.scandir(folder) as found:
        return sorted((entry for each in found if (entry := _entry(each))), key=lambda entry: entry.name)


# -- the layer ----------------------------------------------------------------------------------------


class Files:
    """A tree of files below `anchor`, an absolute folder that is no link itself. Paths are relative, with `/`.

    All methods raise StorageError or PathRefused; nothing else for the disk's sake.
    """

    def __init__(self, anchor: Path, base: str = "") -> None:
        self._anchor = anchor
        self._base = base

    def below(self, path: str) -> Files:
        """The same layer with another starting folder."""
        return Files(self._anchor, self._join(path))

    def full(self, path: str = "") -> Path:
        """The absolute path, for messages and for readers outside."""
        return self._anchor / self._join(path)

    def _join(self, path: str) -> str:
        return "/".join(part for part in (self._base, path) if part)

    @contextmanager
    def folder(self, path: str = "") -> Iterator[int]:
        """A descriptor of the folder, held while the block runs. Raises OSError: the caller explains."""
        root = os.open(self._anchor, _OPEN_FOLDER)
        try:
            fd = syscalls.open(self._join(path) or ".", _OPEN_FOLDER, 0, folder=root)
        finally:
            os.close(root)
        try:
            yield fd
        finally:
            os.close(fd)

    def read(self, path: str, *, limit: int) -> Content | None:
        """At most `limit` bytes; a larger file is refused. None when there is no such file."""
        parent, name = split(path)
        with explained(self.full(path), "read"):
            try:
                with self.folder(parent) as folder:
                    fd = syscalls.open(name, _OPEN_READ, 0, folder=folder)
            except FileNotFoundError:
                return None
            try:
                return read_open_file(fd, self.full(path), limit=limit)
            finally:
                os.close(fd)

    def read_head(self, path: str, count: int) -> bytes | None:
        """The first `count` bytes of a plain file of any size; None when there is none or it is no plain file."""
        parent, name = split(path)
        with explained(self.full(path), "read"):
            try:
                with self.folder(parent) as folder:
                    fd = syscalls.open(name, _OPEN_READ, 0, folder=folder)
            except FileNotFoundError:
                return None
            try:
                return syscalls.read(fd, count) if stat.S_ISREG(os.fstat(fd).st_mode) else None
            finally:
                os.close(fd)

    def entries(self, path: str = "") -> list[Entry] | None:
        """Everything in a folder, hidden names too, sorted; None when there is no such folder."""
        with explained(self.full(path), "listed"):
            try:
                with self.folder(path) as folder:
                    return _scan(folder)
            except FileNotFoundError:
                return None

    def write(self, path: str, data: bytes, at: Durable, *, mode: int = FILE_MODE) -> None:
        """Puts `data` in place of whatever the name stands for, atomically; see the module's text."""
        parent, name = split(path)
        with explained(self.full(path), "written"), self.folder(parent) as folder:
            write_in_folder(folder, name, data, at, mode=mode)

    def touch(self, path: str, at: Durable) -> None:
        """Creates an empty file where there is none; leaves an existing one as it is."""
        parent, name = split(path)
        with explained(self.full(path), "created"), self.folder(parent) as folder, at.step("create"):
            os.close(syscalls.open(name, os.O_WRONLY | os.O_CREAT, FILE_MODE, folder=folder))

    def remove(self, path: str, at: Durable) -> bool:
        """Removes one file or link (never what a link points at). False when there was none."""
        parent, name = split(path)
        with explained(self.full(path), "removed"):
            try:
                with self.folder(parent) as folder:
                    with at.step("unlink"):
                        syscalls.unlink(name, folder=folder)
                    with at.step("fsync_folder"):
                        _fsync_folder(folder)
            except FileNotFoundError:
                return False
        return True

    def move(self, old: str, new: str, at: Durable) -> None:
        """Renames a file or folder within the tree."""
        (old_parent, old_name), (new_parent, new_name) = split(old), split(new)
        with (
            explained(self.full(new), "written"),
            self.folder(old_parent) as old_folder,
            self.folder(new_parent) as new_folder,
        ):
            with at.step("rename"):
                syscalls.rename(old_name, new_name, old_folder=old_folder, new_folder=new_folder)
            with at.step("fsync_folder"):
                _fsync_folder(new_folder)

    def make_folder(self, path: str, at: Durable) -> None:
        """Creates the folder and those above it where missing (0700) and narrows an existing one to its owner."""
        parts = path.split("/")
        for depth, name in enumerate(parts):
            parent = "/".join(parts[:depth])
            here = "/".join(parts[: depth + 1])
            with explained(self.full(here), "created"), self.folder(parent) as folder:
                try:
                    _narrow(folder, name)
                except FileNotFoundError:
                    _make(folder, name, at)

    def remove_tree(self, path: str, at: Durable) -> bool:
        """Removes a folder with all that is in it, links as links. False when there was none."""
        parent, name = split(path)
        with explained(self.full(path), "removed"):
            try:
                with self.folder(parent) as folder, at.step("empty"):
                    _remove_entry(folder, name)
            except FileNotFoundError:
                return False
        return True

    def flush_tree(self, path: str, at: Durable) -> None:
        """Flushes every file below the folder, then every folder: cheaper than one by one while writing."""
        with explained(self.full(path), "written"), self.folder(path) as folder, at.step("flush"):
            _flush(folder)

    def remove_temporary(self, path: str, at: Durable) -> list[str]:
        """Removes what interrupted writes left in the folder. Only for the holder of the lock over it."""
        stale = [entry.name for entry in self.entries(path) or () if entry.name.startswith(TEMP_PREFIX)]
        for name in stale:
            self.remove_tree(f"{path}/{name}" if path else name, at)
        return [str(self.full(f"{path}/{name}" if path else name)) for name in stale]


def temporary_name() -> str:
    """Unique, hidden and never a name of ours."""
    return f"{TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"


def write_in_folder(folder: int, name: str, data: bytes, at: Durable, *, mode: int = FILE_MODE) -> None:
    """The atomic write, relative to an open folder. Raises OSError; leaves no temporary file unless killed."""
    temporary = temporary_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with at.step("create"):
            fd = syscalls.open(temporary, flags, mode, folder=folder)
        try:
            with at.step("write"):
                _write_all(fd, data)
                os.fchmod(fd, mode)
            if "fsync" in at.steps:
                with at.step("fsync"):
                    syscalls.fsync(fd)
        finally:
            os.close(fd)
        with at.step("rename"):
            syscalls.rename(temporary, name, old_folder=folder, new_folder=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            syscalls.unlink(temporary, folder=folder)
        raise
    if "fsync_folder" in at.steps:
        with at.step("fsync_folder"):
            _fsync_folder(folder)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = syscalls.write(fd, view)
        view = view[written:]


def _fsync_folder(folder: int) -> None:
    try:
        syscalls.fsync(folder)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # some file systems cannot flush folders
            raise


def _make(folder: int, name: str, at: Durable) -> None:
    with contextlib.suppress(FileExistsError), at.step("mkdir"):  # two processes may start at once
        syscalls.mkdir(name, FOLDER_MODE, folder=folder)
    with at.step("fsync_folder"):
        _fsync_folder(folder)


def _narrow(folder: int, name: str) -> None:
    """Takes group and others away from a folder of ours; where the system refuses, `doctor` says so."""
    fd = syscalls.open(name, _OPEN_FOLDER, 0, folder=folder)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & 0o077:
            with contextlib.suppress(PermissionError):
                os.fchmod(fd, FOLDER_MODE)
    finally:
        os.close(fd)


def _remove_entry(folder: int, name: str) -> None:
    try:
        fd = syscalls.open(name, _OPEN_FOLDER, 0, folder=folder)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise
        syscalls.unlink(name, folder=folder)
        return
    try:
        for entry in _scan(fd):
            with contextlib.suppress(FileNotFoundError):
                _remove_entry(fd, entry.name)
    finally:
        os.close(fd)
    syscalls.rmdir(name, folder=folder)


def _flush(folder: int) -> None:
    for entry in _scan(folder):
        is_folder = entry.kind == "folder"
        fd = syscalls.open(entry.name, _OPEN_FOLDER if is_folder else _OPEN_READ, 0, folder=folder)
        try:
            if is_folder:
                _flush(fd)
            else:
                syscalls.fsync(fd)
        finally:
            os.close(fd)
    _fsync_folder(folder)


def split(path: str) -> tuple[str, str]:
    """Folder and last name of a relative path."""
    parent, _, name = path.rpartition("/")
    return parent, name
