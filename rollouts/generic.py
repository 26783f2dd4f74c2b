"""slowwave's own session format: one header line and one line per event, so that any host can be read without code.

The format is described in docs/generic_rollout.md. Nothing is required but `type`, and `role` and `text` of events:
a wrong or missing field is left out, an unknown type or role is counted, no line stops the reading of the next.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from memory.errors import UnreadableRollout
from memory.model import EventKind, Header, Host, ReadReport, RolloutId, RolloutKind, Tier, Transcript
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
    content_texts,
    fingerprint,
    is_observer_text,
    is_own_place,
    is_own_text,
    is_own_tool,
    moment,
    word,
)
from rollouts.lines import Ends, Lines, Record

SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
_PEELER = Peeler({"system-reminder": "reminder", "memory": "memory", "memories": "memory"})
_KINDS = {kind.value: kind for kind in RolloutKind}
_ROLES = frozenset({"user", "assistant", "agent", "tool", "system"})
_SAFE_ID = re.compile(r"[A-Za-z0-9._:@/-]{1,200}")
_REASON = re.compile(r"[a-z][a-z0-9_]{0,39}")


class GenericAdapter:
    """Reads the generic format. Stateless."""

    host = Host.GENERIC

    def default_roots(self, host_environment: Mapping[str, str]) -> list[Path]:
        """None of its own: discovery adds `rollouts` under the data folder, which only the settings know."""
        return []

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
            elif _is_event(record):
                known = True
                if words := _person(record):
                    break
        if header is None and not known:
            raise UnreadableRollout(
                f"{path} holds no session in the generic format.", hint="docs/generic_rollout.md describes it."
            )
        last = None
        for record in ends.tail(report):
            if _is_event(record) and (last := moment(record.get("time"))) is not None:
                break
        made = _header(path, header, words)
        return Peek(
            header=made,
            last_event=last or made.started,
            user_chars=len(words),
            fingerprint=fingerprint(words) if words else "",
            whole=ends.whole,
        )

    def read(self, path: Path, *, limit: int | None = None) -> Transcript:
        report = ReadReport()
        log = Log()
        header: Record | None = None
        words = ""
        begun = False
        lines = Lines(path, report, limit=limit)
        for offset, record in lines:
            log.offset = offset
            if _is_event(record):
                begun = True
                words = words or _person(record)
                _event(record, log, report)
            elif header is None and not begun and _is_header(record):
                header = record
                log.cwd = word(record.get("cwd"))
            elif record.get("type") == "session":
                report.duplicates += 1
            else:
                report.unknown(_name(record.get("type")))
        made = _header(path, header, words)
        last = log.last_time()
        boundary = lines.boundary(len(log.drafts))
        return Transcript(made, log.seal(), boundary, report, last)


def _event(record: Record, log: Log, report: ReadReport) -> None:
    """One line to one event, or to several where a person's text has injected blocks at its ends."""
    role = _name(record.get("role"))
    text = "\n".join(content_texts(record.get("text")))
    time, name = moment(record.get("time")), word(record.get("id"))
    tool, call, ok = word(record.get("tool")), word(record.get("call_id")), record.get("ok")
    usual, log.cwd = log.cwd, word(record.get("cwd")) or log.cwd
    reason, kind = _derived(record, role, tool), _kind(role, tool)
    if role not in _ROLES:
        report.unknown(f"role/{role}")
    if reason is not None:
        log.derived(reason, text, time, name, kind, tool, call, ok if type(ok) is bool else None)
    elif kind is not MESSAGE:
        tier = AGENT if role == "agent" else TOOL
        log.add(tier, kind, text, time, name, tool, call, ok if kind is RESULT and type(ok) is bool else None)
    else:
        for part in _parts(text) if role == "user" else [Part(None, text)]:
            if part.derived_from is not None:
                log.derived(part.derived_from, part.text, time, name)
            elif part.text and not part.text.isspace():
                log.add(_tier(role, record), MESSAGE, part.text, time, name)
    log.cwd = usual


def _derived(record: Record, role: str, tool: str | None) -> str | None:
    """Why a line is no evidence: the writer says so, it is a system text, or it is our own memory."""
    given = record.get("derived")
    if given is True:
        return "derived"
    if type(given) is str:
        return given if _REASON.fullmatch(given) else "derived"
    if role == "system":
        return "system_prompt"
    if role not in _ROLES:
        return "unknown_role"
    return "memory" if is_own_tool(tool) else None


def _kind(role: str, tool: str | None) -> EventKind:
    """A tool named by an assistant is a call, a tool's own text or that of an agent called as a tool a result."""
    if role == "tool":
        return RESULT
    if tool is None or role in {"user", "system"}:
        return MESSAGE
    return CALL if role == "assistant" else RESULT


def _tier(role: str, record: Record) -> Tier:
    if role == "user":
        return HUMAN
    if role == "agent":
        return AGENT
    return FINAL if record.get("final") is True else COMMENTARY


def _is_header(record: Record) -> bool:
    """`type: session` with `host_name` or `started`; Pi's header has neither."""
    return record.get("type") == "session" and ("host_name" in record or "started" in record)


def _is_event(record: Record) -> bool:
    return record.get("type") == "event" and type(record.get("role")) is str


def _parts(text: str) -> list[Part]:
    return _PEELER.parts(text)


def _person(record: Record) -> str:
    """The person's own words in an event, "" where there are none."""
    if record.get("role") != "user" or _derived(record, "user", None) is not None:
        return ""
    text = "\n".join(content_texts(record.get("text")))
    return next((part.text for part in _parts(text) if part.derived_from is None), "")


def _name(value: object) -> str:
    return value[:64] if type(value) is str else "(none)"


def _header(path: Path, record: Record | None, words: str) -> Header:
    source = record or {}
    given = word(source.get("id"))
    cwd = word(source.get("cwd"))
    kind = _KINDS.get(_name(source.get("kind")), RolloutKind.INTERACTIVE)
    if is_own_place(cwd) or is_own_text(words):
        kind = RolloutKind.OWN
    elif kind is RolloutKind.INTERACTIVE and is_observer_text(words):
        kind = RolloutKind.AUXILIARY
    host = word(source.get("host_name")) or ""
    version = word(source.get("host_version")) or ""
    return Header(
        id=RolloutId(Host.GENERIC, given if given and _SAFE_ID.fullmatch(given) else _id_of_name(path.name)),
        path=path,
        kind=kind,
        cwd=cwd,
        branch=word(source.get("branch")),
        remote=word(source.get("remote")),
        started=_started(source),
        version=f"{host} {version}".strip() or None,
        parent=_reference(source.get("parent")),
        forked_from=_reference(source.get("forked_from")),
        title=word(source.get("title")),
    )


def _started(source: Mapping[str, object]) -> datetime | None:
    return moment(source.get("started")) or moment(source.get("timestamp"))


def _reference(value: object) -> RolloutId | None:
    """A session of this format by its id, or of any host as `host:id`."""
    text = word(value)
    if text is None:
        return None
    try:
        return RolloutId.parse(text)
    except ValueError:
        return RolloutId(Host.GENERIC, text) if _SAFE_ID.fullmatch(text) else None


def _id_of_name(name: str) -> str:
    stem = re.sub(r"\.jsonl(?:\.zst|\.gz)?$", "", name)
    return re.sub(r"[^A-Za-z0-9._:@-]", "_", stem)[:200] or "unnamed"
