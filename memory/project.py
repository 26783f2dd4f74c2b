"""Which code base a folder belongs to: one function for writer and reader [X28 M85 O19].

Identity: the origin remote (normalised), else the root commit, else the real path. Standard library only and
no child process, so that a hook can afford it. Files are read, never written.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple


class Project(NamedTuple):
    """`id` is `<12 hex>`, stable across clones, worktrees and sub-folders; `name` is for people."""

    id: str
    name: str
    root: Path | None = None


_URL = re.compile(
    r"^[a-z][a-z0-9+.-]*://(?:[^/]*@)?(?P<host>\[[0-9a-f:.]+\]|[^/:@]+)(?::\d*)?/(?P<path>.+)$", re.IGNORECASE
)
_SCP = re.compile(r"^(?:[^@/:\s]+@|(?=[^/:\s]+\.[^/:\s]+:|localhost:))(?P<host>[^/:@\s]+):(?!//)(?P<path>.+)$")
"""`user@host:path`; without a user only for a host with a dot, so that `C:/x` is no remote."""

_SECTION = re.compile(r'^\s*\[\s*(?P<name>[\w.-]+)(?:\s+"(?P<sub>(?:[^"\\]|\\.)*)")?\s*\]')
_URL_KEY = re.compile(r'^\s*url\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^#;]*))', re.IGNORECASE)

UNKNOWN = Project("unknown", "unknown")
"""Sessions that name no folder; never merged with a real project."""


def project_of(cwd: str | Path | None, *, remote: str | None = None) -> Project:
    """The project of a folder that may no longer exist.

    `remote` is what the session itself recorded; a folder that exists speaks for itself first. Never raises.
    """
    recorded = normalise_remote(remote) if remote else None
    path = Path(cwd) if cwd else None
    if path is not None and not path.is_absolute():  # another system's path: never resolved against our own folder
        name = re.split(r"[\\/]", str(cwd).rstrip("\\/"))[-1]
        return _remote(recorded, None) if recorded else Project(_digest("path", str(cwd)), name or str(cwd))
    if path is None or (recorded and not _exists(path)):
        return _remote(recorded, None) if recorded else UNKNOWN
    root, common = _git_root(path)
    origin = (_origin(common) if common is not None else None) or recorded
    if origin:
        return _remote(origin, root)
    if root is not None and common is not None and (first := _root_commit(common)):
        home = common.parent if common.name == ".git" else root
        return Project(_digest("commit", first), home.name, root)
    real = root or _real(path)
    return Project(_digest("path", str(real)), real.name or str(real), root)


def here() -> Path:
    """The folder this process runs in. Raises UsageError where it was deleted meanwhile, as worktrees often are."""
    try:
        return Path.cwd()
    except OSError as error:
        from memory.errors import UsageError

        raise UsageError(
            f"The folder you are in cannot be found any more ({error.strerror}).", hint="Go to one that is there: cd ~"
        ) from None


def _root_commit(common: Path) -> str | None:
    from memory.gitroot import root_commit  # most repositories have a remote, and a hook no time

    return root_commit(common)


def _remote(origin: str, root: Path | None) -> Project:
    return Project(_digest("remote", origin), origin.rsplit("/", 1)[-1], root)


def normalise_remote(url: str) -> str | None:
    """`git@host:a/b.git`, `https://user:token@host/a/b`, `ssh://host/a/b/` -> `host/a/b`; None for a local path.

    Credentials, port and query are dropped, case of the host is folded.
    """
    text = re.split(r"[?#]", url.strip(), maxsplit=1)[0]
    match = _URL.match(text) or _SCP.match(text)
    if match is None or text.lower().startswith("file:"):
        return None
    path = re.sub(r"\.git$", "", match["path"].strip("/"))
    return f"{match['host'].lower()}/{path}" if path else None


def _digest(kind: str, value: str) -> str:
    return hashlib.sha256(f"{kind}\0{value}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _git_root(path: Path) -> tuple[Path | None, Path | None]:
    """(work tree root, common git directory) of the nearest repository above, or (None, None)."""
    real = _real(path)
    for folder in (real, *real.parents):
        dot = folder / ".git"
        try:
            if dot.is_dir() and os.path.lexists(dot / "HEAD"):
                return folder, dot
            if dot.is_file():
                return folder, _common_dir(folder, dot)
        except OSError:
            return None, None
    return None, None


def _common_dir(folder: Path, dot: Path) -> Path | None:
    """A worktree's `.git` file -> the main repository's git directory."""
    text = _read(dot)
    if text is None or not text.startswith("gitdir:"):
        return None
    git_dir = (folder / text.removeprefix("gitdir:").strip()).resolve()
    common = _read(git_dir / "commondir")
    return (git_dir / common.strip()).resolve() if common else git_dir


def _origin(common: Path) -> str | None:
    text = _read(common / "config")
    if text is None:
        return None
    inside = False
    for line in text.splitlines():
        if head := _SECTION.match(line):
            inside = head["name"].lower() == "remote" and head["sub"] == "origin"
            line = line[head.end() :]
        if inside and (match := _URL_KEY.match(line)):
            return normalise_remote(match["quoted"] or match["plain"].strip())
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
