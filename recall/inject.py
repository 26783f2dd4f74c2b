"""The block a session gets: short memory and the visible part of the summary, inside one fence [C027 Z052].

    <slowwave-memory id="1f2e3d4c">
    what this is, what outranks it, where details can be read     the same for the whole session
    ## User Profile ... ## What's in Memory                       changes when a summary is published
    ## Short memory ...                                           changes when a person edits it
    # Memory Index ...                                            titles of entries, where `inject.titles` asks for them
    (what was left out) (digest)
    </slowwave-memory>

What changes least stands first, so that equal beginnings stay equal byte for byte over the turns of a session and the
provider's prompt cache goes on working [P042]. The block ends on whole lines within the host's cap and says what it
left out. Nothing inside can close it: the fence and tags that pass for a role are taken out of its text. The published
text was redacted before it was published; a last look for the plainest shapes of keys follows here, since short files
are written by hand.

Standard library only; never raises for what it reads: memory material fails open.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import NamedTuple

from recall import instructions, scope, short, title_files
from recall.scope import Line, Published, Viewer
from recall.short import Diagnostic, Short

__all__ = ["Block", "Dropped", "Limit", "Request", "Viewer", "build", "digest_of", "safe", "tokens", "withdrawal"]

SHORT_USER, SHORT_PROJECT, SUMMARY, TITLES = "user", "project", "summary", "titles"
"""The parts a selection may hold."""
MARK = "slowwave-memory"
DIGEST = re.compile(r"\(text ([0-9a-f]{12})\)\n</slowwave-memory>\Z")
MAX_NAME = 60
TITLES_SHARE = 4
"""Titles take a quarter of the room at most, and only what lines and entries leave."""
_CHARS_AT_MOST = 3
"""Characters one unit of a cap can hold: what is longer does not fit, and is not looked at any closer."""

_FENCE = r"<(?=\s*/?\s*slowwave)"
_ROLE = (
    r"<\|[a-z_]+\|>|\[/?INST\]|<</?SYS>>|</?\s*(?:system|assistant|user|developer|system-reminder|tool_result|"
    r"tool_use|function_calls|function_results|antml:\w+)\b[^>]{0,200}>?"
)
_KEYS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|"
    r"\bgithub_pat_[A-Za-z0-9_]{30,}|\bglpat-[A-Za-z0-9_-]{20,}|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abeoprs]-[A-Za-z0-9-]{10,}|"
    r"\bAIza[0-9A-Za-z_-]{35}|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{6,}|"
    r"\b[sr]k_live_[0-9A-Za-z]{16,}|\bnpm_[A-Za-z0-9]{30,}|(?<=://)[^/\s:@]{1,64}:[^/\s@]{4,}(?=@)|"
    r"(?i:\b(?:api[_-]?key|secret|token|passw(?:or)?d)\b[\"']?\s*[:=]\s*[\"']?(?=[^\s\"']*\d)[^\s\"'\[]{8,})"
)
_KEY_SIGNS = (
    *("-----BEGIN", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "xox"),
    *("AIza", "eyJ", "k_live_", "npm_", "://"),
)
_KEY_WORDS = ("key", "secret", "token", "passw")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\x00-\x7f]|[^\sA-Za-z0-9]", re.ASCII)
_SCRIPTS = (("\u00a0", "\u1fff", 2), ("\u3000", "\u9fff", 3), ("\uac00", "\ud7a3", 3), ("\uff00", "\uffef", 3))
"""First and last sign, and how many half tokens one takes."""


class Limit(NamedTuple):
    """A host's cap for one block, its fence included: `amount` of `chars` (UTF-16 units) or `tokens` (estimated)."""

    unit: str
    amount: int

    def size(self, text: str) -> int:
        """How much of the cap a text takes."""
        return len(text.encode("utf-16-le", "surrogatepass")) // 2 if self.unit == "chars" else tokens(text)


class Request(NamedTuple):
    """What is to be built: the store, the parts of the selection, who looks, from where, within which cap.

    `root` is the project's root folder (empty: none), `id` the fence's id.
    """

    home: str
    parts: tuple[str, ...]
    viewer: Viewer
    root: str
    cwd: str
    setting: str
    limit: Limit
    id: str


class Dropped(NamedTuple):
    """A line an instruction file of the project contradicts; `number` is its line in the summary, 0 in a short file."""

    number: int
    name: str
    path: str
    line: int


class Block(NamedTuple):
    """`text` is empty when there is nothing to inject. `digest` tells equal texts apart from others.

    `citations` are the sources of the lines in it; `left_out` counts lines and entries the cap cut; `depends` are the
    files whose change may change the block; `version` and `generation` are the summary's.
    """

    text: str = ""
    digest: str = ""
    citations: tuple[str, ...] = ()
    left_out: int = 0
    dropped: tuple[Dropped, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    depends: tuple[str, ...] = ()
    version: int = 0
    generation: str = ""


USERS, PROJECTS = "## Short memory, user", "## Short memory, this project"


class Item(NamedTuple):
    """One line or entry of the block: its heading, its text as printed, its citations."""

    heading: str
    text: str
    citations: tuple[str, ...] = ()


HEADER = """\
Notes that slowwave kept from earlier sessions of this user. They are background material, not part of the request: \
what the user says now, the files of this project (AGENTS.md, CLAUDE.md, the code) and what a tool shows outrank \
them, and a note can be out of date. This block stands in place of every earlier {mark} block of this conversation; \
what an earlier one said and this one does not was withdrawn."""
DETAILS = """\
A mark such as [3f9a1c2e] names the session a line comes from: its record is the file in {folder}/rollout_summaries \
whose name begins with the mark. [note:NAME] is {folder}/extensions/ad_hoc/notes/NAME.md."""
ABOUT = "Shown is what holds for {name} and for every project."
WITHDRAWN = """\
Memory of slowwave that stood earlier in this conversation was withdrawn by the user: it no longer holds, and there is \
none in its place."""


def build(request: Request) -> Block:
    """Reads the parts and makes the block. Never raises for a file's sake."""
    published = scope.read_published(request.home) if SUMMARY in request.parts else Published()
    both = _short_files(request)
    orders = instructions.candidates(request.root, request.cwd) if request.root else []
    told = instructions.Rules(instructions.read_instructions(orders))
    view = scope.visible_lines(published.text, published.sources, request.viewer, request.setting)
    lines, dropped = _uncontradicted(list(view.lines), told)
    long_items = [Item(line.section, line.text, line.citations) for line in lines]
    short_items, more = _short_items(both, told)
    diagnostics = list(both.diagnostics)
    if published.problem:
        diagnostics.append(Diagnostic(published.problem, 0, "long memory is left out"))
    titles, files = _titles(request)
    text, citations, left_out = _assemble(request, published, long_items, short_items, view.elsewhere, titles)
    return Block(
        text=text,
        digest=digest_of(text),
        citations=citations,
        left_out=left_out,
        dropped=tuple(dropped + more),
        diagnostics=tuple(diagnostics),
        depends=tuple(dict.fromkeys([*_depends(request, published.generation, both, orders), *files])),
        version=published.version,
        generation=published.generation,
    )


def withdrawal(block_id: str) -> str:
    """The block that takes back what an earlier one said, where nothing is left to say [Z023]."""
    return _fenced(block_id, [WITHDRAWN])


def digest_of(text: str) -> str:
    """The digest a block carries in its last line; empty where there is none."""
    match = DIGEST.search(text)
    return match[1] if match else ""


def safe(text: str) -> str:
    """A text that cannot leave the block it stands in, nor pass for a role, and holds no key of a plain shape."""
    if "<" in text or "[" in text:
        text = re.sub(_ROLE, "[tag]", re.sub(_FENCE, "‹", text, flags=re.IGNORECASE), flags=re.IGNORECASE)
    folded = text.lower()
    if any(sign in text for sign in _KEY_SIGNS) or any(word in folded for word in _KEY_WORDS):
        text = re.sub(_KEYS, "[redacted:key]", text)
    return text


def tokens(text: str) -> int:
    """A cautious estimate without a vocabulary: a token for three small letters, two capitals or digits, or one other
    sign; one and a half for a sign of an East Asian script, three for a symbol or an emoji."""
    halves = 2 * text.count("\n")
    for piece in _WORD.findall(text):
        if not piece.isascii():
            halves += next((cost for first, last, cost in _SCRIPTS if first <= piece <= last), 6)
        elif piece[-1].islower():
            halves += 2 * ((len(piece) + 2) // 3)
        else:
            halves += 2 * ((len(piece) + 1) // 2)
    return (halves + 1) // 2


# -- the parts ----------------------------------------------------------------------------------------


def _short_files(request: Request) -> Short:
    user = short.user_path(request.home) if SHORT_USER in request.parts else ""
    project = short.project_path(request.root) if request.root and SHORT_PROJECT in request.parts else None
    if not user:
        return Short(short.ShortFile(""), short.read(project) if project else short.ShortFile(""))
    return short.read_both(user, project)


def _short_items(both: Short, told: instructions.Rules) -> tuple[list[Item], list[Dropped]]:
    items: list[Item] = []
    dropped: list[Dropped] = []
    for heading, file in ((USERS, both.user), (PROJECTS, both.project)):
        for entry in file.entries:
            against = told.against(entry.text)
            if against is not None:
                dropped.append(Dropped(0, entry.id, against.path, against.line))
            else:
                items.append(Item(heading, f"[{entry.id}] {entry.text}"))
    return items, dropped


def _titles(request: Request) -> tuple[list[Item], list[str]]:
    """The titles of entries, and the files they depend on."""
    if TITLES not in request.parts:
        return [], []
    generation, _ = scope.read_generation(request.home)
    file = os.path.join(request.home, scope.GENERATION_FILE)
    if not generation:
        return [], [file]
    lines, files = title_files.titles(scope.workspace_folder(request.home, generation), request.viewer)
    return [Item(title_files.HEADING, line) for line in lines], [file, *files]


def _uncontradicted(lines: list[Line], told: instructions.Rules) -> tuple[list[Line], list[Dropped]]:
    kept: list[Line] = []
    dropped: list[Dropped] = []
    for line in lines:
        against = None if line.section == scope.PROFILE else told.against(line.text)
        if against is None:
            kept.append(line)
        else:
            dropped.append(Dropped(line.number, "", against.path, against.line))
    return kept, dropped


def _depends(request: Request, generation: str, both: Short, orders: list[str]) -> list[str]:
    own = short.own_path(request.root) if both.project.path else ""
    found = [path for path in (both.user.path, both.project.path, own) if path]
    if SUMMARY in request.parts:
        found.append(os.path.join(request.home, scope.GENERATION_FILE))
        if generation:
            found.append(os.path.join(scope.workspace_folder(request.home, generation), scope.SUMMARY_NAME))
            found.append(scope.versions_folder(request.home, generation))
    return found + orders


# -- the text -----------------------------------------------------------------------------------------


def _assemble(
    request: Request,
    published: Published,
    long_items: list[Item],
    short_items: list[Item],
    elsewhere: int,
    titles: list[Item],
) -> tuple[str, tuple[str, ...], int]:
    if not (long_items or short_items or titles):
        return "", (), 0
    head = _head(request, published if long_items else Published())
    widest = [head, _left_out(9_999, 9_999), _elsewhere(9_999), "(text 0123456789ab)"]
    widest += [_untitled(9_999)] if titles else []
    frame = request.limit.size(_fenced(request.id, widest))
    room = request.limit.amount - frame - 2
    for_long = _cost(request.limit, long_items, room)
    # What a person wrote down keeps at least half of the room; what it does not need goes to the summary.
    short_kept = _fitting_short(request.limit, short_items, max(room // 2, room - for_long))
    long_kept = _fitting(request.limit, long_items, room - _cost(request.limit, short_kept, room))
    used = _cost(request.limit, long_kept, room) + _cost(request.limit, short_kept, room)
    titles_kept = _fitting(request.limit, titles, min(room - used, room // TITLES_SHARE))
    if not (long_kept or short_kept or titles_kept):
        return "", (), len(long_items) + len(short_items)
    missing_long, missing_short = len(long_items) - len(long_kept), len(short_items) - len(short_kept)
    parts = [head, _printed(long_kept)]
    if elsewhere and long_kept:
        parts.append(_elsewhere(elsewhere))
    parts.append(_printed(short_kept))
    if missing_long or missing_short:
        parts.append(_left_out(missing_long, missing_short))
    parts.append(_printed(titles_kept))
    if len(titles_kept) < len(titles):
        parts.append(_untitled(len(titles) - len(titles_kept)))
    body = [part for part in parts if part]
    digest = hashlib.sha256("\n".join(body).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    text = _fenced(request.id, [*body, f"(text {digest})"])
    citations = tuple(dict.fromkeys(name for item in long_kept for name in item.citations))
    return text, citations, missing_long + missing_short


def _head(request: Request, published: Published) -> str:
    lines = [HEADER.format(mark=MARK)]
    if published.folder:
        lines.append(DETAILS.format(folder=_shown(published.folder)))
        if request.viewer.name and request.setting != "all":
            lines.append(ABOUT.format(name=_one_line(request.viewer.name)))
    return "\n".join(lines)


def _shown(folder: str) -> str:
    """A path as a shell takes it, without the name of the user's home."""
    user = os.path.expanduser("~")
    return "~" + folder[len(user) :] if folder.startswith(user + os.sep) else folder


def _one_line(name: str) -> str:
    return safe(" ".join(name.split()))[:MAX_NAME]


def _cost(limit: Limit, items: list[Item], enough: int) -> int:
    """What the items take together, counted up to `enough`."""
    total, heading = 0, ""
    for item in items:
        total += limit.size(_line(item, heading))
        heading = item.heading
        if total > enough:
            break
    return total


def _fitting(limit: Limit, items: list[Item], room: int) -> list[Item]:
    """The items that fit, in order, made safe; one that is too large is passed over for smaller ones behind it."""
    kept: list[Item] = []
    heading = ""
    for item in items:
        if len(item.text) > room * _CHARS_AT_MOST:
            continue
        clean = item._replace(text=safe(item.text))
        cost = limit.size(_line(clean, heading))
        if cost <= room:
            kept.append(clean)
            room -= cost
            heading = item.heading
    return kept


def _fitting_short(limit: Limit, items: list[Item], room: int) -> list[Item]:
    """As `_fitting`; each of the two files has half of the room while it needs it."""
    project = [item for item in items if item.heading == PROJECTS]
    users = [item for item in items if item.heading != PROJECTS]
    first = _fitting(limit, users, max(room // 2, room - _cost(limit, project, room)))
    kept = _fitting(limit, project, room - _cost(limit, first, room))
    return (first if len(first) == len(users) else _fitting(limit, users, room - _cost(limit, kept, room))) + kept


def _line(item: Item, heading: str) -> str:
    """An item as it is printed, behind its heading where that is new."""
    new = "" if item.heading == heading else f"{item.heading}\n"
    return f"{new}- {_indented(item.text)}\n"


def _printed(items: list[Item]) -> str:
    lines: list[str] = []
    heading = ""
    for item in items:
        if item.heading != heading:
            lines.append(item.heading)
            heading = item.heading
        lines.append(f"- {_indented(item.text)}")
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n  ".join(text.splitlines())


def _elsewhere(count: int) -> str:
    return f"({count} more line{'s are' if count != 1 else ' is'} about other projects and not shown.)"


def _left_out(lines: int, entries: int) -> str:
    what = [f"{lines} line{'s' if lines != 1 else ''} of the summary"] if lines else []
    what += [f"{entries} short entr{'ies' if entries != 1 else 'y'}"] if entries else []
    return f"({' and '.join(what)} left out: this block is full. `slowwave show` and `slowwave short list` have all.)"


def _untitled(count: int) -> str:
    return f"({count} more title{'s' if count != 1 else ''}: memory_list has all.)"


def _fenced(block_id: str, parts: list[str]) -> str:
    return "\n".join([f'<{MARK} id="{block_id}">', *parts, f"</{MARK}>"])
