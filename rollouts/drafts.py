"""What every adapter needs to turn records into events: numbering, bounds, injected blocks, marks of our own.

A reader collects `Draft`s in file order (`Log`), may change the tier of an earlier one while it reads on, and seals
them at the end. Numbers and texts never change once given.
"""

from __future__ import annotations

import gc
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import orjson

from memory.clock import parse_iso
from memory.model import MAX_EVENT_TEXT, Event, EventKind, Tier

MESSAGE, CALL, RESULT = EventKind.MESSAGE, EventKind.TOOL_CALL, EventKind.TOOL_RESULT
HUMAN, FINAL, AGENT = Tier.HUMAN, Tier.FINAL, Tier.AGENT
COMMENTARY, TOOL, DERIVED = Tier.COMMENTARY, Tier.TOOL, Tier.DERIVED

MAX_DERIVED_TEXT = 4_096
"""Code points kept of what is no evidence; enough to recognise it by."""

# -- drafts -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Draft:
    """An event while its rollout is being read: the fields of `Event`, changeable."""

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

    def demote(self, reason: str) -> None:
        """No evidence any more; what was derived before keeps its first reason."""
        if self.tier is not DERIVED:
            self.tier = DERIVED
            self.derived_from = reason


_SHOWN_MEMORY = re.compile(r"<slowwave-memory\b[^>]*>.*?(?:</slowwave-memory>|\Z)", re.DOTALL)
LEFT_OUT = "[memory, left out]"
"""Stands for what our own commands and tools answered, wherever in a result it stood [Z073]."""


class Log:
    """The drafts of one rollout in file order. `cwd` and `offset` are those of the record being read."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.cwd: str | None = None
        self.offset = 0

    def add(
        self,
        tier: Tier,
        kind: EventKind,
        text: str,
        time: datetime | None,
        host_id: str | None = None,
        tool: str | None = None,
        call_id: str | None = None,
        ok: bool | None = None,
    ) -> Draft:
        """One more event of the given tier; its text is bounded here. What a tool showed of our memory is left out."""
        if kind is RESULT and tier is not DERIVED and "<slowwave-memory" in text:
            text = _SHOWN_MEMORY.sub(LEFT_OUT, text)
        full = len(text)
        if full > MAX_EVENT_TEXT:
            text = bounded(text)
        if "\0" in text:
            text = text.replace("\0", "\ufffd")
        drafts = self.drafts
        draft = Draft(
            len(drafts) + 1, tier, kind, text, time, tool, call_id, ok, self.cwd, host_id, self.offset, full, None
        )
        drafts.append(draft)
        return draft

    def derived(
        self,
        reason: str,
        text: str,
        time: datetime | None,
        host_id: str | None = None,
        kind: EventKind = MESSAGE,
        tool: str | None = None,
        call_id: str | None = None,
        ok: bool | None = None,
    ) -> None:
        """One more event that is no evidence. A message without text is no event."""
        if not text and kind is MESSAGE:
            return
        draft = self.add(DERIVED, kind, bounded(text, MAX_DERIVED_TEXT), time, host_id, tool, call_id, ok)
        draft.full_chars = len(text)
        draft.derived_from = reason

    def seal(self) -> tuple[Event, ...]:
        """The events. The log is used up: its drafts become them."""
        events = self.drafts
        self.drafts = []
        # The two classes have the same slots, so a draft can become an event in place: a fifth of the time that
        # building anew takes, and reading is held to a small multiple of parsing.
        for draft in events:
            draft.__class__ = Event  # type: ignore[assignment]
        return cast("tuple[Event, ...]", tuple(events))

    def last_time(self) -> datetime | None:
        """The latest time of any event."""
        return max((draft.time for draft in self.drafts if draft.time is not None), default=None)


@contextmanager
def without_collector() -> Iterator[None]:
    """Pauses the cyclic garbage collector: a reader makes many objects and no cycles, and each pass over them costs."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def bounded(text: str, limit: int = MAX_EVENT_TEXT) -> str:
    """`text` in at most `limit` code points: half from the head, half from the tail, the cut marked [C066]."""
    if len(text) <= limit:
        return text
    mark = f"\n[… {len(text) - limit:,} or more characters left out …]\n"
    half = (limit - len(mark)) // 2
    return text[:half] + mark + text[-half:]


def stamp(text: str) -> datetime | None:
    """An ISO time stamp; the usual form, in UTC, takes a short way."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is UTC else parse_iso(text)


def moment(value: object) -> datetime | None:
    """A host's time stamp: ISO text or epoch seconds or milliseconds; None where it is neither."""
    if type(value) is str:
        return parse_iso(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, UTC)
        except (OverflowError, OSError, ValueError):
            return None
    return None


def text_of(value: object) -> str | None:
    """The value where it is text that is not blank, else None."""
    return value if type(value) is str and value and not value.isspace() else None


def mapped(value: object) -> dict[str, Any]:
    """The value where it is an object, else an empty one: fields of a damaged record are read one by one."""
    return value if type(value) is dict else {}


def listed(value: object) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if type(value) is list else []


def kind_of(record: Mapping[str, Any]) -> str:
    """The `type` of a record, as text whatever it is."""
    kind = record.get("type")
    return kind if type(kind) is str else str(kind)[:80]


def word(value: object) -> str | None:
    """The value where it is text that is not empty, else None."""
    return value if type(value) is str and value else None


def fingerprint(text: str) -> str:
    """sha256 hex of a text without regard to white space; see `Peek.fingerprint`."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()


# -- contents -----------------------------------------------------------------------------------------

MEDIA: Mapping[str, str] = {
    "image": "[image]",
    "input_image": "[image]",
    "image_url": "[image]",
    "local_image": "[image]",
    "input_audio": "[audio]",
    "audio": "[audio]",
    "document": "[document]",
    "file": "[file]",
    "input_file": "[file]",
    "video": "[video]",
}
"""What stands for media in texts: never the media themselves [C019]."""


def content_texts(content: object) -> list[str]:
    """The texts of a message content: a string, a list of blocks or strings, or anything else (nothing).

    Blocks with a `text` give it, media give their placeholder, others nothing.
    """
    if type(content) is str:
        return [content]
    if type(content) is not list:
        return []
    texts = []
    for block in content:
        if type(block) is str:
            texts.append(block)
        elif type(block) is dict:
            text = block.get("text")
            if type(text) is str:
                texts.append(text)
            elif (kind := block.get("type")) is not None and type(kind) is str and kind in MEDIA:
                texts.append(MEDIA[kind])
    return texts


_PLACEHOLDERS = frozenset(MEDIA.values())


def has_words(text: str) -> bool:
    """Whether a text is more than placeholders of media."""
    return any(line.strip() not in _PLACEHOLDERS for line in text.splitlines())


def arguments_text(arguments: object) -> str:
    """A tool call's arguments as people would write them: the bare command, else `name: value` lines."""
    if type(arguments) is str:
        return arguments
    if type(arguments) is not dict:
        return "" if arguments is None else dump(arguments)
    command = arguments.get("command") or arguments.get("cmd")
    if type(command) is list and all(type(word) is str for word in command):
        command = command_line(command)
    if type(command) is str:
        return command
    return "\n".join(
        f"{key}: {value if type(value) is str else dump(value)}"
        for key, value in arguments.items()
        if value is not None
    )


def command_line(words: Sequence[str]) -> str:
    """An argument vector as one line; `bash -lc SCRIPT` is its script."""
    if len(words) == 3 and words[1] in {"-lc", "-c"}:
        return words[2]
    return " ".join(words)


def dump(value: object) -> str:
    """Compact JSON; "" for what is none."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError, RecursionError):
        return ""


def load_object(text: object) -> dict[str, Any] | None:
    """The JSON object a text is, else None."""
    if type(text) is not str or not text.startswith("{"):
        return None
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if type(value) is dict else None


# -- injected blocks ----------------------------------------------------------------------------------


class Part(NamedTuple):
    """A piece of a message: what it is derived from (None: the speaker's own words) and its text."""

    derived_from: str | None
    text: str


class Peeler:
    """Takes injected blocks off the start and the end of a text.

    `tags` names them: `{"system-reminder": "reminder"}` is `<system-reminder ...>...</system-reminder>`; a name that
    ends with `*` stands for all that begin so. A tag that somebody merely talks about, in a sentence or a fence,
    stays: only a block at the very start, or one that begins a line and reaches the very end, is taken off. Blocks of
    our own memory are taken out wherever they begin a line.
    """

    def __init__(self, tags: Mapping[str, str]) -> None:
        self._tags = {tag.lower(): reason for tag, reason in tags.items() if not tag.endswith("*")}
        self._prefixes = tuple((tag[:-1].lower(), reason) for tag, reason in tags.items() if tag.endswith("*"))
        names = "|".join(
            re.escape(tag.rstrip("*")) + (r"[\w.-]*" if tag.endswith("*") else "")
            for tag in sorted(tags, key=len, reverse=True)
        )
        self._opening = re.compile(rf"<({names})(?=[\s>/])[^<>]*>", re.IGNORECASE)
        self._closing = re.compile(rf"</({names})(?:\s[^<>]*)?>\Z", re.IGNORECASE)

    def _reason(self, tag: str) -> str:
        exact = self._tags.get(tag)
        return exact or next((reason for prefix, reason in self._prefixes if tag.startswith(prefix)), "injected")

    def parts(self, text: str) -> list[Part]:
        """The pieces in order; blank ones are left out."""
        if "<" not in text:
            return [Part(None, text.strip())] if not text.isspace() and text else []
        found: list[Part] = []
        for piece in own_memory(text):
            if piece.derived_from is None:
                found.extend(self._peel(piece.text))
            else:
                found.append(piece)
        return found

    def _peel(self, text: str) -> list[Part]:
        before: list[Part] = []
        after: list[Part] = []
        text = text.strip()
        while text.startswith("<") and (opening := self._opening.match(text)):
            end = _closing_end(text, opening[1], opening.end())
            if end < 0:
                break
            before.append(Part(self._reason(opening[1].lower()), text[:end]))
            text = text[end:].lstrip()
        while text.endswith(">") and (closing := self._closing.search(text, max(0, text.rfind("</")))):
            start = _last_opening(text, closing[1])
            if start < 0 or text.count("```", 0, start) % 2:
                break
            after.append(Part(self._reason(closing[1].lower()), text[start:]))
            text = text[:start].rstrip()
        return [*before, *([Part(None, text)] if text else []), *reversed(after)]


def _closing_end(text: str, tag: str, start: int) -> int:
    """Where the first `</tag ...>` from `start` on ends; -1 for none. Tags close as they were opened."""
    at = start
    while (at := text.find(f"</{tag}", at)) >= 0:
        at += len(tag) + 2
        end = text.find(">", at, at + 200)
        if end >= 0 and (end == at or text[at].isspace()):
            return end + 1
    return -1


def _last_opening(text: str, tag: str) -> int:
    """Where the last `<tag` stands that begins a line; -1 for none."""
    end = len(text)
    while (at := text.rfind(f"<{tag}", 0, end)) >= 0:
        after = text[at + len(tag) + 1 : at + len(tag) + 2]
        if (after in {">", "/"} or after.isspace()) and not text[text.rfind("\n", 0, at) + 1 : at].strip(" \t"):
            return at
        end = at
    return -1


_OWN_MEMORY = re.compile(r"^[ \t]*<slowwave-memory\b[^>]*>.*?(?:</slowwave-memory>|\Z)", re.DOTALL | re.MULTILINE)


def own_memory(text: str) -> Iterator[Part]:
    """Splits a text at the blocks our own injection left in it; an unclosed one reaches to the end [Z072]."""
    if "<slowwave-memory" not in text:
        yield Part(None, text)
        return
    position = 0
    for match in _OWN_MEMORY.finditer(text):
        if text[position : match.start()].strip():
            yield Part(None, text[position : match.start()])
        yield Part("memory", match[0])
        position = match.end()
    if text[position:].strip():
        yield Part(None, text[position:])


_TEMPLATE = re.compile(
    r"\s*## User Input\s*```text[ \t]*\n(?P<input>.*?)\n?```\s*(?P<rest>You \*\*MUST\*\* consider the user input.*)\Z",
    re.DOTALL,
)


def template(text: str) -> list[Part]:
    """A prompt file that was sent with the person's input in it: the input is theirs, the rest is not."""
    match = _TEMPLATE.match(text) if "## User Input" in text[:40] else None
    if match is None:
        return [Part(None, text)]
    said = match["input"].strip()
    return [*([Part(None, said)] if said else []), Part("command", match["rest"])]


# -- marks of our own and of other memories -----------------------------------------------------------

_OWN_PLACE = re.compile(r"(?:^|[/\\])generations[/\\][^/\\]+[/\\]memories_v2(?:[/\\]|$)")
_OWN_TEXT = re.compile(r"<slowwave-own-session\b|^<evidence>\s*^\[(?:e\d+ |gap: )", re.MULTILINE)
_OBSERVER = re.compile(r"<observed_from_primary_session>|\bYou are a Claude-Mem\b|^HEARTBEAT_OK\s*$", re.MULTILINE)
_MEMORY_PLACES = (".codex/memories", "memories_v2", "MEMORY.md", "memory_summary.md", "/memory/", "rollout_summaries")
_TOPIC = re.compile(r"\.claude[^\s\"']*/memory/")


def is_own_place(cwd: str | None) -> bool:
    """Whether a session ran inside a slowwave workspace: it is our own agent's [Z068]."""
    return cwd is not None and _OWN_PLACE.search(cwd) is not None


def is_own_text(first_human: str) -> bool:
    """Whether a first message carries our marks: the own-session tag, or an evidence print in its envelope."""
    return _OWN_TEXT.search(first_human[:20_000]) is not None


def is_observer_text(first_human: str) -> bool:
    """Whether a session is another memory tool's, watching a session."""
    return _OBSERVER.search(first_human[:2_000]) is not None


def is_own_tool(name: str | None) -> bool:
    """Whether a tool is one of our memory tools, bare or behind a host's MCP prefix [Z073]."""
    return name is not None and (name.startswith("memory_") or "slowwave" in name)


_OWN_COMMAND = re.compile(
    r"(?:^|[\s/\"'&;|(])slowwave[\"']?\s+(?:search|show|why|sources|tool|short|evidence|diff|history)(?=[\s\"'\\;|&)]|\Z)"
)
"""A command of ours that prints memory."""


def touches_memory(call_text: str) -> bool:
    """Whether a tool call reads or writes a memory of a host or of ours: what it shows was known before [Z074]."""
    start = call_text[:2_000]
    if "slowwave" in start and _OWN_COMMAND.search(start) is not None:
        return True
    for place in _MEMORY_PLACES:
        if place in start:
            return place != "/memory/" or _TOPIC.search(start) is not None
    return False
