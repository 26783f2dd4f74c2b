"""`slowwave remember` and `slowwave short`: what a person keeps by hand, in the short files or as a note."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from cli.output import line, print_json, table
from memory.clock import SystemClock
from memory.errors import UsageError
from memory.project import Project, here, project_of
from memory.redact import Redactor
from memory.runtime import open_runtime
from memory.settings import Settings, load
from memory.switches import variable
from recall import remember as keep
from recall import short


@dataclass(frozen=True, slots=True)
class Places:
    """Where the two short files of this folder lie, and its project."""

    user: Path
    project: Path
    identity: Project

    def of(self, *, project: bool) -> Path:
        return self.project if project else self.user


def places(settings: Settings) -> Places:
    """Of the folder the command runs in; outside of a repository the folder itself is the project."""
    folder = here()
    identity = project_of(folder)
    root = identity.root or folder
    return Places(Path(short.user_path(str(settings.home))), Path(short.project_path(str(root))), identity)


def remember(text: str, *, project: bool, user: bool, note: bool, name: str, pinned: bool, as_json: bool) -> None:
    """`slowwave remember`. Says that something is kept only when it is on disk for good."""
    if project and user:
        raise UsageError("--project and --user exclude each other.", hint="Name the one place it holds for.")
    text = sys.stdin.read() if text == "-" else text
    settings = load()
    if note:
        _note(settings, text, project=project, name=name, pinned=pinned, as_json=as_json)
        return
    found = places(settings)
    saved = keep.remember(
        found.of(project=project), text, name=name, redactor=Redactor(settings.redact), private=not project
    )
    where = f"project {found.identity.name}" if project else "every project"
    if as_json:
        print_json(_as_json(saved, "project" if project else "user"))
        return
    if saved.known:
        line(f"[{saved.id}] says so already, for {where} in {saved.path}")
    else:
        line(f"{'replaced' if saved.replaced else 'remembered'} [{saved.id}] for {where} in {saved.path}")
    _say_what_struck(saved)
    if settings.memory.mode == "off" or not settings.memory.enabled:
        line("Memory is switched off: no session gets it until memory.mode or memory.enabled says otherwise.")


def _note(settings: Settings, text: str, *, project: bool, name: str, pinned: bool, as_json: bool) -> None:
    identity = project_of(here()) if project else None
    with open_runtime(settings) as runtime:
        _, saved = keep.remember_note(
            runtime.workspace,
            text,
            name=name,
            project=identity,
            pinned=pinned,
            now=SystemClock().now(),
            redactor=runtime.redactor,
        )
    if as_json:
        print_json({**_as_json(saved, "project" if project else "user"), "note": True, "pinned": pinned})
        return
    where = f"project {identity.name}" if identity is not None else "every project"
    line(f"{'replaced' if saved.replaced else 'remembered'} [note:{saved.id}] for {where} in {saved.path}")
    line("The next consolidation takes it into the summary.")
    _say_what_struck(saved)


def _as_json(saved: keep.Saved, scope: str) -> dict[str, object]:
    return {
        "id": saved.id,
        "scope": scope,
        "path": str(saved.path),
        "replaced": saved.replaced,
        "known": saved.known,
        "redacted": list(saved.redacted),
    }


def _say_what_struck(saved: keep.Saved) -> None:
    if saved.redacted:
        line(f"Taken out before it was written, since it looks like a secret: {', '.join(saved.redacted)}")


# -- short --------------------------------------------------------------------------------------------


def show(*, as_json: bool) -> None:
    """`slowwave short list`."""
    both = _read()
    rows = [(scope, entry) for scope, file in _scopes(both) for entry in file.entries]
    if as_json:
        print_json(
            {
                "entries": [{"scope": scope, "id": entry.id, "text": entry.text} for scope, entry in rows],
                "diagnostics": [_diagnostic(item) for item in both.diagnostics],
            }
        )
        return
    if rows:
        table("", ["scope", "id", "text"], [[scope, entry.id, entry.text] for scope, entry in rows])
    else:
        line("Nothing is kept in the short files. Start with: slowwave remember 'New tests use Vitest.'")
    for item in both.diagnostics:
        line(f"skipped as a whole: {item}", style="yellow")


def check(*, as_json: bool) -> None:
    """`slowwave short check`: exit code 1 when a file would be skipped."""
    both = _read()
    if as_json:
        print_json(
            {
                "files": [
                    {"scope": scope, "path": file.path, "entries": len(file.entries)} for scope, file in _scopes(both)
                ],
                "same_file": both.same,
                "diagnostics": [_diagnostic(item) for item in both.diagnostics],
            }
        )
    else:
        for scope, file in _scopes(both):
            if file.diagnostic is not None:
                line(f"{scope}: skipped as a whole: {file.diagnostic}", style="yellow")
            elif file.identity is None:
                line(f"{scope}: {file.path} does not exist; that is fine")
            elif both.same and scope == "project":
                line(f"{scope}: {file.path} is the user's file and taken once")
            else:
                line(f"{scope}: {file.path} is valid, {len(file.entries)} of {short.MAX_ENTRIES} entries")
    if both.diagnostics:
        sys.exit(1)


def edit(*, project: bool) -> None:
    """`slowwave short edit`: a draft in your editor; it takes the file's place when it is valid, and stays when not."""
    path = places(load()).of(project=project)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        line(str(path))
        return
    real = path.resolve()
    before = _bytes(real)
    draft = real.with_name(f"{real.stem}.draft{real.suffix}")
    draft.parent.mkdir(mode=0o777 if project else 0o700, parents=True, exist_ok=True)
    if not draft.is_file():
        keep.replace(draft, short.print_entries(()) if before is None else before, private=True)
    entries = _valid_draft(draft)
    if entries is None:
        line(f"Nothing was changed; your draft is {draft}")
        return
    data = draft.read_bytes()
    if _bytes(real) != before:
        raise UsageError(f"{path} was changed by something else meanwhile.", hint=f"Your draft is {draft}.")
    if data != before:
        keep.replace(real, data, private=not project)
    draft.unlink()
    line(
        f"{path} is valid, {len(entries)} of {short.MAX_ENTRIES} entries" if data != before else "Nothing was changed."
    )


def _valid_draft(draft: Path) -> tuple[short.Entry, ...] | None:
    """Opens the editor until the draft is valid; None when the person gives up."""
    while True:
        _open_editor(draft)
        try:
            return short.parse_bytes(draft.read_bytes())
        except short.Fault as fault:
            line(f"line {fault.line}: {fault.reason}" if fault.line else fault.reason, style="yellow")
        if not typer.confirm("Edit it once more? Otherwise the file stays as it was.", default=True):
            return None


def _open_editor(path: Path) -> None:
    words = shlex.split(variable("VISUAL") or variable("EDITOR") or "vi")
    try:
        code = os.spawnvp(os.P_WAIT, words[0], [*words, str(path)])
    except (OSError, IndexError):
        code = 127
    if code != 0:
        raise UsageError(
            f"The editor {' '.join(words)!r} ended with code {code}.", hint=f"Set EDITOR; your draft is {path}."
        )


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).", hint="Check its permissions.") from None


def _read() -> short.Short:
    found = places(load())
    return short.read_both(str(found.user), str(found.project))


def _scopes(both: short.Short) -> list[tuple[str, short.ShortFile]]:
    return [("user", both.user), ("project", both.project)]


def _diagnostic(item: short.Diagnostic) -> dict[str, object]:
    return {"path": item.path, "line": item.line, "reason": item.reason}
