"""Search over what one may see of memory: the one way to the index, and never without a scope [Z053 P017 C023].

    searcher = Searcher.of_settings(settings)
    memory = searcher.view(viewer)                      # a project's session; `only=` narrows, nothing widens
    found = memory.search("which package manager")      # answers, best first, or none
    memory.sessions(...), memory.get(ref), memory.around(ref)

Whoever looks is fixed by the caller's session. Only the user's setting `inject.scope = "all"` shows everything, and
`view_of_user` for a person at his own terminal. Nothing is written but the index, which is made anew whenever anything
it was made from has changed; a damaged or missing one is made anew without a word to whoever searches, and logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memory import switches
from recall import scope
from recall.index import fresh, marks, rank
from recall.index.file import IndexFile, UnusableIndex
from recall.index.rank import GroupHit, Hit, Visible
from recall.index.unit import Scope, Unit

if TYPE_CHECKING:
    from memory.settings import Settings
    from memory.state import Store

DEFAULT_LIMIT = 10
MAX_LIMIT = 200
_VARIABLES = ("INDEX_EVIDENCE", "INDEX_SEMANTIC", "REDACT_ENTROPY", "REDACT_EXTRA_PATTERNS", "REDACT_ALLOW_PATTERNS")
T = TypeVar("T")
_log = logging.getLogger("slowwave.recall")


class Found(NamedTuple):
    """What a search found: nothing is an answer too. `said` are the terms of the question, for `marks`."""

    hits: tuple[Hit, ...]
    said: frozenset[str]

    def marked(self, text: str, room: int = marks.SHOWN) -> tuple[str, list[tuple[int, int]], bool]:
        """An excerpt of at most `room` code points, the places in it that say what was asked, whether it was cut."""
        return marks.excerpt(text, marks.spans(text, self.said), room)


class Sessions(NamedTuple):
    """Sessions and notes found, with their best lines."""

    groups: tuple[GroupHit, ...]
    said: frozenset[str]


class Searcher:
    """The index of one store, kept fresh. Make one and keep it; not to be shared between threads."""

    def __init__(
        self, home: Path, setting: str, config: str, load: Callable[[], Settings], *, store: Store | None = None
    ) -> None:
        """`setting` is `inject.scope`, `config` the path of the settings file, `load` gives the settings when an index
        has to be made. `store` is used for that instead of opening the state."""
        self.home = home
        self.setting = setting
        self._config = config
        self._load = load
        self._store = store
        self._expected: dict[str, str] = {}
        self._index: IndexFile | None = None
        self._patient = False

    @classmethod
    def of_settings(cls, settings: Settings, *, store: Store | None = None) -> Searcher:
        from recall.index.making import made_from

        searcher = cls(settings.home, settings.inject.scope, str(settings.config_file), lambda: settings, store=store)
        searcher._expected = made_from(settings)
        return searcher

    @classmethod
    def of_process(cls) -> Searcher:
        """By this process's environment, without what is slow to import. Raises SettingsError only when an index has
        to be made; while the settings cannot be used nothing is shown beyond one's own project."""
        found = switches.from_process()

        def load() -> Settings:
            from memory.settings import load

            return load()

        setting = "project" if found.problem else found.scope
        return cls(Path(found.home or switches.process_home()), setting, found.config, load)

    def view(self, viewer: scope.Viewer, *, only: str | None = None) -> View:
        """What `viewer` may see; `only` narrows to one project: another than his own leaves what holds everywhere."""
        if only is not None and only not in {viewer.id, viewer.name} and self.setting != "all":
            _log.info("a search named another project than its own; it sees what holds everywhere")
        return View(self, _sight(viewer, self.setting, only))

    def view_of_user(self, *projects: str) -> View:
        """Everything, or what these projects see: for a person at his own terminal, never for an agent."""
        if not projects:
            return View(self, rank.everything)
        names = self.projects()
        sights = [_sight(scope.Viewer(id_, names.get(id_, id_)), "project", None) for id_ in projects]
        return View(self, lambda shown: any(sight(shown) for sight in sights))

    def projects(self) -> dict[str, str]:
        """Project id -> name, of every project something is kept of. For the user's eyes."""
        return dict(json.loads(self.index().meta.get("projects", "{}")))

    def refresh(self) -> bool:
        """Makes the index anew if anything has changed, and says whether; after a publish, so that no search waits.
        What a search had no time to embed is embedded now."""
        before = self._index
        self._patient = True
        try:
            return self.index() is not before
        finally:
            self._patient = False

    def drop(self) -> None:
        """Deletes the index file; the next search makes a new one of what is left then."""
        self.close()
        generation, _ = scope.read_generation(str(self.home))
        if generation:
            fresh.index_path(self.home, generation).unlink(missing_ok=True)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
        self._index = None

    # -- the index

    def index(self) -> IndexFile:
        """The index of what is on disk now. Raises WorkspaceError when the workspace cannot be read, SettingsError."""
        generation, problem = scope.read_generation(str(self.home))
        context = self._context()
        if self._index is not None and self._is_fresh(self._index, generation, context):
            return self._index
        self.close()
        self._index = self._open(generation, context) or self._make(generation, context, problem)
        return self._index

    def _open(self, generation: str, context: str) -> IndexFile | None:
        if not generation:
            return None
        try:
            index = IndexFile.open(fresh.index_path(self.home, generation))
        except UnusableIndex as reason:
            _log.info("the index is made anew: %s", reason)
            return None
        if self._is_fresh(index, generation, context):
            return index
        index.close()
        return None

    def _is_fresh(self, index: IndexFile, generation: str, context: str) -> bool:
        if any(index.meta.get(key) != value for key, value in self._expected.items()):
            return False
        if self._patient and index.meta.get("unembedded", "0") != "0":
            return False
        now = fresh.signature_now(self.home, generation, context, fresh.watched(index.meta))
        return index.meta.get("signature") == now

    def _make(self, generation: str, context: str, problem: str) -> IndexFile:
        from recall.index.making import make

        made = make(self._load(), generation, context, self._store, patient=self._patient)
        for reason in (*((problem,) if problem else ()), *made.problems):
            _log.warning("index: %s", reason)
        return made.file

    def _context(self) -> str:
        """Settings that change what is indexed, as far as they can be known without reading them all."""
        variables = [switches.variable(f"SLOWWAVE_{name}") for name in _VARIABLES]
        return "\0".join([fresh.status(self._config), *variables])


class View:
    """What one may see of memory. Made by a Searcher."""

    def __init__(self, searcher: Searcher, visible: Visible) -> None:
        self._searcher = searcher
        self._visible = visible

    def search(
        self, text: str, *, limit: int = DEFAULT_LIMIT, kinds: Collection[str] = (), answers_only: bool = True
    ) -> Found:
        """The lines that answer, best first; without `answers_only` also what comes near. Any text may be asked."""

        def look(index: IndexFile) -> Found:
            hits = rank.search(
                index, text, limit=_bounded(limit), visible=self._visible, kinds=kinds, answers_only=answers_only
            )
            return Found(tuple(hits), rank.said(index, text))

        return self._with(look)

    def sessions(self, text: str, *, limit: int = DEFAULT_LIMIT, answers_only: bool = True) -> Sessions:
        """The sessions and notes that answer, each with its best lines [P055]."""

        def look(index: IndexFile) -> Sessions:
            groups = rank.search_groups(
                index, text, limit=_bounded(limit), visible=self._visible, answers_only=answers_only
            )
            return Sessions(tuple(groups), rank.said(index, text))

        return self._with(look)

    def get(self, ref: str) -> Unit | None:
        """The whole line of this name, as a hit's `unit.ref` gave it; None when it is not there or not to be seen."""
        return self._with(lambda index: next(iter(self._units(index, index.find(ref))), None))

    def around(self, ref: str, *, before: int = 3, after: int = 3) -> list[Unit]:
        """The lines of the same session or note beside one, itself included, in their order [P055]."""

        def look(index: IndexFile) -> list[Unit]:
            for number in index.find(ref)[:1]:
                _, first, count = index.groups[index.group_of[number]]
                start, end = max(first, number - max(before, 0)), min(first + count, number + max(after, 0) + 1)
                return list(self._units(index, range(start, end)))
            return []

        return self._with(look)

    def whole(self, name: str) -> list[Unit]:
        """Every line of the session, note or entry of this name (a unit's `group`, or the beginning of a session's), in
        their order."""

        def look(index: IndexFile) -> list[Unit]:
            chosen = [group for group in index.groups if group[0] == name] or [
                group for group in index.groups if len(name) >= 8 and name.isalnum() and group[0].startswith(name)
            ]
            return [unit for _, first, count in chosen for unit in self._units(index, range(first, first + count))]

        return self._with(look)

    def groups(self, kinds: Collection[str] = ()) -> list[tuple[Unit, int]]:
        """The first line of every session, note and entry, with the number of its lines, in the order of the index."""

        def look(index: IndexFile) -> list[tuple[Unit, int]]:
            rows = ((self._units(index, (first,)), count) for _, first, count in index.groups)
            found = [(unit, count) for units, count in rows for unit in units]
            return [(unit, count) for unit, count in found if not kinds or unit.kind in kinds]

        return self._with(look)

    def all(self, kinds: Collection[str] = ()) -> list[Unit]:
        """Every line, in the order of the index."""
        return self._with(
            lambda index: [unit for unit in self._units(index, range(len(index))) if not kinds or unit.kind in kinds]
        )

    def _units(self, index: IndexFile, numbers: Collection[int]) -> Iterator[Unit]:
        for number in numbers:
            if self._visible(index.scopes[index.scope_of[number]]):
                yield index.unit(number)

    def _with(self, look: Callable[[IndexFile], T]) -> T:
        """One look at a fresh index; a file that turns out to be damaged is made anew once."""
        try:
            return look(self._searcher.index())
        except UnusableIndex as reason:
            _log.info("the index is made anew: %s", reason)
            self._searcher.drop()
            return look(self._searcher.index())


def _bounded(limit: int) -> int:
    return max(0, min(limit, MAX_LIMIT))


def _sight(viewer: scope.Viewer, setting: str, only: str | None) -> Visible:
    """`scope.visible_lines` for what the index keeps of a line: the projects of its sources."""
    if setting == "all" and only is None:
        return rank.everything
    asked = viewer if only is None or only in {viewer.id, viewer.name} else scope.NOBODY
    if setting == "all" and only is not None:
        asked = scope.Viewer(only, only)

    def visible(shown: Scope) -> bool:
        line = scope.Line("", "", ("source",), 0)
        return shown.everywhere or any(
            scope.is_visible(line, {"source": scope.Source(project)}, asked) for project in shown.projects
        )

    return visible
