"""Topic files: what the memory tools remember, one Markdown file a topic with its records beside it [P011 P014 P017].

    extensions/topics/user/<topic>.md|.json            what holds in every project
    extensions/topics/<project id>/<topic>.md|.json    what holds in one

The place decides who sees an entry. Readers take no lock; writers hold the generation's. The order of a write is
records first (the new one beside the old), then the text, whose rename is the moment it happens, then the records
without the old one; of a removal text first, then records. `heal` takes away what a killed process left; nothing waits
for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime

from memory.errors import PathRefused, WorkspaceError
from memory.workspace import files as layer
from memory.workspace import topic_text
from memory.workspace.files import Entry, Files
from memory.workspace.layout import encode, sha256_text
from memory.workspace.topic_text import Record, TopicEntry, TopicText

TOPICS = "extensions/topics"
MAX_FILE_BYTES = 262_144
MAX_ALL_BYTES = 4_000_000
MAX_ENTRIES = 200
"""Entries of one topic."""
MAX_TOPICS = 200
"""Topics of one scope."""
MAX_RECORDS_BYTES = 1_000_000

TEXT = layer.writing("topics.text")
TEXT_GONE = layer.removing("topics.text.removal")
RECORDS = layer.writing("topics.records")
RECORDS_GONE = layer.removing("topics.records.removal")
FOLDER = layer.making("topics.folder")
LEFT_OVER = layer.emptying("topics.left_over")

_CONTROL = frozenset(map(chr, (*range(9), 11, 12, *range(14, 32), 127)))


@dataclass(frozen=True, slots=True)
class TopicsReading:
    """Every entry that could be read, by scope and topic; `problems` is one sentence for each file that could not.
    `projects` has the names of projects, by id."""

    entries: tuple[TopicEntry, ...] = ()
    problems: tuple[str, ...] = ()
    projects: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class SavedEntry:
    """The entry as it stands; `updated`: one of this scope, topic and title was there."""

    entry: TopicEntry
    updated: bool


@dataclass(slots=True)
class _File:
    """One topic file as it was read, with its records."""

    scope: str
    stem: str
    text: TopicText
    records: dict[str, tuple[Record, ...]]
    project: str
    size: int = 0

    @property
    def path(self) -> str:
        return f"{TOPICS}/{self.scope}/{self.stem}.md"

    @property
    def records_path(self) -> str:
        return f"{TOPICS}/{self.scope}/{self.stem}.json"

    def id_of(self, title: str) -> str:
        return topic_text.entry_id(self.scope, self.text.topic, title)

    def entries(self) -> list[TopicEntry]:
        return [self.entry(title, body) for title, body in self.text.entries]

    def entry(self, title: str, body: str) -> TopicEntry:
        name = self.id_of(title)
        record = topic_text.record_of(self.records, name, body)
        return TopicEntry(name, self.scope, self.text.topic, title, body, self.path, record)

    def settled(self) -> dict[str, tuple[Record, ...]]:
        """The records of the entries that stand there, one for each that has one."""
        found = {self.id_of(title): body for title, body in self.text.entries}
        rows = {name: topic_text.record_of(self.records, name, body) for name, body in found.items()}
        return {name: (row,) for name, row in rows.items() if name in self.records}

    def unsettled(self) -> bool:
        """Whether a record has no text, or a text two records: a write was interrupted."""
        known = {self.id_of(title) for title, _ in self.text.entries}
        return any(name not in known or len(rows) > 1 for name, rows in self.records.items())


class Topics:
    """The topic files of one workspace. `lock` is its writers' lock. Raises StorageError, PathRefused, FencedError."""

    def __init__(self, files: Files, lock: Callable[[], AbstractContextManager[None]]) -> None:
        self._files = files
        self._lock = lock

    # -- reading

    def read(self, scopes: Collection[str] | None = None) -> TopicsReading:
        """All entries, or those of some scopes (`user`, project ids). Never raises for one file's sake."""
        problems: list[str] = []
        found = [file for scope in self._scopes(scopes, problems) for file in self._of_scope(scope, problems)]
        names = {file.scope: file.project for file in found if file.project and file.scope != topic_text.USER}
        entries = {entry.id: entry for file in reversed(found) for entry in reversed(file.entries())}
        return TopicsReading(tuple(reversed(entries.values())), tuple(problems), names)

    def _scopes(self, wanted: Collection[str] | None, problems: list[str]) -> list[str]:
        scopes: list[str] = []
        for entry in self._files.entries(TOPICS) or ():
            if entry.kind == "folder" and topic_text.SCOPE_FOLDER.fullmatch(entry.name):
                if wanted is None or entry.name in wanted:
                    scopes.append(entry.name)
            elif not entry.name.startswith(layer.TEMP_PREFIX):
                problems.append(f"{TOPICS}/{entry.name} was not read: it is no folder of a scope.")
        return sorted(scopes, key=lambda name: (name != topic_text.USER, name))

    def _of_scope(self, scope: str, problems: list[str]) -> list[_File]:
        files: list[_File] = []
        for entry in self._files.entries(f"{TOPICS}/{scope}") or ():
            if entry.name.startswith(layer.TEMP_PREFIX) or entry.name.endswith(".json"):
                continue
            try:
                file = self._load(scope, entry)
            except PathRefused:
                problems.append(_refusal(scope, entry.name, "it is a link, has a second name or is no plain file"))
                continue
            except _Unusable as reason:
                problems.append(_refusal(scope, entry.name, str(reason)))
                continue
            if file is not None:
                files.append(file)
        return files

    def _load(self, scope: str, entry: Entry) -> _File | None:
        stem, _, ending = entry.name.rpartition(".")
        if entry.kind != "file" or ending != "md" or not stem:
            raise _Unusable("it is no topic file")
        if entry.size > MAX_FILE_BYTES:
            raise _Unusable(f"it has more than {MAX_FILE_BYTES:,} bytes")
        # The text first: its record was written before it and is kept until the text is another one.
        content = self._files.read(f"{TOPICS}/{scope}/{entry.name}", limit=2 * MAX_FILE_BYTES)
        if content is None:
            return None
        try:
            text = content.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _Unusable(f"byte {error.start} is not valid UTF-8") from None
        if _CONTROL.intersection(text):
            raise _Unusable("it holds control characters")
        records, project = self._records(scope, stem)
        return _File(scope, stem, topic_text.parse(text, stem), records, project, len(content.data))

    def _records(self, scope: str, stem: str) -> tuple[dict[str, tuple[Record, ...]], str]:
        try:
            content = self._files.read(f"{TOPICS}/{scope}/{stem}.json", limit=MAX_RECORDS_BYTES)
        except WorkspaceError:
            return {}, ""
        return ({}, "") if content is None else topic_text.parse_records(content.data)

    # -- writing

    def save(
        self, *, scope: str, topic: str, title: str, body: str, tier: str, by: str, now: datetime, project: str = ""
    ) -> SavedEntry:
        """Returns only when the entry is on disk for good. Texts must be redacted and clean: one line each for topic
        and title. Raises WorkspaceError when there is no room, or the topic's file cannot be read."""
        with self._lock():
            file, others = self._file_for(scope, topic, project)
            name = file.id_of(title)
            former = next((entry for entry in file.entries() if entry.id == name), None)
            created = former.record.created if former is not None else None
            record = Record(sha256_text(body), tier, by, created or now, now)
            file.records = file.settled()
            before = file.records.get(name, ())
            file.records[name] = (*(one for one in before if one.sha256 != record.sha256), record)
            text = file.text.with_entry(title, body)
            data = encode(topic_text.print_topic(text), "The entry")
            _check_room(text, data, others)
            self._files.make_folder(f"{TOPICS}/{scope}", FOLDER)
            self._write_records(file)
            if former is None or former.body != body or former.title != title:
                self._files.write(file.path, data, TEXT)
            file.text = text
            if len(file.records[name]) > 1:
                file.records = file.settled()
                self._write_records(file)
            return SavedEntry(file.entry(title, body), former is not None)

    def _file_for(self, scope: str, topic: str, project: str) -> tuple[_File, int]:
        """The topic's file, or an empty one to be written, and the bytes of all the others."""
        if not topic_text.SCOPE_FOLDER.fullmatch(scope):
            raise WorkspaceError(f"{scope[:40]!a} is no scope of topics.", hint="This is a fault in slowwave.")
        problems: list[str] = []
        mine = self._of_scope(scope, problems)
        stem = topic_text.file_stem(topic)
        for problem in problems:
            if problem.startswith(f"{TOPICS}/{scope}/{stem}.md "):
                raise WorkspaceError(problem, hint="Mend or remove the file; nothing was written.")
        same = [file for file in mine if topic_text.key(file.text.topic) == topic_text.key(topic)]
        if not same and len(mine) >= MAX_TOPICS:
            raise WorkspaceError(f"There are {len(mine)} topics already.", hint="Use one of them, or forget some.")
        elsewhere = self._scopes(None, problems)
        sizes = [file.size for name in elsewhere for file in (mine if name == scope else self._of_scope(name, []))]
        if same:
            chosen = same[0]
            chosen.project = project or chosen.project
            return chosen, sum(sizes) - chosen.size
        taken = {file.stem for file in mine}
        while stem in taken:  # a file of this name is about something else: a person renamed its heading
            stem = f"{stem}-2"
        return _File(scope, stem, TopicText(topic), {}, project), sum(sizes)

    def _write_records(self, file: _File) -> None:
        self._files.write(file.records_path, topic_text.print_records(file.records, file.project), RECORDS)

    # -- removing

    def remove(self, ids: Collection[str]) -> list[TopicEntry]:
        """Takes entries away; returns those that were there. A topic without entries and text of its own goes whole."""
        return self.remove_where(lambda entry: entry.id in ids)

    def remove_where(self, chosen: Callable[[TopicEntry], bool]) -> list[TopicEntry]:
        """Takes every entry away that is `chosen`."""
        gone: list[TopicEntry] = []
        with self._lock():
            for scope in self._scopes(None, []):
                for file in self._of_scope(scope, []):
                    mine = [entry for entry in file.entries() if chosen(entry)]
                    if mine:
                        self._take(file, mine)
                        gone += mine
        return gone

    def _take(self, file: _File, entries: Iterable[TopicEntry]) -> None:
        file.text = file.text.without(entry.title for entry in entries)
        if file.text.entries or file.text.preamble:
            self._files.write(file.path, encode(topic_text.print_topic(file.text)), TEXT)
            file.records = file.settled()
            self._write_records(file)
        else:
            self._files.remove(file.path, TEXT_GONE)
            self._files.remove(file.records_path, RECORDS_GONE)

    # -- forgetting a text

    def holding(self, holds: Callable[[str], bool]) -> tuple[str, ...]:
        """`<id> <topic>/<title>` of the entries that hold a text, and the paths of files that hold it elsewhere."""
        found: list[str] = []
        for scope in self._scopes(None, []):
            for path, file in self._raw(scope):
                mine = [] if file is None else [entry for entry in file.entries() if _holds(entry, holds)]
                found += [f"{entry.id} {entry.topic}/{entry.title}" for entry in mine]
                if not mine and self._holds_elsewhere(path, file, holds):
                    found.append(path)
        return tuple(found)

    def forget(self, holds: Callable[[str], bool]) -> int:
        """Takes out every entry that holds a text, counted; a file goes whole whose heading or what stands before its
        entries holds it, or which cannot be read."""
        gone = 0
        with self._lock():
            for scope in self._scopes(None, []):
                for path, file in self._raw(scope):
                    if self._holds_elsewhere(path, file, holds):
                        gone += 0 if file is None else len(file.text.entries)
                        self._files.remove(path, TEXT_GONE)
                        self._files.remove(f"{path.removesuffix('.md')}.json", RECORDS_GONE)
                    elif file is not None and (mine := [one for one in file.entries() if _holds(one, holds)]):
                        self._take(file, mine)
                        gone += len(mine)
        return gone

    def _raw(self, scope: str) -> list[tuple[str, _File | None]]:
        """Every file of a scope, unreadable ones too."""
        read = {file.path: file for file in self._of_scope(scope, [])}
        names = [entry.name for entry in self._files.entries(f"{TOPICS}/{scope}") or () if entry.kind == "file"]
        paths = [f"{TOPICS}/{scope}/{name}" for name in names if not name.endswith(".json")]
        return [(path, read.get(path)) for path in paths]

    def _holds_elsewhere(self, path: str, file: _File | None, holds: Callable[[str], bool]) -> bool:
        if file is not None:
            return holds(file.text.topic) or holds(file.text.preamble)
        try:
            content = self._files.read(path, limit=MAX_ALL_BYTES)
        except WorkspaceError:
            return False
        return content is not None and holds(content.data.decode("utf-8", "replace"))

    # -- mending

    def half_done(self) -> list[str]:
        """What killed processes left: temporary files, records without their text. One path each."""
        found: list[str] = []
        for scope in self._scopes(None, []):
            entries = self._files.entries(f"{TOPICS}/{scope}") or ()
            names = {entry.name for entry in entries}
            for name in sorted(names):
                left = name.startswith(layer.TEMP_PREFIX)
                if left or (name.endswith(".json") and f"{name.removesuffix('.json')}.md" not in names):
                    found.append(f"{TOPICS}/{scope}/{name}")
            found += [file.records_path for file in self._of_scope(scope, []) if file.unsettled()]
        return found

    def heal(self) -> list[str]:
        """Takes away what `half_done` names; returns it. No entry is lost or changed by it."""
        if not self.half_done():
            return []
        with self._lock():
            found = self.half_done()
            for path in found:
                if path.rpartition("/")[2].startswith(layer.TEMP_PREFIX):
                    self._files.remove_tree(path, LEFT_OVER)
            for scope in self._scopes(None, []):
                files = self._of_scope(scope, [])
                for file in files:
                    if file.records_path in found:
                        file.records = file.settled()
                        self._write_records(file)
                written = {file.records_path for file in files}
                for path in found:
                    if path.startswith(f"{TOPICS}/{scope}/") and path.endswith(".json") and path not in written:
                        self._files.remove(path, RECORDS_GONE)
        return found


class _Unusable(Exception):
    """Why a file is no topic file, as the end of a sentence."""


def _holds(entry: TopicEntry, holds: Callable[[str], bool]) -> bool:
    return holds(entry.title) or holds(entry.body)


def _refusal(scope: str, name: str, why: str) -> str:
    return f"{TOPICS}/{scope}/{name} was not read: {why}."


def _check_room(text: TopicText, data: bytes, others: int) -> None:
    if len(text.entries) > MAX_ENTRIES:
        raise WorkspaceError(
            f"The topic has {MAX_ENTRIES} entries already.",
            hint="Update one of them, forget some, or use another topic.",
        )
    if len(data) > MAX_FILE_BYTES:
        raise WorkspaceError(
            f"The topic would have {len(data):,} bytes; {MAX_FILE_BYTES:,} are allowed.",
            hint="Shorten it, or use another topic.",
        )
    if others + len(data) > MAX_ALL_BYTES:
        raise WorkspaceError(
            f"All topics together may hold {MAX_ALL_BYTES:,} bytes.", hint="Forget what is no longer needed."
        )
