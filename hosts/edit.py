"""Changing a file that belongs to somebody else: as little as possible, and so that it can be undone.

Everything here works on the text. A change is an insertion or a removal at one place; comments, order, indentation,
line ends and unknown keys around it stay what they are. A file that cannot be read for certain is refused and left as
it is. What a change makes of the data is compared with what it should make before anything is written.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # undocumented, there since Python 2.7
from pathlib import Path
from typing import Any, ClassVar

from memory.errors import SlowwaveError

MAX_BYTES = 5_000_000
"""No settings file of a host comes near; a larger one is something else."""

EMPTY = "{}\n"
"""How a JSON file begins that was not there."""

Json = dict[str, Any]


class HostConfigError(SlowwaveError):
    """A host's configuration cannot be changed safely; it was left as it is."""

    code: ClassVar[str] = "host_config"


# -- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it was read. `real` is where a chain of links ends: what is replaced, so that links stay links."""

    real: Path
    data: bytes | None
    mode: int = 0o600

    @property
    def text(self) -> str:
        """Without a byte-order mark; "" where there is no file. Raises HostConfigError for other than UTF-8."""
        try:
            return (self.data or b"").decode("utf-8-sig")
        except UnicodeDecodeError:
            raise HostConfigError(f"{self.real} is not UTF-8 text; it was left as it is.") from None

    def encode(self, text: str) -> bytes:
        """The bytes of `text`, with the byte-order mark the file had."""
        return (b"\xef\xbb\xbf" if (self.data or b"").startswith(b"\xef\xbb\xbf") else b"") + text.encode()


def read(path: Path) -> Found:
    """Reads a regular file through its links. Raises HostConfigError where there is something else or no access."""
    real = Path(os.path.realpath(path))
    try:
        found = real.stat()
        if not stat.S_ISREG(found.st_mode):
            raise HostConfigError(f"{path} is not a regular file; it was left as it is.")
        if found.st_size > MAX_BYTES:
            raise HostConfigError(f"{path} is larger than {MAX_BYTES // 1_000_000} MB; it was left as it is.")
        return Found(real, real.read_bytes(), stat.S_IMODE(found.st_mode))
    except FileNotFoundError:
        if path.is_symlink():
            raise HostConfigError(
                f"{path} is a link to {real}, which does not exist.", hint="Mend the link and run again."
            ) from None
        return Found(real, None)
    except OSError as error:
        raise HostConfigError(f"{path} cannot be read ({error.strerror}).", hint="Check its permissions.") from None


def replace(before: Found, data: bytes | None) -> None:
    """Puts `data` in the place of what `before` read; None removes the file. Mode and links stay.

    Raises HostConfigError when the file changed meanwhile, is read-only, or the disk refuses.
    """
    path = before.real
    check_writable(before)
    if read(path).data != before.data:
        raise HostConfigError(f"{path} was changed by another program just now.", hint="Run the command again.")
    try:
        if data is None:
            path.unlink()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if before.data is not None and path.stat().st_nlink > 1:
            path.write_bytes(data)  # a new file would leave the other names of this one behind
        else:
            _rename_into_place(path, data, before.mode)
    except OSError as error:
        raise HostConfigError(f"{path} cannot be written ({error.strerror}); it was left as it is.") from None


def replace_all(changes: list[tuple[Found, bytes | None]]) -> None:
    """Puts several files in place, or none: what was done is taken back when one cannot be. Raises HostConfigError."""
    changes = [(before, data) for before, data in changes if data != before.data]
    for before, _ in changes:
        check_writable(before)
    done: list[tuple[Found, bytes | None]] = []
    try:
        for before, data in changes:
            replace(before, data)
            done.append((before, data))
    except HostConfigError:
        for before, data in reversed(done):
            with contextlib.suppress(HostConfigError):
                replace(Found(before.real, data, before.mode), before.data)
        raise


def check_writable(found: Found) -> None:
    """Raises HostConfigError for a file that somebody made read-only, whoever runs this."""
    if found.data is not None and not (found.mode & 0o200 and os.access(found.real, os.W_OK)):
        raise HostConfigError(
            f"{found.real} is read-only, perhaps because another program manages it.",
            hint="Let that program add the entries (docs/hosts.md shows them), or make the file writable.",
        )


def _rename_into_place(path: Path, data: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


# -- JSON -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a JSON text: `text[start:end]`. An object's children carry keys, an array's do not."""

    start: int
    end: int
    kind: str
    children: tuple[tuple[str, Node], ...] = ()

    def child(self, key: str) -> Node | None:
        return next((node for name, node in reversed(self.children) if name == key), None)


_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


def load_json(text: str, path: Path) -> Json:
    """The object a JSON file holds; an empty file holds an empty one. Raises HostConfigError naming line and column."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise HostConfigError(
            f"{path} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}.",
            hint="Mend that line and run again; nothing was changed.",
        ) from None
    except (RecursionError, ValueError):
        raise HostConfigError(f"{path} cannot be read as JSON; nothing was changed.") from None
    if not isinstance(value, dict):
        raise HostConfigError(f"{path} must hold a JSON object; nothing was changed.")
    return value


def locate(text: str) -> Node:
    """The places of all values in a text that `json.loads` accepts."""
    return _value(text, _skip(text, 0))


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> Node:
    opening = text[at]
    if opening == '"':
        return Node(at, scanstring(text, at + 1)[1], "string")
    if opening not in "{[":
        match = _SCALAR.match(text, at)
        return Node(at, match.end() if match else at, "scalar")
    children: list[tuple[str, Node]] = []
    position = _skip(text, at + 1)
    while text[position] not in "}]":
        key = ""
        if opening == "{":
            key, position = scanstring(text, position + 1)
            position = _skip(text, _skip(text, position) + 1)
        node = _value(text, position)
        children.append((key, node))
        position = _skip(text, node.end)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return Node(at, position + 1, "object" if opening == "{" else "array", tuple(children))


def insert_json(text: str, place: tuple[str, ...], key: str | None, value: object) -> str:
    """Adds `value` as the last child of the object or array at `place` (keys from the top); `key` None for an array."""
    node = locate(text)
    for name in place:
        found = node.child(name)
        assert found is not None, name
        node = found
    newline = "\r\n" if "\r\n" in text else "\n"
    spread = newline in text[node.start : node.end] or not node.children
    unit = _unit(text)
    base = _indent_of(text, node.end - 1 if newline in text[node.start : node.end] else node.start)
    written = json.dumps(value, ensure_ascii=False, indent=unit if spread else None)
    if key is not None:
        written = f"{json.dumps(key, ensure_ascii=False)}: {written}"
    written = written.replace("\n", newline + base + unit)
    if not node.children:
        inner = f"{newline}{base}{unit}{written}{newline}{base}"
        return text[: node.start + 1] + inner + text[node.end - 1 :]
    last = node.children[-1][1].end
    gap = f",{newline}{base}{unit}" if spread else ", "
    return text[:last] + gap + written + text[last:]


def _unit(text: str) -> str:
    match = re.search(r'[{\[]\r?\n([ \t]+)["{\[]', text)
    return match.group(1) if match else "  "


def _indent_of(text: str, at: int) -> str:
    """The white space that begins the line of a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def remove_json(text: str, place: tuple[str, ...], index: int) -> str:
    """Removes the child number `index` of the object or array at `place`."""
    node = locate(text)
    for name in place:
        found = node.children[int(name)][1] if node.kind == "array" else node.child(name)
        assert found is not None, name
        node = found
    children = node.children
    if len(children) == 1:
        return text[: node.start + 1] + text[node.end - 1 :]
    if index:
        return text[: children[index - 1][1].end] + text[children[index][1].end :]
    start, following = _start_of(text, node, 0), _start_of(text, node, 1)
    return text[:start] + text[following:]


def _start_of(text: str, node: Node, index: int) -> int:
    """Where a child begins, its key included."""
    after = node.children[index - 1][1].end if index else node.start
    return _skip(text, _skip(text, after) + (1 if index else 0)) if index else _skip(text, after + 1)


# -- hooks as Codex and Claude Code keep them in JSON -----------------------------------------------------------------

Ours = Callable[[str], bool]
"""Whether a command is one of ours."""


def add_hooks(text: str, groups: dict[str, Json], path: Path) -> str:
    """Appends one group per event below `hooks`, last in its list. `groups`: event -> group.

    Raises HostConfigError where the file is not JSON or `hooks` has another shape.
    """
    data = load_json(text, path)
    hooks = data.get("hooks", {})
    if not isinstance(hooks, dict) or any(not isinstance(hooks.get(event, []), list) for event in groups):
        raise HostConfigError(f'{path}: "hooks" must be an object of lists; nothing was changed.')
    if not text.strip():
        text = EMPTY
    if "hooks" not in data:
        text = insert_json(text, (), "hooks", {event: [group] for event, group in groups.items()})
    else:
        for event, group in groups.items():
            if event in hooks:
                text = insert_json(text, ("hooks", event), None, group)
            else:
                text = insert_json(text, ("hooks",), event, [group])
    wanted = {**data, "hooks": {**hooks, **{event: [*hooks.get(event, []), groups[event]] for event in groups}}}
    if load_json(text, path) != wanted:
        raise HostConfigError(f"{path} has a form that cannot be changed safely; nothing was changed.")
    return text


def strip_hooks(text: str, ours: Ours, original: str | None, path: Path, order: Sequence[str]) -> str:
    """Removes our handlers, and the groups, lists and the `hooks` object that only held them.

    What `original`, the file before us, already held empty stays. Where that is not known (None), lists that ours were
    put into are told from lists made for them by their places: those were made last, in `order` of events. A file that
    only held ours becomes "". Raises HostConfigError for other than JSON.
    """
    load_json(text, path)
    before = json.loads(original) if original and original.strip() else {}
    kept = before.get("hooks") if isinstance(before, dict) else None
    left, touched = text, set()
    while (found := _first_of_ours(load_json(left, path), ours)) is not None:
        place, index = found
        left = remove_json(left, place, index)
        touched.add(place[1])
    hooks = load_json(left, path).get("hooks")
    if not touched or not isinstance(hooks, dict):
        return left
    held = kept if isinstance(kept, dict) else {}
    emptied = [name for name in hooks if name in touched and hooks[name] == [] and name not in held]
    for event in emptied if original is not None else _made_last(emptied, order):
        names = list(load_json(left, path)["hooks"])
        left = remove_json(left, ("hooks",), names.index(event))
    data = load_json(left, path)
    if data.get("hooks") == {} and kept is None and (original is not None or list(data)[-1] == "hooks"):
        left = remove_json(left, (), list(data).index("hooks"))
    return left_of(left, original, path)


def left_of(left: str, original: str | None, path: Path) -> str:
    """A text without us; "" where we made the file: it was not there, or is, unknown, in the form we begin one with."""
    ours = left == EMPTY if original is None else not original.strip() and load_json(left, path) == {}
    return "" if ours else left


def _made_last(events: list[str], order: Sequence[str]) -> list[str]:
    """The longest end of a list of events that is in order."""
    start = len(events)
    places = [order.index(name) if name in order else -1 for name in events]
    while start and places[start - 1] >= 0 and (start == len(events) or places[start - 1] < places[start]):
        start -= 1
    return events[start:]


def handlers(data: Json) -> Iterator[tuple[str, int, int, Json]]:
    """Every command handler below `hooks`: event, number of its group, number in the group, the handler."""
    hooks = data.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            entries = group.get("hooks") if isinstance(group, dict) else None
            for index, handler in enumerate(entries if isinstance(entries, list) else ()):
                if isinstance(handler, dict) and isinstance(handler.get("command"), str):
                    yield event, number, index, handler


def _first_of_ours(data: Json, ours: Ours) -> tuple[tuple[str, ...], int] | None:
    for event, number, index, handler in handlers(data):
        if ours(handler["command"]):
            if len(data["hooks"][event][number]["hooks"]) == 1:
                return ("hooks", event), number
            return ("hooks", event, str(number), "hooks"), index
    return None


# -- TOML -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a TOML text, whole lines: `text[start:end]`. `table`: the keys of the header it stands under
    or is; `()` before the first."""

    start: int
    end: int
    data: Json
    header: bool
    table: tuple[str, ...]

    @property
    def blank(self) -> bool:
        """Neither header nor value: white space or a comment."""
        return not self.header and not self.data


def load_toml(text: str, path: Path) -> Json:
    """Raises HostConfigError naming the place of the error."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise HostConfigError(
            f"{path} is not valid TOML: {error}.", hint="Mend that line and run again; nothing was changed."
        ) from None
    except (RecursionError, ValueError):
        raise HostConfigError(f"{path} cannot be read as TOML; nothing was changed.") from None


def statements(text: str) -> list[Statement]:
    """The statements of a valid TOML text in order. A statement ends with the first line that makes it complete."""
    found: list[Statement] = []
    start = end = 0
    table: tuple[str, ...] = ()
    for line in re.split(r"(?<=\n)", text):
        end += len(line)
        piece = text[start:end]
        try:
            data = tomllib.loads(piece)
        except tomllib.TOMLDecodeError:
            continue
        header = piece.lstrip(" \t").startswith("[")
        if header:
            table = _path(data)
        if piece:
            found.append(Statement(start, end, data, header, table))
        start = end
    return found


def comment_behind(statement: str, data: Json) -> str:
    """The comment at the end of a statement that says `data`, with the white space before it, or ""."""
    start = statement.rstrip("\r\n").rfind("\n") + 1
    for sign in re.finditer(r"(?=([ \t]*#[^\r\n]*))", statement[start:]):
        try:
            if tomllib.loads(statement[: start + sign.start()]) == data:
                return sign.group(1)
        except tomllib.TOMLDecodeError:
            continue  # a sign inside a text
    return ""


def _path(data: Json) -> tuple[str, ...]:
    """The keys of a header, of the data it alone makes."""
    keys: list[str] = []
    value: Any = data
    while value:
        if isinstance(value, list):
            value = value[0]
        else:
            key, value = next(iter(value.items()))
            keys.append(key)
    return tuple(keys)


def toml_string(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for the one control character JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_array(items: list[str]) -> str:
    return f"[{', '.join(toml_string(item) for item in items)}]"
