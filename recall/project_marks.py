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


def project_marks(project: dict[str, str], mark_of: Callable[[str], object]) -> list[list[Any]] | None:
    """What tells that a folder still belongs to the project it was found to belong to, without asking again.

    None where only asking tells: a work tree, whose settings lie elsewhere, or a repository without a remote, whose
    first commit may be yet to come.
    """
    folder, root = project["cwd"], project["root"]
    if not folder:
        return None
    marks: list[list[Any]] = []
    for _ in range(MAX_DEPTH):
        path = os.path.join(folder, ".git")
        mark = mark_of(path)
        marks.append([path, mark])
        if mark == "folder":
            config = os.path.join(path, "config")
            try:
                with open(config, "rb") as file:
                    has_remote = b'[remote "origin"]' in file.read(1 << 20)
            except OSError:
                return None
            return [*marks, [config, mark_of(config)]] if has_remote and folder == root else None
        if mark is not None:
            return None
        above = os.path.dirname(folder)
        if above == folder:
            return marks
        folder = above
    return None
