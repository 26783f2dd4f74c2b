"""Keeping what a person asks to remember: an entry of a short file, or a note of long memory [Z056 X30].

Both are redacted first and are on disk for good when these functions return; nothing is acknowledged earlier [X49].
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memory import failpoints
from memory.errors import StateBusyError, StorageError, UsageError
from memory.project import Project
from memory.redact import Redactor
from memory.workspace import Note, Workspace
from recall import short
from recall.short import Entry

LOCK_WAIT_SECONDS = 5.0

failpoints.declare("short.before_write", "short.after_fsync", "short.after_rename")


@dataclass(frozen=True, slots=True)
class Saved:
    """Where it went. `replaced` is whether an entry of that id was there, `known`: the very same text stood there
    already; `redacted` names the rules that struck."""

    id: str
    path: Path
    replaced: bool = False
    redacted: tuple[str, ...] = ()
    known: bool = False


def remember(path: Path, text: str, *, name: str, redactor: Redactor, private: bool) -> Saved:
    """Adds an entry to a short file, or puts it in place of the one with this id [P025].

    An empty `name` gets one made from the text, and a text that stands there already stays the one entry it is [P026].
    `private` files are 0600 in a folder of 0700. Raises UsageError for a
    text or id that cannot be, or while the file has a fault; StorageError, StateBusyError.
    """
    clean, struck = _redacted(text, redactor)
    clean = short.tidy(clean)
    if not clean:
        raise UsageError("There is nothing to remember.", hint="Say it in quotes after the command.")
    if name and not short.is_id(name):
        raise UsageError(f"{name[:80]!a} cannot be the id of an entry.", hint="Use 1 to 64 of A-Z a-z 0-9 `.` `_` `-`.")
    saved: list[Saved] = []

    def change(entries: list[Entry]) -> list[Entry]:
        known = [entry.id for entry in entries]
        same = next((entry.id for entry in entries if entry.text == clean), "")
        if same and name in {"", same}:
            saved[:] = [Saved(same, path, redacted=struck, known=True)]
            return entries
        chosen = name or _new_id(clean, known)
        entry = Entry(chosen, clean)
        saved[:] = [Saved(chosen, path, chosen in known, struck)]
        if chosen in known:
            return [entry if old.id == chosen else old for old in entries]
        return [*entries, entry]

    update(path, change, private=private)
    return saved[0]


def remember_note(
    workspace: Workspace,
    text: str,
    *,
    name: str,
    project: Project | None,
    pinned: bool,
    now: datetime,
    redactor: Redactor,
    topic: str = "",
    by: str = "",
) -> tuple[Note, Saved]:
    """Writes a note of long memory; without a project it holds everywhere. Raises WorkspaceError or UsageError.

    Without a `name` a text that is a note of the same range already is written there anew. `by` is `agent` for what no
    person asked for: then nothing of it may become a preference. Who writes a note anew
    without a word about topic and author leaves them as they are; another text, or a pin, is a person's doing.
    """
    clean, struck = _redacted(text.strip(), redactor)
    notes = {note.name: note for note in workspace.notes().notes}
    taken = set(notes)
    if not name:
        scope = (project.id, False) if project is not None else (None, True)
        same = (note for note in notes.values() if (note.project, note.is_global) == scope)
        name = next((note.name for note in same if note.body.strip() == clean), "")
    if name in notes and not topic:
        former = notes[name]
        topic = former.topic
        if former.body.strip() == clean and not pinned:
            by = former.by
    note = workspace.write_note(
        name or _new_id(clean, taken),
        clean,
        project=project.id if project is not None else None,
        is_global=project is None,
        pinned=pinned,
        created=now,
        replace=bool(name) and name in taken,
        topic=topic,
        by=by,
    )
    return note, Saved(note.name, workspace.root / note.path, note.name in taken, struck)


def _redacted(text: str, redactor: Redactor) -> tuple[str, tuple[str, ...]]:
    """The text without secrets, and the rules that struck."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("The text holds characters that are not valid Unicode.", hint="Type it again.") from None
    return redactor.redact(text), tuple(dict.fromkeys(finding.rule for finding in redactor.findings(text)))


def _new_id(text: str, taken: list[str] | set[str]) -> str:
    """Up to four words of the text, else `entry`; a number where that is taken."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:4]
    base = "-".join(words)[:40].strip("-") or "entry"
    numbered = (base if count == 1 else f"{base}-{count}" for count in range(1, len(taken) + 2))
    return next(candidate for candidate in numbered if candidate not in taken)


# -- writing a short file -----------------------------------------------------------------------------


def update(path: Path, change: Callable[[list[Entry]], list[Entry]], *, private: bool) -> None:
    """Reads, changes and replaces a short file as one step: locked, atomic, flushed. A link is written through.

    Raises UsageError when the file or the result is not valid, StorageError when the disk refuses.
    """
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with _locked(real.parent):
            found = short.read(str(real))
            if found.diagnostic is not None:
                raise UsageError(f"{found.diagnostic}.", hint="Mend it (`slowwave short edit`); nothing was written.")
            entries = change(list(found.entries))
            if entries != list(found.entries) or not entries:
                replace(real, _printed(entries), private=private)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written ({error.strerror}).", hint="Nothing was changed; check the disk and folder."
        ) from None


def replace(path: Path, data: bytes, *, private: bool) -> None:
    """Puts valid bytes in a file's place: temporary file, fsync, rename, fsync of the folder. Raises OSError."""
    mode = 0o600 if private else 0o644
    try:
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        if status.st_nlink > 1:
            raise UsageError(f"{path} is hard-linked: it has {status.st_nlink} names.", hint="Edit it in place.")
    except FileNotFoundError:
        pass
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    failpoints.hit("short.before_write")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        failpoints.hit("short.after_fsync")
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    failpoints.hit("short.after_rename")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _printed(entries: list[Entry]) -> bytes:
    try:
        return short.print_entries(entries)
    except short.Fault as fault:
        raise UsageError(
            f"The entry was not kept: {fault.reason}.", hint="Shorten it, or keep it as a note: --note."
        ) from None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The kernel's lock on the folder itself: a project's checkout gets no lock file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StateBusyError(
                        f"Another process is writing in {folder}.", hint="Try again when it has finished."
                    ) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)
