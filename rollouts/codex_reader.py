"""The state machine that turns the records of one Codex rollout into events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import orjson

from memory.model import ReadReport, RolloutKind, Tier
from rollouts.codex_text import answers, assistant_text, output_text, shell_parts, user_parts
from rollouts.codex_types import (
    SILENT_EVENTS,
    SILENT_ITEMS,
    SILENT_TYPES,
    SILENT_UI_ITEMS,
    SKIPPED,
    TURN_CONTEXT,
    TWIN_REACH,
    TYPE_AT,
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
    dump,
    has_words,
    is_own_tool,
    kind_of,
    listed,
    load_object,
    mapped,
    moment,
    stamp,
    text_of,
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
        self.recognised = False
        self.first_words = ""
        """What was first said in the user's role, by a person or by the agent that spawned this one."""
        self._speaker = HUMAN
        self._own_meta = False
        self._cwd_mark = b""
        self._inherited_below: int | None = None
        self._time: datetime | None = None
        self._calls: dict[str, tuple[str, str | None, str]] = {}  # call id -> tool, why derived, questions
        self._results: dict[str, Draft] = {}
        self._outcomes: dict[str, bool] = {}
        self._items: dict[tuple[str, str], Draft] = {}  # messages seen as response items, without their twin yet
        self._events: dict[tuple[str, str], Draft] = {}  # messages seen as events, without their twin yet
        self._turns: list[int] = []  # where each human turn begins: index of a draft
        self._in_turn = False
        self._closed_by_phase = False
        self._closing: list[Draft] = []  # assistant messages without a phase since the last tool call

    # -- records --------------------------------------------------------------------------------------

    def prepare(self, line: bytes) -> bytes | None:
        """Passes by what carries no event and would cost much to parse, where the line is surely whole."""
        start = line[TYPE_AT : TYPE_AT + 64]
        if start.startswith(SKIPPED):
            skip = True
        elif start.startswith(TURN_CONTEXT):
            skip = bool(self._cwd_mark) and self._cwd_mark in line
        else:
            return line
        return None if skip and line.endswith(b"}}") and line.find(b'{"timestamp":', 1) < 0 else line

    def feed(self, offset: int, record: Record) -> None:
        """One record."""
        log = self.log
        log.offset = offset
        kind = kind_of(record)
        payload = record.get("payload")
        time = record.get("timestamp")
        self._time = stamp(time) if type(time) is str else moment(time)
        if type(payload) is not dict:
            self._bare(record, kind)
            return
        handler = self._types.get(kind)
        if handler is None:
            if kind == "turn_context":
                self._turn_context(payload)
            elif kind not in SILENT_TYPES:
                self.report.unknown(kind[:80])
                return
            self.recognised = True
            return
        self.recognised = True
        before = len(log.drafts)
        handler(self, record, payload)
        if self._inherited_below is not None and len(log.drafts) > before:
            self._inherit(record, before)

    def finish(self) -> None:
        """The end of what can be read: closes the last turn."""
        self._close_turn(aborted=False)

    def _bare(self, record: Record, kind: str) -> None:
        """The format before the envelope: a header without a type, response items, state lines."""
        if record.get("type") is None and "instructions" in record and word(record.get("id")):
            self.recognised = True
            self._session_meta(record, record)
        elif kind in self._item_types and ("role" in record or "call_id" in record):
            self.recognised = True
            self._item_types[kind](self, record, {})
        elif record.get("record_type") != "state" and not (kind == "reasoning" and "summary" in record):
            self.report.unknown(kind[:80])

    def _inherit(self, record: Record, before: int) -> None:
        ordinal = record.get("ordinal")
        if type(ordinal) is int and self._inherited_below is not None and ordinal < self._inherited_below:
            for draft in self.log.drafts[before:]:
                draft.demote("inherited")

    def _session_meta(self, record: Record, payload: dict[str, Any]) -> None:
        if self._own_meta:
            self.meta.take_memory_mode(payload)
            return
        self._own_meta = True
        self.meta.started = self._time
        self.meta.take(payload)
        self._move(self.meta.cwd)
        if self.meta.kind() in {RolloutKind.SUBAGENT, RolloutKind.AUXILIARY}:
            self._speaker = AGENT
        start = payload.get("subagent_history_start_ordinal")
        self._inherited_below = start if type(start) is int else None
        base = mapped(mapped(payload.get("history_base")))
        if begun := word(base.get("thread_id")):
            self.report.notes.append(f"the beginning of this rollout lies in {begun[:80]}")
        prompt = payload.get("base_instructions")
        self.log.derived("system_prompt", word(mapped(prompt).get("text")) or word(prompt) or "", self._time)
        self.log.derived("instructions_file", word(payload.get("instructions")) or "", self._time)

    def _turn_context(self, payload: dict[str, Any]) -> None:
        self._move(word(payload.get("cwd")))

    def _move(self, cwd: str | None) -> None:
        if cwd is not None and cwd != self.log.cwd:
            self.log.cwd = cwd
            self.meta.cwd = self.meta.cwd or cwd
            self._cwd_mark = b'"cwd":' + orjson.dumps(cwd)

    def _compacted(self, record: Record, payload: dict[str, Any]) -> None:
        self.log.derived("compaction", word(payload.get("message")) or "", self._time)

    def _world_state(self, record: Record, payload: dict[str, Any]) -> None:
        self.log.derived("environment", dump(payload.get("state")), self._time)

    def _inter_agent(self, record: Record, payload: dict[str, Any]) -> None:
        self._agent(text_of(payload.get("content")), None, self._events)

    def _response_item(self, record: Record, payload: dict[str, Any]) -> None:
        kind = kind_of(payload)
        handler = self._item_types.get(kind)
        if handler is not None:
            handler(self, payload, record)
        elif kind not in SILENT_ITEMS:
            self.report.unknown(f"response_item/{kind[:80]}")

    # -- messages -------------------------------------------------------------------------------------

    def _message(self, payload: dict[str, Any], record: Record) -> None:
        role = payload.get("role")
        host_id = word(payload.get("id"))
        if role == "assistant":
            text = assistant_text("\n".join(content_texts(payload.get("content"))))
            self._assistant(text, payload.get("phase"), host_id, self._items)
        elif role == "user":
            parts = user_parts(payload)
            if mapped(record.get("metadata")).get("inherited_user_message"):
                self.log.derived("inherited", "\n".join(part.text for part in parts), self._time, host_id)
            else:
                self._user(parts, host_id, self._items)
        else:
            text = "\n".join(content_texts(payload.get("content")))
            reason = "system_prompt" if role == "system" else "developer"
            if text.startswith("## Memory") or "MEMORY_SUMMARY BEGINS" in text:
                reason = "memory"
            self.log.derived(reason, text, self._time, host_id)

    def _user(self, parts: list[Part], host_id: str | None, side: dict[tuple[str, str], Draft]) -> None:
        """A message in the user's role: injected pieces, then the person's own words as one event."""
        words = "\n".join(text for reason, text in parts if reason is None).strip()
        if words and (self._is_twin("user", words, side, host_id) or self._is_echo(words)):
            return
        begins = len(self.log.drafts)
        for reason, text in parts:
            if reason == "agent":
                self.log.add(AGENT, MESSAGE, text, self._time, host_id)
            elif reason == "shell":
                self._shell_of_user(text, host_id)
            elif reason is not None:
                self.log.derived(reason, text, self._time, host_id)
                if reason == "interrupt":
                    self._close_turn(aborted=True)
        if words:
            if not self._in_turn:
                self._close_turn(aborted=False)
            self._new("user", words, self._speaker, side, host_id)
            self._turns.append(begins)
            if not self.first_words and has_words(words):
                self.first_words = words

    def _shell_of_user(self, block: str, host_id: str | None) -> None:
        command, output = shell_parts(block)
        if command:
            self.log.add(HUMAN, MESSAGE, f"! {command}", self._time, host_id)
        if output:
            self.log.add(TOOL, RESULT, output_text(output)[0], self._time, host_id, "user_shell")

    def _assistant(self, text: str, phase: object, host_id: str | None, side: dict[tuple[str, str], Draft]) -> None:
        if not text:
            return
        if self._is_twin("assistant", text, side, host_id):
            return
        draft = self._new("assistant", text, COMMENTARY, side, host_id)
        self._closing.append(draft)
        self._phase(draft, phase)

    def _phase(self, draft: Draft, phase: object) -> None:
        if phase == "final_answer":
            draft.tier = FINAL
            self._closed_by_phase = True
        elif phase != "commentary":
            return
        if draft in self._closing:
            self._closing.remove(draft)

    def _agent_item(self, payload: dict[str, Any], record: Record) -> None:
        text = text_of("\n".join(content_texts(payload.get("content"))))
        self._agent(text, word(payload.get("id")), self._items)

    def _agent(self, text: str | None, host_id: str | None, side: dict[tuple[str, str], Draft]) -> None:
        if text and not self._is_twin("agent", text, side, host_id):
            self._new("agent", text, AGENT, side, host_id)

    def _is_twin(self, who: str, text: str, side: dict[tuple[str, str], Draft], host_id: str | None) -> bool:
        """Whether the other side showed this message before; takes its id over and counts it."""
        other = self._events if side is self._items else self._items
        twin = other.pop(_key(who, text), None)
        if twin is None or len(self.log.drafts) - twin.number > TWIN_REACH:
            return False
        twin.host_id = twin.host_id or host_id
        self.report.duplicates += 1
        return True

    def _is_echo(self, words: str) -> bool:
        """Whether this was just said, with nothing in between (a review writes its prompt twice)."""
        drafts = self.log.drafts
        if drafts and drafts[-1].tier is self._speaker and drafts[-1].text == words:
            self.report.duplicates += 1
            return True
        return False

    def _new(
        self, who: str, text: str, tier: Tier, side: dict[tuple[str, str], Draft], host_id: str | None = None
    ) -> Draft:
        draft = self.log.add(tier, MESSAGE, text, self._time, host_id)
        side[_key(who, text)] = draft
        if len(side) > TWIN_REACH:
            del side[next(iter(side))]
        return draft

    # -- tools ----------------------------------------------------------------------------------------

    def _call(self, payload: dict[str, Any], record: Record) -> None:
        name = word(payload.get("name")) or word(payload.get("type")) or "unknown"
        if namespace := word(payload.get("namespace")):
            name = f"{namespace}{name}" if namespace.endswith("_") else f"{namespace}__{name}"
        arguments = payload.get("arguments")
        raw = arguments if type(arguments) is str else ""
        given = load_object(arguments) if raw else arguments
        text = word(payload.get("input")) or arguments_text(given if given is not None else arguments)
        self._add_call(name, text, payload, raw if name == "request_user_input" else "")

    def _local_shell(self, payload: dict[str, Any], record: Record) -> None:
        self._add_call("shell", arguments_text(mapped(payload.get("action"))), payload)

    def _web_search(self, payload: dict[str, Any], record: Record) -> None:
        action = mapped(payload.get("action"))
        queries = [query for query in listed(action.get("queries")) if type(query) is str]
        text = word(action.get("query")) or "\n".join(queries) or word(action.get("url")) or ""
        self._add_call("web_search", text, payload)

    def _image_generation(self, payload: dict[str, Any], record: Record) -> None:
        self._add_call("image_generation", word(payload.get("revised_prompt")) or MEDIA["image"], payload)

    def _add_call(self, name: str, text: str, payload: dict[str, Any], questions: str = "") -> None:
        call_id = word(payload.get("call_id")) or word(payload.get("id"))
        host_id = word(payload.get("id"))
        reason = "own_tool" if is_own_tool(name) else "memory" if touches_memory(text) else None
        if call_id is not None:
            self._calls[call_id] = name, reason, questions
        if reason is None:
            self.log.add(TOOL, CALL, text, self._time, host_id, name, call_id)
        else:
            self.log.derived(reason, text, self._time, host_id, CALL, name, call_id)
        self._closing.clear()

    def _output(self, payload: dict[str, Any], record: Record) -> None:
        call_id = word(payload.get("call_id"))
        name, reason, questions = self._calls.get(call_id or "", (word(payload.get("name")), None, ""))
        text, ok = output_text(payload.get("output"))
        host_id = word(payload.get("id"))
        if questions and (said := answers(payload.get("output"), questions)):
            self.log.add(HUMAN, MESSAGE, said, self._time, host_id, name, call_id)
            return
        if ok is None and call_id is not None:
            ok = self._outcomes.get(call_id)
        if reason is not None:
            self.log.derived(reason, text, self._time, host_id, RESULT, name, call_id, ok)
            return
        draft = self.log.add(TOOL, RESULT, text, self._time, host_id, name, call_id, ok)
        if ok is None and call_id is not None:
            self._results[call_id] = draft

    def _tool_search_output(self, payload: dict[str, Any], record: Record) -> None:
        names = [word(mapped(tool).get("name")) or "" for tool in listed(payload.get("tools"))]
        call_id = word(payload.get("call_id"))
        text = ", ".join(filter(None, names))
        self.log.add(TOOL, RESULT, text, self._time, word(payload.get("id")), "tool_search_call", call_id)

    # -- events for the screen ------------------------------------------------------------------------

    def _event_msg(self, record: Record, payload: dict[str, Any]) -> None:
        kind = kind_of(payload)
        if kind == "user_message":
            text = word(payload.get("message"))
            self._user(user_parts({"content": [text]}) if text else [], None, self._events)
        elif kind == "agent_message":
            self._agent_event(assistant_text(word(payload.get("message")) or ""), payload.get("phase"))
        elif kind in {"task_started", "turn_started"}:
            self._close_turn(aborted=False)
            self._in_turn = True
        elif kind in {"task_complete", "turn_complete", "turn_aborted"}:
            self._close_turn(aborted=kind == "turn_aborted")
            self._in_turn = False
        elif kind == "thread_rolled_back":
            self._roll_back(payload.get("num_turns"))
        elif kind == "item_completed":
            self._ui_item(mapped(payload.get("item")))
        elif kind in {"exec_command_end", "patch_apply_end", "mcp_tool_call_end"}:
            self._outcome(word(payload.get("call_id")), _succeeded(payload))
        elif kind == "thread_name_updated":
            self.meta.title = word(payload.get("thread_name")) or word(payload.get("name")) or self.meta.title
        elif kind not in SILENT_EVENTS:
            self.report.unknown(f"event_msg/{kind[:80]}")

    def _agent_event(self, text: str, phase: object) -> None:
        twin = self._items.get(_key("assistant", text))
        if twin is not None:
            self._phase(twin, phase)
        self._assistant(text, phase, None, self._events)

    def _ui_item(self, item: dict[str, Any]) -> None:
        kind = kind_of(item)
        if kind == "UserMessage":
            self._user(user_parts({"content": item.get("content")}), None, self._events)
        elif kind in {"AgentMessage", "Plan"}:
            text = word(item.get("text")) or "\n".join(content_texts(item.get("content")))
            self._agent_event(assistant_text(text), item.get("phase"))
        elif kind in {"CommandExecution", "FileChange", "McpToolCall"}:
            self._outcome(word(item.get("id")), _succeeded(item))
        elif kind not in SILENT_UI_ITEMS:
            self.report.unknown(f"item_completed/{kind[:80]}")

    def _outcome(self, call_id: str | None, ok: bool | None) -> None:
        if call_id is None or ok is None:
            return
        draft = self._results.get(call_id)
        if draft is not None:
            draft.ok = ok
        else:
            self._outcomes[call_id] = ok

    # -- turns ----------------------------------------------------------------------------------------

    def _close_turn(self, *, aborted: bool) -> None:
        """The closing text of a turn that says no phase is its last message, unless it was broken off."""
        if self._closing and not aborted and not self._closed_by_phase:
            self._closing[-1].tier = FINAL
        self._closing.clear()
        self._closed_by_phase = False

    def _roll_back(self, count: object) -> None:
        """The last `count` human turns are void; their events stay numbered."""
        self._close_turn(aborted=False)
        self._items.clear()
        self._events.clear()
        if type(count) is not int or count <= 0 or not self._turns:
            return
        begins = self._turns[-min(count, len(self._turns))]
        for draft in self.log.drafts[begins:]:
            draft.demote("rolled_back")
        del self._turns[-min(count, len(self._turns)) :]

    _types: ClassVar[dict[str, Callable[[Reader, Record, dict[str, Any]], None]]] = {
        "session_meta": _session_meta,
        "response_item": _response_item,
        "event_msg": _event_msg,
        "compacted": _compacted,
        "world_state": _world_state,
        "inter_agent_communication": _inter_agent,
    }
    _item_types: ClassVar[dict[str, Callable[[Reader, dict[str, Any], Record], None]]] = {
        "message": _message,
        "agent_message": _agent_item,
        "function_call": _call,
        "custom_tool_call": _call,
        "local_shell_call": _local_shell,
        "tool_search_call": _call,
        "web_search_call": _web_search,
        "image_generation_call": _image_generation,
        "function_call_output": _output,
        "custom_tool_call_output": _output,
        "local_shell_call_output": _output,
        "tool_search_output": _tool_search_output,
    }


def _key(who: str, text: str) -> tuple[str, str]:
    if MEDIA["image"] in text:
        text = " ".join(text.replace(MEDIA["image"], "").split())
    return who, text


def _succeeded(payload: dict[str, Any]) -> bool | None:
    """Success as an event tells it: a flag, an exit code, a status, or a Rust result."""
    success, code, status = payload.get("success"), payload.get("exit_code"), payload.get("status")
    if type(success) is bool:
        return success
    if type(code) is int:
        return code == 0
    result = payload.get("result")
    if type(result) is dict and ("Ok" in result or "Err" in result):
        return "Ok" in result and not mapped(result["Ok"]).get("isError")
    return {"completed": True, "failed": False, "declined": False}.get(status) if type(status) is str else None
