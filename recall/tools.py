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
from builtins import list as list_of  # a method of the tools has this name
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory.clock import Clock, SystemClock
from memory.errors import SlowwaveError, UnknownReference, UsageError
from memory.project import project_of
from memory.settings import enabled_on_disk
from memory.workspace.topic_text import TIERS, key
from recall import entry_rules, scope, snapshot, stepwise
from recall.answers import (
    Asker,
    Candidates,
    Condition,
    Excerpt,
    Forgotten,
    Listing,
    Recalled,
    Remembered,
    Session,
    Text,
    Texts,
    Timeline,
    Titles,
    Why,
    path_of,
)
from recall.search import Found, Searcher, View
from recall.session_entries import SessionEntries
from recall.titles import print_titles
from recall.topics import Kept, Memory, Outcome, Request, of_session

if TYPE_CHECKING:
    from memory.settings import Settings
    from recall.index.unit import Unit

MAX_HITS = 30
MAX_LISTED = 200
OFF = "Memory is switched off."
NOTHING = "Nothing in memory answers this."
_log = logging.getLogger("slowwave.recall")


Forgetting = Callable[[str], object]
"""Forgets the note of a name for good, which is more than deleting its file: `consolidate.service.forget_note`."""


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
        entries: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """`asker` says who remembers through these tools: `user` only where a person typed the words. `session` names
        the reader for the count of uses. Without `forgetting` notes are left to `slowwave forget`. `entries` are those
        of scope `agent` that the host has kept of this session (`session_entries`)."""
        self.settings = settings
        self.viewer = viewer
        self.asker: Asker = asker
        self._clock = clock or SystemClock()
        self._session = session or uuid.uuid4().hex
        self._forgetting = forgetting
        self._searcher = Searcher.of_settings(settings)
        self._entries = SessionEntries(entries)
        self._memory = Memory(settings, self._clock, viewer, asker, self._entries, forgetting)

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
        entries: Iterable[Mapping[str, Any]] = (),
    ) -> MemoryTools:
        """For a session working in a folder; without one only what holds everywhere is seen."""
        project = project_of(cwd)
        viewer = scope.NOBODY if cwd is None else scope.Viewer(project.id, project.name)
        return cls(settings, viewer, asker=asker, clock=clock, session=session, forgetting=forgetting, entries=entries)

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
        self._check_scope(scope)
        outcome = self._memory.remember(Request(scope, tier, topic, title, content, pinned))
        kept = outcome.kept
        return Remembered(
            id=kept.id,
            scope=kept.scope,
            tier=kept.tier,
            topic=kept.topic,
            title=kept.title,
            updated=outcome.updated,
            similar=tuple(shown(one) for one in outcome.similar),
            redacted=outcome.redacted,
            asked_by=self.asker,
            pinned=kept.pinned,
            kept_by_host=kept.scope == "agent",
            says=_says(outcome),
        )

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
        if not enabled_on_disk(self.settings):
            return Recalled(says=OFF)
        wanted = max(1, min(limit, MAX_HITS))
        mine = self._of_session(query, wanted, near=near) if scope in {"", "agent"} and _wants(kinds, "session") else []
        found = Found((), frozenset())
        if scope != "agent" and set(kinds) != {"session"}:
            found = self._view().search(query, limit=MAX_HITS * 4, kinds=kinds, answers_only=not near)
        hits = [hit.unit for hit in found.hits if not scope or stepwise.scope_name(hit.unit) == scope]
        known = self._known(hits[:wanted])
        answers = (*mine, *(_labelled(stepwise.excerpt(unit, found), known) for unit in hits))
        says = "" if answers else NOTHING
        if not (answers or near) and self._comes_near(query, scope, kinds):
            says += stepwise.NEAR
        return Recalled(answers[:wanted], None, len(answers) > wanted, says)

    def _comes_near(self, query: str, scope: str, kinds: Collection[str]) -> bool:
        """Whether asking for what comes near would show anything."""
        return bool(self.recall(query, scope=scope, kinds=kinds, near=True, limit=1).hits)

    def forget(self, id: str) -> Forgotten:
        """`memory_forget`: takes an entry or note away for good. Raises UnknownReference when there is none one may
        see, UsageError for what only a person may forget."""
        kept = self._memory.forget(stepwise.plain_id(id).partition("#")[0])
        return Forgotten(kept.id, kept.scope, kept.topic, kept.title, "It is gone from files and search.")

    def list(self, *, scope: str = "", tier: str = "", topic: str = "", limit: int = 50, offset: int = 0) -> Listing:
        """`memory_list`: the entries one may see, profile before log before note, each by its beginning."""
        self._check_scope(scope)
        if tier and tier not in TIERS:
            raise UsageError("`tier` is one of profile, log, note.", hint="Leave it out.")
        if not enabled_on_disk(self.settings):
            return Listing(problems=(OFF,))
        entries, problems = self._memory.all()
        wanted = [
            kept
            for kept in entries
            if scope in {"", kept.scope} and tier in {"", kept.tier} and (not topic or key(kept.topic) == key(topic))
        ]
        start, room = max(0, offset), max(1, min(limit, MAX_LISTED))
        page = tuple(shown(kept) for kept in wanted[start : start + room])
        end = start + len(page)
        left = max(0, len(wanted) - end)
        return Listing(page, len(wanted), left, end if left else None, problems)

    def titles(self, *, room: int = 4_000) -> Titles:
        """The title index for hosts that want one [P019 P020 P022], at most `room` code points."""
        if not enabled_on_disk(self.settings):
            return Titles()
        return print_titles(self._memory.all()[0], room)

    def session_entries(self) -> list_of[dict[str, str]]:
        """Entries of scope `agent`, for a host that keeps them in its own record of the session."""
        return self._entries.as_plain()

    # -- sessions, in three steps

    def search(self, query: str, *, limit: int = 5, near: bool = False) -> Candidates:
        """Sessions and notes that answer, with the id for the next step."""
        if not enabled_on_disk(self.settings):
            return Candidates(says=OFF)
        return stepwise.search(self._view(), query, limit=limit, near=near)

    def timeline(self, id: str, *, before: int = 3, after: int = 3) -> Timeline:
        """What stands around a line or session, of an entry the others of its topic. Raises UnknownReference."""
        self._check_on()
        name = stepwise.plain_id(id)
        kept = self._memory.find(name) if name.startswith("mem:") else None
        if kept is not None:
            return self._around_entry(kept)
        found = stepwise.timeline(self._view(), name, before=before, after=after)
        if found is None:
            raise _unknown(id)
        return found

    def _around_entry(self, kept: Kept) -> Timeline:
        """An entry and the others of its topic, those beside it in time."""
        others = self._memory.beside(kept)
        older = [as_session(one) for one in others if (one.date, one.id) < (kept.date, kept.id)]
        newer = [as_session(one) for one in others if (one.date, one.id) > (kept.date, kept.id)]
        near = stepwise.MAX_AROUND
        cut = len(older) > near or len(newer) > near
        return Timeline(kept.id, as_session(kept), (shown(kept),), 0, tuple(older[-near:]), tuple(newer[:near]), cut)

    def get(self, ids: Sequence[str] | str, *, offset: int = 0) -> Texts:
        """Whole texts by id; reading one counts as a use of its sources [Z053]. Raises nothing for an unknown id."""
        self._check_on()
        asked = [ids] if isinstance(ids, str) else [*ids]
        found = stepwise.get(self._view(), asked, self._whole, offset=offset, own=self._own)
        known = self._known_of(text.id for text in found.texts)
        self._count(found.texts)
        return replace(found, texts=tuple(_named(text, known) for text in found.texts))

    # -- about memory

    def status(self) -> Condition:
        """`memory_status`: counts and problems, no content of other projects."""
        from recall.about import condition

        found = condition(self.settings, self._clock, self.viewer, self._view())
        entries, problems = self._memory.all()
        counts = {tier: sum(kept.tier == tier for kept in entries) for tier in TIERS}
        return replace(found, entries=counts, problems=(*found.problems, *problems))

    def why(self, reference: str) -> Why:
        """`memory_why`: from a line of the summary (its number, words or a citation) to its sources, as far as they are
        this project's or everybody's. Raises UnknownReference."""
        from recall.about import why

        return why(self.settings, self._clock, self.viewer, reference)

    # -- below

    def _view(self) -> View:
        return self._searcher.view(self.viewer)

    def _check_scope(self, named: str) -> None:
        if named and named not in entry_rules.SCOPES:
            _log.warning("a memory tool named a scope that is none; it was refused")
            raise UsageError(
                "`scope` is one of user, project, agent; another project cannot be named.", hint="Leave it out."
            )

    def _one_text(self, asked: str, offset: int) -> Text | None:
        return next(iter(self.get([asked], offset=offset).texts), None)

    def _check_on(self) -> None:
        if not enabled_on_disk(self.settings):
            raise UsageError(OFF, hint="memory.mode and memory.enabled say so.")

    def _of_session(self, query: str, limit: int, *, near: bool) -> list_of[Excerpt]:
        found, _ = self._entries.search(query, limit=limit, answers_only=not near)
        return [shown(of_session(entry)) for entry in found]

    def _own(self, name: str) -> Kept | None:
        """Entries are given word for word, from their files."""
        if name.startswith(("mem:", "agent:", "note:")) and "#" not in name:
            return self._memory.find(name)
        return None

    def _known(self, units: Sequence[Unit]) -> dict[str, Kept]:
        return self._known_of(unit.group for unit in units if unit.kind in {"entry", "note"})

    def _known_of(self, names: Iterable[str]) -> dict[str, Kept]:
        """What is known of entries beside their text."""
        wanted = {name.partition("#")[0] for name in names if name.startswith(("mem:", "agent:", "note:"))}
        return self._memory.of(wanted) if wanted else {}

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


def shown(kept: Kept) -> Excerpt:
    """An entry by its beginning."""
    text = " ".join(kept.text.split())
    cut = len(text) > stepwise.EXCERPT
    return Excerpt(
        id=kept.id,
        kind=kept.kind,
        text=f"{text[: stepwise.EXCERPT - 1]}…" if cut else text,
        cut=cut,
        scope=kept.scope,
        tier=kept.tier,
        topic=kept.topic,
        title=kept.title,
        asked_by=kept.by,
        citations=(kept.citation,) if kept.citation else (),
        source=kept.path,
        section="pinned" if kept.pinned else "",
        date=kept.date,
    )


def as_session(kept: Kept) -> Session:
    """An entry in a timeline."""
    return Session(kept.id, kept.kind, path_of(kept.topic, kept.title), kept.path, kept.date, 1, (shown(kept),))


def _labelled(found: Excerpt, known: Mapping[str, Kept]) -> Excerpt:
    kept = known.get(found.id.partition("#")[0])
    if kept is None:
        return found
    return replace(found, tier=kept.tier, topic=kept.topic, title=kept.title, asked_by=kept.by)


def _named(text: Text, known: Mapping[str, Kept]) -> Text:
    kept = known.get(text.id.partition("#")[0])
    if kept is None:
        return text
    return replace(text, tier=kept.tier, topic=kept.topic, title=kept.title, asked_by=kept.by, scope=kept.scope)


def _wants(kinds: Collection[str], kind: str) -> bool:
    return not kinds or kind in kinds


def _says(outcome: Outcome) -> str:
    parts = ["Updated." if outcome.updated else "Remembered."]
    if outcome.redacted:
        parts.append(f"Taken out, since it looks like a secret: {', '.join(outcome.redacted)}.")
    if outcome.hidden:
        parts.append("Invisible characters were taken out.")
    if outcome.similar:
        names = "; ".join(f"{path_of(one.topic, one.title)} ({one.id})" for one in outcome.similar)
        parts.append(f"Perhaps the same as: {names}. To update one, use its topic and title; to drop one, forget it.")
    if outcome.kept.tier == "note" and outcome.kept.citation:
        parts.append("The next consolidation takes it into the summary.")
    return " ".join(parts)


def _unknown(asked: str) -> SlowwaveError:
    return UnknownReference(
        f"Nothing one may see here has the id {asked[:60]!a}.", hint="Ids come from recall, search and list."
    )
