"""What the memory tools keep: entries of topics, notes for the next consolidation, entries of one session [P009 P011].

    tier profile, log    an entry of a topic file: memory.workspace.topics
    tier note            a note, as `slowwave remember --note` writes it: stage 2 takes it into the summary
    scope agent          recall.session_entries; no file

One scope, topic and title is one entry, whatever its tier [P025]. What a person wrote is changed and forgotten by a
person alone; what an agent wrote says so, and is never taken for a person's word.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from memory import forgotten, support
from memory.clock import Clock, iso
from memory.errors import UnknownReference, UsageError
from memory.project import Project
from memory.redact import Redactor
from memory.settings import Settings, enabled_on_disk
from memory.state import Store
from memory.workspace import HealReport, Note, Workspace, healing
from memory.workspace.topic_text import TIERS, USER, TopicEntry, entry_id, key
from recall import entry_rules, scope
from recall.entry_rules import Clean
from recall.index import fresh
from recall.remember import remember_note
from recall.session_entries import SessionEntries, SessionEntry
from recall.whole import forgotten_texts

ALIKE_TITLE, ALIKE_SPELLING, ALIKE_TEXT = 0.5, 0.8, 0.6
"""From these measures on, another entry may be the same thing: words of the titles, letters of the titles, contents."""
MAX_SIMILAR = 3
PROJECT, AGENT = "project", "agent"


@dataclass(frozen=True, slots=True)
class Kept:
    """One entry as the tools show it. `scope` is user, project or agent; `by` is `user`, `agent`, or empty where nobody
    knows; `date` ISO 8601 UTC; `citation` of a note."""

    id: str
    kind: str
    scope: str
    tier: str
    topic: str
    title: str
    text: str
    by: str = ""
    date: str = ""
    path: str = ""
    pinned: bool = False
    citation: str = ""

    def order(self) -> tuple[int, str, str]:
        """Profile, log, note; then by topic and title [P020]."""
        return TIERS.index(self.tier), key(self.topic), key(self.title)


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be remembered, as the caller said it."""

    scope: str
    tier: str
    topic: str
    title: str
    content: str
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The entry, whether it took another's place, what may be the same, and what was taken out."""

    kept: Kept
    updated: bool
    similar: tuple[Kept, ...] = ()
    redacted: tuple[str, ...] = ()
    hidden: bool = False


class Memory:
    """Entries as one session may see and change them. `asker` is `user` where a person typed the words himself."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        viewer: scope.Viewer,
        asker: str,
        session: SessionEntries,
        forgetting: Callable[[str], object] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._viewer = viewer
        self._asker = asker
        self._session = session
        self._forgetting = forgetting
        self._redactor = Redactor(settings.redact)
        self._read: tuple[str, list[Kept], tuple[str, ...]] | None = None

    # -- reading

    def all(self) -> tuple[list[Kept], tuple[str, ...]]:
        """Every entry one may see, profile first, and one sentence for each file that could not be read."""
        found, problems = self._on_disk()
        found = [*self._fit(found), *map(of_session, self._session.all())]
        return sorted(found, key=Kept.order), problems

    def of(self, ids: Collection[str]) -> dict[str, Kept]:
        """The entries of these ids that one may see."""
        found = self._fit([kept for kept in self._on_disk()[0] if kept.id in ids])
        found += [of_session(entry) for entry in self._session.all() if entry.id in ids]
        return {kept.id: kept for kept in found}

    def find(self, name: str) -> Kept | None:
        """By id; of a line, the entry it stands in."""
        wanted = name.partition("#")[0]
        return self.of({wanted}).get(wanted)

    def beside(self, kept: Kept) -> list[Kept]:
        """The entries of the same scope and topic, itself left out, oldest first [P039]."""
        same = [
            one
            for one in self._on_disk()[0]
            if one.scope == kept.scope and key(one.topic) == key(kept.topic) and one.id != kept.id
        ]
        return sorted(self._fit(same), key=lambda one: (one.date, one.id))

    def _on_disk(self) -> tuple[list[Kept], tuple[str, ...]]:
        generation, problem = scope.read_generation(str(self._settings.home))
        if not generation:
            return [], (problem,) if problem else ()
        # Before anything is read: what changes meanwhile is read again the next time.
        now = fresh.inputs_digest(self._settings.home, generation, self._viewer.id)
        if self._read is None or self._read[0] != now:
            self._read = (now, *self._from_files(generation))
        return list(self._read[1]), self._read[2]

    def _from_files(self, generation: str) -> tuple[list[Kept], tuple[str, ...]]:
        workspace = Workspace.open(self._settings.home, generation, create=False)
        reading = workspace.topics.read({USER, self._viewer.id} - {""})
        notes = workspace.notes()
        found = [of_topic(entry) for entry in reading.entries]
        found += [self._of_note(note) for note in notes.notes if self._sees(note)]
        return _without_twins(found), (*reading.problems, *notes.diagnostics)

    def _fit(self, found: list[Kept]) -> list[Kept]:
        """As they may be shown, whatever a person wrote into the files: redacted, without what was forgotten."""
        if not found:
            return []
        holds = forgotten_texts(self._settings, self._clock)
        left = [kept for kept in found if not any(map(holds, (kept.topic, kept.title, *kept.text.split("\n"))))]
        clean = iter(self._redactor.redact_many([text for one in left for text in (one.topic, one.title, one.text)]))
        return [replace(kept, topic=next(clean), title=next(clean), text=next(clean)) for kept in left]

    def _sees(self, note: Note) -> bool:
        source = scope.Source(note.project or "", note.is_global)
        return scope.is_visible(scope.Line("", "", (note.citation,), 0), {note.citation: source}, self._viewer)

    def _of_note(self, note: Note) -> Kept:
        return Kept(
            id=note.citation,
            kind="note",
            scope="user" if note.is_global else PROJECT,
            tier="note",
            topic=note.topic,
            title=note.title or note.name,
            text=note.content,
            by=note.by or "user",
            date=iso(note.created or note.mtime) or "",
            path=note.path,
            pinned=note.pinned,
            citation=note.citation,
        )

    # -- remembering

    def remember(self, asked: Request) -> Outcome:
        """See `MemoryTools.remember`."""
        entry_rules.check_words(asked.scope, asked.tier)
        self._check_allowed(asked)
        redactor = self._redactor
        clean = entry_rules.clean(
            asked.topic,
            asked.title,
            asked.content,
            redact=redactor.redact,
            rules=lambda text: [finding.rule for finding in redactor.findings(text)],
        )
        if asked.scope == AGENT:
            kept, updated = self._keep_in_session(asked, clean)
            return Outcome(kept, updated, self._similar(kept), clean.redacted, clean.hidden)
        with self._opened() as (store, workspace):
            stones = store.tombstones.all()
            holds = forgotten.of_tombstones(stones)
            if any(holds(text) for text in (clean.topic, clean.title, *clean.content.split("\n"))):
                raise UsageError(
                    "It holds a text that was forgotten at the user's wish; nothing was kept.",
                    hint="What was forgotten is not remembered again.",
                )
            healing.mend_topics(workspace.topics, workspace.notes, workspace.remove_note, HealReport())
            taken = frozenset(name for kind, name in stones if kind == "note")
            kept, updated = self._keep(workspace, asked, clean, taken)
        return Outcome(kept, updated, self._similar(kept), clean.redacted, clean.hidden)

    def _check_allowed(self, asked: Request) -> None:
        if self._settings.own_session:
            raise UsageError("This process belongs to a session that slowwave started itself: nothing is kept.")
        if self._asker == AGENT and not enabled_on_disk(self._settings):
            raise UsageError("Memory is switched off; nothing was kept.", hint="memory.mode and memory.enabled say so.")
        if asked.scope == PROJECT and self._viewer.id in {"", scope.UNKNOWN_PROJECT}:
            raise UsageError("This session has no project.", hint="Use scope user or agent.")
        if asked.pinned and self._asker == AGENT:
            raise UsageError("Only a person can pin a note.", hint="slowwave remember --note --pin")
        if asked.pinned and (asked.tier != "note" or asked.scope == AGENT):
            raise UsageError("Only a note can be pinned.", hint="Use tier note.")

    def _keep_in_session(self, asked: Request, clean: Clean) -> tuple[Kept, bool]:
        if self._session.full(clean.topic, clean.title):
            raise UsageError("This session keeps as many entries as it may.", hint="Forget some, or use scope project.")
        at = iso(self._clock.now()) or ""
        entry, updated = self._session.put(asked.tier, clean.topic, clean.title, clean.content, by=self._asker, at=at)
        return of_session(entry), updated

    def _keep(self, workspace: Workspace, asked: Request, clean: Clean, stones: frozenset[str]) -> tuple[Kept, bool]:
        """Writes the entry where its tier belongs; what had its identity elsewhere goes after that."""
        place = USER if asked.scope == "user" else self._viewer.id
        name = entry_id(place, clean.topic, clean.title)
        old_note = next((note for note in workspace.notes().notes if self._identity(note) == name), None)
        reading = workspace.topics.read({place})
        old_entry = next((entry for entry in reading.entries if entry.id == name), None)
        self._check_mine(old_note, old_entry)
        if asked.tier != "note":
            saved = workspace.topics.save(
                scope=place,
                topic=clean.topic,
                title=clean.title,
                body=clean.content,
                tier=asked.tier,
                by=self._asker,
                now=self._clock.now(),
                project="" if place == USER else self._viewer.name,
            )
            if old_note is not None:
                workspace.remove_note(old_note.name)
            return of_topic(saved.entry), saved.updated or old_note is not None
        note = self._write_note(workspace, asked, clean, old_note, stones)
        if old_entry is not None:
            workspace.topics.remove({old_entry.id})
        return self._of_note(note), old_note is not None or old_entry is not None

    def _write_note(
        self,
        workspace: Workspace,
        asked: Request,
        clean: Clean,
        old: Note | None,
        stones: frozenset[str],
    ) -> Note:
        names = {note.name for note in workspace.notes().notes} | stones
        project = None if asked.scope == "user" else Project(self._viewer.id, self._viewer.name)
        note, _ = remember_note(
            workspace,
            f"# {clean.title}\n\n{clean.content}",
            name=old.name if old is not None else note_name(asked.scope, self._viewer.id, clean, names),
            project=project,
            pinned=asked.pinned or (old is not None and old.pinned),
            now=self._clock.now(),
            redactor=self._redactor,
            topic=clean.topic,
            by=AGENT if self._asker == AGENT else "",
        )
        return note

    def _check_mine(self, note: Note | None, entry: TopicEntry | None) -> None:
        """What a person wrote is not an agent's to change."""
        theirs = (note is not None and not note.by_agent) or (entry is not None and entry.record.by != AGENT)
        if theirs and self._asker == AGENT:
            raise UsageError(
                "A person wrote the entry of this topic and title; only a person changes it.",
                hint="Keep what is new under another title, and tell the user that the two differ.",
            )

    def _identity(self, note: Note) -> str:
        if not note.title:
            return ""
        place = USER if note.is_global else note.project or ""
        return entry_id(place, note.topic, note.title)

    def _similar(self, kept: Kept) -> tuple[Kept, ...]:
        """Entries of the same scope that may be the same thing under another title [P026]."""
        others = [*self._on_disk()[0], *map(of_session, self._session.all())]
        found = [one for one in others if one.scope == kept.scope and one.id != kept.id and alike(one, kept)]
        return tuple(self._fit(sorted(found, key=Kept.order)[:MAX_SIMILAR]))

    # -- forgetting

    def forget(self, name: str) -> Kept:
        """See `MemoryTools.forget`."""
        session = self._session.remove(name)
        if session is not None:
            return of_session(session)
        kept = self.find(name)
        if kept is None:
            if re.fullmatch(r"(?:line|short):.*|[0-9a-f]{8,16}(?:[#@].*)?", name, re.DOTALL):
                raise UsageError(
                    "Lines of the summary and sessions are forgotten by a person alone.",
                    hint="slowwave forget <rollout>, slowwave forget --text, slowwave short edit",
                )
            raise UnknownReference(
                "There is no entry of this id that could be forgotten here; nothing was.",
                hint="memory_list has the ids.",
            )
        if self._asker == AGENT and kept.by != AGENT:
            raise UsageError("A person wrote this entry; only a person forgets it.", hint=f"slowwave forget {kept.id}")
        if kept.citation:
            if self._forgetting is None:
                raise UsageError("A note is forgotten from the command line.", hint=f"slowwave forget {kept.id}")
            self._forgetting(kept.citation.removeprefix("note:"))
            return kept
        with self._opened() as (_, workspace):
            if not workspace.topics.remove({kept.id}):
                raise UnknownReference("The entry is gone already; nothing was forgotten.")
            workspace.drop_index()
            workspace.drop_blocks()
        return kept

    # -- below

    @contextmanager
    def _opened(self) -> Iterator[tuple[Store, Workspace]]:
        with Store.open(self._settings, self._clock) as store:
            yield store, Workspace.open(self._settings.home, store.generation)


def of_topic(entry: TopicEntry) -> Kept:
    """An entry of a topic file, for who sees its scope."""
    return Kept(
        id=entry.id,
        kind="entry",
        scope="user" if entry.scope == USER else PROJECT,
        tier=entry.tier,
        topic=entry.topic,
        title=entry.title,
        text=entry.body,
        by=entry.record.by,
        date=iso(entry.record.updated) or "",
        path=entry.path,
    )


def of_session(entry: SessionEntry) -> Kept:
    """An entry of this session."""
    return Kept(
        id=entry.id,
        kind="session",
        scope=AGENT,
        tier=entry.tier,
        topic=entry.topic,
        title=entry.title,
        text=entry.content,
        by=entry.by,
        date=entry.at,
    )


def alike(one: Kept, other: Kept) -> bool:
    """Whether two entries may be about the same thing: titles in other words or letters, or much the same text."""
    if support.similarity(one.title, other.title) >= ALIKE_TITLE and support.terms(one.title):
        return True
    spelling = difflib.SequenceMatcher(None, key(one.title), key(other.title), autojunk=False)
    if spelling.quick_ratio() >= ALIKE_SPELLING and spelling.ratio() >= ALIKE_SPELLING:
        return True
    return support.similarity(one.text, other.text) >= ALIKE_TEXT


def note_name(scope_name: str, project: str, clean: Clean, taken: set[str]) -> str:
    """A name for a new note: its words, and a hash that keeps projects apart."""
    words = re.findall(r"[a-z0-9]+", f"{clean.topic} {clean.title}".lower())
    slug = "-".join(words)[:40].strip("-") or "note"
    place = USER if scope_name == "user" else project
    digest = hashlib.sha256("\0".join((place, key(clean.topic), key(clean.title))).encode()).hexdigest()[:6]
    base = f"{slug}-{digest}"
    names = (base if count == 1 else f"{base}-{count}" for count in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def _without_twins(found: list[Kept]) -> list[Kept]:
    """An entry whose tier was changed by a process that was killed stands in two places: the later one holds."""
    best: dict[tuple[str, str, str], Kept] = {}
    for kept in found:
        identity = (kept.scope, key(kept.topic), key(kept.title))
        if identity not in best or best[identity].date < kept.date:
            best[identity] = kept
    return list(best.values())
