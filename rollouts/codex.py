"""Reader of Codex CLI rollouts (`rollout-*.jsonl`, plain or compressed), from the bare format of 2025 on.

One message may stand in a file twice, as a response item and as an event for the screen: whichever comes first is
the event, its twin is counted in `ReadReport.duplicates`. Turns taken back (`thread_rolled_back`) and context
inherited from a parent stay numbered and become `derived`.

Kinds: `archived_sessions` is ARCHIVED; `exec` is EXEC; spawned agents and reviews are SUBAGENT; sessions that the
host runs for its own ends (compaction, guardian, memory, titles) are AUXILIARY; a thread whose memory the person
switched off (`memory_mode` "disabled") is DIAGNOSTIC: kept on disk to look into, never to be remembered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from memory.errors import UnreadableRollout
from memory.model import Header, Host, ReadReport, RolloutId, RolloutKind, Transcript
from rollouts.adapters import Peek
from rollouts.codex_reader import Reader
from rollouts.codex_types import Meta
from rollouts.drafts import (
    fingerprint,
    is_observer_text,
    is_own_place,
    is_own_text,
    kind_of,
    mapped,
    moment,
    without_collector,
)
from rollouts.lines import Ends, Lines, Record

_NAME = re.compile(r"rollout-[^/\\]*\.jsonl(?:\.zst|\.gz)?\Z")
_ID_IN_NAME = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})")
_TURN_MARK = b'"task_'  # started or complete
_ABORT_MARK = b'"turn_aborted"'
_QUIET_EVENTS = frozenset({"token_count", "thread_settings_applied", "thread_name_updated", "thread_goal_updated"})


class CodexAdapter:
    """See `rollouts.adapters.Adapter`."""

    host = Host.CODEX

    def default_roots(self, host_environment: Mapping[str, str]) -> list[Path]:
        """`sessions` and `archived_sessions` under `CODEX_HOME`, else under `~/.codex`."""
        home = host_environment.get("CODEX_HOME") or _under_home(host_environment, ".codex")
        return [Path(home) / "sessions", Path(home) / "archived_sessions"] if home else []

    def matches(self, path: Path) -> bool:
        """`rollout-*.jsonl`, `.zst` and `.gz` included."""
        return _NAME.match(path.name) is not None

    def peek(self, path: Path) -> Peek:
        """See `Adapter.peek`."""
        ends = Ends(path)
        report = ReadReport()
        reader = Reader(report)
        for offset, record in ends.head(report):
            reader.feed(offset, record)
            if reader.first_words:
                break
        if not reader.recognised:
            raise _not_a_rollout(path)
        if b'"memory_mode"' in ends.tail_bytes:
            for record in ends.tail(report):
                if record.get("type") == "session_meta":
                    reader.meta.take_memory_mode(mapped(record.get("payload")))
        words = reader.first_words
        return Peek(
            header=_header(path, reader.meta, words),
            last_event=_last_time(ends, report) or reader.meta.started,
            user_chars=len(words),
            fingerprint=fingerprint(words) if words else "",
            whole=ends.whole,
            open_turn=_open_turn(ends.tail_bytes),
        )

    def read(self, path: Path, *, limit: int | None = None) -> Transcript:
        """See `Adapter.read`."""
        report = ReadReport()
        reader = Reader(report)
        lines = Lines(path, report, limit=limit, prepare=reader.prepare)
        feed = reader.feed
        with without_collector():
            for offset, record in lines:
                feed(offset, record)
            reader.finish()
        if not reader.recognised and report.lines:
            report.notes.append(f"no Codex record in {report.lines} lines")
        header = _header(path, reader.meta, reader.first_words)
        last = reader.log.last_time() or reader.meta.started
        events = reader.log.seal()
        return Transcript(header, events, lines.boundary(len(events)), report, last)


def _header(path: Path, meta: Meta, first_words: str) -> Header:
    session = meta.id or _id_from_name(path)
    kind = meta.kind()
    if is_own_place(meta.cwd) or is_own_text(first_words):
        kind = RolloutKind.OWN
    elif "archived_sessions" in path.parts:
        kind = RolloutKind.ARCHIVED
    elif kind is RolloutKind.INTERACTIVE and is_observer_text(first_words):
        kind = RolloutKind.AUXILIARY
    return Header(
        id=RolloutId(Host.CODEX, session),
        path=path,
        kind=kind,
        cwd=meta.cwd,
        branch=meta.branch,
        remote=meta.remote,
        started=meta.started,
        version=meta.version,
        parent=RolloutId(Host.CODEX, meta.parent) if meta.parent else None,
        forked_from=RolloutId(Host.CODEX, meta.forked_from) if meta.forked_from else None,
        title=meta.title,
    )


def _id_from_name(path: Path) -> str:
    found = _ID_IN_NAME.search(path.name)
    return found[1] if found else path.name.partition(".")[0] or path.name


def _last_time(ends: Ends, report: ReadReport) -> datetime | None:
    """The time of the last record that somebody's doing left; bookkeeping counts only where there is no other."""
    fallback = None
    for record in ends.tail(report):
        time = moment(record.get("timestamp"))
        if time is None:
            continue
        if not _is_quiet(record):
            return time
        fallback = fallback or time
    return fallback


def _is_quiet(record: Record) -> bool:
    kind = kind_of(record)
    return kind in {"session_meta", "token_usage_record", "turn_context", "world_state"} or (
        kind == "event_msg" and kind_of(mapped(record.get("payload"))) in _QUIET_EVENTS
    )


def _open_turn(tail: bytes) -> bool:
    last = tail.rfind(_TURN_MARK)
    return last >= 0 and tail.startswith(b'started"', last + len(_TURN_MARK)) and tail.find(_ABORT_MARK, last) < 0


def _under_home(host_environment: Mapping[str, str], name: str) -> str:
    home = host_environment.get("HOME")
    return str(Path(home) / name) if home else ""


def _not_a_rollout(path: Path) -> UnreadableRollout:
    return UnreadableRollout(
        f"{path} holds no Codex session.", hint="Files of other tools are left alone; see `slowwave why`."
    )
