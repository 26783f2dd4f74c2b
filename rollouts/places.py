"""Working folders of sessions: whose project they are, and whether they are our own."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

from memory.project import UNKNOWN, Project, project_of
from memory.settings import Settings
from memory.state import Store

_PLUGIN_FOLDERS = re.compile(
    r"[/\\]\.(?:claude|codex|pi)[/\\](?:[^/\\]+[/\\])?(?:plugins|extensions|packages)(?:[/\\]|$)"
)


class Places:
    """Working folders: whose project they are, and whether they are our own. Asked once for each."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._store = store
        home = settings.home
        user = settings.host_environment.get("HOME")
        inside = home / "generations" if user and Path(user).is_relative_to(home) else home
        self._own = {str(inside), os.path.realpath(inside)}
        self._inbox = {str(home / "rollouts"), os.path.realpath(home / "rollouts")}
        self._known: dict[tuple[str | None, str | None], Project] = {}
        self._judged: dict[str, bool] = {}
        self._folders: dict[str, bool] = {}

    def project(self, cwd: str | None, remote: str | None) -> Project:
        """The project of a working folder; folders of plugins are none [O14]."""
        key = (cwd, remote)
        project = self._known.get(key)
        if project is None:
            foreign = cwd is not None and _PLUGIN_FOLDERS.search(cwd) is not None
            try:
                project = UNKNOWN if foreign else self._project(cwd, remote)
            except (OSError, ValueError):
                project = UNKNOWN
            self._known[key] = project
        return project

    def _project(self, cwd: str | None, remote: str | None) -> Project:
        """A folder that is gone, as a work tree after its branch was merged, is what it was for the sessions that were
        read while it was there, where they agree [M85]."""
        project = project_of(cwd, remote=remote)
        if not cwd or remote or project.root is not None or os.path.lexists(cwd):
            return project
        known = {name: Project(name, title) for name, title in self._before.get(cwd, ()) if name != project.id}
        return known.popitem()[1] if len(known) == 1 else project

    @cached_property
    def _before(self) -> dict[str, set[tuple[str, str]]]:
        return self._store.rollouts.projects_by_folder()

    def own(self, path: str, cwd: str | None) -> str:
        """Which gate says that the session is ours; "" for none."""
        if cwd is not None:
            ours = self._judged.get(cwd)
            if ours is None:
                ours = self._judged[cwd] = _inside(cwd, self._own) or _inside(_real(cwd), self._own)
            if ours:
                return "its working folder lies in slowwave's data folder"
        folder = path.rpartition(os.sep)[0]
        ours = self._folders.get(folder)
        if ours is None:
            ours = self._folders[folder] = _inside(folder, self._own) and not _inside(folder, self._inbox)
        return "its file lies in slowwave's data folder" if ours else ""


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _inside(path: str, folders: Collection[str]) -> bool:
    text = os.path.normpath(path)
    return any(text == folder or text.startswith(folder + os.sep) for folder in folders)
