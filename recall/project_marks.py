"""When a folder may have come to belong to another project since its block was built. Standard library only: imported
where a block is built, not where one that is there is given again.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 64


def project_at(cwd: str) -> dict[str, str]:
    """The project of a folder, by the function that named it when its sessions were read [X28]."""
    if not os.path.isabs(cwd) or "\0" in cwd:
        return {"id": "", "name": "", "root": "", "cwd": ""}
    from memory.project import project_of

    found = project_of(cwd)
    real = os.path.realpath(cwd)
    root = str(found.root) if found.root is not None else (real if os.path.isdir(real) else "")
    return {"id": found.id, "name": found.name, "root": root, "cwd": real}


def project_marks(project: dict[str, str], mark_of: Callable[[str], object]) -> list[list[Any]] | None:
    """What tells that a folder still belongs to the project it was found to belong to, without asking again.

    None where only asking tells.
    """
    folder, root = project["cwd"], project["root"]
    if not folder:
        return None
    marks: list[list[Any]] = []
    for _ in range(MAX_DEPTH):
        path = os.path.join(folder, ".git")
        mark = mark_of(path)
        marks.append([path, mark])
        if mark is not None:
            files = None if folder != root else _files(path) if mark == "folder" else _linked(folder)
            return None if files is None else [*marks, *([file, mark_of(file)] for file in files)]
        above = os.path.dirname(folder)
        if above == folder:
            return marks
        folder = above
    return None


def _linked(root: str) -> list[str] | None:
    """The files a linked work tree's project follows from: what leads to the repository's folder, and those in it."""
    from pathlib import Path

    from memory.project import common_dir, git_dir

    own, common = git_dir(Path(root)), common_dir(Path(root))
    files = _files(str(common)) if common is not None else None
    return None if files is None or own is None else [str(own / "commondir"), *files]


def _files(git: str) -> list[str] | None:
    """The files of a repository its project follows from: its settings and, without a remote, what leads from HEAD to
    the first commit. A branch without a commit is a file that is not there yet."""
    config = os.path.join(git, "config")
    try:
        if b'[remote "origin"]' in _begin(config):
            return [config]
        head = _begin(os.path.join(git, "HEAD")).decode().strip()
    except (OSError, UnicodeDecodeError):
        return None
    files = [config, *(os.path.join(git, name) for name in ("HEAD", "packed-refs", "shallow"))]
    if not head.startswith("ref:"):
        return files
    name = head.removeprefix("ref:").strip()
    if ".." in name or name.startswith("/"):
        return None
    branch = os.path.join(git, name)
    try:
        if _begin(branch).startswith(b"ref:"):
            return None
    except OSError:
        pass
    return [*files, branch]


def _begin(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 20)
