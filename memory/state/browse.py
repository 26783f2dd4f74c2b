"""Readings for people who leaf through the state: a page of it at a time, filtered and counted by the database.

Everything here costs about the same whether there are ten rollouts or ten thousand.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, Select, String, and_, false, func, or_, select, true, type_coerce

from memory.model import Outcome, Reason, RolloutId
from memory.state.rollouts import RolloutRow, row_of
from memory.state.schema import jobs, outputs, rollouts, versions

if TYPE_CHECKING:
    from memory.state.store import Store

Fate = Literal["remembered", "nothing", "waiting", "failed", "skipped"]
FATES: tuple[Fate, ...] = ("remembered", "nothing", "waiting", "failed", "skipped")
"""What became of a session: its summary is kept; nothing in it was worth keeping; its turn comes; reading it failed;
it is left out, and its reason says why. One may be remembered and wait for what was said since."""
WAITING = (Reason.ELIGIBLE, Reason.NOT_IDLE, Reason.CLAIMED)
FAILED = (Reason.BACKOFF, Reason.EXHAUSTED, Reason.UNREADABLE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list is narrowed to; empty values narrow nothing. `project` is an id, `text` stands somewhere in title,
    id, folder, branch, project name or detail, capitals aside."""

    host: str = ""
    project: str = ""
    fate: str = ""
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A rollout with what was made of it. `kept` is None where it was never extracted; `slug` is the model's short name
    for it, `error` a code."""

    row: RolloutRow
    kept: bool | None
    outcome: Outcome | None
    written: datetime | None
    slug: str | None
    status: str | None
    error: str | None

    @property
    def name(self) -> str:
        """What to call it: its title, else what the model called it, else its id."""
        return self.row.title or self.slug or self.row.id.session

    @property
    def fate(self) -> Fate:
        return fate_of(self.row.reason, kept=self.kept)


def fate_of(reason: Reason | None, *, kept: bool | None) -> Fate:
    """What became of a session, by why it is or is not taken now and what was made of it."""
    if reason in FAILED:
        return "failed"
    if kept is not None and reason is not Reason.FORGOTTEN:
        return "remembered" if kept else "nothing"
    return "waiting" if reason is None or reason in WAITING else "skipped"


@dataclass(frozen=True, slots=True)
class VersionHead:
    """A published version without its manifest. `changes` as in VersionRow."""

    number: int
    published: datetime
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None
    changes: list[dict[str, Any]]


# -- rollouts -----------------------------------------------------------------------------------------

_ORDER = (rollouts.c.last_event.is_(None), rollouts.c.last_event.desc(), rollouts.c.id)
_MADE = (outputs.c.kept, outputs.c.outcome, outputs.c.written, outputs.c.slug, jobs.c.status, jobs.c.error_code)


def sessions(store: Store, wanted: Wanted, *, limit: int, offset: int = 0) -> tuple[list[SessionRow], int]:
    """A page of rollouts, newest activity first, and how many there are in all."""
    c = rollouts.c
    condition = _condition(wanted)
    with store.read() as tx:
        place = rollouts.outerjoin(outputs, outputs.c.rollout == c.id) if wanted.fate else rollouts
        total = tx.execute(select(func.count()).select_from(place).where(condition)).scalar_one()
        # The page by its ids first: what was made of a rollout is looked up for those alone.
        page = select(c.id).select_from(place).where(condition).order_by(*_ORDER).limit(limit).offset(offset)
        ids = list(tx.execute(page).scalars())
        return [_session(row) for row in tx.execute(_joined().where(c.id.in_(ids)).order_by(*_ORDER))], total


def fate_counts(store: Store) -> dict[Fate, int]:
    """How many rollouts there are of each fate, all of them named."""
    made = rollouts.outerjoin(outputs, outputs.c.rollout == rollouts.c.id)
    groups = select(rollouts.c.reason, outputs.c.kept, func.count()).select_from(made)
    found = dict.fromkeys(FATES, 0)
    with store.read() as tx:
        for reason, kept, count in tx.execute(groups.group_by(rollouts.c.reason, outputs.c.kept)):
            found[fate_of(Reason(reason) if reason else None, kept=kept)] += count
    return found


def session(store: Store, source_id: str) -> SessionRow | None:
    """The rollout with this source id (16 hex digits) or one that begins with this citation (8)."""
    with store.read() as tx:
        for (name,) in tx.execute(select(rollouts.c.id)):
            if hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest().startswith(source_id):
                found = tx.execute(_joined().where(rollouts.c.id == name)).one_or_none()
                return None if found is None else _session(found)
    return None


def titles(store: Store, ids: list[RolloutId]) -> dict[RolloutId, str]:
    """What to call the given rollouts: their titles, else what the model called them; none where neither is known."""
    c = rollouts.c
    called = func.coalesce(func.nullif(c.title, ""), func.nullif(outputs.c.slug, ""))
    place = rollouts.outerjoin(outputs, outputs.c.rollout == c.id)
    query = select(c.id, called).select_from(place).where(c.id.in_([str(one) for one in ids]), called.is_not(None))
    with store.read() as tx:
        return {RolloutId.parse(name): title for name, title in tx.execute(query)}


def _joined() -> Select[Any]:
    made = outputs.c.rollout == rollouts.c.id
    tried = and_(jobs.c.kind == "extract", jobs.c.key == rollouts.c.id)
    return select(*rollouts.c, *_MADE).select_from(rollouts.outerjoin(outputs, made).outerjoin(jobs, tried))


def _condition(wanted: Wanted) -> ColumnElement[bool]:
    c = rollouts.c
    parts: list[ColumnElement[bool]] = [true()]
    if wanted.host:
        parts.append(c.id.startswith(f"{wanted.host}:", autoescape=True))
    if wanted.project:
        parts.append(c.project == wanted.project)
    if wanted.reason:
        parts.append(c.reason == wanted.reason)
    if wanted.fate:
        parts.append(_fate(wanted.fate))
    if wanted.text:
        places = (c.title, c.id, c.cwd, c.branch, c.project_name, c.detail)
        parts.append(or_(*(type_coerce(place, String).icontains(wanted.text, autoescape=True) for place in places)))
    return and_(*parts)


def _fate(fate: str) -> ColumnElement[bool]:
    """As `SessionRow.fate`, in the database."""
    reason, kept = rollouts.c.reason, outputs.c.kept
    failed = reason.in_([one.value for one in FAILED])
    made = and_(kept.is_not(None), or_(reason.is_(None), reason.not_in([*_values(FAILED), Reason.FORGOTTEN.value])))
    waits = or_(reason.is_(None), reason.in_(_values(WAITING)))
    known: dict[str, ColumnElement[bool]] = {
        "failed": failed,
        "remembered": and_(made, kept.is_(True)),
        "nothing": and_(made, kept.is_(False)),
        "waiting": and_(kept.is_(None), waits),
        "skipped": and_(
            reason.is_not(None),
            reason.not_in([*_values(FAILED), *_values(WAITING)]),
            or_(kept.is_(None), reason == Reason.FORGOTTEN.value),
        ),
    }
    return known.get(fate, false())


def _values(reasons: tuple[Reason, ...]) -> list[str]:
    return [one.value for one in reasons]


def _session(row: Any) -> SessionRow:
    size = len(rollouts.c)
    kept, outcome, written, slug, status, error = row[size:]
    return SessionRow(row_of(row[:size]), kept, Outcome(outcome) if outcome else None, written, slug, status, error)


# -- versions -----------------------------------------------------------------------------------------

_HEAD = tuple(versions.c[name] for name in VersionHead.__dataclass_fields__)


def version_heads(store: Store, *, limit: int, offset: int = 0) -> tuple[list[VersionHead], int]:
    """A page of the versions of this generation, newest first, and how many there are."""
    mine = versions.c.generation == store.generation
    with store.read() as tx:
        total = tx.execute(select(func.count()).select_from(versions).where(mine)).scalar_one()
        query = select(*_HEAD).where(mine).order_by(versions.c.number.desc()).limit(limit).offset(offset)
        return [VersionHead(*row) for row in tx.execute(query)], total


def changes_between(store: Store, first: int, last: int) -> list[VersionHead]:
    """The versions after `first` up to `last` that led from one to the other, oldest first."""
    c = versions.c
    mine = and_(c.generation == store.generation, c.number > first, c.number <= last)
    with store.read() as tx:
        return [VersionHead(*row) for row in tx.execute(select(*_HEAD).where(mine).order_by(c.number))]
