"""The memory tools, for every surface that offers them: MCP server, plugins, `/remember` [P007 P009 P023 P055].

    tools = MemoryTools.of_folder(settings, cwd)          # the project whose session asks; asker="user" for a person
    tools.remember(scope="project", tier="profile", topic="testing", title="New test framework", content="Vitest ...")
    tools.recall("which test framework")                  # excerpts with ids; then recall(id=...) for the whole text
    tools.search("retry") -> tools.timeline(id) -> tools.get([id, ...])

Who asks is fixed when the tools are made: no argument of a call widens what is seen, and an agent cannot say that a
person asked. One object belongs to one thread and one session; several processes may work on one store.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memory.clock import Clock, SystemClock
from memory.errors import SlowwaveError, UnknownReference, UsageError
from memory.project import project_of
from recall import scope, snapshot, stepwise
from recall.answers import (
    Asker,
    Candidates,
    Condition,
    Forgotten,
    Listing,
    Recalled,
    Remembered,
    Text,
    Texts,
    Timeline,
    Titles,
    Why,
)
from recall.search import Searcher, View

if TYPE_CHECKING:
    from memory.settings import Settings
    from recall.index.unit import Unit

SCOPES = ("user", "project", "agent")
TIERS = ("profile", "log", "note")
MAX_HITS = 30
_log = logging.getLogger("slowwave.recall")


class Forgetting(Protocol):
    """Forgets a note for good, which is more than deleting its file: `consolidate.service` does it."""

    def __call__(self, note: str) -> None: ...


class MemoryTools:
    """The tools of one session. `close` when it ends."""

    def __init__(
        self,
        settings: Settings,
        viewer: scope.Viewer,
        *,
        asker: Asker = "agent",
        clock: Clock | None = None,
        session: str = "",
        forgetting: Forgetting | None = None,
    ) -> None:
        """`asker` says who remembers through these tools: `user` only where a person typed the words. `session` names
        the reader for the count of uses. Without `forgetting` notes are left to `slowwave forget`."""
        self.settings = settings
        self.viewer = viewer
        self.asker: Asker = asker
        self._clock = clock or SystemClock()
        self._session = session or uuid.uuid4().hex
        self._forgetting = forgetting
        self._searcher = Searcher.of_settings(settings)

    @classmethod
    def of_folder(
        cls,
        settings: Settings,
        cwd: str | Path | None,
        *,
        asker: Asker = "agent",
        clock: Clock | None = None,
        session: str = "",
        forgetting: Forgetting | None = None,
    ) -> MemoryTools:
        """For a session working in a folder; without one only what holds everywhere is seen."""
        project = project_of(cwd)
        viewer = scope.NOBODY if cwd is None else scope.Viewer(project.id, project.name)
        return cls(settings, viewer, asker=asker, clock=clock, session=session, forgetting=forgetting)

    def close(self) -> None:
        """Releases the index."""
        self._searcher.close()

    # -- entries

    def remember(
        self, *, scope: str, tier: str, topic: str, title: str, content: str, pinned: bool = False
    ) -> Remembered:
        """`memory_remember`: a new entry, or another content of the one with this scope, topic and title [P009 P025].

        Tier `note` becomes a note for the next consolidation; `pinned` notes may never be dropped from the summary.
        Returns only when it is on disk for good. Raises UsageError for what cannot be kept, StorageError, StateError.
        """
        raise UsageError("Remembering is not built into this version.")

    def recall(
        self,
        query: str = "",
        *,
        id: str = "",
        scope: str = "",
        kinds: Collection[str] = (),
        limit: int = 8,
        offset: int = 0,
        near: bool = False,
    ) -> Recalled:
        """`memory_recall`: excerpts with ids for a question, or the whole text of an id from `offset` on [P021 P023].

        `scope` (user, project, agent) and `kinds` narrow. That an id answers to nothing one may see is said in `says`.
        """
        if id:
            text = self._one_text(id, offset)
            return Recalled(text=text, says="" if text else "Nothing one may see here has this id.")
        self._check_scope(scope)
        wanted = max(1, min(limit, MAX_HITS))
        found = self._view().search(query, limit=MAX_HITS * 4, kinds=kinds, answers_only=not near)
        hits = [hit for hit in found.hits if not scope or stepwise.scope_name(hit.unit) == scope]
        shown = tuple(stepwise.excerpt(hit.unit, found) for hit in hits[:wanted])
        return Recalled(shown, None, len(hits) > wanted, "" if shown else "Nothing in memory answers this.")

    def forget(self, id: str) -> Forgotten:
        """`memory_forget`: takes an entry or note away for good. Raises UnknownReference when there is none one may
        see, UsageError for what only a person may forget."""
        raise UsageError("Forgetting is not built into this version.")

    def list(self, *, scope: str = "", tier: str = "", topic: str = "", limit: int = 50, offset: int = 0) -> Listing:
        """`memory_list`: the entries one may see, profile before log before note."""
        return Listing()

    def titles(self, *, room: int = 4_000) -> Titles:
        """The title index for hosts that want one [P019 P020 P022], at most `room` code points."""
        return Titles()

    # -- sessions, in three steps

    def search(self, query: str, *, limit: int = 5, near: bool = False) -> Candidates:
        """Sessions and notes that answer, with the id for the next step."""
        return stepwise.search(self._view(), query, limit=limit, near=near)

    def timeline(self, id: str, *, before: int = 3, after: int = 3) -> Timeline:
        """What stands around a line or session. Raises UnknownReference."""
        found = stepwise.timeline(self._view(), id, before=before, after=after)
        if found is None:
            raise _unknown(id)
        return found

    def get(self, ids: Sequence[str] | str, *, offset: int = 0) -> Texts:
        """Whole texts by id; reading one counts as a use of its sources [Z053]. Raises nothing for an unknown id."""
        asked = [ids] if isinstance(ids, str) else list(ids)
        found = stepwise.get(self._view(), asked, self._whole, offset=offset)
        self._count(found.texts)
        return found

    # -- about memory

    def status(self) -> Condition:
        """`memory_status`: counts and problems, no content of other projects."""
        from recall.about import condition

        return condition(self.settings, self._clock, self.viewer, self._view())

    def why(self, reference: str) -> Why:
        """`memory_why`: from a line of the summary (its number, words or a citation) to its sources, as far as they are
        this project's or everybody's. Raises UnknownReference."""
        from recall.about import why

        return why(self.settings, self._clock, self.viewer, reference)

    # -- below

    def _view(self) -> View:
        return self._searcher.view(self.viewer)

    def _check_scope(self, named: str) -> None:
        if named and named not in SCOPES:
            _log.warning("a memory tool named a scope that is none; it was refused")
            raise UsageError(
                "`scope` is one of user, project, agent; another project cannot be named.", hint="Leave it out."
            )

    def _one_text(self, asked: str, offset: int) -> Text | None:
        text = stepwise.one_text(self._view(), stepwise.plain_id(asked), self._whole, offset=offset)
        if text is not None:
            self._count((text,))
        return text

    def _whole(self, name: str, unit: Unit) -> str | None:
        from recall.whole import whole_text

        return whole_text(self.settings, self._clock, name, unit)

    def _count(self, texts: Sequence[Text]) -> None:
        """Reading a source is a use of it: it stays beyond 30 days. Counting never stands in the way of reading."""
        citations = stepwise.citations_of(texts)
        if not citations:
            return
        at = self._clock.now().timestamp()
        with suppress(OSError):
            snapshot.Files(str(self.settings.home)).used("tools", self._session, dict.fromkeys(citations, at))


def _unknown(asked: str) -> SlowwaveError:
    return UnknownReference(
        f"Nothing one may see here has the id {asked[:60]!a}.", hint="Ids come from recall, search and list."
    )
