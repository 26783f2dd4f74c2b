"""Pi coding agent: session files of format 1 (linear), 2 and 3 (tree).

A file is a header and entries that link to their parent. The leaf is the last entry; what happened is the path from
it back to the root, everything else was abandoned. Format 1 has no links and is read in file order, and so is a file
none of whose entries names a parent. A link to an entry that is not there (its line was torn) goes to the entry
before it in the file, so that one bad line does not cut a session in two. `null` is a link to the root.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from memory.errors import UnreadableRollout
from memory.model import Header, Host, ReadReport, RolloutId, RolloutKind, Transcript
from rollouts.adapters import Peek
from rollouts.drafts import (
    AGENT,
    CALL,
    COMMENTARY,
    FINAL,
    HUMAN,
    MESSAGE,
    RESULT,
    TOOL,
    Log,
    Part,
    Peeler,
    arguments_text,
    content_texts,
    fingerprint,
    is_observer_text,
    is_own_place,
    is_own_text,
    is_own_tool,
    moment,
    touches_memory,
    word,
)
from rollouts.lines import Ends, Lines, Record

ROOT = -1
SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
_PEELER = Peeler(
    {
        "skill": "skill",
        "file": "attachment",
        "system-reminder": "reminder",
        "memory": "memory",
        "memories": "memory",
        "memory-context": "memory",
    }
)
_AGENT_TOOLS = frozenset({"subagent", "subagents", "task", "agent", "agents"})
_NO_EVENT = frozenset({"model_change", "thinking_level_change", "usage", "label", "custom", "session_info"})
_CLOSING = frozenset({"stop", "length", "(none)"})
_SAFE_ID = re.compile(r"[A-Za-z0-9._:@-]{1,200}")
_FILE_NAME = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT[0-9-]+Z)_(?P<id>.+)")
_MEMORY_NAME = re.compile(r"(?:^|[^a-z])mem(?:ory|ories|o)?(?:[^a-z]|$)|slowwave|memor(?:y|ies)")
_MEMORY_TEXT = re.compile(r"<(?:slowwave-)?memor(?:y|ies)\b")


class PiAdapter:
    """Reads Pi. Stateless."""

    host = Host.PI

    def default_roots(self, host_environment: Mapping[str, str]) -> list[Path]:
        """`PI_CODING_AGENT_SESSION_DIR`, and `sessions` under `PI_CODING_AGENT_DIR` or `~/.pi/agent`."""
        roots = []
        if own := host_environment.get("PI_CODING_AGENT_SESSION_DIR"):
            roots.append(_expanded(own, host_environment))
        if agent := host_environment.get("PI_CODING_AGENT_DIR"):
            roots.append(_expanded(agent, host_environment) / "sessions")
        elif home := host_environment.get("HOME"):
            roots.append(Path(home) / ".pi" / "agent" / "sessions")
        return roots

    def matches(self, path: Path) -> bool:
        return path.name.endswith(SUFFIXES)

    def peek(self, path: Path) -> Peek:
        ends = Ends(path)
        report = ReadReport()
        header: Record | None = None
        words = ""
        known = False
        for _, record in ends.head(report):
            if header is None and not known and _is_header(record):
                header = record
            elif _is_entry(record):
                known = True
                if words := _person(record):
                    break
        if header is None and not known:
            raise UnreadableRollout(f"{path} holds no Pi session.", hint="Is it in the right folder?")
        last, title, open_turn = _tail(ends, report)
        return Peek(
            header=_header(path, header, words, title),
            last_event=last or _time(header or {}),
            user_chars=len(words),
            fingerprint=fingerprint(words) if words else "",
            whole=ends.whole,
            open_turn=open_turn,
        )

    def read(self, path: Path, *, limit: int | None = None) -> Transcript:
        reader = _Reader()
        lines = Lines(path, reader.report, limit=limit)
        for offset, record in lines:
            reader.take(offset, record)
        reader.settle()
        header = _header(path, reader.header, reader.words, reader.title, own=reader.own)
        last = reader.log.last_time()
        boundary = lines.boundary(len(reader.log.drafts))
        return Transcript(header, reader.log.seal(), boundary, reader.report, last)


class _Reader:
    """Entries in file order to drafts, then the tree decides which of them are evidence."""

    def __init__(self) -> None:
        self.report = ReadReport()
        self.log = Log()
        self.header: Record | None = None
        self.title: str | None = None
        self.words = ""
        self.own = False
        self._positions: dict[str, int] = {}
        self._parents: list[int] = []
        self._ends: list[int] = []
        self._edits: list[tuple[int, int, bool]] = []
        self._linked = False
        self._begun = False
        self._memory_calls: set[str] = set()

    def take(self, offset: int, record: Record) -> None:
        """One line's record."""
        kind = _name(record.get("type"))
        if kind == "session":
            if self.header is None and not self._begun and _is_header(record):
                self.header = record
                self.log.cwd = word(record.get("cwd"))
            else:
                self.report.duplicates += 1
            return
        self._begun = self._begun or _is_entry(record)
        self._link(record)
        self.log.offset = offset
        if kind == "message":
            self._message(record)
        elif kind == "context_edit":
            self._edit(record)
        elif kind in _SUMMARIES:
            self._derived(_SUMMARIES[kind], record.get("summary"), record)
        elif kind == "custom_message":
            self._extension(record, record)
        elif kind in _NO_EVENT:
            self._quiet(kind, record)
        else:
            self.report.unknown(kind[:64])
        self._ends.append(len(self.log.drafts))

    def settle(self) -> None:
        """Demotes what the active path does not hold, and what an edit on it took out."""
        if not self._parents:
            return
        active = self.active()
        if len(active) < len(self._parents):
            for position in set(range(len(self._parents))).difference(active):
                self._demote(position, "abandoned_branch")
        withdrawn = {target: gone for at, target, gone in self._edits if at in active}
        for target, gone in withdrawn.items():
            if gone:
                self._demote(target, "withdrawn")

    def active(self) -> set[int]:
        """Positions of the entries on the path from the last one to the root."""
        if not self._linked:
            return set(range(len(self._parents)))
        path = set()
        position = len(self._parents) - 1
        while position != ROOT:
            path.add(position)
            position = self._parents[position]
        return path

    # -- the tree -----------------------------------------------------------------------------------

    def _link(self, record: Record) -> None:
        """Parents stand before their children, so that a path always ends."""
        here = len(self._parents)
        parent = record.get("parentId", ...)
        if parent is None:
            at = ROOT
        elif type(parent) is str and parent in self._positions:
            at, self._linked = self._positions[parent], True
        else:
            at = here - 1
        self._parents.append(at)
        name = record.get("id")
        if type(name) is str:
            self._positions[name] = here

    def _demote(self, position: int, reason: str) -> None:
        start = self._ends[position - 1] if position else 0
        for draft in self.log.drafts[start : self._ends[position]]:
            draft.demote(reason)

    def _edit(self, record: Record) -> None:
        """`replacement: null` takes an entry out; any other one only shortens what the model saw, not what was."""
        target = record.get("targetId")
        if type(target) is str and target in self._positions:
            gone = record.get("replacement", ...) is None
            self._edits.append((len(self._parents) - 1, self._positions[target], gone))

    # -- entries ------------------------------------------------------------------------------------

    def _quiet(self, kind: str, record: Record) -> None:
        if kind == "session_info":
            self.title = word(record.get("name")) or self.title
        elif kind == "custom" and _marks_own(record):
            self.own = True

    def _derived(self, reason: str, text: object, record: Record) -> None:
        if type(text) is str:
            self.log.derived(reason, text, _time(record), _id(record))

    def _extension(self, source: Record, record: Record) -> None:
        """What an extension put into the conversation; memories among it are named so [Z072]."""
        text = "\n".join(content_texts(source.get("content")))
        name = source.get("customType")
        memory = (type(name) is str and _MEMORY_NAME.search(name.lower())) or _MEMORY_TEXT.search(text)
        self._derived("memory" if memory else "extension", text, record)

    def _message(self, record: Record) -> None:
        message = record.get("message")
        if type(message) is not dict:
            self.report.unknown("message/(none)")
            return
        role = _name(message.get("role"))
        read = _ROLES.get(role)
        if read is None:
            self.report.unknown(f"message/{role[:64]}")
        else:
            read(self, message, record)

    def _system(self, message: Record, record: Record) -> None:
        sections = message.get("sections")
        texts = content_texts(message.get("content"))
        if type(sections) is dict:
            texts += [text for text in sections.values() if type(text) is str]
        self._derived("system_prompt", "\n".join(filter(None, texts)), record)

    def _user(self, message: Record, record: Record) -> None:
        time, name = _time(record), _id(record)
        for part in _parts(message):
            if part.derived_from is None:
                self.log.add(HUMAN, MESSAGE, part.text, time, name)
                self.words = self.words or _words(part.text)
            else:
                self.log.derived(part.derived_from, part.text, time, name)

    def _assistant(self, message: Record, record: Record) -> None:
        """Thinking is dropped. A text closes the turn where the model stopped and called no tool."""
        log, time, name = self.log, _time(record), _id(record)
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if type(content) is str else content
        if type(blocks) is not list:
            blocks = []
        calls = any(type(block) is dict and block.get("type") == "toolCall" for block in blocks)
        closing = not calls and _name(message.get("stopReason")) in _CLOSING
        for block in blocks:
            if type(block) is not dict:
                continue
            kind = _name(block.get("type"))
            if kind == "text":
                if (text := word(block.get("text"))) is not None and not text.isspace():
                    log.add(FINAL if closing else COMMENTARY, MESSAGE, text, time, name)
            elif kind == "toolCall":
                self._call(block, time, name)
            elif kind not in {"thinking", "image"}:
                self.report.unknown(f"block/{kind[:64]}")
        if (error := word(message.get("errorMessage"))) is not None:
            log.derived("error", error, time, name)

    def _call(self, block: Record, time: datetime | None, name: str | None) -> None:
        tool, call = word(block.get("name")), word(block.get("id"))
        text = arguments_text(block.get("arguments"))
        if is_own_tool(tool) or touches_memory(text):
            if call is not None:
                self._memory_calls.add(call)
            self.log.derived("memory", text, time, name, CALL, tool, call)
        else:
            self.log.add(TOOL, CALL, text, time, name, tool, call)

    def _result(self, message: Record, record: Record) -> None:
        tool, call = word(message.get("toolName")), word(message.get("toolCallId"))
        text = "\n".join(content_texts(message.get("content")))
        failed = message.get("isError")
        ok = None if type(failed) is not bool else not failed
        time, name = _time(record), _id(record)
        if is_own_tool(tool) or (call is not None and call in self._memory_calls):
            self.log.derived("memory", text, time, name, RESULT, tool, call, ok)
        else:
            tier = AGENT if tool is not None and tool.lower().rsplit("__", 1)[-1] in _AGENT_TOOLS else TOOL
            self.log.add(tier, RESULT, text, time, name, tool, call, ok)

    def _bash(self, message: Record, record: Record) -> None:
        """A command the person typed with `!`; with `!!` it was kept from the model and is kept from us."""
        time, name = _time(record), _id(record)
        if message.get("excludeFromContext") is True:
            self.log.derived("excluded", "[a command kept out of the conversation]", time, name)
            return
        code = message.get("exitCode")
        ok = code == 0 if type(code) is int else (False if message.get("cancelled") is True else None)
        self.log.add(TOOL, CALL, word(message.get("command")) or "", time, name, "user_bash", name)
        self.log.add(TOOL, RESULT, word(message.get("output")) or "", time, name, "user_bash", name, ok)

    def _custom(self, message: Record, record: Record) -> None:
        self._extension(message, record)

    def _summary(self, message: Record, record: Record) -> None:
        self._derived(_SUMMARIES[message["role"]], message.get("summary"), record)


_SUMMARIES: Mapping[str, str] = {
    "compaction": "compaction",
    "branch_summary": "branch_summary",
    "compactionSummary": "compaction",
    "branchSummary": "branch_summary",
}
_ROLES: Mapping[str, Callable[[_Reader, Record, Record], None]] = {
    "system": _Reader._system,
    "user": _Reader._user,
    "assistant": _Reader._assistant,
    "toolResult": _Reader._result,
    "bashExecution": _Reader._bash,
    "custom": _Reader._custom,
    "hookMessage": _Reader._custom,
    "compactionSummary": _Reader._summary,
    "branchSummary": _Reader._summary,
}


# -- pieces --------------------------------------------------------------------------------------------


def _is_header(record: Record) -> bool:
    """Pi's header has a time stamp; that of our own generic format says `started` and `host_name`."""
    return record.get("type") == "session" and type(record.get("timestamp")) is str and "host_name" not in record


def _is_entry(record: Record) -> bool:
    """A record only Pi writes; Codex and Claude have other types, chat exports have none."""
    kind = _name(record.get("type"))
    if kind == "message":
        message = record.get("message")
        return type(message) is dict and _name(message.get("role")) in _ROLES
    return (kind in _NO_EVENT or kind in _SUMMARIES) and "parentId" in record


def _name(value: object) -> str:
    """A name as the host wrote it; `(none)` for what is no name, so that it can be looked up and counted."""
    return value if type(value) is str else "(none)"


def _parts(message: Record) -> list[Part]:
    return _PEELER.parts("\n".join(content_texts(message.get("content"))))


def _words(text: str) -> str:
    """A person's text without the placeholders of media."""
    return text.replace("[image]", "").strip()


def _person(record: Record) -> str:
    """The person's own words in an entry, "" where there are none."""
    message = record.get("message")
    if type(message) is not dict or message.get("role") != "user":
        return ""
    return next((words for part in _parts(message) if part.derived_from is None and (words := _words(part.text))), "")


def _marks_own(record: Record) -> bool:
    """The entry our extension leaves in sessions that slowwave starts: type `slowwave`, data `{"own": true}`."""
    data = record.get("data")
    return record.get("customType") == "slowwave" and type(data) is dict and data.get("own") is True


def _time(record: Record) -> datetime | None:
    """Of the entry; else that of its message, in milliseconds."""
    found = moment(record.get("timestamp"))
    if found is None and type(message := record.get("message")) is dict:
        found = moment(message.get("timestamp"))
    return found


def _id(record: Record) -> str | None:
    return word(record.get("id"))


def _tail(ends: Ends, report: ReadReport) -> tuple[datetime | None, str | None, bool]:
    """Time of the last message, the name seen on the way there, and whether a turn is open."""
    title: str | None = None
    fallback: datetime | None = None
    for record in ends.tail(report):
        kind = record.get("type")
        if kind == "session_info":
            title = title or word(record.get("name"))
        found = None if kind == "session" else _time(record)
        if found is None:
            continue
        if kind == "message" and type(message := record.get("message")) is dict:
            role = _name(message.get("role"))
            asked = role in {"user", "toolResult"} or message.get("stopReason") == "toolUse"
            if role != "system":
                return found, title, asked
        fallback = fallback or found
    return fallback, title, False


def _header(path: Path, record: Record | None, words: str, title: str | None, *, own: bool = False) -> Header:
    source: dict[str, Any] = record or {}
    given = source.get("id")
    session = given if type(given) is str and _SAFE_ID.fullmatch(given) else _id_of_name(path.name)
    cwd = word(source.get("cwd"))
    version = source.get("version", 1)
    folder = _FILE_NAME.fullmatch(path.parent.name)
    kind = RolloutKind.INTERACTIVE
    if own or is_own_place(cwd) or is_own_text(words):
        kind = RolloutKind.OWN
    elif folder is not None:
        kind = RolloutKind.SUBAGENT
    elif is_observer_text(words):
        kind = RolloutKind.AUXILIARY
    return Header(
        id=RolloutId(Host.PI, session),
        path=path,
        kind=kind,
        cwd=cwd,
        started=moment(source.get("timestamp")),
        version=str(version) if type(version) in {int, str} else None,
        parent=None if folder is None else RolloutId(Host.PI, folder["id"]),
        forked_from=_origin(source.get("parentSession") or source.get("branchedFrom"), session),
        title=title,
    )


def _origin(place: object, session: str) -> RolloutId | None:
    """The session a fork was made from, by the path its header names (of this machine or another)."""
    if word(place) is None:
        return None
    origin = _id_of_name(re.split(r"[\\/]", str(place))[-1])
    return RolloutId(Host.PI, origin) if origin and origin != session else None


def _id_of_name(name: str) -> str:
    """`<time>_<id>.jsonl` -> `<id>`; another name without its suffix."""
    stem = re.sub(r"\.jsonl(?:\.zst|\.gz)?$", "", name)
    match = _FILE_NAME.fullmatch(stem)
    return re.sub(r"[^A-Za-z0-9._:@-]", "_", match["id"] if match else stem)[:200] or "unnamed"


def _expanded(place: str, host_environment: Mapping[str, str]) -> Path:
    """`~` by the given environment, not by that of this process."""
    home = host_environment.get("HOME")
    return Path(home) / place[2:] if home and place.startswith("~/") else Path(place)
