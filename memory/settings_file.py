"""Changing `config.toml` by hand of a program: one value at a time, everything else byte for byte what it was.

Comments, order and whatever else stands in the file stay. What a change makes of the file is compared with what it
should make, and judged as a whole by the rules of `memory.settings`, before anything is written; a bad value leaves the
file as it is. The write is a temporary file, flushed and renamed over the old one.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError

from memory import locks, settings_lists
from memory.errors import InputsChangedError, SettingsError
from memory.settings import SECTIONS, Settings, explain, from_text

LOCK_NAME = ".config.lock"
LOCK_SECONDS = 5.0
MAX_BYTES = 1_000_000

Key = tuple[str, ...]
"""`("memory", "mode")`, or one step deeper: `("budget", "prices", "some-model")`."""
Changes = Mapping[Key, object]


class _Unset:
    """Takes a key out of the file, so that its default holds."""


UNSET: Final = _Unset()


def read(path: Path) -> str:
    """The file's text, empty where there is none. Raises SettingsError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SettingsError(f"{path} is larger than {MAX_BYTES:,} bytes.", hint="Check the file.")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read ({type(error).__name__}).", hint="Check the file.") from None


def fingerprint(text: str) -> str:
    """Names a state of the file, for `write(expect=...)`."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def values(text: str, path: Path) -> dict[str, Any]:
    """What stands in the file. Raises SettingsError where it is no TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.", hint="Mend the line it names.") from None


def check(text: str, path: Path) -> None:
    """Whether a text would do as the file, by itself. Raises SettingsError as `load` does."""
    found: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    for section, key, value in from_text(text, path):
        found[section][key] = value
    try:
        Settings(home=path.parent, **found)  # type: ignore[arg-type]
    except ValidationError as error:
        raise explain(error, path) from None


def edited(text: str, changes: Changes, path: Path) -> str:
    """The text with the changes in it, and nothing else changed. Raises SettingsError where that cannot be done."""
    for key, value in changes.items():
        text = _one(text, key, value, path)
    return text


def write(path: Path, changes: Changes, *, expect: str | None = None) -> bool:
    """Puts the changes into the file; False where they change nothing. `expect` is the fingerprint of the text for
    which they were made.

    Raises InputsChangedError when somebody changed the file meanwhile, SettingsError for a value that is none or a file
    that cannot be changed; then nothing is written. StateBusyError when another process is writing.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locks.hold(path.with_name(LOCK_NAME), owner="settings", wait_seconds=LOCK_SECONDS):
            before = read(path)
            if expect is not None and fingerprint(before) != expect:
                raise InputsChangedError(
                    f"{path} was changed meanwhile.", hint="Look at it again; nothing was written."
                )
            after = edited(before, changes, path)
            if after == before:
                return False
            check(after, path)
            _replace(Path(os.path.realpath(path)), after.encode())
            return True
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written ({error.strerror}).", hint="Nothing was changed; check its permissions."
        ) from None


def _one(text: str, key: Key, value: object, path: Path) -> str:
    wanted = values(text, path)
    if not _put(wanted, key, value):
        return text
    for made in (_list_edited(text, key, value), _line_added(text, key, value), _by_tomlkit(text, key, value)):
        if made is None:
            continue
        try:
            if _filled(tomllib.loads(made)) == _filled(wanted):
                return made
        except tomllib.TOMLDecodeError:
            continue
    raise SettingsError(
        f"{path} is written in a way that {'.'.join(key)} cannot be changed in.", hint="Edit it by hand."
    )


def _filled(data: Mapping[str, Any]) -> dict[str, Any]:
    """Without tables that hold nothing: with the last key its header may go."""
    made = {key: _filled(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: value for key, value in made.items() if value != {}}


def _put(data: dict[str, Any], key: Key, value: object) -> bool:
    """Makes the change in plain values; False where it is none."""
    before = copy.deepcopy(data)
    place = data
    for part in key[:-1]:
        inner = place.get(part)
        if not isinstance(inner, dict):
            if value is UNSET:
                return False
            inner = place[part] = {}
        place = inner
    if value is UNSET:
        place.pop(key[-1], None)
    else:
        place[key[-1]] = value
    return data != before


def _list_edited(text: str, key: Key, value: object) -> str | None:
    """A list that stands there already, entry by entry."""
    try:
        return settings_lists.edited(text, key, value) if isinstance(value, list) else None
    except (TOMLKitError, KeyError, TypeError):
        return None


def _as_toml(value: object) -> str:
    return settings_lists.written(value) if isinstance(value, list) else tomlkit.item(value).as_string()


def _line_added(text: str, key: Key, value: object) -> str | None:
    """A new key as the first line of its section: a library would put it behind the comment that leads the next one."""
    if value is UNSET or isinstance(value, dict) or len(key) != 2:
        return None
    header = re.compile(rf"^[ \t]*\[[ \t]*{re.escape(key[0])}[ \t]*\][ \t]*(?:#[^\n]*)?(\r?\n|\Z)", re.MULTILINE)
    found = list(header.finditer(text))
    if len(found) != 1:
        return None
    end = found[0].end()
    line = f"{key[1]} = {_as_toml(value)}\n"
    if not found[0][1]:
        return f"{text}\n{line}"
    return text[:end] + line.replace("\n", found[0][1]) + text[end:]


def _by_tomlkit(text: str, key: Key, value: object) -> str | None:
    """A value in place of another one, a key taken out, a section that is not there yet. A list that would lose its
    comments is left to be edited by hand."""
    try:
        if isinstance(value, list) and settings_lists.holds_comments(text, key):
            return None
        document = tomlkit.parse(text)
        place: Any = document
        for part in key[:-1]:
            if part not in place:
                place[part] = tomlkit.table(is_super_table=part == "prices")
            place = place[part]
        if value is UNSET:
            del place[key[-1]]
        else:
            place[key[-1]] = tomlkit.value(settings_lists.written(value)) if isinstance(value, list) else value
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError, ValueError):
        return None


def _replace(path: Path, data: bytes) -> None:
    """Raises OSError. The file keeps its mode; a new one is the owner's alone, for it may come to hold a key."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mode = 0o600
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
