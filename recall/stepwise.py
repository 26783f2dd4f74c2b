"""Reading in steps: search names sessions, timeline shows what stands around a line, get gives texts [P055 P023].

Over a `recall.search.View`, so nothing here can show what the viewer may not see; whole texts are read from the files
of the workspace once the index has said that they may be seen. Everything is redacted and free of forgotten texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from recall.answers import Candidates, Excerpt, Session, Text, Texts, Timeline
from recall.index.rank import Hit
from recall.index.unit import Unit
from recall.search import Found, View

if TYPE_CHECKING:
    from recall.index.rank import GroupHit

MAX_TEXT = 10_000
"""Code points of one whole text at a time; a rollout summary always fits."""
MAX_TOTAL = 20_000
"""Code points of all texts of one answer."""
MAX_IDS = 20
EXCERPT = 320
"""Code points of an excerpt."""
MAX_CANDIDATES = 20
MAX_AROUND = 20
NEIGHBOURS = 3
"""Sessions shown on either side in time."""
SESSION_KINDS = frozenset({"bullet", "evidence", "note"})
_CITATION = re.compile(r"[0-9a-f]{8}(?:[0-9a-f]{8})?")
_WHOLE = re.compile(r"[0-9a-f]{8}(?:[0-9a-f]{8})?|note:[A-Za-z0-9._-]{1,64}")

WholeText = Callable[[str, Unit], "str | None"]
"""Gives the whole text behind the first visible line of a source; None when it is gone."""


class Entry(Protocol):
    """The part of `recall.topics.Kept` that is needed."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def date(self) -> str: ...
    @property
    def citation(self) -> str: ...


Own = Callable[[str], "Entry | None"]
"""Gives the entry of an id that one may see."""


def plain_id(asked: str) -> str:
    """An id as it was given, brackets and white space off."""
    return asked.strip()[:200].strip("[] \t\r\n")


def scope_name(unit: Unit) -> str:
    """Whether a unit holds in every project or in one."""
    return "user" if unit.scope.everywhere else "project"


def excerpt(unit: Unit, found: Found | None = None, room: int = EXCERPT) -> Excerpt:
    """A unit as it is shown, the stretch that says what was asked where it is long."""
    if found is None:
        cut = len(unit.text) > room
        text = f"{unit.text[: room - 1]}…" if cut else unit.text
    else:
        text, _, cut = found.marked(unit.text, room)
    return Excerpt(
        id=unit.ref,
        kind=unit.kind,
        text=text,
        cut=cut,
        scope=scope_name(unit),
        citations=unit.citations,
        source=unit.source,
        section=unit.section,
        date=unit.time,
        superseded=unit.superseded,
        successor=_clipped(unit.successor, room),
    )


def _clipped(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


# -- search -----------------------------------------------------------------------------------------------------------


NEAR = " With near = true it shows what comes near."


def search(view: View, query: str, *, limit: int = 5, near: bool = False) -> Candidates:
    """Sessions and notes that answer, best first, each with its best lines and the id to go on with."""
    wanted = max(1, min(limit, MAX_CANDIDATES))
    found = view.sessions(query, limit=MAX_CANDIDATES * 4, answers_only=not near)
    marks = Found((), found.said)
    kept: dict[str, Session] = {}
    for group in found.groups:
        one = _candidate(group, marks)
        if one is not None:
            kept.setdefault(one.id, one)
    sessions = tuple(kept.values())
    says = "" if sessions else "No session or note answers this."
    if not (sessions or near) and view.sessions(query, limit=1, answers_only=False).groups:
        says += NEAR
    return Candidates(sessions[:wanted], len(sessions) > wanted, says)


def _candidate(group: GroupHit, marks: Found) -> Session | None:
    best: list[Hit] = [hit for hit in group.best if hit.unit.kind in SESSION_KINDS]
    if not best:
        return None
    return _session(best[0].unit, 0, tuple(excerpt(hit.unit, marks, EXCERPT // 2) for hit in best))


def _session(unit: Unit, lines: int = 0, best: tuple[Excerpt, ...] = ()) -> Session:
    name = unit.citations[0] if unit.citations else unit.group
    return Session(name, unit.kind, unit.about, unit.source, unit.time, lines, best)


# -- timeline ---------------------------------------------------------------------------------------------------------


def timeline(view: View, asked: str, *, before: int = 3, after: int = 3) -> Timeline | None:
    """What stands around a line, or around the beginning of a session; None for what is not there to be seen."""
    name = plain_id(asked)
    unit = view.get(name)
    if unit is None:
        unit = next(iter(view.whole(name)), None)
    if unit is None:
        return None
    before, after = max(0, min(before, MAX_AROUND)), max(0, min(after, MAX_AROUND))
    near = view.around(unit.ref, before=before, after=after) or [unit]
    place = next((at for at, one in enumerate(near) if one.ref == unit.ref), 0)
    lines = len(view.whole(unit.group))
    earlier, later = _beside(view, unit)
    return Timeline(
        id=unit.ref,
        session=_session(unit, lines),
        lines=tuple(excerpt(one) for one in near),
        at=place,
        earlier=earlier,
        later=later,
        cut=lines > len(near),
    )


def _beside(view: View, unit: Unit) -> tuple[tuple[Session, ...], tuple[Session, ...]]:
    """Sessions and notes before and after in time, those next to it last and first."""
    groups = view.groups(("bullet", "note"))
    here = unit.time, unit.citations[:1]
    sessions = sorted(
        (
            (one.time, one.citations[:1], one, count)
            for one, count in groups
            if one.time and one.citations[:1] != here[1]
        ),
        key=lambda item: item[:2],
    )
    earlier = [_session(one, count) for time, name, one, count in sessions if (time, name) < here]
    later = [_session(one, count) for time, name, one, count in sessions if (time, name) > here]
    return tuple(earlier[-NEIGHBOURS:]), tuple(later[:NEIGHBOURS])


# -- get --------------------------------------------------------------------------------------------------------------


def get(view: View, asked: Iterable[str], whole: WholeText, *, offset: int = 0, own: Own = lambda name: None) -> Texts:
    """Whole texts, as many as there is room for. `offset` goes on in the first one. `own` gives entries."""
    ids = list(dict.fromkeys(plain_id(one) for one in asked))
    texts: list[Text] = []
    missing: list[str] = []
    left: list[str] = list(ids[MAX_IDS:])
    room = MAX_TOTAL
    for place, name in enumerate(ids[:MAX_IDS]):
        if room <= 0:
            left.append(name)
            continue
        kept, start = own(name), offset if place == 0 else 0
        if kept is not None:
            cited = (kept.citation,) if kept.citation else ()
            unit = Unit(kept.id, kept.id, "", kind=kept.kind, citations=cited, source=kept.path, time=kept.date)
            text: Text | None = cut_text(name, unit, kept.text, offset=start, room=min(room, MAX_TEXT))
        else:
            text = one_text(view, name, whole, offset=start, room=min(room, MAX_TEXT))
        if text is None:
            missing.append(name)
        elif texts and text.cut and len(text.text) < MAX_TEXT:
            left.append(name)
        else:
            texts.append(text)
            room -= len(text.text)
    return Texts(tuple(texts), tuple(missing), tuple(left))


def one_text(view: View, name: str, whole: WholeText, *, offset: int = 0, room: int = MAX_TEXT) -> Text | None:
    """The whole text of one id from `offset` on: of a line its own, of a source or entry the file's."""
    unit = view.get(name)
    text = None if unit is None else unit.text
    if unit is None and _WHOLE.fullmatch(name):
        units = view.whole(name)
        if units and _one_source(units):
            unit, text = units[0], whole(name, units[0])
    if unit is None or text is None:
        return None
    return cut_text(name, unit, text, offset=offset, room=room)


def _one_source(units: Sequence[Unit]) -> bool:
    """A short citation may be the beginning of two sessions' ids: then neither is meant."""
    return len({unit.group.rstrip("@") for unit in units}) == 1


def cut_text(name: str, unit: Unit, text: str, *, offset: int, room: int) -> Text:
    """The stretch of a text that fits, and where it goes on."""
    start = max(0, min(offset, len(text)))
    part = text[start : start + room]
    end = start + len(part)
    return Text(
        id=name,
        kind=unit.kind,
        text=part,
        cut=end < len(text),
        next_offset=end if end < len(text) else None,
        total=len(text),
        scope=scope_name(unit),
        citations=unit.citations,
        source=unit.source,
        section=unit.section if name == unit.ref else "",
        date=unit.time,
        superseded=unit.superseded and name == unit.ref,
        successor=unit.successor if name == unit.ref else "",
    )


def citations_of(texts: Iterable[Text]) -> list[str]:
    """The sources that were read, by their short citation, once each."""
    found = [name if name.startswith("note:") else name[:8] for text in texts for name in text.citations]
    return list(dict.fromkeys(name for name in found if name.startswith("note:") or _CITATION.fullmatch(name)))
