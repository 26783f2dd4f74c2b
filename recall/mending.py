"""`slowwave doctor --fix`: the mends that can do no harm. What is taken away is set aside, never deleted.

Set aside means moved to `<home>/quarantine/<time>/`, under its path in the home.
"""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memory import locks
from memory.clock import Clock, minutes
from memory.documents import parse_rollout_summary
from memory.errors import SlowwaveError, StateCorruptError, StateError, WorkspaceError
from memory.settings import Settings
from memory.state import OutputRow, Store, VersionRow, manifest_to_dict, on_server
from memory.state.meta import GENERATION_FILE, new_generation_id, read_generation_file
from memory.state.rebuild import Rebuilt, database_files, distrust, rebuild
from memory.wording import counted
from memory.workspace import Workspace
from memory.workspace.layout import QUARANTINE
from recall.surroundings import open_to_others

UNKNOWN_MODEL = "unknown"
"""Model of a row that was made again from a file that does not name it."""
RESTORED = "restored"
"""What the versions of a restore name as their model, and the reason of the sources it set aside."""
LOCK_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Mended:
    """`check` names the check of `recall.doctor` it belongs to; `did` is a sentence."""

    check: str
    did: str


class Quarantine:
    """One folder for all that one mend sets aside; made when the first thing goes into it."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._home = home
        self.folder = home / QUARANTINE / f"{clock.now():%Y%m%dT%H%M%S}"
        number = 1
        while self.folder.exists():
            number += 1
            self.folder = home / QUARANTINE / f"{clock.now():%Y%m%dT%H%M%S}-{number}"

    def opened(self) -> Path:
        """The folder, made."""
        self.folder.parent.mkdir(mode=0o700, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        return self.folder

    def take(self, path: Path) -> Path:
        """Moves a file or folder of the home; returns its new place. Raises StateError when the disk refuses."""
        place = self.folder / (path.relative_to(self._home) if path.is_relative_to(self._home) else path.name)
        try:
            for folder in reversed([place.parent, *place.parent.parents]):
                if folder.is_relative_to(self._home):  # `parents=True` would leave those between open to others
                    folder.mkdir(mode=0o700, exist_ok=True)
            path.rename(place)
        except OSError as error:
            raise StateError(
                f"{path} could not be set aside ({error.strerror}).", hint="It was left as it is."
            ) from None
        return place


# -- before the state can be opened -----------------------------------------------------------------------


def before_opening(settings: Settings, clock: Clock) -> list[Mended]:
    """Permissions, an unreadable `generation.json`, a damaged or vanished database. Raises StateError, also for
    a database that is not ours to rebuild."""
    home = settings.home
    done = _narrow(home)
    if not home.is_dir() or home.is_symlink():
        return done
    quarantine = Quarantine(home, clock)
    with locks.hold(home / locks.WRITER, owner="doctor", wait_seconds=LOCK_WAIT_SECONDS):
        try:
            read_generation_file(home)
        except StateCorruptError:
            place = quarantine.take(home / GENERATION_FILE)
            done.append(Mended("state", f"{GENERATION_FILE} could not be read and was set aside: {place}"))
        try:
            Store.open(settings, clock).close()
        except StateCorruptError:
            if on_server(settings):
                raise  # its hint says whose it is to mend
            done += _rebuild(settings, clock, quarantine)
    return done


def _narrow(home: Path) -> list[Mended]:
    """Takes from others what only the owner should have."""
    done = []
    for path in open_to_others(home):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
            path.chmod(mode & 0o700)
        except OSError:
            continue
        done.append(Mended("permissions", f"{path} is now closed to other users"))
    return done


def _rebuild(settings: Settings, clock: Clock, quarantine: Quarantine) -> list[Mended]:
    home = settings.home
    generation = _generation(home)
    workspace = Workspace.open(home, generation)
    aside: list[str] = []
    outputs = _outputs(workspace, generation, quarantine, aside)
    made = rebuild(
        settings,
        clock,
        generation=generation,
        outputs=outputs,
        versions=_versions(workspace, generation),
        damaged=_damaged(settings),
        aside=quarantine.opened(),
    )
    done = [Mended("state", text) for text in _told(made, quarantine.folder)]
    return done + [Mended("rollout summaries", text) for text in aside]


def _told(made: Rebuilt, folder: Path) -> list[str]:
    salvaged = ", ".join(f"{count} {name}" for name, count in made.salvaged.items()) or "nothing"
    outputs, versions = counted(made.outputs, "rollout summary", "rollout summaries"), counted(made.versions, "version")
    found = [
        f"the damaged database was set aside ({folder}) and built again from the files on disk:"
        f" {outputs}, {versions}; still readable in it: {salvaged}",
        "what was cleared or forgotten last may be unknown to it, so nothing that sessions hold up to now becomes"
        f" memory any more (watermark {minutes(made.watermark)}); what they add later does",
    ]
    if "tombstones" in made.broken:
        found.append("not every forgotten session could be read: repeat `slowwave forget` for those that go on")
    if "ledger" in made.broken:
        found.append("the ledger is not complete: what today's calls cost is not all counted against the budget")
    return found


def _damaged(settings: Settings) -> Path | None:
    """The file to read what is left from: the database, or the one a former mend, killed half-way, set aside."""
    files = [path for path in database_files(settings) if not path.name.endswith(("-wal", "-shm"))]
    if files:
        return files[0]
    kept = sorted((settings.home / QUARANTINE).glob("*/state.db"))
    return kept[-1] if kept else None


def _generation(home: Path) -> str:
    """As `generation.json` says, else the one whose folder was written to last, else a new one."""
    try:
        written = read_generation_file(home)
    except SlowwaveError:
        written = None
    if written is not None:
        return written
    folders = [path for path in (home / "generations").glob("*") if path.is_dir() and path.name.isalnum()]
    latest = max(folders, key=lambda path: path.stat().st_mtime_ns, default=None)
    return new_generation_id() if latest is None else latest.name


def _outputs(workspace: Workspace, generation: str, quarantine: Quarantine, aside: list[str]) -> list[OutputRow]:
    """A row for each rollout summary that can be read; the others are set aside."""
    rows = []
    for path in sorted((workspace.root / "rollout_summaries").glob("*.md")):
        try:
            text = path.read_text(encoding="utf-8")
            header, _ = parse_rollout_summary(text)
            if header.source.source_id != path.stem:
                raise ValueError
        except (OSError, ValueError):
            aside.append(f"{path.name} cannot be read and was set aside: {quarantine.take(path)}")
            continue
        rows.append(
            OutputRow(
                rollout=header.source,
                generation=generation,
                boundary=header.boundary,
                kept=True,
                outcome=header.outcome,
                slug=header.slug,
                sha256=hashlib.sha256(text.encode()).hexdigest(),
                project=header.project,
                project_name=header.project_name,
                ended=header.ended,
                written=_mtime(path),
                model=UNKNOWN_MODEL,
            )
        )
    return rows


def _versions(workspace: Workspace, generation: str) -> list[VersionRow]:
    """A row for each version that is whole. Model, cost and the list of changes were only in the database."""
    rows = []
    for number in workspace.versions():
        row = _version(workspace, generation, number)
        if row is not None:
            rows.append(row)
    return rows


def _version(workspace: Workspace, generation: str, number: int) -> VersionRow | None:
    try:
        version = workspace.read_version(number)
    except SlowwaveError:
        return None
    restored = any(item.reason == RESTORED for item in version.manifest.left_out)
    published = _mtime(workspace.root.parent / "versions" / str(number) / "manifest.json")
    manifest = manifest_to_dict(version.manifest)
    model = RESTORED if restored else UNKNOWN_MODEL
    return VersionRow(number, generation, published, version.sha256, manifest, model)


def _mtime(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


# -- with the state open ------------------------------------------------------------------------------------


def after_recovery(settings: Settings, store: Store, workspace: Workspace, clock: Clock) -> list[Mended]:
    """Orphan rollout summaries, damaged or unknown versions, the baseline. Call it after `LongMemory.recover`."""
    quarantine = Quarantine(settings.home, clock)
    with locks.hold(settings.home / locks.WRITER, owner="doctor", wait_seconds=LOCK_WAIT_SECONDS):
        done = _orphans(store, workspace, quarantine)
        done += _strays(store, workspace, clock, quarantine)
        done += _baseline(store, workspace)
    return done


def _orphans(store: Store, workspace: Workspace, quarantine: Quarantine) -> list[Mended]:
    """Rollout summaries no extraction stands for, unless one is being stored at this moment."""
    now = store.clock.now()
    if store.intents.pending() or any(job.running(now) for job in store.jobs.all("extract")):
        return []
    known = {row.rollout.source_id for row in store.outputs.all() if row.kept}
    folder = workspace.root / "rollout_summaries"
    return [
        Mended("rollout summaries", f"{path.name} belongs to no extraction and was set aside: {quarantine.take(path)}")
        for path in sorted(folder.glob("*"))
        if path.stem not in known or path.suffix != ".md"
    ]


def _strays(store: Store, workspace: Workspace, clock: Clock, quarantine: Quarantine) -> list[Mended]:
    """Versions the database does not know. The one whose summary is in force proves that the database lost a commit."""
    rows = {row.number: row for row in store.versions.all() if row.generation == store.generation}
    done = []
    for number in workspace.versions():
        row = _version(workspace, store.generation, number)
        if number in rows and row is not None:
            continue
        if row is not None and row.sha256 == workspace.summary_sha() and not any(n >= number for n in rows):
            with store.write() as tx:
                store.versions.add(row, tx)
            distrust(store, clock.now())
            done.append(
                Mended(
                    "versions",
                    f"version {number}, whose summary is in force, is in the database again; commits were lost there,"
                    " so nothing that sessions hold up to now becomes memory any more",
                )
            )
            continue
        place = quarantine.take(workspace.root.parent / "versions" / str(number))
        why = "is damaged" if row is None else "was never published"
        done.append(Mended("versions", f"version {number} {why} and was set aside: {place}"))
    return done


def _baseline(store: Store, workspace: Workspace) -> list[Mended]:
    """`recover` has made it anew from the version in force where it could; a broken one beyond that goes."""
    from recall.doctor import baseline_problem

    if not baseline_problem(store, workspace):
        return []
    latest = store.versions.latest()
    if latest is None or latest.number not in workspace.versions():
        return []
    try:
        version = workspace.read_version(latest.number)
    except WorkspaceError:
        return []
    problem = workspace.reset_baseline(version.manifest, version.texts, version.summary, at=latest.published)
    return [Mended("baseline", problem or f"the baseline was made anew from version {latest.number}")]
