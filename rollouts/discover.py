"""Finds the sessions on disk and keeps one row for each.

A walk costs one `scandir` per folder and one `stat` per file; what has the size, mtime and inode of its row is not
opened. New and changed files are peeked at (head and tail), and their rows written in batches. Nothing is written
into the hosts' folders [O13], nothing depends on hooks [M35 X14], and one bad file never spoils the rest.

Links below a root are not followed: what they point to is either found at its own place or none of ours. Of
`x.jsonl` and `x.jsonl.zst` the first is read. When several files carry one session id the row is that of the file with
the latest event; each other file has a row of its own, `<id>~dup-<8 hex>`, reason `duplicate`, and takes over when the
first is gone. A file no reader understands has the row `<host>:file-<16 hex>`, reason `unreadable`.

Sessions of our own are told by three gates: the reader's marks, a place or working folder inside our data folder,
and ids recorded as tombstones of kind `own` [Z068 X5 M66 O10].
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.clock import Clock
from memory.errors import SlowwaveError
from memory.model import Host, Reason, RolloutId, RolloutKind
from memory.progress import Progress, Step, silent
from memory.settings import Settings
from memory.state import RolloutRow, Store
from memory.state.schema import path_from, path_text
from rollouts.adapters import ADAPTERS, Peek
from rollouts.eligibility import NO_PICKS, OWN, Picks, Selection, judge, select
from rollouts.places import Places
from rollouts.walk import Found, Mark, Walk, roots_of, walk

BATCH = 1_000
"""Rows written in one transaction."""
MAX_LISTED = 50
"""Paths named in a report; the counts are whole."""
CHECK_AGAIN = 0
GONE = -1
"""Inode marks that no file has: look at it again at every walk; known to be gone."""
DUPLICATE_MARK = "~dup-"
STAND_IN = "file-"
ONE_BY_ONE = 64
"""Up to so many candidates their jobs and outputs are asked for singly."""

_ORDINARY = frozenset({RolloutKind.INTERACTIVE, RolloutKind.EXEC})
_ONE_BAD_FILE = (SlowwaveError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
_SETTLED = frozenset(
    {
        Reason.UP_TO_DATE,
        Reason.SUBAGENT,
        Reason.AUXILIARY,
        Reason.ARCHIVED,
        Reason.DIAGNOSTIC,
        Reason.OWN,
        Reason.NO_USER_TEXT,
        Reason.BEFORE_WATERMARK,
        Reason.UNREADABLE,
        Reason.DUPLICATE,
        Reason.MISSING,
        Reason.FORGOTTEN,
    }
)
"""Reasons that only a change of the file ends, or a deed that judges the row itself."""


@dataclass(slots=True)
class DiscoverReport:
    """What one walk met. Counts are files unless said otherwise.

    `unchanged` were not opened, `read` were (head and tail). `missing` are rows whose file went since the last walk.
    `left_out` is how many files `rollouts.max_files` kept from being looked at (0: the bound did not bind).
    `skipped` counts by why (`symlink`, `not_a_file`, `twin`, `vanished`, `denied`, `io_error`), `unreadable` and
    `skipped_paths` name at most `MAX_LISTED` of them with the reason. `by_host` is this walk; `by_reason` is every
    row of the state after it, None for rows nobody judged yet.
    """

    roots: list[Path] = field(default_factory=list)
    files: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    read: int = 0
    missing: int = 0
    left_out: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    skipped_paths: list[tuple[Path, str]] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    unreadable_count: int = 0
    by_host: dict[Host, int] = field(default_factory=dict)
    by_reason: dict[Reason | None, int] = field(default_factory=dict)
    seconds: float = 0.0


def discover(settings: Settings, clock: Clock, store: Store, *, progress: Progress = silent) -> DiscoverReport:
    """Brings the rows of the state up to what lies on disk. Raises StateError only; files never stop it."""
    began = clock.monotonic()
    marks = store.rollouts.marks()
    found = walk(roots_of(settings), {mark[0]: mark for mark in marks}, limit=settings.rollouts.max_files)
    report = _report_of(found)
    hosts = tuple(f"{host}:" for host in found.hosts)
    if found.fresh or any(mark[3] != str(GONE) and mark[4].startswith(hosts) for mark in found.unseen):
        _Pass(settings, clock, store, progress, marks, found, report).run()
    report.by_reason = store.rollouts.counts()
    report.seconds = clock.monotonic() - began
    return report


def choose(
    settings: Settings,
    clock: Clock,
    store: Store,
    *,
    picks: Picks = NO_PICKS,
    live: Collection[RolloutId] = (),
    paused: Collection[str] = (),
) -> Selection:
    """Selects from what discovery found and stores each verdict that is new (but not those of picks by hand).

    Rows of the projects in `paused` are passed over. Its cost follows the rows that may be taken, not all rows:
    settled ones are not read.
    """
    now, extract = clock.now(), settings.extract
    tombstones = store.tombstones.all()
    if picks.rollouts:
        rows = [row for name in sorted(picks.rollouts) if (row := store.rollouts.get(name)) is not None]
        more = 0
    elif picks.hosts:  # the bound counts rows of these hosts only
        rows, more = [row for row in store.rollouts.all() if row.id.host in picks.hosts], 0
    else:
        settled = _SETTLED if settings.rollouts.exec_sessions else _SETTLED | {Reason.EXEC_OFF}
        rows, more = store.rollouts.candidates(
            settled=settled,
            since=picks.since or now - timedelta(days=extract.max_age_days),
            limit=extract.scan_limit,
            again=[key for kind, key in tombstones if kind in {OWN, "rollout"}],
        )
    names = [row.id for row in rows]
    if len(names) <= ONE_BY_ONE:
        jobs = {str(name): job for name in names if (job := store.jobs.get("extract", str(name))) is not None}
        outputs = {name: made for name in names if (made := store.outputs.get(name)) is not None}
    else:
        jobs = {job.key: job for job in store.jobs.all("extract")}
        outputs = {made.rollout: made for made in store.outputs.all()}
    selection = select(
        rows, now=now, extract=extract, rollouts=settings.rollouts, watermark=store.clear_watermark, jobs=jobs,
        outputs=outputs, tombstones=tombstones, live=frozenset(live), picks=picks, paused=frozenset(paused),
    )  # fmt: skip
    if picks == NO_PICKS:
        news = {
            row.id: (verdict.reason, verdict.detail)
            for row in rows
            if (verdict := selection.verdicts.get(row.id)) is not None
            and (verdict.reason, verdict.detail) != (row.reason, row.detail)
        }
        store.rollouts.set_reasons(news)
    return replace(selection, unscanned=selection.unscanned + more)


class _Pass:
    """The part of a walk that found something to do."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: Store,
        progress: Progress,
        marks: Iterable[Mark],
        found: Walk,
        report: DiscoverReport,
    ) -> None:
        self._settings = settings
        self._store = store
        self._progress = progress
        self._found = found
        self._report = report
        self._now = clock.now()
        self._watermark = store.clear_watermark
        self._tombstones = store.tombstones.all()
        self._places = Places(settings, store)
        self._gone = {mark[4]: mark for mark in found.unseen}
        self._path_of: dict[str, str] = {}
        self._name_at: dict[str, str] = {}
        for path, _, _, _, name in marks:
            if name not in self._gone:
                self._path_of[name], self._name_at[path] = path, name
        self._pending: dict[RolloutId, RolloutRow] = {}
        self._left: set[str] = set()
        self._broken: set[str] = set()

    def run(self) -> None:
        """Reads what changed, then what has to take the place of another file, then settles what went."""
        self._take(self._found.fresh)
        self._take(self._heirs())
        present = set(self._name_at.values())
        self._settle_left(self._left - present)
        self._settle_gone(mark for name, mark in self._gone.items() if name not in present)

    def _take(self, items: Sequence[Found]) -> None:
        for number, item in enumerate(items, start=1):
            row = self._read(item)
            if row is not None:
                self._settle(row)
            if len(self._pending) >= BATCH:
                self._flush(number, len(items))
        if items:
            self._flush(len(items), len(items))

    # -- reading ------------------------------------------------------------------------------------

    def _read(self, item: Found) -> RolloutRow | None:
        """A row for a new or changed file; None where it went meanwhile or is no session file of these hosts."""
        path = Path(item.path)
        hosts = [host for host in item.hosts if ADAPTERS[host].matches(path)]
        if not hosts:
            _skip(self._report, "other", item.path)
            return None
        why = ""
        self._report.read += 1
        for host in hosts:
            try:
                peek = ADAPTERS[host].peek(path)
            except _ONE_BAD_FILE as error:
                if not os.path.lexists(item.path):
                    _skip(self._report, "vanished", item.path)
                    return None
                why = why or (error.message if isinstance(error, SlowwaveError) else f"it breaks the reader of {host}")
                continue
            self._count(item)
            return self._row(item, path, peek)
        self._count(item)
        return self._unreadable(item, path, hosts[0], why)

    def _count(self, item: Found) -> None:
        if item.known is None:
            self._report.new += 1
        else:
            self._report.changed += 1

    def _row(self, item: Found, path: Path, peek: Peek) -> RolloutRow:
        """With the reason that holds before jobs and outputs are looked at; `choose` goes on from there."""
        header = peek.header
        project = self._places.project(header.cwd, header.remote)
        gate = self._places.own(item.path, header.cwd)
        kind = header.kind
        if gate:
            kind = RolloutKind.OWN
        elif kind is RolloutKind.OWN:
            gate = "it carries the mark of slowwave's own sessions"
        elif "archived_sessions" in item.path and kind in _ORDINARY and "archived_sessions" in path.parts:
            kind = RolloutKind.ARCHIVED
        fields: dict[str, Any] = {
            "id": header.id,
            "path": path,
            "size": item.size,
            "mtime_ns": item.mtime_ns,
            "inode": item.inode,
            "kind": kind,
            "cwd": header.cwd,
            "branch": header.branch,
            "remote": header.remote,
            "project": project.id,
            "project_name": project.name,
            "started": header.started,
            "last_event": peek.last_event,
            "user_chars": peek.user_chars,
            "parent": header.parent,
            "forked_from": header.forked_from,
            "fingerprint": peek.fingerprint,
            "version": header.version,
            "title": header.title,
            "report": {"whole": peek.whole, "open_turn": peek.open_turn},
        }
        verdict = judge(
            RolloutRow(**fields, reason=Reason.OWN if gate else None, detail=gate),
            now=self._now, extract=self._settings.extract, rollouts=self._settings.rollouts,
            watermark=self._watermark, tombstones=self._tombstones,
        )  # fmt: skip
        return RolloutRow(**fields, reason=verdict.reason, detail=verdict.detail)

    def _unreadable(self, item: Found, path: Path, host: Host, why: str) -> RolloutRow:
        """Keeps what was known of the file. One we may not open is tried at every walk: only its mode may change."""
        report, inode = self._report, item.inode
        if not os.access(item.path, os.R_OK):
            why, inode = "it may not be read by this user", CHECK_AGAIN
        report.unreadable_count += 1
        if len(report.unreadable) < MAX_LISTED:
            report.unreadable.append((path, why))
        base = _unnamed(RolloutRow(RolloutId(host, STAND_IN), path, 0, 0, 0))
        if item.known is not None and (before := self._store.rollouts.get(RolloutId.parse(item.known))) is not None:
            base = before
            self._broken.add(item.known)
        return replace(
            base, path=path, size=item.size, mtime_ns=item.mtime_ns, inode=inode, reason=Reason.UNREADABLE, detail=why
        )

    # -- one row per session --------------------------------------------------------------------------

    def _settle(self, row: RolloutRow) -> None:
        """Gives the row its id, or that of a duplicate where another file that is still there has the better claim."""
        name, place = str(row.id), _key(row.path)
        if self._path_of.get(name, place) == place:
            self._put(row, name, place)
            return
        rival = self._rival(row)
        if rival is not None and _rank(row) <= _rank(rival):
            self._settle(_duplicate(row, rival))
            return
        if rival is not None:
            # Its own place and name are free to be taken again: nobody else can have either.
            other = _unnamed(rival) if rival.reason is Reason.UNREADABLE else _duplicate(rival, row)
            self._put(other, str(other.id), _key(other.path))
        self._put(row, name, place)

    def _rival(self, row: RolloutRow) -> RolloutRow | None:
        """The row that has this id by another file which is still there."""
        rival = self._pending.get(row.id) or self._store.rollouts.get(row.id)
        return None if rival is None or rival.path == row.path else rival

    def _put(self, row: RolloutRow, name: str, place: str) -> None:
        """One name per file: the one it had before in this state is left."""
        former = self._name_at.get(place)
        if former is not None and former != name:
            self._left.add(former)
            self._path_of.pop(former, None)
            self._pending.pop(RolloutId.parse(former), None)
        self._pending[row.id] = row
        self._path_of[name], self._name_at[place] = place, name

    def _flush(self, done: int, total: int) -> None:
        self._store.rollouts.upsert_many(self._pending.values())
        self._pending.clear()
        self._progress(Step("discover", f"{done:,} of {total:,} changed files read", done, total))

    # -- what went --------------------------------------------------------------------------------------

    def _heirs(self) -> list[Found]:
        """Duplicates whose first file went, broke or became another session: one of them takes its place."""
        heirs = []
        for name, place in self._path_of.items():
            main, duplicate, _ = name.partition(DUPLICATE_MARK)
            if not duplicate or (main in self._path_of and main not in self._broken):
                continue
            path = path_from(place)
            try:
                stat = path.stat(follow_symlinks=False)
            except OSError:
                continue
            host = RolloutId.parse(name).host
            heirs.append(Found(str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino, (host,), name))
        return heirs

    def _settle_left(self, names: Collection[str]) -> None:
        """Ids whose file now carries another one: stand-ins go, sessions are kept as missing."""
        stand_ins = [name for name in names if _stands_in(name)]
        self._store.rollouts.delete(RolloutId.parse(name) for name in stand_ins)
        self._mark_missing((name, "its file now holds another session") for name in set(names).difference(stand_ins))

    def _settle_gone(self, marks: Iterable[Mark]) -> None:
        """Rows whose file was not met. Those already known to be missing are left as they are."""
        roots = tuple(f"{root}{os.sep}" for root in self._found.roots)
        hosts = {host.value for host in self._found.hosts}
        missing: list[tuple[str, str]] = []
        stand_ins: list[RolloutId] = []
        for path, _, _, inode, name in marks:
            if inode == str(GONE) or name.partition(":")[0] not in hosts:
                continue
            if _stands_in(name):
                stand_ins.append(RolloutId.parse(name))
            elif path.startswith(roots):
                missing.append((name, "the file is gone"))
            else:
                missing.append((name, "it lies outside the folders that are looked at now"))
        self._store.rollouts.delete(stand_ins)
        self._report.missing = len(missing)
        self._mark_missing(missing)

    def _mark_missing(self, names: Iterable[tuple[str, str]]) -> None:
        rows = []
        for name, detail in names:
            row = self._store.rollouts.get(RolloutId.parse(name))
            if row is not None:
                rows.append(replace(row, inode=GONE, reason=Reason.MISSING, detail=detail))
        for start in range(0, len(rows), BATCH):
            self._store.rollouts.upsert_many(rows[start : start + BATCH])


def _key(path: Path) -> str:
    """A path as the state stores it."""
    text = str(path)
    return text if text.isascii() else path_text(text)


def _stands_in(name: str) -> bool:
    """Whether an id was made up for a file that is no session, or not the session's first file."""
    return DUPLICATE_MARK in name or name.partition(":")[2].startswith(STAND_IN)


def _rank(row: RolloutRow) -> tuple[bool, datetime, bool, int, str]:
    """Of two files with one id the greater is read: readable, latest event, plain, larger, by path."""
    last = row.last_event or datetime.min.replace(tzinfo=UTC)
    return row.reason is not Reason.UNREADABLE, last, row.path.suffix == ".jsonl", row.size, str(row.path)


def _unnamed(row: RolloutRow) -> RolloutRow:
    """Under the id of a file that is no session."""
    digest = hashlib.sha256(os.fsencode(str(row.path))).hexdigest()[:16]
    return replace(row, id=RolloutId(row.id.host, f"{STAND_IN}{digest}"))


def _duplicate(row: RolloutRow, of: RolloutRow) -> RolloutRow:
    digest = hashlib.sha256(os.fsencode(str(row.path))).hexdigest()[:8]
    name = RolloutId(row.id.host, f"{row.id.session}{DUPLICATE_MARK}{digest}")
    return replace(
        row, id=name, reason=Reason.DUPLICATE, detail=f"another file of {of.id}, which is read from {of.path}"
    )


def _skip(report: DiscoverReport, why: str, path: str) -> None:
    report.skipped[why] = report.skipped.get(why, 0) + 1
    if len(report.skipped_paths) < MAX_LISTED:
        report.skipped_paths.append((Path(path), why))


def _report_of(found: Walk) -> DiscoverReport:
    report = DiscoverReport(
        roots=[Path(root) for root in found.roots],
        files=found.files,
        unchanged=found.files - len(found.fresh),
        left_out=found.left_out,
        by_host=dict(found.by_host),
    )
    for path, why in found.skipped:
        _skip(report, why, path)
    return report
