"""Putting slowwave into the hosts and taking it out again.

    install    plan every file first (a refusal changes nothing), keep a copy of what was there, then write
    uninstall  what nobody touched since becomes what it was, byte for byte; elsewhere only our entries go
    status     what is installed, whether it fits this installation, and what still stands in its way

A host is described by a module of its own (install_codex, install_claude, install_pi) as a list of `Target`s: a file,
how our part comes in, how it goes out. This module reads, compares, keeps copies and writes. No file of a host but
these is touched, no setting of the user is changed, and no approval a host asks its user for is ever given for them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hosts import edit
from hosts.edit import Found, HostConfigError
from hosts.notify import CHAIN
from hosts.versions import Program

HOOK, NOTIFY, PROGRAM = "slowwave-hook", "slowwave-notify", "slowwave"
SERVER = "slowwave"
"""What our server of memory tools is called in a host's configuration."""
FOLDER_MODE, FILE_MODE = 0o700, 0o600
UNKNOWN = "its former state is not recorded: ours is out; empty lists around it, or how notify was written, may differ"
ALL_OURS = "it held nothing but our entries"


@dataclass(frozen=True, slots=True)
class Command:
    """The one program all hosts call: absolute, isolated (`-I`: no module of the session's folder can take the place
    of ours), with the home it was installed for where that is not the default."""

    argv: tuple[str, ...]

    def shell(self, host: str) -> str:
        """As one line for hosts that give it to a shell."""
        return shlex.join([*self.argv, host])

    def notify(self, theirs: list[str]) -> list[str]:
        """For Codex's `notify`: our program, and behind it the user's own."""
        return [*self.argv[:-1], str(Path(self.argv[-1]).with_name(NOTIFY)), *([CHAIN, *theirs] if theirs else [])]

    def remember(self) -> list[str]:
        """The same installation's command line, for keeping what the user asks to remember."""
        return self.program("remember")

    def server(self) -> list[str]:
        """For hosts that speak the Model Context Protocol: the memory tools."""
        return self.program("mcp")

    def program(self, command: str) -> list[str]:
        """A command of the same installation."""
        return [*self.argv[:-1], str(Path(self.argv[-1]).with_name(PROGRAM)), command]

    @staticmethod
    def is_our_server(entry: object) -> bool:
        """Whether a server's entry (`command`, `args`) is one we wrote, from whichever installation. One that a person
        wrote starts the program by its name or in another way."""
        command, args = (entry.get("command"), entry.get("args")) if isinstance(entry, dict) else (None, None)
        if not isinstance(command, str) or not isinstance(args, list) or not all(isinstance(x, str) for x in args):
            return False
        words = [command, *args]
        return "-I" in words and words[-1] == "mcp" and words[-2].endswith(f"/{PROGRAM}")

    @staticmethod
    def is_ours(command: str) -> bool:
        """Whether a command line of a host's configuration starts our program, from whichever installation."""
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        return any(word.rpartition("/")[2] == HOOK for word in words)


def hook_command(variables: Mapping[str, str] | None = None, *, scripts: Path | None = None) -> Command:
    """The command of this installation. `variables`: what it must find in its environment, as a host started from a
    desktop has none of the shell's.

    Raises HostConfigError when the program is not beside the interpreter.
    """
    program = (scripts or Path(sysconfig.get_path("scripts"))) / HOOK
    if not program.is_file():
        raise HostConfigError(f"{program} is missing.", hint="Install slowwave again, then run this command once more.")
    settings = [f"{name}={value}" for name, value in (variables or {}).items()]
    return Command((*(["/usr/bin/env", *settings] if settings else []), sys.executable, "-I", str(program)))


@dataclass(frozen=True, slots=True)
class Target:
    """A file our part goes into. Texts are "" where there is no file, and a file whose text becomes "" is removed."""

    path: Path
    add: Callable[[str], str]
    """The text without us -> the text with us."""
    strip: Callable[[str, str | None], str]
    """(text, text before us or None when unknown) -> the text without us."""
    holds: Callable[[str], bool]
    """Whether our part is in it."""
    data: Callable[[str], object] = str
    """What is compared to see whether ours is as it should be: the text, or its data where the host rewrites the file
    in an order of its own."""
    private: bool = False
    """The file may hold keys of the user's: no copy of it is kept, only what was changed at which place."""
    folder: Path | None = None
    """A folder that is ours by its name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about an installation worth saying. `blocks`: nothing of us runs until it is dealt with."""

    code: str
    text: str
    blocks: bool = False


class Host(Protocol):
    """What an installer knows about one host."""

    name: str
    title: str
    program: str
    """The command people type to start it."""
    approval: str
    """What the host will ask its user before our part runs; "" for nothing."""

    def folder(self, environment: Mapping[str, str]) -> Path:
        """Where its user's configuration lies."""

    def targets(self, folder: Path, command: Command) -> list[Target]:
        """Raises HostConfigError where a file cannot be read for certain."""

    def findings(self, folder: Path) -> list[Finding]:
        """What stands in the way of an installed part."""


@dataclass(frozen=True, slots=True)
class Status:
    """What is known about one host. `state`: absent (no such host here), not_installed, installed, partly, outdated
    (another installation of slowwave, or an older form), broken (a file cannot be read)."""

    host: str
    title: str
    state: str
    folder: Path
    program: Program | None
    files: list[Path] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "host": self.host,
            "state": self.state,
            "folder": str(self.folder),
            "program": str(self.program.path) if self.program else None,
            "version": self.program.version if self.program else None,
            "files": [str(path) for path in self.files],
            "findings": [{"code": f.code, "text": f.text, "blocks": f.blocks} for f in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Change:
    """What a command did to one file."""

    path: Path
    what: str
    """written, created, removed, restored, unchanged; left, of an empty folder that may be the user's."""
    copy: Path | None = None
    """Where the former file was kept."""
    note: str = ""
    """What the user should know of it."""


# -- the three commands -----------------------------------------------------------------------------------------------


def install(host: Host, folder: Path, records: Path, command: Command) -> list[Change]:
    """Brings our part of `host` in; again, or after an update of slowwave, it renews it in place.

    `records` is the folder in our home for copies and for what was written. Raises HostConfigError, with nothing
    changed, when any of the files cannot be changed safely.
    """
    record = Record.load(records / f"{host.name}.json")
    plans = []
    for target in host.targets(folder, command):
        found = edit.read(target.path)
        base = _base(target, found, record)
        text = target.add(base.text)
        after = base.encode(text) if text else None
        if not base.text and base.data is not None and not text:
            after = base.data
        if text and found.text != text and target.data(found.text) == target.data(text):
            after = found.data
        plans.append((target, found, base, after))
    if all(found.data == after for _, found, _, after in plans):
        return [Change(target.path, "unchanged") for target, _, _, after in plans if after is not None]
    for found in (found for _, found, _, after in plans if found.data != after):
        edit.check_writable(found)
    made = _missing_folders([found.real for _, found, _, after in plans if after is not None])
    kept = {
        str(target.path): None if target.private else _keep(records, host.name, target.path, base)
        for target, _, base, _ in plans
    }
    files = {
        str(target.path): Entry(
            kept[str(target.path)], _sha(after), _patch(base.data, after) if target.private else None
        )
        for target, _, base, after in plans
    }
    Record(files, sorted({*record.folders, *made})).save(records / f"{host.name}.json")
    edit.replace_all([(found, after) for _, found, _, after in plans])
    changes = []
    for target, found, _, after in plans:
        if after is None and found.data is None:
            continue
        what = "unchanged" if after == found.data else "created" if found.data is None else "written"
        changes.append(Change(target.path, what, kept[str(target.path)]))
    return changes


def uninstall(host: Host, folder: Path, records: Path) -> list[Change]:
    """Takes our part out. Raises HostConfigError, with nothing changed, when a file cannot be read for certain."""
    record = Record.load(records / f"{host.name}.json")
    plans = []
    for target in host.targets(folder, Command((HOOK,))):
        found = edit.read(target.path)
        base = _base(target, found, record)
        plans.append((target, found, base))
    edit.replace_all([(found, base.data) for _, found, base in plans])
    changes = []
    for target, found, base in plans:
        if found.data == base.data:
            continue
        exact = record.untouched(target.path, found)
        what = "removed" if base.data is None else "restored" if exact else "written"
        note = "" if str(target.path) in record.files else {"written": UNKNOWN, "removed": ALL_OURS}.get(what, "")
        changes.append(Change(target.path, what, note=note))
    ours = [str(target.folder) for target in host.targets(folder, Command((HOOK,))) if target.folder and changes]
    for made in sorted({*record.folders, *ours}, key=len, reverse=True):
        with contextlib.suppress(OSError):  # somebody else's files are in it by now
            Path(made).rmdir()
    record.forget(records / f"{host.name}.json")
    if not record.files:
        gone = [change.path for change in changes if change.what == "removed"]
        changes += [Change(one, "left", note="it is empty and may be yours") for one in _emptied(gone, folder)]
    return changes


def _emptied(files: list[Path], top: Path) -> list[Path]:
    """The folders, up to the host's own, that held nothing but these files; of one in another the outer alone."""
    empty: set[Path] = set()
    for file in files:
        for folder in file.parents:
            if not folder.is_relative_to(top) or (folder.exists() and set(folder.iterdir()) - empty):
                break
            empty |= {folder} if folder.exists() else set()
    return sorted(folder for folder in empty if folder.parent not in empty)


def status(host: Host, folder: Path, program: Program | None, command: Command) -> Status:
    """Reads, changes nothing."""
    if program is None and not folder.is_dir():
        return Status(host.name, host.title, "absent", folder, None)
    try:
        targets = host.targets(folder, command)
        texts = [(target, edit.read(target.path).text) for target in targets]
        ours = [(target, text) for target, text in texts if target.holds(text)]
        wanted = [target.path for target, text in texts if _differs(target, text)]
        findings = host.findings(folder) if ours else []
    except HostConfigError as error:
        return Status(host.name, host.title, "broken", folder, program, [], [Finding("broken", str(error), True)])
    if program is None:
        findings.append(Finding("no_program", f"`{host.program}` is not on PATH, though {folder} is there."))
    files = [target.path for target, _ in ours]
    state = _state(files, wanted, [target for target, text in texts if not target.holds(text)])
    return Status(host.name, host.title, state, folder, program, files, findings)


def _differs(target: Target, text: str) -> bool:
    """Whether installing would change the file."""
    made = target.add(target.strip(text, ""))
    return made not in ("", text) and target.data(made) != target.data(text)


def _state(files: list[Path], wanted: list[Path], without: list[Target]) -> str:
    if not files:
        return "not_installed"
    missing = {target.path for target in without} & set(wanted)
    return "partly" if missing else "outdated" if wanted else "installed"


def _base(target: Target, found: Found, record: Record) -> Found:
    """The file without us: the kept copy where nobody touched it since, else the text without our part."""
    entry = record.files.get(str(target.path))
    original = entry.original(found) if entry and entry.knows(found) else None
    if original is not None and record.untouched(target.path, found):
        return original
    if found.data is None or not target.holds(found.text):
        return found
    text = target.strip(found.text, original.text if original else None)
    return Found(found.real, found.encode(text) if text else None, found.mode)


# -- what we remember of an installation ------------------------------------------------------------------------------


Patch = tuple[int, int, str]
"""Start and end of the bytes we put in, and those that stood there: white space, or nothing."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: where its former content is kept (None: there was none, or `patch` gives it back) and the hash of what
    we wrote ("" for no file)."""

    copy: Path | None
    written: str
    patch: Patch | None = None

    def knows(self, found: Found) -> bool:
        """Whether the former content can be had; a patch only fits what we wrote."""
        return self.patch is None or self.written == _sha(found.data)

    def original(self, found: Found) -> Found | None:
        """The file before us; None when the copy is gone."""
        if self.patch is not None:
            start, end, former = self.patch
            data = found.data or b""
            return Found(found.real, data[:start] + former.encode("latin-1") + data[end:], found.mode)
        if self.copy is None:
            return Found(found.real, None, found.mode)
        try:
            return Found(found.real, self.copy.read_bytes(), found.mode)
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Record:
    """What `install` wrote, by path, and the folders it made."""

    files: dict[str, Entry] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Record:
        """An unreadable record counts as none: our entries are then taken out by what they look like."""
        try:
            data = json.loads(path.read_bytes())
            files = {
                name: Entry(Path(entry["copy"]) if entry["copy"] else None, str(entry["sha256"]), _as_patch(entry))
                for name, entry in data["files"].items()
            }
            return cls(files, [str(folder) for folder in data["folders"]])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def save(self, path: Path) -> None:
        files = {
            name: {"copy": str(entry.copy) if entry.copy else None, "sha256": entry.written, "patch": entry.patch}
            for name, entry in self.files.items()
        }
        _write_private(path, json.dumps({"files": files, "folders": self.folders}, indent=2).encode() + b"\n")

    def untouched(self, path: Path, found: Found) -> bool:
        entry = self.files.get(str(path))
        return entry is not None and entry.written == _sha(found.data)

    def forget(self, path: Path) -> None:
        for entry in self.files.values():
            if entry.copy is not None:
                entry.copy.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _as_patch(entry: Mapping[str, Any]) -> Patch | None:
    said = entry.get("patch")
    return None if said is None else (int(said[0]), int(said[1]), str(said[2]))


def _patch(before: bytes | None, after: bytes | None) -> Patch | None:
    """What gives `before` back from `after`, which differs from it at one place; None where there was no file."""
    if before is None or after is None:
        return None
    start = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    rest = min(len(before), len(after)) - start
    tail = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    return start, len(after) - tail, before[start : len(before) - tail].decode("latin-1")


def _sha(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def _keep(records: Path, host: str, path: Path, base: Found) -> Path | None:
    if base.data is None:
        return None
    copy = records / f"{host}-{path.name}.before"
    _write_private(copy, base.data)
    return copy


def _write_private(path: Path, data: bytes) -> None:
    """Settings may hold keys: the copy is for its owner alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        temporary = path.with_name(path.name + ".tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        raise HostConfigError(f"{path} cannot be written ({error.strerror}); nothing was installed.") from None


def _missing_folders(files: list[Path]) -> list[str]:
    """The folders that writing these files will make."""
    return [str(folder) for file in files for folder in file.parents if not folder.exists()]
