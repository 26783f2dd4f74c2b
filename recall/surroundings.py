"""What the state stands on: the home folder, its file system, its permissions, the space on its disk."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from memory.workspace.layout import QUARANTINE

LOW_DISK_BYTES = 200 * 1024 * 1024
OURS = ("generations", QUARANTINE, "short", "sessions", "spool", "stores", "rollouts")
OUR_FILES = re.compile(r"(?:\.?state\.db|\.?generation\.json|config\.toml|writer\.lock|\.?mcp\.(?:token|greeting)).*")
MOUNTS = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs afs ceph glusterfs lustre 9p ncpfs orangefs fuse.sshfs fuse.glusterfs fuse.ceph"
    " fuse.s3fs fuse.rclone fuse.davfs davfs fuse.gvfsd-fuse vboxsf prl_fs fuse.vmhgfs-fuse".split()
)
_MAGIC_FOLDERS = ("OneDrive", "Dropbox", "iCloud Drive", "Mobile Documents", "Google Drive")

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` is a stable name; `says` what was found; `means` why it matters; `mend` the command or step."""

    level: Level
    check: str
    says: str
    means: str = ""
    mend: str = ""


def home(folder: Path) -> Iterator[Finding]:
    """A real folder of this user that can be written to."""
    if folder.is_symlink():
        yield Finding(
            "error", "home", f"{folder} is a symbolic link", "whoever may change the link may redirect memory",
            "set SLOWWAVE_HOME to the real folder",
        )  # fmt: skip
    elif not folder.exists():
        yield Finding("warning", "home", f"{folder} does not exist yet", "nothing was kept so far", "slowwave run")
        return
    elif not folder.is_dir():
        says = f"{folder} is no folder"
        yield Finding("error", "home", says, "nothing can be kept", "set SLOWWAVE_HOME to a folder")
        return
    for link in _links(folder):
        says = f"{link} is a symbolic link"
        mend = "put a real file or folder in its place"
        yield Finding("error", "home", says, "links in the data folder are never followed", mend)
    owner = folder.stat().st_uid
    if owner != os.getuid():
        says = f"{folder} belongs to another user (id {owner})"
        yield Finding(
            "error", "home", says, "its owner can read and change memory", "set SLOWWAVE_HOME to a folder of yours"
        )
    if not os.access(folder, os.W_OK | os.X_OK) and not _read_only(folder):
        says = f"{folder} may not be written to by this user"
        yield Finding("error", "home", says, "no run can keep anything", f"chmod 700 {folder}")


def _links(folder: Path) -> list[Path]:
    """Links among our own names in the home and one level below."""
    found = [path for path in _mine(folder) if path.is_symlink()]
    for name in OURS:
        inner = folder / name
        if name not in {"rollouts", QUARANTINE} and inner.is_dir() and not inner.is_symlink():
            found += [path for path in sorted(inner.iterdir()) if path.is_symlink()]
    return found


def _mine(folder: Path) -> list[Path]:
    """Our entries of the home: it may be a folder that holds other things too."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    return [path for path in entries if path.name in OURS or OUR_FILES.fullmatch(path.name)]


# -- file system ------------------------------------------------------------------------------------------


def file_system(folder: Path, *, server: bool = False) -> Iterator[Finding]:
    """Read-only and network file systems, named. `server`: the state is not in the folder but on a server."""
    kind, source = mount_of(folder)
    name = f"{folder} lies on {f'a {kind}' if kind else 'its'} file system"
    if _read_only(folder):
        says = f"{name} that is read-only"
        mend = "mount it writable, or set SLOWWAVE_HOME to a folder on another disk"
        yield Finding("error", "file system", says, "no run can keep anything", mend)
    network = f"{name}, which is a network file system" + (f" ({source})" if source else "")
    if kind in _NETWORK and server:
        means = "locks of files may not hold between machines: use it from one machine only"
        yield Finding("warning", "file system", network, means, "set SLOWWAVE_HOME to a local disk")
    elif kind in _NETWORK:
        yield Finding(
            "warning",
            "file system",
            network,
            "SQLite's locks and its write-ahead log are not safe there: two machines may damage the database",
            "set SLOWWAVE_HOME to a local disk, or state.url to a PostgreSQL server",
        )
    synced = next((part for part in folder.parts if part.startswith(_MAGIC_FOLDERS)), None)
    if synced is not None:
        yield Finding(
            "warning", "file system", f"{folder} lies in {synced}, a folder that is copied between machines",
            "a database that is copied while it is written may be damaged", "set SLOWWAVE_HOME to another folder",
        )  # fmt: skip


def _read_only(folder: Path) -> bool:
    place = _existing(folder)
    return bool(os.statvfs(place).f_flag & os.ST_RDONLY)


def mount_of(folder: Path, mounts: Path = MOUNTS) -> tuple[str, str]:
    """Type and source of the mount a folder lies on; empty where the system does not tell (all but Linux)."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return "", ""
    real = os.path.realpath(_existing(folder))
    best, found = -1, ("", "")
    for row in lines:
        left, _, right = row.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if len(fields) < 5 or len(rest) < 2:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:  # of two mounts on one point the later lies on top
            best, found = len(point), (rest[0], rest[1])
    return found


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


# -- permissions and space ----------------------------------------------------------------------------------


def open_to_others(folder: Path) -> list[Path]:
    """Our files and folders that others may read, write or enter; links are not followed."""
    found = []
    mine = _mine(folder)
    for path in [folder, *mine] if mine else []:
        found += [path] if _open(path) else []
    for top in mine:
        if not top.is_dir() or top.is_symlink():
            continue
        for place, names, files in os.walk(top):
            found += [path for name in sorted([*names, *files]) if _open(path := Path(place, name))]
    return found


def _open(path: Path) -> bool:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return not stat.S_ISLNK(mode) and bool(stat.S_IMODE(mode) & 0o077)


def permissions(folder: Path) -> Iterator[Finding]:
    """Folders 0700, files 0600."""
    for path in open_to_others(folder):
        says = f"{path} is open to other users ({stat.S_IMODE(path.lstat().st_mode):04o})"
        yield Finding("warning", "permissions", says, "memory is private", "slowwave doctor --fix")


def disk(folder: Path) -> Iterator[Finding]:
    """Room for the next publish."""
    free = shutil.disk_usage(_existing(folder)).free
    if free < LOW_DISK_BYTES:
        says = f"{free // 1024 // 1024} MiB free on the disk of {folder}"
        yield Finding("warning", "disk", says, "the next publish may fail; the former summary stays", "free some space")


def quarantine(folder: Path) -> Iterator[Finding]:
    """What was set aside stays until the user deletes it, clears, or forgets what stands there."""
    place = folder / QUARANTINE
    kept = sorted(path.name for path in place.iterdir()) if place.is_dir() else []
    if kept:
        says = f"{place} holds what was set aside ({', '.join(kept[:5])}{', …' if len(kept) > 5 else ''})"
        means = "it may hold words of sessions; clear deletes it, forget what holds the forgotten thing"
        yield Finding("warning", "quarantine", says, means, "look at it and delete it")
