"""What a session gets of memory, and when; it meets the host through three ports only [Z003 Z018 Z019].

    start         a conversation begins, goes on or lost its context     the block, unless it stands there already
    prompt        the user sends something                               mode frozen at the first one; selection; check
    tool          a tool has run                                         sources really read are counted as used
    end           the turn is over                                       the selection is released

Mode and set of sources are frozen at the first send of a session, the text of the sources is live [Z006 Z011 Z041].
What a session got can be taken back, never added to: switching the plugin off takes everything, mode `off` and a clear
take the summary, each at the next turn of the user [Z009 Z023]. Inside a turn nothing is selected.

A host that keeps what it is given in the conversation gets the block once and again only when it changed; one that
asks for every request (Pi) gets it every time. State of a session (`snapshot`):

    mode, parts        frozen at the first send; parts are `summary`, `titles`, `user`, `project`
    selection          of the turn that is running: message and parts; none between turns [Z014 Z017]
    batch              the check this session asked for last, with the models in force then [Z015 Z018]
    usage              turns, blocks, tokens given, sources read [Z016]
    standing           digest of the block that stands in the conversation, `withdrawn`, or empty
    block              of the block as it was built last: its digest, its sources, the files it depends on; not its text
    seen               the last messages, so that a delivery that comes twice counts once
    late               when the last block was given by a hook whose time was up (`recall.late`)

Standard library only, and of that as little as a hook can do with: building a block is imported when one is built.
"""

from __future__ import annotations

import os

from memory.switches import Switches, signature_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from recall.inject import Block, Request
    from recall.ports import History, ModelResolution, Persistence

SUMMARY, TITLES, USER, PROJECT = "summary", "titles", "user", "project"
WITHDRAWN = "withdrawn"
OPENING = "<slowwave-memory id="
CONTEXT_LOST = frozenset({"clear", "compact"})
CONTEXT_COPIED = frozenset({"resume", "fork"})
SETTINGS = "settings"
SEEN = 64
KEEP_READS = 256
KEPT_OF_BLOCK = (
    "for",
    "digest",
    "tokens",
    "citations",
    "left_out",
    "published",
    "generation",
    "built",
    "depends",
    "project",
)
"""What a snapshot keeps of a block: not its text, which lies in the generation and goes with it [X40]."""
BLOCK_NAMES = {*KEPT_OF_BLOCK, "text", "dropped", "diagnostics", "project_marks"}
RACY_NS = 1_000_000_000
"""A file written so shortly before it was read may have been written again without a trace in its times."""


class HostTraits:
    """How a host takes a block: its cap, and whether it stays in the conversation once given."""

    __slots__ = ("amount", "keeps", "unit")

    def __init__(self, unit: str, amount: int, *, keeps: bool) -> None:
        self.unit = unit
        self.amount = amount
        self.keeps = keeps


TRAITS = {
    "claude": HostTraits("chars", 8_900, keeps=True),
    "codex": HostTraits("tokens", 2_400, keeps=True),
    "generic": HostTraits("chars", 8_900, keeps=True),
    "pi": HostTraits("chars", 9_000, keeps=False),
}
"""Claude Code cuts a hook's text above 10,000 characters, Codex above 2,500 tokens; Pi's cap is `inject.pi_chars`."""


class Call:
    """One event of a host, in the policy's words. `kind` is `start`, `prompt`, `tool`, `end` or `other`.

    `message` identifies the user's message, empty where the host does not; `source` says why a conversation starts;
    `by_user` is False for a prompt that no person sent; `reads` are citations of sources a tool has read.
    """

    __slots__ = ("by_user", "cwd", "host", "kind", "message", "model", "reads", "session", "source", "transcript")

    def __init__(
        self,
        kind: str,
        host: str,
        session: str,
        *,
        cwd: str = "",
        message: str = "",
        transcript: str = "",
        source: str = "",
        model: str = "",
        by_user: bool = True,
        reads: tuple[str, ...] = (),
    ) -> None:
        self.kind = kind
        self.host = host
        self.session = session
        self.cwd = cwd
        self.message = message
        self.transcript = transcript
        self.source = source
        self.model = model
        self.by_user = by_user
        self.reads = reads


class Answer:
    """`text` goes to the host; then `commit` keeps what is to be kept. `outcome` is one word for the log."""

    __slots__ = ("commit", "outcome", "text")

    def __init__(self, text: str, outcome: str, commit: Callable[[], None]) -> None:
        self.text = text
        self.outcome = outcome
        self.commit = commit


class MemoryPolicy:
    """`settings` gives the switches in force now, from a file read before where it is the same; `now` is in seconds
    since the epoch. `build` makes the block of a request (`recall.inject.build`)."""

    def __init__(
        self,
        settings: Callable[[tuple[list[int] | None, dict[str, dict[str, object]]] | None], Switches],
        *,
        models: ModelResolution,
        history: History,
        store: Persistence,
        now: float,
        build: Callable[[Request], Block] | None = None,
    ) -> None:
        self._settings = settings
        self._models = models
        self._history = history
        self._store = store
        self._now = now
        self._build = build
        self._now_in_force: Switches
        self._built: dict[str, Any] | None = None
        self._late: dict[str, Any] | None = None

    def handle(self, call: Call) -> Answer:
        """What the host gets for an event. Nothing is written before `commit`, which may raise OSError."""
        known = self._load(call)
        state = known if known is not None else _fresh(call, _fence_id(call))
        state["at"] = self._now
        switches = self._switches(state)
        if call.kind == "start":
            return self._start(call, state, switches)
        if call.kind == "prompt":
            return self._prompt(call, state, switches)
        if call.kind == "tool":
            return self._tool(call, state, switches, new=known is None)
        if call.kind == "end" and known is not None:
            state["selection"] = None
            return self._answer(call, state, "", "released")
        return Answer("", "nothing", _nothing)

    def cached(self, call: Call) -> Answer:
        """The block as it was built last, here or in another session of this folder, where it still holds and does not
        stand there already: the answer of a hook whose time is up. It holds no lock, so `commit` leaves the state alone
        and a mark beside it, which the next hook takes in."""
        nothing = Answer("", "nothing", _nothing)
        if call.kind != "prompt":
            return nothing
        state = self._load(call) or _fresh(call, _fence_id(call))
        switches = self._switches(state)
        parts = self._parts(state, switches)
        found = self._shared(call, state, self._request(call, state, parts)) if parts else None
        if found is None or (TRAITS[call.host].keeps and found["digest"] == state["standing"]):
            return nothing
        from recall import late

        frozen = (state["mode"], state["parts"]) if state["mode"] else (switches.mode, list(parts))
        mark = late.mark(found, self._now, *frozen)
        return Answer(_signed(found, state), "block", lambda: self._store.save_late(call.host, call.session, mark))

    def _load(self, call: Call) -> dict[str, Any] | None:
        """The session's state with what was given meanwhile; None for a session not seen before."""
        state = self._known(call)
        mark = self._store.load_late(call.host, call.session)
        if mark is None:
            return state
        from recall import late

        if not late.is_new(mark, state):
            return state
        self._late = mark
        return late.take_in(state or _fresh(call, _fence_id(call)), mark)

    def _known(self, call: Call) -> dict[str, Any] | None:
        """The session's state; None where there is none, or one that could not have been written here."""
        state = self._store.load(call.host, call.session)
        if state is None:
            return None
        whole = _fresh(call, "")
        same = all(
            isinstance(state.get(name), type(value)) for name, value in whole.items() if value is not None
        ) and set(whole["usage"]) <= set(state["usage"])
        return {**whole, **state} if same else None

    # -- the events

    def _start(self, call: Call, state: dict[str, Any], switches: Switches) -> Answer:
        state["project"] = None  # a conversation may go on in another folder
        if call.source in CONTEXT_LOST or (call.source in CONTEXT_COPIED and not self._stands(call, state)):
            state["standing"] = ""
        if not TRAITS[call.host].keeps:
            return self._answer(call, state, "", "started")
        parts = self._parts(state, switches)
        text, outcome = self._deliver(call, state, parts)
        return self._answer(call, state, text, outcome)

    def _stands(self, call: Call, state: dict[str, Any]) -> bool:
        """Whether what was given to this session is in the conversation that goes on."""
        given = state["standing"]
        return given in {"", WITHDRAWN} or self._history.holds(call.transcript, f"(text {given})")

    def _prompt(self, call: Call, state: dict[str, Any], switches: Switches) -> Answer:
        if not state["mode"]:
            state["mode"] = switches.mode
            state["parts"] = list(_wanted(switches, call.host))
        parts = self._parts(state, switches)
        again = bool(call.message) and call.message in state["seen"]
        if not again:
            state["seen"] = [*state["seen"], call.message][-SEEN:] if call.message else state["seen"]
            state["usage"]["turns"] += 1
        state["selection"] = {"message": call.message, "parts": list(parts)}
        text, outcome = self._deliver(call, state, parts)
        wake = SUMMARY in parts and call.by_user and not again
        if wake:
            state["batch"] = {"message": call.message, "time": self._now, "models": dict(self._models.resolve())}
        return self._answer(call, state, text, "again" if again and not text else outcome, wake=wake)

    def _tool(self, call: Call, state: dict[str, Any], switches: Switches, *, new: bool) -> Answer:
        if new or not call.reads or not self._parts(state, switches):
            return Answer("", "nothing", _nothing)
        read = {**state["usage"]["read"], **dict.fromkeys(call.reads, self._now)}
        state["usage"]["read"] = dict(sorted(read.items(), key=lambda item: item[1])[-KEEP_READS:])
        return self._answer(call, state, "", "read", used=call.reads)

    # -- selection

    def _switches(self, state: dict[str, Any]) -> Switches:
        """The values in force. A file that has become unreadable leaves a session with those it had."""
        before = state.get("config")
        known = (before[0], before[1]) if before else None
        found = self._settings(known)
        if found.problem and before and found.signature != before[0]:
            self._now_in_force = self._settings((signature_of(found.config), before[1]))
        else:
            self._now_in_force = found
            state["config"] = [found.signature, found.stored]
        _note(state, found.problem)
        return self._now_in_force

    def _parts(self, state: dict[str, Any], switches: Switches) -> tuple[str, ...]:
        """The parts a session may have now: those frozen, less what was switched off since."""
        if not switches.enabled:
            return ()
        if not state["mode"]:
            return _wanted(switches, state["host"])
        return tuple(part for part in state["parts"] if part not in (SUMMARY, TITLES) or switches.mode != "off")

    def _deliver(self, call: Call, state: dict[str, Any], parts: tuple[str, ...]) -> tuple[str, str]:
        """The text for the host and the outcome's word; keeps in `state` what stands in the conversation."""
        if not parts:
            return self._withdraw(call, state)
        wanted = self._request(call, state, parts)
        known = state["block"]
        keeps = TRAITS[call.host].keeps
        if keeps and known and known["digest"] == state["standing"] != "" and _holds(known, wanted, state):
            return "", "stands"
        block = self._shared(call, state, wanted) or self._make(call, state, parts, wanted)
        state["block"] = {name: block[name] for name in KEPT_OF_BLOCK}
        state["project"], state["dropped"] = block["project"], block["dropped"]
        of_settings = [item for item in state["diagnostics"] if item[2] == SETTINGS]
        state["diagnostics"] = [*of_settings, *block["diagnostics"]]
        if not block["text"]:
            return self._withdraw(call, state)
        if keeps and state["standing"] == block["digest"]:
            return "", "stands"
        state["standing"] = block["digest"]
        state["usage"]["blocks"] += 1
        state["usage"]["tokens"] += int(block["tokens"])
        return _signed(block, state), "block"

    def _withdraw(self, call: Call, state: dict[str, Any]) -> tuple[str, str]:
        """Nothing to give: what was given before, here or in the session this one was forked from, is revoked."""
        if not TRAITS[call.host].keeps:
            state["standing"] = ""
            return "", "nothing"
        inherited = False
        if not state["standing"] and not state.get("looked"):
            state["looked"] = True
            inherited = self._history.holds(call.transcript, OPENING)
        if state["standing"] in {"", WITHDRAWN} and not inherited:
            return "", "nothing"
        from recall import inject

        state["standing"] = WITHDRAWN
        return inject.withdrawal(state["id"]), "withdrawn"

    def _request(self, call: Call, state: dict[str, Any], parts: tuple[str, ...]) -> list[Any]:
        """What a block is asked for, as plain values: equal requests have equal blocks while no file changes."""
        traits, switches = TRAITS[call.host], self._now_in_force
        amount = switches.pi_chars if call.host == "pi" else traits.amount
        folder = state["project"]["cwd"] if state["project"] else _real(call.cwd)
        return [list(parts), switches.scope, traits.unit, amount, folder]

    def _shared(self, call: Call, state: dict[str, Any], wanted: list[Any]) -> dict[str, Any] | None:
        """The block another turn or session built for the same request, where nothing it depends on has changed."""
        try:
            found = self._store.load_block(_name(wanted))
        except OSError:
            return None
        if found is None or not found.keys() >= BLOCK_NAMES or not _holds(found, wanted, state):
            return None
        if state["project"] is None:
            marks = found["project_marks"]
            if marks is None or any(_mark(path) != mark for path, mark in marks):
                return None
        return found if state["project"] in (None, found["project"]) else None

    def _make(self, call: Call, state: dict[str, Any], parts: tuple[str, ...], wanted: list[Any]) -> dict[str, Any]:
        """Builds the block anew."""
        from recall import inject
        from recall.project_marks import project_at, project_marks

        project = state["project"] or project_at(call.cwd)
        built = (self._build or inject.build)(
            inject.Request(
                home=self._now_in_force.home,
                parts=parts,
                viewer=inject.Viewer(project["id"], project["name"]),
                root=project["root"],
                cwd=project["cwd"],
                setting=wanted[1],
                limit=inject.Limit(wanted[2], wanted[3]),
                id=state["id"],
            )
        )
        self._built = {
            "for": wanted,
            "text": built.text,
            "digest": built.digest,
            "tokens": inject.tokens(built.text),
            "citations": list(built.citations),
            "left_out": built.left_out,
            "published": built.version,
            "generation": built.generation,
            "built": int(self._now * 1e9),
            "depends": [[path, signature_of(path)] for path in built.depends],
            "dropped": [list(item) for item in built.dropped],
            "diagnostics": [list(item) for item in built.diagnostics],
            "project": project,
            "project_marks": project_marks(project, _mark),
        }
        return self._built

    def _answer(
        self,
        call: Call,
        state: dict[str, Any],
        text: str,
        outcome: str,
        *,
        wake: bool = False,
        used: tuple[str, ...] = (),
    ) -> Answer:
        block = state.get("block") or {}
        used = used or (tuple(block.get("citations", ())) if text and outcome == "block" else ())

        def commit() -> None:
            self._store.save(call.host, call.session, state)
            if self._late is not None:
                self._store.used(call.host, call.session, dict.fromkeys(self._late["citations"], self._late["at"]))
            if self._built is not None:
                self._store.save_block(_name(self._built["for"]), self._built)
            if used and (outcome != "block" or wake or TRAITS[call.host].keeps):
                self._store.used(call.host, call.session, dict.fromkeys(used, self._now))
            if wake:
                self._store.wake(
                    call.host,
                    call.session,
                    {
                        "host": call.host,
                        "session": call.session,
                        "transcript": call.transcript,
                        "cwd": call.cwd,
                        "time": self._now,
                        "models": state["batch"]["models"],
                    },
                )

        return Answer(text, outcome, commit)


def parts_of(mode: str, *, short_in_long: bool, titles: bool = False) -> tuple[str, ...]:
    """The set of sources of a mode: `short` the two short files, `long` the summary too, and titles of entries."""
    short = (USER, PROJECT)
    long = (SUMMARY, *((TITLES,) if titles else ()), *(short if short_in_long else ()))
    return {"short": short, "long": long}.get(mode, ())


def _wanted(switches: Switches, host: str) -> tuple[str, ...]:
    """The parts of a session that begins now. Pi's extension shows titles itself, in the system prompt."""
    titles = switches.titles and TRAITS[host].keeps
    return parts_of(switches.mode, short_in_long=switches.short_in_long, titles=titles)


def _fresh(call: Call, block_id: str) -> dict[str, Any]:
    return {
        "host": call.host,
        "session": call.session,
        "id": block_id,
        "mode": "",
        "parts": [],
        "project": None,
        "selection": None,
        "batch": None,
        "usage": {"turns": 0, "blocks": 0, "tokens": 0, "read": {}},
        "standing": "",
        "block": None,
        "seen": [],
        "diagnostics": [],
        "dropped": [],
    }


def _fence_id(call: Call) -> str:
    """The same for every block of a session, so that equal blocks are equal byte for byte."""
    return _digits(f"{call.host}:{call.session}")


def _real(cwd: str) -> str:
    return os.path.realpath(cwd) if os.path.isabs(cwd) and "\0" not in cwd else ""


def _digits(text: str) -> str:
    """Eight hex digits that tell texts apart where no one gains by making two alike."""
    import zlib

    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


def _name(wanted: list[Any]) -> str:
    """The name a block is kept under; what it was asked for stands in it and is compared."""
    return _digits(repr(wanted))


def _signed(block: dict[str, Any], state: dict[str, Any]) -> str:
    """The text of a block under the fence of this session, whichever built it."""
    text = str(block["text"])
    return f'{OPENING}"{state["id"]}">{text[text.index(chr(10)) :]}' if text else ""


def _holds(block: dict[str, Any], wanted: list[Any], state: dict[str, Any]) -> bool:
    """Whether a block is what is wanted and every file it was built from is as it was, or still absent."""
    if block["for"] != wanted or (state["project"] and state["project"] != block["project"]):
        return False
    built = int(block["built"])
    for path, signature in block["depends"]:
        if signature_of(path) != signature:
            return False
        if signature is not None and max(signature[0], signature[1]) > built - RACY_NS:
            return False
    return True


def _mark(path: str) -> object:
    """A folder is only there or not: its times change with everything in it."""
    return "folder" if os.path.isdir(path) else signature_of(path)


def _note(state: dict[str, Any], problem: str) -> None:
    """What is wrong with the settings now, in place of what was."""
    others = [item for item in state["diagnostics"] if item[2] != SETTINGS]
    state["diagnostics"] = [*([[problem, 0, SETTINGS]] if problem else []), *others]


def _nothing() -> None:
    return None
