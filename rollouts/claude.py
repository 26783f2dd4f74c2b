"""Reader of Claude Code transcripts (`projects/<slug>/<session>.jsonl` and subagent files).

The project is read from the records (`cwd`), never from the folder's name, which is lossy. The session id is that
of the file name where it is one: a resumed or forked copy may carry the ids of its origin. Copied records keep their
`uuid` (or that of their origin, `forkedFrom`) as `Event.host_id`, so that copies can be told across files.

Kinds: a file of sidechain records is SUBAGENT; `sdk-*` entry points without any sign of a person at the keyboard are
EXEC; daemon sessions are AUXILIARY; `history-suppression` is DIAGNOSTIC: not to be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from memory.errors import UnreadableRollout
from memory.model import Header, Host, ReadReport, RolloutId, RolloutKind, Transcript
from rollouts.adapters import Peek
from rollouts.claude_reader import Reader
from rollouts.claude_types import SILENT, Meta
from rollouts.drafts import fingerprint, is_observer_text, is_own_place, is_own_text, kind_of, moment, without_collector
from rollouts.lines import Ends, Lines

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_AGENT = re.compile(r"agent-([\w-]+)\Z")
_SUFFIXES = re.compile(r"\.jsonl(?:\.zst|\.gz)?\Z")


class ClaudeAdapter:
    """See `rollouts.adapters.Adapter`."""

    host = Host.CLAUDE

    def default_roots(self, host_environment: Mapping[str, str]) -> list[Path]:
        """`projects` under `CLAUDE_CONFIG_DIR`, else under `~/.claude` and `~/.config/claude`."""
        if base := host_environment.get("CLAUDE_CONFIG_DIR"):
            return [Path(base) / "projects"]
        home = host_environment.get("HOME")
        config = host_environment.get("XDG_CONFIG_HOME") or (str(Path(home) / ".config") if home else "")
        roots = [Path(home) / ".claude" / "projects"] if home else []
        return [*roots, Path(config) / "claude" / "projects"] if config else roots

    def matches(self, path: Path) -> bool:
        """`<uuid>.jsonl` and `agent-<id>.jsonl`; not what lies in `memory` or `tool-results` folders."""
        stem = _stem(path)
        if stem is None or not (_UUID.match(stem) or _AGENT.match(stem)):
            return False
        return path.parent.name not in {"memory", "tool-results"}

    def peek(self, path: Path) -> Peek:
        """See `Adapter.peek`."""
        ends = Ends(path)
        report = ReadReport()
        reader = Reader(report)
        for offset, record in ends.head(report):
            reader.feed(offset, record)
            if reader.first_human:
                break
        if not reader.recognised:
            raise UnreadableRollout(
                f"{path} holds no Claude Code session.", hint="Files of other tools are left alone."
            )
        if b'"relocatedCwd"' in ends.tail_bytes or b'"history-suppression"' in ends.tail_bytes:
            for record in ends.tail(report):
                if kind_of(record) in {"relocated", "history-suppression"}:
                    reader.feed(0, record)
        human = reader.first_human
        return Peek(
            header=_header(path, reader),
            last_event=_last_time(ends, report) or reader.meta.started,
            user_chars=len(human),
            fingerprint=fingerprint(human) if human else "",
            whole=ends.whole,
        )

    def read(self, path: Path, *, limit: int | None = None) -> Transcript:
        """See `Adapter.read`."""
        report = ReadReport()
        reader = Reader(report)
        lines = Lines(path, report, limit=limit)
        feed = reader.feed
        with without_collector():
            for offset, record in lines:
                feed(offset, record)
            reader.finish()
        if not reader.recognised and report.lines:
            report.notes.append(f"no Claude Code record in {report.lines} lines")
        last = reader.log.last_time() or reader.meta.started
        events = reader.log.seal()
        return Transcript(_header(path, reader), events, lines.boundary(len(events)), report, last)


def _stem(path: Path) -> str | None:
    match = _SUFFIXES.search(path.name)
    return path.name[: match.start()] if match else None


def _header(path: Path, reader: Reader) -> Header:
    meta = reader.meta
    session, parent, forked_from = _identity(path, meta)
    cwd = meta.relocated or meta.cwd
    kind = meta.kind()
    if is_own_place(cwd) or is_own_text(reader.first_human):
        kind = RolloutKind.OWN
    elif is_observer_text(reader.first_human):
        kind = RolloutKind.AUXILIARY
    return Header(
        id=RolloutId(Host.CLAUDE, session),
        path=path,
        kind=kind,
        cwd=cwd,
        branch=meta.branch,
        started=meta.started,
        version=meta.version,
        parent=RolloutId(Host.CLAUDE, parent) if parent else None,
        forked_from=RolloutId(Host.CLAUDE, forked_from) if forked_from and forked_from != session else None,
        title=meta.title(),
    )


def _identity(path: Path, meta: Meta) -> tuple[str, str | None, str | None]:
    """Session id, parent and origin. A subagent is `<session>.agent-<id>`, its parent the session it works for."""
    stem = _stem(path) or path.name
    if meta.sidechain and not meta.main_chain:
        named = _AGENT.match(stem)
        agent = meta.agent or (named[1] if named else stem)
        return f"{meta.session or 'unknown'}.agent-{agent}", meta.session, None
    if _UUID.match(stem):
        return stem, None, meta.forked_from or meta.session
    return meta.session or stem, None, meta.forked_from


def _last_time(ends: Ends, report: ReadReport) -> datetime | None:
    """The time of the last record of the conversation; bookkeeping counts only where there is no other."""
    fallback = None
    for record in ends.tail(report):
        time = moment(record.get("timestamp"))
        if time is None:
            continue
        if kind_of(record) not in SILENT:
            return time
        fallback = fallback or time
    return fallback
