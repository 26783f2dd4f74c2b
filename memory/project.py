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
    name = "" if root is None else _name(root, common)
    origin = (_origin(common) if common is not None else None) or recorded
    if origin:
        return _remote(origin, root)
    if common is not None and (first := _root_commit(common)):
        return Project(_digest("commit", first), name, root)
    real = common.parent if common is not None and common.name == ".git" else root or _real(path)
    return Project(_digest("path", str(real)), name or real.name or str(real), root)


def common_dir(root: Path) -> Path | None:
    """The git directory all work trees of a repository share, of the root of one of them; None where none is found."""
    own = git_dir(root)
    if own is None:
        return root / ".git" if (root / ".git").is_dir() else None
    common = _read(own / "commondir")
    return (own / common.strip()).resolve() if common else own


def git_dir(root: Path) -> Path | None:
    """The folder that the `.git` file of a work tree names; None where that is no such file."""
    text = _read(root / ".git")
    if text is None or not text.startswith("gitdir:"):
        return None
    return (root / text.removeprefix("gitdir:").strip()).resolve()


def main_tree(root: Path) -> Path | None:
    """The main work tree of a linked one, which is where files lie that are not checked in; None for any other folder.

    A folder that only says that it is a work tree is none: the repository has to know it.
    """
    dot = root / ".git"
    try:
        own = git_dir(root)
        known = _read(own / "gitdir") if own is not None else None
        if own is None or known is None or (own / known.strip()).resolve() != dot.resolve():
            return None
        common = common_dir(root)
        return common.parent if common is not None and common.name == ".git" else None
    except (OSError, RuntimeError, ValueError):
        return None


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


def _name(root: Path, common: Path | None) -> str:
    """What a repository is called in all its work trees: as the folder of the main one, or as the bare repository."""
    if common is None or git_dir(root) in (None, common):
        return root.name
    if common.name.startswith("."):  # `.git`, or a `.bare` the work trees lie beside
        return common.parent.name
    return common.name.removesuffix(".git")


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
                return folder, common_dir(folder)
        except OSError:
            return None, None
    return None, None


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
