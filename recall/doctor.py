"""Does what is on disk agree with the database, and can the next run work? Looks, never changes a thing."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from memory import locks
from memory.clock import Clock
from memory.errors import SlowwaveError
from memory.settings import Settings
from memory.state import Store
from memory.workspace import Workspace
from rollouts.adapters import ADAPTERS

LOW_DISK_BYTES = 200 * 1024 * 1024
CLOCK_AHEAD = timedelta(minutes=5)

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`check` is a stable name; `says` what was found; `means` why it matters; `mend` the command or step."""

    level: Level
    check: str
    says: str
    means: str = ""
    mend: str = ""


def examine(settings: Settings, store: Store, workspace: Workspace, clock: Clock) -> list[Finding]:
    """Every check, each with at least one finding. A check that itself fails is an error finding, never a traceback."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("state", lambda: _state(store)),
        ("summary", lambda: _summary(store, workspace)),
        ("rollout summaries", lambda: _rollout_summaries(store, workspace)),
        ("versions", lambda: _versions(store, workspace)),
        ("notes", lambda: _notes(workspace)),
        ("permissions", lambda: _permissions(settings.home)),
        ("disk", lambda: _disk(settings.home)),
        ("clock", lambda: _clock(store, clock)),
        ("locks", lambda: _locks(settings.home)),
        ("hosts", lambda: _hosts(settings)),
    ]
    found: list[Finding] = []
    for name, check in checks:
        try:
            mine = list(check())
        except (SlowwaveError, OSError) as error:
            mine = [Finding("error", name, str(error), "the check could not be carried out")]
        found += mine or [Finding("ok", name, "in order")]
    return found


def _state(store: Store) -> Iterator[Finding]:
    for problem in store.health().problems:
        yield Finding("warning", "state", problem, "the summary may lag behind what was extracted", "slowwave run")


def _summary(store: Store, workspace: Workspace) -> Iterator[Finding]:
    latest = store.versions.latest()
    if latest is not None and latest.generation != store.generation:
        latest = None
    sha = workspace.summary_sha()
    if latest is None and sha is not None:
        says = f"{workspace.summary_path} exists but no version was ever published"
        yield Finding("warning", "summary", says, "its text was not verified", "slowwave run replaces it")
    elif latest is not None and sha is None:
        says = f"{workspace.summary_path} is missing (version {latest.number})"
        yield Finding("error", "summary", says, "agents get no long memory", "slowwave run writes it again")
    elif latest is not None and sha != latest.sha256:
        says = f"{workspace.summary_path} differs from version {latest.number}"
        yield Finding("warning", "summary", says, "it was edited by hand; the edit is not verified", "slowwave run")


def _rollout_summaries(store: Store, workspace: Workspace) -> Iterator[Finding]:
    files = workspace.rollout_summaries()
    rows = {row.rollout.source_id: row for row in store.outputs.all() if row.kept}
    for source_id, row in rows.items():
        text = files.get(source_id)
        if text is None:
            says = f"the summary of {row.rollout} is missing on disk"
            yield Finding(
                "error",
                "rollout summaries",
                says,
                "its lines lose their source",
                f"slowwave run --rollout {row.rollout}",
            )
        elif hashlib.sha256(text.encode()).hexdigest() != row.sha256:
            says = f"the summary of {row.rollout} differs from what was extracted"
            yield Finding(
                "warning", "rollout summaries", says, "it was edited by hand", f"slowwave run --rollout {row.rollout}"
            )
    for source_id in files.keys() - rows.keys():
        says = f"rollout_summaries/{source_id}.md belongs to no extraction"
        yield Finding("warning", "rollout summaries", says, "it is never read", "remove the file")


def _versions(store: Store, workspace: Workspace) -> Iterator[Finding]:
    kept = workspace.versions()
    known = {row.number: row for row in store.versions.all() if row.generation == store.generation}
    for number in kept:
        if number not in known:
            yield Finding("warning", "versions", f"version {number} is on disk but not in the database")
            continue
        try:
            version = workspace.read_version(number)
        except SlowwaveError as error:
            yield Finding("error", "versions", str(error), "it cannot be restored")
            continue
        if version.sha256 != known[number].sha256:
            yield Finding("error", "versions", f"version {number} is not what was published", "it cannot be restored")


def _notes(workspace: Workspace) -> Iterator[Finding]:
    for diagnostic in workspace.notes().diagnostics:
        yield Finding("warning", "notes", diagnostic, "the note is not part of memory", "mend or remove the file")


def _permissions(home: Path) -> Iterator[Finding]:
    if home.is_symlink():
        yield Finding(
            "error", "permissions", f"{home} is a symbolic link", "others may redirect it", "use a real folder"
        )
    for folder, names, files in os.walk(home):
        for name in [*names, *files]:
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077:
                mend = f"chmod {'700' if stat.S_ISDIR(mode) else '600'} {path}"
                yield Finding("warning", "permissions", f"{path} is open to other users", "memory is private", mend)


def _disk(home: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(home).free
    if free < LOW_DISK_BYTES:
        says = f"{free // 1024 // 1024} MiB free on the disk of {home}"
        yield Finding("warning", "disk", says, "the next publish may fail", "free some space")


def _clock(store: Store, clock: Clock) -> Iterator[Finding]:
    for run in store.runs.last(1):
        if run.started > clock.now() + CLOCK_AHEAD:
            says = f"the last run started in the future ({run.started.isoformat()})"
            yield Finding("warning", "clock", says, "idle times and back-offs are off", "set the machine's clock")


def _locks(home: Path) -> Iterator[Finding]:
    who = locks.holder(home / locks.WRITER)
    if who:
        yield Finding("warning", "locks", f"the writer lock is held: {who}", "a publish, clear or restore is running")


def _hosts(settings: Settings) -> Iterator[Finding]:
    folders = [
        root
        for host, adapter in ADAPTERS.items()
        if host.value in settings.rollouts.hosts
        for root in getattr(settings.rollouts, f"{host.value}_roots")
        or adapter.default_roots(settings.host_environment)
        if root.is_dir()
    ]
    if not folders:
        says = "no session folder of any host was found"
        yield Finding("warning", "hosts", says, "there is nothing to read", "set rollouts.<host>_roots in config.toml")
