"""Which code base a folder belongs to: one function for writer and reader [X28 M85 O19].

Identity: the origin remote (normalised), else the root commit, else the real path. Standard library only and
no child process, so that a hook can afford it. Files are read, never written.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Project:
    """`id` is `<12 hex>`, stable across clones, worktrees and sub-folders; `name` is for people."""

    id: str
    name: str
    root: Path | None = None


UNKNOWN = Project("unknown", "unknown")
"""Sessions that name no folder; never merged with a real project."""


def project_of(cwd: str | Path | None, *, remote: str | None = None) -> Project:
    """The project of a folder that may no longer exist.

    `remote` is what the session itself recorded; a folder that exists speaks for itself first.
    """
    if not cwd and not remote:
        return UNKNOWN
    path = Path(cwd) if cwd else None
    root, common = _git_root(path) if path is not None else (None, None)
    origin = (_origin(common) if common is not None else None) or (normalise_remote(remote) if remote else None)
    if origin:
        return Project(_digest("remote", origin), origin.rsplit("/", 1)[-1], root)
    if root is not None and common is not None:
        first = _root_commit(common)
        if first:
            return Project(_digest("commit", first), root.name, root)
    if path is None:
        return UNKNOWN
    real = root or _real(path)
    return Project(_digest("path", str(real)), real.name or str(real), root)


def normalise_remote(url: str) -> str | None:
    """`git@host:a/b.git`, `https://user:token@host/a/b`, `ssh://host/a/b/` -> `host/a/b`; None for a local path.

    Credentials are dropped, case of the host is folded.
    """
    text = url.strip()
    match = re.match(r"^[a-z][a-z0-9+.-]*://(?:[^@/]*@)?([^/:]+)(?::\d+)?/(.+)$", text, re.IGNORECASE) or re.match(
        r"^(?:[^@/\s]+@)?([^/:\s]+\.[^/:\s]+|localhost):(?!//)(.+)$", text
    )
    if match is None or text.lower().startswith("file:"):
        return None
    path = re.sub(r"\.git$", "", match[2].strip("/"))
    return f"{match[1].lower()}/{path}" if path else None


def _digest(kind: str, value: str) -> str:
    return hashlib.sha256(f"{kind}\0{value}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _git_root(path: Path) -> tuple[Path | None, Path | None]:
    """(work tree root, common git directory) of the nearest repository above, or (None, None)."""
    real = _real(path)
    for folder in (real, *real.parents):
        dot = folder / ".git"
        try:
            if dot.is_dir():
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
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped.lower()
        elif section == '[remote "origin"]' and stripped.lower().replace(" ", "").startswith("url="):
            return normalise_remote(stripped.split("=", 1)[1])
    return None


def _root_commit(common: Path) -> str | None:
    """The first commit of HEAD's reflog: where a clone or init began, without walking objects."""
    text = _read(common / "logs" / "HEAD")
    if not text:
        return None
    match = re.match(r"^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ", text)
    if match is None:
        return None
    return match[2] if set(match[1]) == {"0"} else match[1]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
