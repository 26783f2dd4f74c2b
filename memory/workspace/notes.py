"""Notes: what a person or an agent asked to remember, one Markdown file each [Z056-Z059].

A note may begin with a block between two lines `---`:

    ---
    project: github.com/acme/shop      the project it belongs to, as `slowwave sources` names it
    scope: global                      every project; the default where no project is named
    pinned: true                       may never be dropped from the summary
    created: 2026-11-28T09:14:00Z
    topic: testing                     written by the memory tools; the text then begins with `# <title>`
    by: agent                          an agent wrote it of its own accord: no person's words stand behind it
    ---
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from memory.clock import iso, parse_iso
from memory.errors import PathRefused, WorkspaceError
from memory.model import MAX_NOTES_BYTES, LeftOut
from memory.workspace.files import TEMP_PREFIX, Entry, Files
from memory.workspace.layout import NOTE_NAME, NOTES

INSTRUCTIONS_TEXT = """# Notes

Every Markdown file in `notes/` is something you, or an agent at your request, asked to remember. Its name is
letters, digits, `.`, `_` or `-` (at most 64) and `.md`; the text is plain UTF-8. It may begin with

    ---
    project: the project it belongs to
    scope: global
    pinned: true
    created: 2026-11-28T09:14:00Z
    by: agent
    ---

All are optional. Without `project` a note holds for every project. A pinned note may never be dropped from the
summary. What is `by: agent` was not asked for by a person and never becomes a preference. All notes together hold at
most 512,000 bytes; links and credential files are not read.
"""

_CREDENTIALS = (
    *(".env", ".env.*", "*.env", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".htpasswd", ".dockercfg"),
    *(".git-credentials", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx"),
    *("*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.ovpn", "*.tfvars", "*.tfstate", "wallet.dat", "auth.json"),
    *("credentials.*", "*_credentials.*", "*-credentials.*", "secrets.*", "service-account*.json"),
    *("client_secret*.json", "kubeconfig", "*.kubeconfig", "*.asc", "*.gpg"),
)
AGENT = "agent"
"""Value of `by` of what an agent wrote of its own accord."""
_QUIET = frozenset({".DS_Store", ".gitkeep", "Thumbs.db"})
_FRONT_LINES = 20
_FRONT_LINE = re.compile(r"(?P<key>[A-Za-z_]+)\s*:\s*(?P<value>.*?)\s*")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Note:
    """One note. `text` is the whole file as it stands on disk (what is staged, hashed and cited).

    `body` is the text without its front matter; `mtime` and `created` are aware UTC; `sha256` is over the bytes.
    `project` is the project key the note names, None when it names none; such a note is global unless it says
    `scope: project`.
    """

    name: str
    citation: str
    path: str
    text: str
    project: str | None
    is_global: bool
    pinned: bool
    mtime: datetime
    body: str = ""
    created: datetime | None = None
    sha256: str = ""
    topic: str = ""
    by: str = ""

    @property
    def by_agent(self) -> bool:
        """Whether an agent wrote it of its own accord: then it is nothing a person said."""
        return self.by == AGENT

    @property
    def title(self) -> str:
        """Of a note of the memory tools: its first line, a heading; else empty."""
        first, _, _ = self.body.partition("\n")
        return first[2:].strip() if self.topic and first.startswith("# ") else ""

    @property
    def content(self) -> str:
        """The text below the title."""
        return self.body.partition("\n")[2].strip("\n") if self.title else self.body.strip("\n")


@dataclass(frozen=True, slots=True)
class NotesReading:
    """All notes that could be taken, and one line for everything that was not.

    `diagnostics` are for people; `left_out` says the same of single files as data, fit for `Manifest.left_out`
    (reasons `link`, `hard_link`, `not_plain`, `credential_name`, `not_a_note`, `not_text`, `empty`, `notes_limit`).
    """

    notes: list[Note]
    diagnostics: list[str]
    left_out: tuple[LeftOut, ...] = ()


def is_credential_name(name: str) -> bool:
    """Whether a file of this name is never read, whatever it holds [Z059]. A trailing `.md` hides nothing."""
    plain = name.casefold()
    inner = plain.removesuffix(".md").removesuffix(".bak")
    if inner != plain and "." not in inner and not inner.startswith("id_"):
        return False  # `credentials.md` is a note about them
    return inner == "credentials" or any(fnmatch.fnmatchcase(inner, rule) for rule in _CREDENTIALS)


def note_path(name: str) -> str:
    """Where the note lies, relative to the workspace."""
    return f"{NOTES}/{name}.md"


@dataclass(slots=True)
class _Reading:
    notes: list[Note]
    diagnostics: list[str]
    left_out: list[LeftOut]

    def refuse(self, name: str, reason: str, why: str) -> None:
        self.diagnostics.append(f"{NOTES}/{name} was not read: {why}.")
        self.left_out.append(LeftOut(f"note:{name.removesuffix('.md')}", f"{NOTES}/{name}", reason))


def read_notes(files: Files) -> NotesReading:
    """Reads within `MAX_NOTES_BYTES` in all, whole files only: pinned first, then newest [Z057].

    Raises StorageError when a note cannot be read for the disk's sake: treating it as removed would drop what it
    says from the summary. Raises PathRefused when the notes folder itself is a link.
    """
    reading = _Reading([], [], [])
    good = [entry for entry in files.entries(NOTES) or () if _acceptable(entry, reading)]
    if sum(entry.size for entry in good) > MAX_NOTES_BYTES:
        good = _by_importance(files, good)
    room = MAX_NOTES_BYTES
    for entry in good:
        if entry.size > room:
            _over_limit(reading, entry)
            continue
        note = _read(files, entry, room, reading)
        if note is not None:
            room -= len(note.text.encode())
            reading.notes.append(note)
    reading.notes.sort(key=lambda note: (not note.pinned, -note.mtime.timestamp(), note.name))
    reading.left_out.sort(key=lambda left: left.path)
    return NotesReading(reading.notes, reading.diagnostics, tuple(reading.left_out))


def _over_limit(reading: _Reading, entry: Entry) -> None:
    reading.refuse(
        entry.name,
        "notes_limit",
        f"all notes together may hold {MAX_NOTES_BYTES:,} bytes and this one has {entry.size:,}",
    )


def _acceptable(entry: Entry, reading: _Reading) -> bool:
    name = entry.name
    if name.startswith(TEMP_PREFIX) or name in _QUIET:
        return False
    stem = name.removesuffix(".md")
    rules = (
        (entry.kind == "link", "link", "it is a symbolic link, and links are never followed"),
        (entry.kind != "file", "not_plain", "it is no plain file"),
        (is_credential_name(name), "credential_name", "its name is that of a credential file"),
        (entry.links > 1, "hard_link", "it is hard-linked and may be somebody else's file"),
        (not name.endswith(".md") or not NOTE_NAME.fullmatch(stem), "not_a_note", "it is not named like a note"),
    )
    for broken, reason, why in rules:
        if broken:
            reading.refuse(name, reason, why)
            return False
    return True


def _by_importance(files: Files, entries: Iterable[Entry]) -> list[Entry]:
    """Only asked when not all fit: the pinned ones first, then the newest."""

    def rank(entry: Entry) -> tuple[bool, int, str]:
        head = files.read_head(f"{NOTES}/{entry.name}", 1024) or b""
        return (not parse_note(head.decode("utf-8", "replace")).pinned, -entry.mtime_ns, entry.name)

    return sorted(entries, key=rank)


def _read(files: Files, entry: Entry, room: int, reading: _Reading) -> Note | None:
    path = f"{NOTES}/{entry.name}"
    try:
        content = files.read(path, limit=room)
    except PathRefused:
        reading.refuse(entry.name, "not_plain", "it became a link or special file while it was read")
        return None
    if content is None:
        return None
    try:
        text = content.data.decode("utf-8")
    except UnicodeDecodeError as error:
        reading.refuse(entry.name, "not_text", f"byte {error.start} is not valid UTF-8")
        return None
    if _NOT_TEXT.search(text):
        reading.refuse(entry.name, "not_text", "it holds control characters")
        return None
    parsed = parse_note(text)
    if not parsed.body.strip():
        reading.refuse(entry.name, "empty", "it is empty")
        return None
    reading.diagnostics += [f"{path}: {problem}." for problem in parsed.problems]
    name = entry.name.removesuffix(".md")
    return Note(
        name=name,
        citation=f"note:{name}",
        path=path,
        text=text,
        project=parsed.project,
        is_global=parsed.is_global,
        pinned=parsed.pinned,
        mtime=datetime.fromtimestamp(content.mtime_ns / 1e9, UTC),
        body=parsed.body,
        created=parsed.created,
        sha256=hashlib.sha256(content.data).hexdigest(),
        topic=parsed.topic,
        by=parsed.by,
    )


@dataclass(slots=True)
class ParsedNote:
    """A note's text taken apart; `problems` name keys of the front matter that could not be used."""

    body: str
    project: str | None = None
    is_global: bool = True
    pinned: bool = False
    created: datetime | None = None
    problems: tuple[str, ...] = ()
    topic: str = ""
    by: str = ""


def parse_note(text: str) -> ParsedNote:
    """Never raises. A block that is not closed is text."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return ParsedNote("\n".join(lines))
    end = next((at for at, line in enumerate(lines[1:_FRONT_LINES], start=1) if line.rstrip() == "---"), None)
    if end is None:
        return ParsedNote("\n".join(lines))
    return _with_front(lines[1:end], "\n".join(lines[end + 1 :]).lstrip("\n"))


def _with_front(front: list[str], body: str) -> ParsedNote:
    fields: dict[str, str] = {}
    problems: list[str] = []
    for number, line in enumerate(front, start=2):
        match = _FRONT_LINE.fullmatch(line)
        if match is not None:
            fields[match["key"].lower()] = match["value"]
        elif line.strip():
            problems.append(f"line {number} of the front matter is not `key: value`")
    scope, pinned, created = fields.get("scope", ""), fields.get("pinned", ""), fields.get("created", "")
    if scope.lower() not in {"", "global", "project"}:
        problems.append("`scope` must be `global` or `project`")
    if pinned.lower() not in {"", "true", "false", "yes", "no"}:
        problems.append("`pinned` must be `true` or `false`")
    if created and parse_iso(created) is None:
        problems.append("`created` is no time such as 2026-11-28T09:14:00Z")
    by = fields.get("by", "").lower()
    if by not in {"", "user", AGENT}:
        problems.append("`by` must be `user` or `agent`")
        by = AGENT  # of two readings the one that trusts less
    unknown = sorted(fields.keys() - {"project", "scope", "pinned", "created", "topic", "by"})
    problems += [f"`{key}` is not a key of notes" for key in unknown]
    project = fields.get("project") or None
    is_global = scope.lower() == "global" or (project is None and scope.lower() != "project")
    return ParsedNote(
        body,
        project,
        is_global,
        pinned.lower() in {"true", "yes"},
        parse_iso(created),
        tuple(problems),
        fields.get("topic", ""),
        by,
    )


def check_new(name: str, text: str) -> None:
    """Raises WorkspaceError for a note that could be written but would never be read."""
    if is_credential_name(f"{name}.md"):
        raise WorkspaceError(
            f"The note {name} has the name of a credential file; such files are never read.",
            hint="Choose another name.",
        )
    if not text.strip():
        raise WorkspaceError(f"The note {name} is empty.", hint="Say what is to be remembered.")
    if _NOT_TEXT.search(text):
        raise WorkspaceError(f"The note {name} holds control characters.", hint="Use plain text.")


def print_note(
    text: str,
    *,
    project: str | None,
    is_global: bool,
    pinned: bool,
    created: datetime | None,
    topic: str = "",
    by: str = "",
) -> str:
    """The file of a note: front matter where there is something to say in it, then the text."""
    front = [f"project: {_one_line(project)}"] if project else []
    front += ["scope: global"] if is_global else []
    front += ["pinned: true"] if pinned else []
    front += [f"created: {iso(created)}"] if created else []
    front += [f"topic: {_one_line(topic)}"] if topic else []
    front += [f"by: {_one_line(by)}"] if by else []
    body = text.strip("\n") + "\n"
    if not front and not text.startswith("---"):
        return body
    return "\n".join(["---", *front, "---", "", body])


def _one_line(value: str) -> str:
    line = " ".join(value.split())
    if _NOT_TEXT.search(line):
        raise WorkspaceError("The project of a note holds control characters.", hint="Use the project's plain name.")
    return line
