"""The vocabulary of the domain as types. Pure data: no I/O, no clock, no settings.

Words are those of ARCHITECTURE.md: host, rollout, event, tier, evidence, boundary, source, citation, claim.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

# -- rollouts and events ------------------------------------------------------------------------------


class Host(StrEnum):
    """A coding agent whose sessions we read. `generic` is our own documented JSONL."""

    CODEX = "codex"
    CLAUDE = "claude"
    PI = "pi"
    GENERIC = "generic"


@dataclass(frozen=True, slots=True, order=True)
class RolloutId:
    """`<host>:<session id>`, for example `codex:01a0f1aa-0000-7000-8000-000000000001`."""

    host: Host
    session: str

    def __str__(self) -> str:
        return f"{self.host.value}:{self.session}"

    @classmethod
    def parse(cls, text: str) -> RolloutId:
        """Raises ValueError when the host is unknown or the session id is empty."""
        host, sep, session = text.partition(":")
        if not sep or not session:
            raise ValueError(f"not a rollout id: {text!r}")
        return cls(Host(host), session)

    @property
    def source_id(self) -> str:
        """16 hex digits: the stable name of this rollout's summary file [Z054]."""
        return hashlib.sha256(str(self).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def citation(self) -> str:
        """8 hex digits: how the main summary cites this rollout."""
        return self.source_id[:8]


class Tier(StrEnum):
    """Who speaks, best evidence first. `derived` is never evidence."""

    HUMAN = "human"
    FINAL = "final"
    AGENT = "agent"
    COMMENTARY = "commentary"
    TOOL = "tool"
    DERIVED = "derived"

    @property
    def rank(self) -> int:
        """0 is the strongest."""
        return tuple(Tier).index(self)


class EventKind(StrEnum):
    MESSAGE = "message"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, slots=True)
class Event:
    """One normalised item of a rollout.

    `number` counts every event of the rollout from 1 in file order, derived ones included, so it never
    changes when the file grows. `text` is bounded by the reader (`MAX_EVENT_TEXT`); `full_chars` tells the
    length in code points before that. `ok` is None where the host does not say whether a tool succeeded.
    `derived_from` says why an event is not evidence (`system_prompt`, `memory`, `compaction`, ...).
    `offset` is the byte offset of the line the event was read from (in the uncompressed stream).
    """

    number: int
    tier: Tier
    kind: EventKind
    text: str
    time: datetime | None = None
    tool: str | None = None
    call_id: str | None = None
    ok: bool | None = None
    cwd: str | None = None
    host_id: str | None = None
    offset: int = 0
    full_chars: int = 0
    derived_from: str | None = None


@dataclass(frozen=True, slots=True)
class Boundary:
    """How far a rollout has been taken: complete lines only.

    `prefix_hash` is the sha256 hex of the bytes before `offset`; a differing prefix means the file was
    rewritten and the rollout is read again from the start.
    """

    offset: int = 0
    events: int = 0
    prefix_hash: str = ""

    def key(self) -> str:
        """Short text form for keys, headers and logs: `<offset>:<events>:<hash8>`."""
        return f"{self.offset}:{self.events}:{self.prefix_hash[:8]}"


class RolloutKind(StrEnum):
    """What sort of session it is, before time and state are looked at."""

    INTERACTIVE = "interactive"
    EXEC = "exec"
    SUBAGENT = "subagent"
    AUXILIARY = "auxiliary"
    ARCHIVED = "archived"
    DIAGNOSTIC = "diagnostic"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class Header:
    """What the head of a file tells. `remote` and `branch` are as the host wrote them."""

    id: RolloutId
    path: Path
    kind: RolloutKind = RolloutKind.INTERACTIVE
    cwd: str | None = None
    branch: str | None = None
    remote: str | None = None
    started: datetime | None = None
    version: str | None = None
    parent: RolloutId | None = None
    forked_from: RolloutId | None = None
    title: str | None = None


@dataclass(slots=True)
class ReadReport:
    """What a reader met and could not use: counted, never raised, never silent."""

    lines: int = 0
    bytes: int = 0
    bad_json: int = 0
    partial_tail: int = 0
    oversized: int = 0
    not_objects: int = 0
    replaced_text: int = 0
    duplicates: int = 0
    unknown_types: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def unknown(self, kind: str) -> None:
        """Counts one record of a type this reader does not know."""
        self.unknown_types[kind] = self.unknown_types.get(kind, 0) + 1


@dataclass(frozen=True, slots=True)
class Transcript:
    """A whole rollout, read up to `boundary`."""

    header: Header
    events: tuple[Event, ...]
    boundary: Boundary
    report: ReadReport
    last_event: datetime | None = None


MAX_EVENT_TEXT = 32_768
"""Code points of one event a reader keeps: half from the head, half from the tail, the cut marked."""


class Reason(StrEnum):
    """Why a rollout is or is not taken now: one per rollout, shown by `status` and `why`."""

    ELIGIBLE = "eligible"
    NOT_IDLE = "not_idle"
    TOO_OLD = "too_old"
    SUBAGENT = "subagent"
    AUXILIARY = "auxiliary"
    ARCHIVED = "archived"
    DIAGNOSTIC = "diagnostic"
    EXEC_OFF = "exec_off"
    HOST_OFF = "host_off"
    OWN = "own"
    NO_USER_TEXT = "no_user_text"
    DUPLICATE = "duplicate"
    BEFORE_WATERMARK = "before_watermark"
    UP_TO_DATE = "up_to_date"
    BACKOFF = "backoff"
    EXHAUSTED = "exhausted"
    CLAIMED = "claimed"
    UNREADABLE = "unreadable"
    FORGOTTEN = "forgotten"
    MISSING = "missing"


# -- summaries ----------------------------------------------------------------------------------------


class Outcome(StrEnum):
    """How the work in a session ended."""

    SUCCESS = "success"
    PARTIAL = "partial"
    UNCERTAIN = "uncertain"
    FAIL = "fail"


HEADINGS = ("## User Profile", "## User preferences", "## General Tips", "## What's in Memory")
"""The four headings of the main summary, in order [Z048-Z051]."""

SUMMARY_NAME = "memory_summary.md"
DIFF_NAME = "phase2_workspace_diff.md"
MAX_SUMMARY_BYTES = 10_000
"""Strict: a summary has fewer bytes [Z046]."""
MAX_ROLLOUT_SUMMARY_BYTES = 9_000
"""Inclusive, header counted [Z055]."""
MAX_NOTES_BYTES = 512_000
"""All notes together, as read [Z057]."""

ANCHOR = re.compile(r"\[e([1-9][0-9]{0,8})\]")
"""A citation inside a rollout summary."""
CITATION = re.compile(r"\[([0-9a-f]{16}|[0-9a-f]{8}|note:[A-Za-z0-9._-]{1,64})\]")
"""A citation inside the main summary: a source id (8 hex, 16 where 8 are ambiguous) or a note."""

SUMMARY_SECTIONS = (
    "## Task",
    "## User preferences",
    "## Decisions",
    "## What failed",
    "## What worked",
    "## Reference",
)
"""Sections of a rollout summary's body, each optional, in this order."""


@dataclass(frozen=True, slots=True)
class SummaryHeader:
    """The front matter of a rollout summary file.

    `human` lists the event numbers among the body's anchors that a person spoke: what only tools or agents said can
    never become a preference or an instruction later on [X38 M61].
    """

    source: RolloutId
    project: str
    project_name: str
    cwd: str | None
    branch: str | None
    started: datetime | None
    ended: datetime | None
    boundary: Boundary
    outcome: Outcome
    slug: str
    human: tuple[int, ...] = ()

    @property
    def citation(self) -> str:
        return self.source.citation


@dataclass(frozen=True, slots=True)
class Claim:
    """One bullet of the main summary: its text without citations, its citations, section and line (1-based)."""

    text: str
    citations: tuple[str, ...]
    section: str
    line: int


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of the gate. `line` is 1-based in the candidate, 0 for the whole file.

    `rule` is a stable snake_case name; `message` is fit to be shown to the agent and the user (redacted).
    """

    rule: str
    message: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class InputFile:
    """One input of a consolidation: a rollout summary or a note, as it was when the run started."""

    citation: str
    path: str
    sha256: str
    chars: int
    project: str
    projects_global: bool = False
    pinned: bool = False
    time: datetime | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An input that was not taken, and why (`unused`, `max_sources`, `max_chars`, `notes_limit`, ...).

    `sha256` is that of its text where it matters which text was left out (`restored`), else empty.
    """

    citation: str
    path: str
    reason: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a consolidation reads: fixed at its start, compared byte for byte at its end [Z099]."""

    generation: str
    inputs: tuple[InputFile, ...]
    left_out: tuple[LeftOut, ...] = ()
    removed: tuple[str, ...] = ()

    def key(self) -> str:
        """sha256 over citations and hashes: equal input sets have equal keys."""
        digest = hashlib.sha256()
        for item in sorted(self.inputs, key=lambda i: i.citation):
            digest.update(f"{item.citation}\0{item.sha256}\0{item.pinned}\n".encode())
        return digest.hexdigest()

    def by_citation(self) -> Mapping[str, InputFile]:
        return {item.citation: item for item in self.inputs}
