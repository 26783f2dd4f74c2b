"""One row per rollout seen on disk: what its head and tail said, and why it is or is not taken."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, cast

from sqlalchemy import and_, bindparam, delete, func, or_, select, update
from sqlalchemy.sql.compiler import SQLCompiler

from memory.clock import iso
from memory.model import Reason, RolloutId, RolloutKind
from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.schema import clean, dump_json, path_from, path_text, rollouts


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rollout as discovery knows it. `reason` is None until somebody classified it.

    `size` in bytes, `user_chars` in code points; `fingerprint` tells copies of one session apart from others;
    `report` is the reader's counters (no content).
    """

    id: RolloutId
    path: Path
    size: int
    mtime_ns: int
    inode: int
    kind: RolloutKind = RolloutKind.INTERACTIVE
    cwd: str | None = None
    branch: str | None = None
    remote: str | None = None
    project: str = "unknown"
    project_name: str = "unknown"
    started: datetime | None = None
    last_event: datetime | None = None
    user_chars: int = 0
    parent: RolloutId | None = None
    forked_from: RolloutId | None = None
    fingerprint: str = ""
    version: str | None = None
    title: str | None = None
    reason: Reason | None = None
    detail: str = ""
    report: dict[str, Any] = field(default_factory=dict)


class FileMark(NamedTuple):
    """What tells an unchanged file: compare the first three with `os.stat`."""

    size: int
    mtime_ns: int
    inode: int
    id: RolloutId


class ProjectCount(NamedTuple):
    """A project and how many rollouts it has."""

    id: str
    name: str
    rollouts: int


_COLUMNS = tuple(rollouts.c)


class Rollouts(Aggregate):
    def upsert_many(self, rows: Iterable[RolloutRow], tx: Tx | None = None) -> None:
        """Writes rows whole, one transaction; of two rows with one id the later wins."""
        values = [_values(row) for row in {row.id: row for row in rows}.values()]
        if not values:
            return
        with self._db.write(tx) as connection:
            # Past the machinery for each value: `_values` gives what columns store, and a first walk writes thousands.
            sql, order = _upsert(connection, tuple(values[0]))
            connection.exec_driver_sql(
                sql, [tuple(value[name] for name in order) for value in values] if order else values
            )

    def get(self, rollout: RolloutId, tx: Tx | None = None) -> RolloutRow | None:
        with self._db.read(tx) as connection:
            row = connection.execute(select(*_COLUMNS).where(rollouts.c.id == str(rollout))).one_or_none()
        return None if row is None else row_of(row)

    def all(self, tx: Tx | None = None) -> list[RolloutRow]:
        """Every row, newest activity first, unknown activity last."""
        order = (rollouts.c.last_event.is_(None), rollouts.c.last_event.desc(), rollouts.c.id)
        with self._db.read(tx) as connection:
            return [row_of(row) for row in connection.execute(select(*_COLUMNS).order_by(*order))]

    def set_reasons(self, reasons: Mapping[RolloutId, tuple[Reason, str]], tx: Tx | None = None) -> None:
        """Sets reason and detail of the rows that exist; others are passed over."""
        values = [
            {"row_id": str(rollout), "new_reason": reason.value, "new_detail": detail}
            for rollout, (reason, detail) in reasons.items()
        ]
        if not values:
            return
        statement = (
            update(rollouts)
            .where(rollouts.c.id == bindparam("row_id"))
            .values(reason=bindparam("new_reason"), detail=bindparam("new_detail"))
        )
        with self._db.write(tx) as connection:
            connection.execute(statement, values)

    def fingerprints(self, tx: Tx | None = None) -> dict[str, FileMark]:
        """Path as text -> (size, mtime_ns, inode, id): the lean query of a walk that finds nothing changed."""
        c = rollouts.c
        parse = RolloutId.parse
        with self._db.read(tx) as connection:
            found = connection.execute(select(c.path, c.size, c.mtime_ns, c.inode, c.id))
            return {
                str(path_from(path)) if path.startswith("bytes:") else path: FileMark(size, mtime, int(inode), parse(i))
                for path, size, mtime, inode, i in found
            }

    def marks(self, tx: Tx | None = None) -> list[tuple[str, int, int, str, str]]:
        """(path, size, mtime_ns, inode, id) of every row as stored, texts included: the leanest whole reading.

        For the walk that finds nothing changed; a path that is no UTF-8 is `bytes:<hex>` (see `path_from`).
        """
        c = rollouts.c
        query = select(c.path, c.size, c.mtime_ns, c.inode, c.id)
        with self._db.read(tx) as connection:
            return cast("list[tuple[str, int, int, str, str]]", connection.execute(query).all())

    def candidates(
        self,
        *,
        settled: Collection[Reason],
        since: datetime | None,
        limit: int,
        again: Collection[str] = (),
        tx: Tx | None = None,
    ) -> tuple[list[RolloutRow], int]:
        """At most `limit` rows that may be taken now, newest activity first, and how many more there are.

        Left out are rows whose reason is `settled` (only a change of the file ends it) and rows too old by the last
        judgement that are older than `since` still. `again` are ids as text to be judged anew, settled or not.
        """
        c = rollouts.c
        young = c.last_event.is_(None) if since is None else or_(c.last_event.is_(None), c.last_event >= since)
        done = [reason.value for reason in settled if reason is not Reason.TOO_OLD]
        wanted = or_(
            c.reason.is_(None),
            and_(c.reason.not_in(done), or_(c.reason != Reason.TOO_OLD.value, young)),
            c.id.in_(list(again)),
        )
        order = (c.last_event.is_(None), c.last_event.desc(), c.id)
        with self._db.read(tx) as connection:
            query = select(*_COLUMNS).where(wanted).order_by(*order).limit(limit)
            found = [row_of(row) for row in connection.execute(query)]
            more = 0
            if len(found) == limit:
                more = connection.execute(select(func.count()).where(wanted)).scalar_one() - limit
        return found, more

    def projects(self, tx: Tx | None = None) -> list[ProjectCount]:
        """Every project a rollout belongs to, most rollouts first."""
        c = rollouts.c
        total = func.count().label("total")
        query = select(c.project, func.max(c.project_name), total).group_by(c.project).order_by(total.desc(), c.project)
        with self._db.read(tx) as connection:
            return [ProjectCount(*row) for row in connection.execute(query)]

    def folders(self, project: str, *, limit: int = 20, tx: Tx | None = None) -> list[str]:
        """Working folders of a project's rollouts, those of the latest activity first."""
        c = rollouts.c
        latest = func.max(c.last_event)
        chosen = select(c.cwd).where(c.project == project, c.cwd.is_not(None)).group_by(c.cwd)
        with self._db.read(tx) as connection:
            found = connection.execute(chosen.order_by(latest.is_(None), latest.desc(), c.cwd).limit(limit))
            return [row[0] for row in found]

    def projects_by_folder(self, tx: Tx | None = None) -> dict[str, set[tuple[str, str]]]:
        """Working folder -> the projects (id and name) its rollouts were found to belong to."""
        c = rollouts.c
        found: dict[str, set[tuple[str, str]]] = {}
        with self._db.read(tx) as connection:
            query = select(c.cwd, c.project, c.project_name).where(c.cwd.is_not(None)).distinct()
            for cwd, project, name in connection.execute(query):
                found.setdefault(cwd, set()).add((project, name))
        return found

    def delete(self, ids: Iterable[RolloutId], tx: Tx | None = None) -> None:
        """Removes rows; an unknown id is no error."""
        values = [{"row_id": str(rollout)} for rollout in ids]
        if values:
            with self._db.write(tx) as connection:
                connection.execute(delete(rollouts).where(rollouts.c.id == bindparam("row_id")), values)

    def counts(self, tx: Tx | None = None) -> dict[Reason | None, int]:
        """Rows by reason; None where not classified yet."""
        query = select(rollouts.c.reason, func.count()).group_by(rollouts.c.reason)
        with self._db.read(tx) as connection:
            return {Reason(reason) if reason else None: number for reason, number in connection.execute(query)}


def _upsert(connection: Tx, columns: tuple[str, ...]) -> tuple[str, Sequence[str] | None]:
    """The statement as the driver takes it, and the order of its values where it takes them by position."""
    statement = insert(connection, rollouts)
    changes = {c.name: statement.excluded[c.name] for c in _COLUMNS if not c.primary_key}
    places = connection.get_execution_options().get("schema_translate_map")
    rendering: dict[str, Any] = {"schema_translate_map": places, "render_schema_translate": True} if places else {}
    compiled = statement.on_conflict_do_update(index_elements=["id"], set_=changes).compile(
        dialect=connection.dialect, column_keys=list(columns), **rendering
    )
    by_position = isinstance(compiled, SQLCompiler) and compiled.positional
    return str(compiled), compiled.positiontup if by_position else None


def _values(row: RolloutRow) -> dict[str, Any]:
    """What each column stores."""
    return {
        "id": clean(str(row.id)),
        "path": path_text(row.path),
        "size": row.size,
        "mtime_ns": row.mtime_ns,
        "inode": str(row.inode),
        "kind": row.kind.value,
        "cwd": None if row.cwd is None else clean(row.cwd),
        "branch": None if row.branch is None else clean(row.branch),
        "remote": None if row.remote is None else clean(row.remote),
        "project": clean(row.project),
        "project_name": clean(row.project_name),
        "started": iso(row.started),
        "last_event": iso(row.last_event),
        "user_chars": row.user_chars,
        "parent": None if row.parent is None else clean(str(row.parent)),
        "forked_from": None if row.forked_from is None else clean(str(row.forked_from)),
        "fingerprint": clean(row.fingerprint),
        "version": None if row.version is None else clean(row.version),
        "title": None if row.title is None else clean(row.title),
        "reason": None if row.reason is None else row.reason.value,
        "detail": clean(row.detail),
        "report": dump_json(row.report),
    }


_KINDS = {kind.value: kind for kind in RolloutKind}
_REASONS: dict[str | None, Reason | None] = {None: None, **{reason.value: reason for reason in Reason}}


def row_of(row: Sequence[Any]) -> RolloutRow:
    """A stored row, by position: columns stand in the dataclass's order."""
    (
        id_, path, size, mtime_ns, inode, kind, cwd, branch, remote, project, project_name, started, last_event,
        user_chars, parent, forked_from, fingerprint, version, title, reason, detail, report,
    ) = row  # fmt: skip
    parse = RolloutId.parse
    return RolloutRow(
        parse(id_),
        path_from(path),
        size,
        mtime_ns,
        int(inode),
        _KINDS[kind],
        cwd,
        branch,
        remote,
        project,
        project_name,
        started,
        last_event,
        user_chars,
        parse(parent) if parent else None,
        parse(forked_from) if forked_from else None,
        fingerprint,
        version,
        title,
        _REASONS[reason],
        detail,
        report,
    )


def stale(rows: Mapping[str, FileMark], seen: Iterable[str]) -> set[RolloutId]:
    """Ids whose path was not met by a whole walk."""
    met = set(seen)
    return {mark.id for path, mark in rows.items() if path not in met}
