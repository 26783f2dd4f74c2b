"""What is kept between two hooks, as small files in the data folder: the snapshot of a session, and the spool.

    sessions/<host>/<id>.json      one live session: frozen mode, selection, what stands in its conversation, usage
    sessions/<host>/<id>.late      which block a hook gave whose time was up: it had no lock to write the above
    sessions/locks/<0-f>           kernel locks, so that two hooks of one session take turns
    generations/<id>/blocks/*.json the blocks built last, for every session of a folder: the one place that has their
                                   text, so that it goes when memory is cleared or something is forgotten
    spool/wake-<host>-<id>.json    this session asked for a check; one file a session, however often it asks
    spool/used-<host>-<id>.json    sources that were read or shown, with the time

Everything here can be lost without losing memory: a session whose snapshot is gone begins anew, a lost wake-up comes
with the next turn or the schedule. Files are replaced by rename and not flushed; one that cannot be read is none.
Standard library only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time

from memory.switches import signature_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERSION = 2
MAX_SNAPSHOT_BYTES = 1 << 20
MAX_SPOOL_BYTES = 65_536
LOCK_WAIT_SECONDS = 0.12
LOCKS = 16
BLOCKS = "blocks"
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


class Files:
    """The persistence port on disk. `home` must exist: where slowwave was never set up, nothing is written.

    Every method may raise OSError; the caller goes on without what could not be kept.
    """

    def __init__(self, home: str) -> None:
        self.home = home

    # -- sessions

    def path(self, host: str, session: str) -> str:
        """Where a session's snapshot lies."""
        return os.path.join(self.home, "sessions", host, f"{file_name(session)}.json")

    def load(self, host: str, session: str) -> dict[str, Any] | None:
        """None for a session not seen before, or whose file is damaged or of another format [Z012]."""
        return _load(self.path(host, session), MAX_SNAPSHOT_BYTES)

    def save(self, host: str, session: str, values: dict[str, Any]) -> None:
        """Replaces the snapshot, atomically."""
        self._write(self.path(host, session), {**values, "version": VERSION})

    def load_late(self, host: str, session: str) -> dict[str, Any] | None:
        """What a hook whose time was up gave this session last."""
        return _load(self._late(host, session), MAX_SNAPSHOT_BYTES)

    def save_late(self, host: str, session: str, values: dict[str, Any]) -> None:
        """Takes the place of the last mark. Nobody deletes it: a state knows which one it has taken in."""
        self._write(self._late(host, session), {**values, "version": VERSION})

    def _late(self, host: str, session: str) -> str:
        return os.path.join(self.home, "sessions", host, f"{file_name(session)}.late")

    def lock(self, host: str, session: str) -> Callable[[], None] | None:
        """Waits a moment for the session's lock; returns what gives it back, None when it stays taken."""
        name = f"{sum(f'{host}:{session}'.encode('utf-8', 'replace')) % LOCKS:x}"
        folder = os.path.join(self.home, "sessions", "locks")
        path = os.path.join(folder, name)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._make(folder)
            descriptor = os.open(path, flags, 0o600)
        deadline = time.monotonic() + LOCK_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.002)
            except OSError:
                os.close(descriptor)
                raise
            else:
                return lambda: os.close(descriptor)

    # -- blocks

    def load_block(self, name: str) -> dict[str, Any] | None:
        """A block of the generation in force."""
        folder = self._blocks()
        return _load(os.path.join(folder, f"{name}.json"), MAX_SNAPSHOT_BYTES) if folder else None

    def save_block(self, name: str, values: dict[str, Any]) -> None:
        """Keeps a block; a generation that is gone is not made again."""
        folder = self._blocks()
        if not folder or values.get("generation") not in {"", os.path.basename(os.path.dirname(folder))}:
            return
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        except FileNotFoundError:
            return
        self._write(os.path.join(folder, f"{name}.json"), {**values, "version": VERSION}, make=False)

    def _blocks(self) -> str:
        """The folder of the generation in force; empty where there is none."""
        found = (_load(os.path.join(self.home, "generation.json"), 4_096) or {}).get("generation")
        if not isinstance(found, str) or not found.isalnum():
            return ""
        return os.path.join(self.home, "generations", found, BLOCKS)

    # -- spool

    def wake(self, host: str, session: str, values: dict[str, Any]) -> None:
        """Leaves a wake-up; a later one of the same session takes its place."""
        name = f"wake-{host}-{file_name(session)}.json"
        self._write(os.path.join(self.home, "spool", name), {"version": VERSION, "kind": "wake", **values})

    def used(self, host: str, session: str, citations: dict[str, float]) -> None:
        """Adds sources that were used, citation -> time in seconds since the epoch."""
        path = os.path.join(self.home, "spool", f"used-{host}-{file_name(session)}.json")
        before = (_load(path, MAX_SPOOL_BYTES) or {}).get("citations")
        merged = {**(before if isinstance(before, dict) else {}), **citations}
        self._write(path, {"version": VERSION, "kind": "used", "citations": merged})

    # -- below

    def _write(self, path: str, values: dict[str, Any], *, make: bool = True) -> None:
        data = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        temporary = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(temporary, flags, 0o600)
        except FileNotFoundError:
            if not make:
                raise
            self._make(os.path.dirname(path))
            descriptor = os.open(temporary, flags, 0o600)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            _unlink(temporary)
            raise

    def _make(self, folder: str) -> None:
        """Creates a folder below the home; the home itself is never created here."""
        if not os.path.isdir(self.home):
            raise FileNotFoundError(errno.ENOENT, "no data folder", self.home)
        inside = os.path.relpath(folder, self.home).split(os.sep)
        for depth in range(1, len(inside) + 1):  # makedirs gives its mode to the last one alone
            try:
                os.mkdir(os.path.join(self.home, *inside[:depth]), 0o700)
            except FileExistsError:
                continue


def file_name(session: str) -> str:
    """A session's id as a file name: itself where it is plain, else its hash."""
    if 1 <= len(session) <= 100 and session[0] not in ".-" and _PLAIN.issuperset(session):
        return session
    import hashlib

    return "x-" + hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _load(path: str, limit: int) -> dict[str, Any] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        data = b""
        while len(data) <= limit and (chunk := os.read(descriptor, limit + 1 - len(data))):
            data += chunk
        values = json.loads(data) if len(data) <= limit else None
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        os.close(descriptor)
    return values if isinstance(values, dict) and values.get("version") == VERSION else None


# -- for those who read what hooks left ----------------------------------------------------------------


def take_spool(home: str, kind: str = "") -> list[dict[str, Any]]:
    """What hooks left in the spool, taken out: each file is moved aside, read and deleted. A damaged file is dropped.

    `kind` is `wake` or `used`; empty takes both. Two callers at once each get a file once, or not at all.
    """
    folder = os.path.join(home, "spool")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for name in names:
        if not name.endswith(".json") or not name.startswith((f"{kind}-",) if kind else ("wake-", "used-")):
            continue
        mine = os.path.join(folder, f".taken-{os.getpid()}-{name}")
        try:
            os.rename(os.path.join(folder, name), mine)
            values = _load(mine, MAX_SPOOL_BYTES)
            os.unlink(mine)
        except OSError:
            continue
        if values is not None:
            found.append(values)
    return found


def snapshots(home: str, *, newest: int = 1_000) -> list[dict[str, Any]]:
    """The snapshots of the sessions used last, newest first, each with `host`, `session` and `at`."""
    folder = os.path.join(home, "sessions")
    paths: list[tuple[int, str]] = []
    for host in _names(folder):
        if host == "locks":
            continue
        for name in _names(os.path.join(folder, host)):
            path = os.path.join(folder, host, name)
            if name.endswith(".json"):
                try:
                    paths.append((os.stat(path).st_mtime_ns, path))
                except OSError:
                    continue
    loaded = (_load(path, MAX_SNAPSHOT_BYTES) for _, path in sorted(paths, reverse=True)[:newest])
    return [values for values in loaded if values is not None]


def diagnostics(home: str, *, newest: int = 50) -> list[dict[str, Any]]:
    """What was wrong with memory files when the last sessions read them: `path`, `line`, `reason`, once each."""
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    for values in snapshots(home, newest=newest):
        for item in values.get("diagnostics") or ():
            if isinstance(item, list) and len(item) == 3:
                path, line, reason = item
                found.setdefault((str(path), int(line), str(reason)), {"path": path, "line": line, "reason": reason})
    return list(found.values())


def prune(home: str, *, older_than: float) -> int:
    """Deletes snapshots not touched since a time (seconds since the epoch), blocks that no longer hold, and what killed
    hooks left; counts them."""
    sessions, spool = os.path.join(home, "sessions"), os.path.join(home, "spool")
    folders = [os.path.join(sessions, host) for host in _names(sessions) if host != "locks"]
    removed = 0
    for folder in [*folders, spool]:
        for name in _names(folder):
            left = name.endswith(".tmp") or name.startswith(".taken-")
            path = os.path.join(folder, name)
            if left or folder != spool:
                removed += _modified(path) < older_than and _unlink(path)
    generations = os.path.join(home, "generations")
    for generation in _names(generations):
        folder = os.path.join(generations, generation, BLOCKS)
        for name in _names(folder):
            path = os.path.join(folder, name)
            if _modified(path) < older_than or (name.endswith(".json") and not _stands(path)):
                removed += _unlink(path)
    return removed


def _stands(path: str) -> bool:
    """Whether a block's files are as they were when it was built."""
    depends = (_load(path, MAX_SNAPSHOT_BYTES) or {}).get("depends")
    if not isinstance(depends, list):
        return False
    return all(isinstance(one, list) and len(one) == 2 and signature_of(one[0]) == one[1] for one in depends)


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
