"""What is found: a unit is one line of memory with where it comes from and who may see it. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Scope(NamedTuple):
    """Who may see a unit: the projects it belongs to (ids, or the name a note gives), or everybody."""

    projects: tuple[str, ...] = ()
    everywhere: bool = False


class Unit(NamedTuple):
    """One line of memory.

    `ref` names it, stable while its source is; `group` is the session, note or file it stands in: units of one group
    follow each other and lend each other their context. `names` are what it is about, each one a name of its own; a
    question that says one of them means this unit. `aside` counts half: what others said around it. `about` holds for
    the whole group (title, project, date) and is searched as a part of it. `time` is ISO 8601 UTC or empty, `used` how
    often it was read. A `superseded` unit is only ever shown as such; `successor` is what holds instead, if known.
    """

    ref: str
    group: str
    text: str
    kind: str = "line"
    names: tuple[str, ...] = ()
    aside: str = ""
    about: str = ""
    scope: Scope = Scope()
    citations: tuple[str, ...] = ()
    source: str = ""
    section: str = ""
    time: str = ""
    used: int = 0
    superseded: bool = False
    successor: str = ""
