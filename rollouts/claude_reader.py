"""The state machine that turns the records of one Claude Code transcript into events."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

from memory.model import ReadReport
from rollouts.claude_text import (
    answers,
    attachment_reason,
    attachment_text,
    inner,
    meta_reason,
    result_parts,
    said_on_refusal,
    user_parts,
)
from rollouts.claude_tree import NodeKind, Tree
from rollouts.claude_types import (
    AGENT_TOOLS,
    QUESTION_TOOLS,
    SILENT,
    SILENT_BLOCKS,
    SYSTEM_TEXTS,
    Meta,
)
from rollouts.drafts import (
    AGENT,
    CALL,
    COMMENTARY,
    FINAL,
    HUMAN,
    MEDIA,
    MESSAGE,
    RESULT,
    TOOL,
    Draft,
    Log,
    Part,
    arguments_text,
    content_texts,
    has_words,
    is_own_tool,
    kind_of,
    listed,
    mapped,
    moment,
    stamp,
    touches_memory,
    word,
)
from rollouts.lines import Record


class Reader:
    """Feed it the records in order, then `finish`."""

    def __init__(self, report: ReadReport) -> None:
        self.report = report
        self.log = Log()
        self.meta = Meta()
        self.tree = Tree()
        self.recognised = False
        self.first_human = ""
        self._side: set[str] = set()
        self._first_records = 64  # that may still tell something of the session
        self._time: datetime | None = None
        self._host_id: str | None = None
        self._uuid: str | None = None  # of the record being read, where it belongs to the main chain
        self._calls: dict[str, tuple[str, str | None]] = {}  # call id -> tool, why derived
        self._messages: dict[str, list[Draft | str]] = {}  # message id -> its text drafts and call ids
        self._closing: list[tuple[Draft, str]] = []  # texts since the last tool call, with their message id

    # -- records --------------------------------------------------------------------------------------

    def _place(self, uuid: str, parent: str | None) -> None:
        if uuid not in self.tree:
            size = len(self.log.drafts)
            self.tree.add(uuid, parent, NodeKind.OTHER, size, size)

    def feed(self, offset: int, record: Record) -> None:
        """One record."""
        kind = kind_of(record)
        handler = self._types.get(kind)
        if handler is None:
            if kind in SILENT:
                self.recognised = self.recognised or "sessionId" in record or "messageId" in record
                self.meta.session = self.meta.session or word(record.get("sessionId"))
            else:
                self.report.unknown(kind[:80])
            return
        log = self.log
        log.offset = offset
        time = record.get("timestamp")
        self._time = stamp(time) if type(time) is str else moment(time)
        handler(self, record)

    def finish(self) -> None:
        """The end of what can be read: closes the last turn, sets abandoned branches aside."""
        self._close_turn(aborted=False)
        for begin, end in self.tree.abandoned():
            for draft in self.log.drafts[begin:end]:
                draft.demote("abandoned_branch")

    # -- chain records --------------------------------------------------------------------------------

    def _enter(self, record: Record) -> bool:
        """Takes the fields all chain records share; False for a record that stands in the file already."""
        uuid = record.get("uuid")
        if type(uuid) is not str or not uuid:
            uuid = None
        elif uuid in self.tree or uuid in self._side:
            self.report.duplicates += 1
            return False
        meta = self.meta
        self.recognised = True
        if self._first_records > 0:
            self._first_records -= 1
            meta.take(record)
        self._uuid = uuid
        if record.get("isSidechain") is True:
            meta.sidechain = True
            if uuid is not None:
                self._side.add(uuid)
                self._uuid = None
        else:
            meta.main_chain = True
        cwd = record.get("cwd")
        if cwd != self.log.cwd and type(cwd) is str and cwd:
            self.log.cwd = cwd
        self._host_id = uuid
        if "forkedFrom" in record:
            fork = mapped(record["forkedFrom"])
            meta.forked_from = meta.forked_from or word(fork.get("sessionId"))
            self._host_id = word(fork.get("messageUuid")) or uuid
        return True

    def _leave(self, record: Record, kind: NodeKind, begin: int, message: str | None = None) -> None:
        """Gives the record its place in the tree."""
        if self._uuid is not None:
            parent = record.get("parentUuid") or record.get("logicalParentUuid")
            parent = parent if type(parent) is str else None
            self.tree.add(self._uuid, parent, kind, begin, len(self.log.drafts), message)

    def _user(self, record: Record) -> None:
        if not self._enter(record):
            return
        begin = len(self.log.drafts)
        content = mapped(record.get("message")).get("content")
        texts: list[str] = []
        results = False
        for block in [content] if type(content) is str else listed(content):
            if type(block) is dict and block.get("type") == "tool_result":
                self._result(block)
                results = True
            else:
                texts += content_texts([block])
        spoken = self._user_texts(texts, record) if texts else False
        kind = NodeKind.RESULT if results else NodeKind.HUMAN if spoken else NodeKind.OTHER
        self._leave(record, kind, begin)

    def _user_texts(self, texts: list[str], record: Record) -> bool:
        """Texts in the user's role; True where the person spoke."""
        reason = _not_typed(record)
        if reason is not None:
            text = "\n".join(texts)
            self.log.derived(meta_reason(text) if reason == "meta" else reason, text, self._time, self._host_id)
            if reason == "notification":
                self._agent_result(text)
            return False
        if record.get("isSidechain") is True:
            self.log.add(AGENT, MESSAGE, "\n".join(texts), self._time, self._host_id)
            return False
        if mapped(record.get("origin")).get("kind") == "human" or word(record.get("promptSource")) in {
            "typed",
            "queued",
        }:
            self.meta.typed = True
        return self._parts([part for text in texts for part in user_parts(text)])

    def _parts(self, parts: list[Part]) -> bool:
        """Injected pieces, then the person's own words as one event; True where there are such words."""
        words: list[str] = []
        for reason, text in parts:
            if reason is None:
                words.append(text)
            elif reason == "shell_input":
                words.append(f"! {inner(text)}")
            elif reason == "shell_output":
                if output := inner(text):
                    self.log.add(TOOL, RESULT, output, self._time, self._host_id, "user_shell")
            else:
                self.log.derived(reason, text, self._time, self._host_id)
                if reason == "interrupt":
                    self._close_turn(aborted=True)
                elif reason == "notification":
                    self._agent_result(text)
        text = "\n".join(words).strip()
        if not text:
            return False
        self._close_turn(aborted=False)
        self.log.add(HUMAN, MESSAGE, text, self._time, self._host_id)
        if not self.first_human and has_words(text):
            self.first_human = text
        return True

    def _agent_result(self, notification: str) -> None:
        """What a background agent reported inside a notification is another agent's word."""
        match = re.search(r"<result>\s*(.*?)\s*</result>", notification, re.DOTALL)
        if match is not None and match[1]:
            self.log.add(AGENT, MESSAGE, match[1], self._time, self._host_id)

    def _assistant(self, record: Record) -> None:
        if not self._enter(record):
            return
        begin = len(self.log.drafts)
        message = mapped(record.get("message"))
        message_id = word(message.get("id"))
        content = message.get("content")
        failed = record.get("isApiErrorMessage") is True or message.get("model") == "<synthetic>"
        known = self._messages.setdefault(message_id, []) if message_id else []
        for each in [content] if type(content) is str else listed(content):
            block: dict[str, Any] = each if type(each) is dict else {"type": "text", "text": each}
            kind = kind_of(block)
            if kind == "text":
                text = block.get("text")
                if type(text) is str and text and not text.isspace():
                    self._text(text.strip(), record, message_id, known, failed=failed)
            elif kind in {"tool_use", "server_tool_use", "mcp_tool_use"}:
                self._call(block, known)
            elif kind.endswith("_tool_result"):
                self._result(block)
            elif kind in MEDIA:
                self.log.add(COMMENTARY, MESSAGE, MEDIA[kind], self._time, self._host_id)
            elif kind not in SILENT_BLOCKS:
                self.report.unknown(f"assistant/{kind[:80]}")
        self._leave(record, NodeKind.ASSISTANT, begin, message_id)

    def _text(
        self, text: str, record: Record, message_id: str | None, known: list[Draft | str], *, failed: bool
    ) -> None:
        """A text block. One answer is written as several records, some of which repeat or complete earlier ones."""
        for earlier in known:
            if type(earlier) is Draft and earlier.full_chars <= len(text) and text.startswith(earlier.text):
                if earlier.full_chars == len(text):
                    self.report.duplicates += 1
                    return
                earlier.demote("partial")
        if failed:
            self.log.derived("api_error", text, self._time, self._host_id)
            return
        if record.get("isSidechain") is True:
            known.append(self.log.add(AGENT, MESSAGE, text, self._time, self._host_id))
            return
        draft = self.log.add(COMMENTARY, MESSAGE, text, self._time, self._host_id)
        known.append(draft)
        self._closing.append((draft, message_id or ""))

    # -- tools ----------------------------------------------------------------------------------------

    def _call(self, block: dict[str, Any], known: list[Draft | str]) -> None:
        call_id = word(block.get("id"))
        if call_id is not None:
            if call_id in known:
                self.report.duplicates += 1
                return
            known.append(call_id)
        name = word(block.get("name")) or "unknown"
        text = arguments_text(block.get("input"))
        reason = "own_tool" if is_own_tool(name) else "memory" if touches_memory(text) else None
        if call_id is not None:
            self._calls[call_id] = name, reason
        if reason is None:
            self.log.add(TOOL, CALL, text, self._time, self._host_id, name, call_id)
        else:
            self.log.derived(reason, text, self._time, self._host_id, CALL, name, call_id)
        self._closing.clear()

    def _result(self, block: dict[str, Any]) -> None:
        log, call_id = self.log, word(block.get("tool_use_id"))
        name, reason = self._calls.get(call_id or "", (None, None))
        text, beside = result_parts(block.get("content"))
        ok = block.get("is_error") is not True
        if reason is not None:
            log.derived(reason, text, self._time, self._host_id, RESULT, name, call_id, ok)
        elif ok and name in QUESTION_TOOLS and (given := answers(text)):
            log.add(HUMAN, MESSAGE, given, self._time, self._host_id, name, call_id)
        else:
            tier = AGENT if name in AGENT_TOOLS else TOOL
            log.add(tier, RESULT, text, self._time, self._host_id, name, call_id, ok)
            if not ok and (said := said_on_refusal(text, name)):
                log.add(HUMAN, MESSAGE, said, self._time, self._host_id)
        for part in beside:
            log.derived(part.derived_from or "reminder", part.text, self._time, self._host_id)

    # -- the rest -------------------------------------------------------------------------------------

    def _system(self, record: Record) -> None:
        if not self._enter(record):
            return
        begin = len(self.log.drafts)
        reason = SYSTEM_TEXTS.get(str(record.get("subtype")), "notification")
        self.log.derived(reason, word(record.get("content")) or "", self._time, self._host_id)
        self._leave(record, NodeKind.OTHER, begin)

    def _attachment(self, record: Record) -> None:
        if not self._enter(record):
            return
        begin = len(self.log.drafts)
        attachment = mapped(record.get("attachment"))
        kind = kind_of(attachment)[:80]
        spoken = False
        if kind == "queued_command":
            spoken = self._queued(attachment, record)
        else:
            reason = attachment_reason(kind)
            if reason is None:
                self.report.unknown(f"attachment/{kind}")
            text = attachment_text(attachment)
            if "<slowwave-memory" in text or (
                reason == "instructions_file" and "/memory/" in str(attachment.get("path"))
            ):
                reason = "memory"
            self.log.derived(reason or "attachment", text, self._time, self._host_id)
        self._leave(record, NodeKind.HUMAN if spoken else NodeKind.OTHER, begin)

    def _queued(self, attachment: dict[str, Any], record: Record) -> bool:
        """A prompt typed while the agent was at work."""
        texts = content_texts(attachment.get("prompt"))
        if attachment.get("commandMode") == "bash":
            texts = [f"! {text}" for text in texts]
        merged = {key: attachment.get(key) or record.get(key) for key in ("origin", "isMeta", "isSidechain")}
        mode = word(attachment.get("commandMode"))
        if mode not in {None, "prompt", "bash"}:
            merged["origin"] = {"kind": mode}
        return self._user_texts(texts, merged) if texts else False

    def _progress(self, record: Record) -> None:
        """Only its place in the tree counts, as in `prepare`."""
        self.recognised = True
        uuid = word(record.get("uuid"))
        if uuid is not None and record.get("isSidechain") is not True:
            self._place(uuid, word(record.get("parentUuid")))

    def _title(self, record: Record) -> None:
        kind = kind_of(record)
        field = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle", "agent-name": "agentName"}
        self.meta.session = self.meta.session or word(record.get("sessionId"))
        if title := word(record.get(field[kind])):
            self.meta.titles = {**(self.meta.titles or {}), kind: title[:200]}

    def _relocated(self, record: Record) -> None:
        if cwd := word(record.get("relocatedCwd")):
            self.meta.relocated = cwd
            self.log.cwd = cwd

    def _derived_from(self, record: Record) -> None:
        for session in listed(record.get("sessions")):
            self.meta.forked_from = self.meta.forked_from or word(mapped(session).get("id"))

    def _suppression(self, record: Record) -> None:
        self.meta.suppressed = True

    def _close_turn(self, *, aborted: bool) -> None:
        """The closing text of a turn is its last message after the last tool call, unless it was broken off."""
        if self._closing and not aborted:
            last = self._closing[-1][1]
            for draft, message_id in self._closing:
                if (message_id == last and message_id) or draft is self._closing[-1][0]:
                    draft.tier = FINAL if draft.derived_from is None else draft.tier
        self._closing.clear()

    _types: ClassVar[dict[str, Callable[[Reader, Record], None]]] = {
        "user": _user,
        "assistant": _assistant,
        "system": _system,
        "attachment": _attachment,
        "progress": _progress,
        "summary": _title,
        "custom-title": _title,
        "ai-title": _title,
        "agent-name": _title,
        "relocated": _relocated,
        "derived-from": _derived_from,
        "history-suppression": _suppression,
    }


def _not_typed(record: Record) -> str | None:
    """Why nobody typed this user record; None where a person (or an agent, in a sidechain) may have."""
    if record.get("isCompactSummary") is True:
        return "compaction"
    if record.get("isMeta") is True or record.get("isVirtual") is True or record.get("textNotTyped") is True:
        return "meta"
    if record.get("isVisibleInTranscriptOnly") is True:
        return "meta"
    origin = record.get("origin")
    kind = word(origin.get("kind")) if type(origin) is dict else None
    if kind is None or kind == "human":
        return None
    return "notification" if kind in {"task-notification", "auto-continuation"} else "third_party"
