"""Does what is on disk agree with the database, and can the next run work? Looks, never changes a thing.

`recall.mending` does what `slowwave doctor --fix` does about it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from memory import locks
from memory.clock import Clock, minutes
from memory.errors import SettingsError, SlowwaveError, StateCorruptError, StateVersionError, WorkspaceError
from memory.settings import Settings
from memory.state import Health, Store, VersionRow, on_server
from memory.workspace import Workspace
from recall import surroundings
from recall.surroundings import Finding, Level
from rollouts.adapters import ADAPTERS

CLOCK_AHEAD = timedelta(minutes=5)
FIX = "slowwave doctor --fix"
RUN = "slowwave run"

Check = tuple[str, Callable[[], Iterable[Finding]]]


def diagnose(settings: Settings, clock: Clock) -> list[Finding]:
    """Every check, each with at least one finding, whatever state things are in. Changes nothing but what every
    start of slowwave changes (it narrows the mode of the home, and writes `generation.json` where it is behind)."""
    home = settings.home
    found = _carried_out(
        [
            ("home", lambda: surroundings.home(home)),
            ("file system", lambda: surroundings.file_system(home, server=_served(settings))),
            ("permissions", lambda: surroundings.permissions(home)),
            ("disk", lambda: surroundings.disk(home)),
            ("quarantine", lambda: surroundings.quarantine(home)),
            ("hosts", lambda: _hosts(settings)),
        ]
    )
    if not home.is_dir() or home.is_symlink() or not in_use(settings):
        return found
    try:
        with Store.open(settings, clock) as store:
            workspace = Workspace.open(home, store.generation, create=False)
            return found + examine(settings, store, workspace, clock)
    except (SlowwaveError, OSError) as error:
        return [*found, unusable(error)]


def _served(settings: Settings) -> bool:
    try:
        return on_server(settings)
    except SettingsError:
        return False  # a finding of its own


def unusable(error: Exception) -> Finding:
    """The finding for a state that cannot be opened."""
    says = getattr(error, "message", "") or str(error)
    hint = getattr(error, "hint", "").rstrip(".")
    if isinstance(error, StateCorruptError):
        return Finding("error", "state", says, "no run can work until it is mended", FIX if FIX in hint else hint)
    if isinstance(error, StateVersionError):
        mend = "set SLOWWAVE_HOME to another folder" if "SLOWWAVE_HOME" in hint else hint
        return Finding("error", "state", says, "old state is never converted", mend)
    return Finding("error", "state", says, "no run can work until it can be opened", hint)


def examine(settings: Settings, store: Store, workspace: Workspace, clock: Clock) -> list[Finding]:
    """What can be said with state and workspace open. A check that itself fails is an error finding."""
    return _carried_out(
        [
            ("state", lambda: [*_state(store.health()), *_writable(store)]),
            ("summary", lambda: summary(store, workspace)),
            ("rollout summaries", lambda: _rollout_summaries(store, workspace)),
            ("versions", lambda: _versions(store, workspace)),
            ("baseline", lambda: _baseline(store, workspace)),
            ("notes", lambda: _notes(workspace)),
            ("topics", lambda: _topics(workspace)),
            ("leases", lambda: _leases(store, clock)),
            ("left-overs", lambda: _left_overs(settings, store, workspace)),
            ("clock", lambda: _clock(store, clock)),
            ("locks", lambda: _locks(settings.home)),
        ]
    )


def _carried_out(checks: Iterable[Check]) -> list[Finding]:
    found: list[Finding] = []
    for name, check in checks:
        try:
            mine = list(check())
        except (SlowwaveError, OSError) as error:
            mine = [Finding("error", name, str(error), "the check could not be carried out", "see the message")]
        found += mine or [Finding("ok", name, "in order")]
    return found


def in_use(settings: Settings) -> bool:
    """Whether there is something to compare: a home that was never used holds nothing, and is left so."""
    kept = any((settings.home / name).exists() for name in ("state.db", "generation.json", "generations"))
    return kept or bool(settings.state.url.get_secret_value())


def _state(health: Health) -> Iterator[Finding]:
    level: Level = "error" if health.state == "failed" else "warning"
    means = "the summary lags behind what was extracted; agents get the former one"
    for problem in health.problems:
        yield Finding(level, "state", problem.rstrip("."), means, RUN)


def _writable(store: Store) -> Iterator[Finding]:
    if not store.writable:
        says = f"{store.place} takes no changes from its user"
        mend = "name the primary server and the owner of the schema in state.url"
        yield Finding("error", "state", says, "what is there can be read, but no run can work", mend)


def summary(store: Store, workspace: Workspace) -> Iterator[Finding]:
    """The confirmed summary against the version it should be [M7]."""
    latest = _latest(store)
    sha = workspace.summary_sha()
    path = workspace.summary_path
    if latest is None:
        if sha is not None:
            says = f"{path} exists but no version was ever published"
            yield Finding("warning", "summary", says, "its text was not verified", RUN)
        return
    if sha is None:
        says = f"{path} is missing (version {latest.number})"
        yield Finding("error", "summary", says, "agents get no long memory", f"{RUN} writes it again")
        return
    if sha == latest.sha256:
        return
    try:
        text = workspace.summary() or ""
        broken = not text.startswith("v1\n")
    except SlowwaveError:
        broken = True
    if broken:
        says = f"{path} is damaged: it does not begin with the line v1 (version {latest.number} does)"
        yield Finding("error", "summary", says, "agents get no long memory", f"{RUN} writes it again")
    else:
        says = f"{path} differs from version {latest.number}"
        means = "it was edited by hand: an unverified text is given to no session, and the next consolidation drops it"
        yield Finding("warning", "summary", says, means, f"{RUN}; keep what you want to keep as a note")


def _latest(store: Store) -> VersionRow | None:
    latest = store.versions.latest()
    return latest if latest is not None and latest.generation == store.generation else None


def _rollout_summaries(store: Store, workspace: Workspace) -> Iterator[Finding]:
    files = workspace.rollout_summaries()
    rows = {row.rollout.source_id: row for row in store.outputs.all() if row.kept}
    for source_id, row in rows.items():
        text = files.get(source_id)
        mend = f"{RUN} --rollout {row.rollout}"
        if text is None:
            says = f"the summary of {row.rollout} is missing on disk"
            yield Finding("error", "rollout summaries", says, "its lines lose their source", mend)
        elif hashlib.sha256(text.encode()).hexdigest() != row.sha256:
            says = f"the summary of {row.rollout} differs from what was extracted"
            means = "it was edited by hand; the edit is not proven by the session"
            yield Finding("warning", "rollout summaries", says, means, mend)
    for source_id in sorted(files.keys() - rows.keys()):
        says = f"rollout_summaries/{source_id}.md belongs to no extraction"
        yield Finding("warning", "rollout summaries", says, "it is never read", FIX)
    strangers = sorted(
        path.name
        for path in (workspace.root / "rollout_summaries").glob("*")
        if path.stem not in files and not path.name.startswith(".")
    )
    for name in strangers:
        yield Finding(
            "warning", "rollout summaries", f"rollout_summaries/{name} is none of ours", "it is never read", FIX
        )


def _versions(store: Store, workspace: Workspace) -> Iterator[Finding]:
    known = {row.number: row for row in store.versions.all() if row.generation == store.generation}
    current = workspace.summary_sha()
    open_intents = bool(store.intents.pending())
    for number in workspace.versions():
        try:
            version = workspace.read_version(number)
        except SlowwaveError as error:
            says = getattr(error, "message", str(error))
            yield Finding("error", "versions", says, "it cannot be restored", FIX)
            continue
        if number in known:
            if version.sha256 != known[number].sha256:
                says = f"version {number} is not what was published"
                yield Finding("error", "versions", says, "it cannot be restored", "restore another version")
        elif version.sha256 == current and not open_intents:
            says = f"version {number} is in force but not in the database"
            yield Finding("error", "versions", says, "the database has lost what was last written to it", FIX)
        else:
            yield Finding("warning", "versions", f"version {number} is on disk but not in the database", "", FIX)


def _baseline(store: Store, workspace: Workspace) -> Iterator[Finding]:
    problem = baseline_problem(store, workspace)
    if problem:
        means = "everything counts as changed, which costs one consolidation and loses nothing"
        yield Finding("warning", "baseline", problem, means, FIX)


def baseline_problem(store: Store, workspace: Workspace) -> str:
    """Whether the git baseline is that of the latest version; empty when it is, or when there is no version."""
    latest = _latest(store)
    if latest is None or latest.number not in workspace.versions():
        return ""
    try:
        version = workspace.read_version(latest.number)
    except WorkspaceError:
        return ""  # a finding of its own
    diff = workspace.diff(version.manifest, version.texts)
    if diff.baseline != "ok":
        return f"the git baseline in {workspace.root / '.git'} is {diff.baseline}"
    if not diff.empty:
        return f"the git baseline in {workspace.root / '.git'} is not that of version {latest.number}"
    return ""


def _notes(workspace: Workspace) -> Iterator[Finding]:
    for diagnostic in workspace.notes().diagnostics:
        yield Finding("warning", "notes", diagnostic, "the note is not part of memory", "mend or remove the file")


def _topics(workspace: Workspace) -> Iterator[Finding]:
    for problem in workspace.topics.read().problems:
        yield Finding(
            "warning", "topics", problem.rstrip("."), "its entries are not part of memory", "mend or remove it"
        )


def _leases(store: Store, clock: Clock) -> Iterator[Finding]:
    now = clock.now()
    for kind in ("extract", "consolidate"):
        for job in store.jobs.all(kind):
            if job.status == "running" and not job.running(now):
                says = f"{kind} {job.key}: the claim of {job.owner} ran out at {minutes(job.lease_until)}"
                yield Finding("warning", "leases", says, "its process ended without a word; the attempt counts", FIX)


def _left_overs(settings: Settings, store: Store, workspace: Workspace) -> Iterator[Finding]:
    """Stagings, temporary files, old generations, unfinished steps; not while a writer is at work."""
    busy = bool(locks.holder(settings.home / locks.WRITER)) or store.health().running
    if busy:
        return
    means = "an interrupted run left it; nothing reads it"
    generation = workspace.root.parent
    stagings = [path for path in (workspace.root / "workspace").glob("*") if path.is_dir()]
    temporary = [
        path for place in (generation, generation / "versions", workspace.root) for path in place.glob(".tmp-*")
    ]
    temporary += [workspace.root / path for path in workspace.topics.half_done()]
    for path in sorted([*stagings, *temporary]):
        yield Finding("warning", "left-overs", f"{path} was left over", means, FIX)
    for path in sorted((settings.home / "generations").glob("*")):
        if path.is_dir() and path.name != store.generation:
            says = f"{path} is not the generation in force"
            yield Finding("error", "left-overs", says, "a clear was interrupted before it had deleted all", FIX)
    for intent in store.intents.pending():
        says = f"a {intent.kind} of {minutes(intent.opened)} was begun and not finished"
        yield Finding("error", "left-overs", says, "disk and database may disagree until it is settled", FIX)


def _clock(store: Store, clock: Clock) -> Iterator[Finding]:
    now = clock.now() + CLOCK_AHEAD
    for run in store.runs.last(1):
        if run.started > now:
            says = f"the last run started in the future ({minutes(run.started)})"
            yield Finding("warning", "clock", says, "idle times and back-offs are off", "set the machine's clock")
    watermark = store.clear_watermark
    if watermark is not None and watermark > now:
        says = f"the clear watermark lies in the future ({minutes(watermark)})"
        means = "nothing becomes memory until then"
        yield Finding("warning", "clock", says, means, "set the machine's clock")


def _locks(home: Path) -> Iterator[Finding]:
    who = locks.holder(home / locks.WRITER)
    if who:
        says = f"the writer lock is held: {who}"
        yield Finding("warning", "locks", says, "a publish, clear or restore is at work", "wait until it has finished")


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


__all__ = ["Finding", "baseline_problem", "diagnose", "examine", "summary", "unusable"]
