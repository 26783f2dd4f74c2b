"""The confirmed summary as pages and API show it: its lines, who sees them, what a project's sessions are given.

Everything goes through `recall.scope.read_published`: only a text whose hash a kept version names is shown, never one
under revision [Z105].
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from memory.documents import claims
from memory.errors import UnknownReference
from memory.model import HEADINGS, Claim
from memory.project import project_of
from memory.settings import Settings
from memory.state import Store
from memory.state.browse import VersionHead, version_heads
from memory.state.rollouts import ProjectCount
from recall import inject, scope
from recall.policy import TRAITS, parts_of
from recall.scope import Published, Source, Viewer

_STRANGER = Viewer("0" * 12, "\0")
"""A project to which nothing belongs."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One line. `key` names it as long as its words stay the same; `projects` are ids of those that see it, none of
    them where `everywhere`; `notes` are the names of the notes it cites."""

    key: str
    claim: Claim
    projects: tuple[str, ...]
    everywhere: bool
    visible: bool = True

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(name.removeprefix("note:") for name in self.claim.citations if name.startswith("note:"))

    @property
    def sessions(self) -> tuple[str, ...]:
        return tuple(name for name in self.claim.citations if not name.startswith("note:"))


@dataclass(frozen=True, slots=True)
class Given:
    """What a session of a host would be given at its next turn. `tokens` is an estimate; `left_out` did not fit."""

    host: str
    text: str
    tokens: int
    lines: int
    left_out: int
    overruled: int
    problems: tuple[str, ...]


def key_of(claim: Claim) -> str:
    return hashlib.sha256(f"{claim.section}\0{claim.text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def lines(published: Published, viewer: Viewer | None = None, setting: str = "project") -> list[Shown]:
    """Every line, in order; `viewer` marks those it may not see."""
    by_number = {line.number: line for line in scope.lines_of(published.text)}
    seen = None
    if viewer is not None:
        view = scope.visible_lines(published.text, published.sources, viewer, setting)
        seen = {line.number for line in view.lines}
    found = []
    for claim in claims(published.text):
        line = by_number[claim.line]
        projects, everywhere = _whose(line, published.sources)
        found.append(Shown(key_of(claim), claim, projects, everywhere, seen is None or claim.line in seen))
    return found


def sections(found: list[Shown]) -> list[tuple[str, list[Shown]]]:
    """The headings that have lines, in order."""
    return [
        (heading, [one for one in found if one.claim.section == heading])
        for heading in HEADINGS
        if any(one.claim.section == heading for one in found)
    ]


def line_of(published: Published, key: str) -> Shown:
    """Raises UnknownReference when the line is gone or has other words by now."""
    for one in lines(published):
        if one.key == key:
            return one
    raise UnknownReference(
        "This line is not in the summary any more.", hint="It was replaced or forgotten; the history has it."
    )


def _whose(line: scope.Line, sources: Mapping[str, Source]) -> tuple[tuple[str, ...], bool]:
    """The projects its sources belong to, and whether every project sees it: what a stranger sees, everybody does."""
    cited = [sources[name] for name in line.citations if name in sources]
    projects = tuple(dict.fromkeys(source.project for source in cited if source.project and not source.everywhere))
    return projects, scope.is_visible(line, sources, _STRANGER)


def head(store: Store) -> VersionHead | None:
    """The latest version without its manifest."""
    found, _ = version_heads(store, limit=1)
    return found[0] if found else None


def projects(store: Store) -> list[ProjectCount]:
    """Every project, most sessions first; of two with one name each says which it is."""
    return told_apart(store.rollouts.projects())


def told_apart(found: list[ProjectCount]) -> list[ProjectCount]:
    """The projects as people see them."""
    times = Counter(one.name for one in found)
    return [one._replace(name=f"{one.name} [{one.id[:6]}]") if times[one.name] > 1 else one for one in found]


def standing(settings: Settings, store: Store, published: Published) -> list[tuple[str, dict[str, str]]]:
    """What a person has to know about the text beside the text: keys of messages with their fields [X23].

    A consolidation that is running, one that failed, one that found nothing, memory that is switched off.
    """
    found: list[tuple[str, dict[str, str]]] = []
    if settings.memory.mode == "off" or not settings.memory.enabled:
        found.append(("memory.switched_off", {}))
    elif settings.memory.mode == "short":
        found.append(("memory.short_only", {}))
    job = store.jobs.get("consolidate", settings.store)
    if job is None:
        return found
    if job.running(store.clock.now()):
        found.append(("memory.running", {}))
    elif job.status in {"failed", "running"}:  # running, but not any more: its process died
        code = job.error_code or "lease_expired"
        found.append(("memory.failed", {"code": code, "message": job.error_message or ""}))
    elif job.done_boundary is not None and not published.version:
        found.append(("memory.found_nothing", {}))
    return found


def viewer_of(store: Store, project: str) -> Viewer:
    """A project by its id. Raises UnknownReference."""
    return viewer_among(store.rollouts.projects(), project)


def viewer_among(known: Iterable[ProjectCount], project: str) -> Viewer:
    """As `viewer_of`, where the projects were read already."""
    names = {one.id: one.name for one in known}
    if project not in names:
        raise UnknownReference("No session belongs to this project.", hint="Choose one of the list.")
    return Viewer(project, names[project])


def root_of(store: Store, project: str) -> Path | None:
    """The folder of a project on this machine, as its newest session has it; None where none exists any more."""
    for folder in store.rollouts.folders(project):
        if Path(folder).is_dir():
            found = project_of(folder)
            if found.id == project:
                return found.root or Path(folder)
    return None


def given(settings: Settings, viewer: Viewer, root: Path | None) -> list[Given]:
    """What sessions of a project get now, for each host. Nothing where memory is off."""
    mode = settings.memory.mode if settings.memory.enabled else "off"
    folder = str(root) if root is not None else ""

    @cache  # two hosts with the same room get the same block
    def build(parts: tuple[str, ...], limit: inject.Limit) -> inject.Block:
        return inject.build(
            inject.Request(
                home=str(settings.home),
                parts=parts,
                viewer=viewer,
                root=folder,
                cwd=folder,
                setting=settings.inject.scope,
                limit=limit,
                id="preview0",
            )
        )

    found = []
    for host, traits in TRAITS.items():
        if host not in settings.rollouts.hosts:
            continue
        amount = settings.inject.pi_chars if host == "pi" else traits.amount
        titles = settings.inject.titles and traits.keeps
        parts = parts_of(mode, short_in_long=settings.inject.short_in_long, titles=titles)
        block = build(parts, inject.Limit(traits.unit, amount))
        count = sum(line.startswith("- ") for line in block.text.split("\n"))
        problems = tuple(str(one) for one in block.diagnostics)
        tokens = inject.tokens(block.text) if block.text else 0
        found.append(Given(host, block.text, tokens, count, block.left_out, len(block.dropped), problems))
    return found
