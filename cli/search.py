"""`slowwave search`: the lines of memory that answer a question.

Starts quickly: settings, state and tables are only loaded when an index has to be made, and a plain command line is
read here, since the command-line library takes longer to prepare its options than the whole search.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TypedDict

from cli.text import marked, printable
from memory.errors import UsageError
from memory.project import here, project_of
from memory.switches import variable
from recall.index.rank import Hit
from recall.scope import Viewer
from recall.search import MAX_LIMIT, Found, Searcher, View

_BOLD, _DIM, _PLAIN = "\x1b[1;33m", "\x1b[2m", "\x1b[0m"


class Options(TypedDict):
    """What `search` takes."""

    words: str
    project: str
    everything: bool
    limit: int
    near: bool
    evidence: bool
    as_json: bool


def read(arguments: list[str]) -> Options | None:
    """The options of a well-formed command line, as `cli.main` would read them; None for one it has to look at."""
    found: Options = {
        "words": "", "project": "", "everything": False, "limit": 10, "near": False, "evidence": False, "as_json": False
    }  # fmt: skip
    texts: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--all":
            found["everything"] = True
        elif word == "--near":
            found["near"] = True
        elif word == "--evidence":
            found["evidence"] = True
        elif word == "--json":
            found["as_json"] = True
        elif word == "--project" and rest and not rest[0].startswith("-"):
            found["project"] = rest.pop(0)
        elif (
            word == "--limit"
            and rest
            and rest[0].isascii()
            and rest[0].isdigit()
            and 1 <= int(rest[0][:4]) <= MAX_LIMIT
        ):
            found["limit"] = int(rest.pop(0))
        elif word.startswith("-"):
            return None
        else:
            texts.append(word)
    if len(texts) != 1:
        return None
    found["words"] = texts[0]
    return found


def search(
    *, words: str, project: str, everything: bool, limit: int, near: bool, evidence: bool, as_json: bool
) -> None:
    """Prints what was found, best first. Nothing found is said, and no failure."""
    if project and everything:
        raise UsageError("--project and --all exclude each other.", hint="Name one project, or take all.")
    searcher = Searcher.of_process()
    view, where = _view(searcher, project, everything=everything)
    kinds = ("evidence",) if evidence else ()
    found = view.search(words, limit=min(limit, MAX_LIMIT), kinds=kinds, answers_only=not near)
    names = searcher.projects()
    elsewhere = False
    if not found.hits and not everything:  # that there is something is told, never what
        others = searcher.view_of_user().search(words, limit=1, kinds=kinds, answers_only=not near)
        elsewhere = bool(others.hits)
    if as_json:
        rows = [_as_json(hit, found, names) for hit in found.hits]
        answer = {"query": words, "project": where, "hits": rows, "elsewhere": elsewhere}
        sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2) + "\n")
    elif not found.hits:
        hints = (
            " Another project has something: --all" if elsewhere else "",
            "" if near else " What comes near: --near",
        )
        sys.stdout.write(f"Nothing in memory answers this ({where}).{'.'.join(hint for hint in hints if hint)}\n")
    else:
        colour = sys.stdout.isatty() and not variable("NO_COLOR")
        for place, hit in enumerate(found.hits, start=1):
            _print(place, hit, found, names, colour=colour)


def _view(searcher: Searcher, project: str, *, everything: bool) -> tuple[View, str]:
    """What is looked at, and its name for people."""
    if everything:
        return searcher.view_of_user(), "all projects"
    if project:
        names = searcher.projects()
        found = [id_ for id_, name in names.items() if project in {id_, name}]
        found = found or [id_ for id_, name in names.items() if name.casefold() == project.casefold()]
        if not found:
            hint = "`slowwave sources` lists them."
            raise UsageError(f"No project of the name {project[:80]!a} is known.", hint=hint)
        return searcher.view_of_user(*found), f"project {names[found[0]]}"
    own = project_of(here())
    return searcher.view(Viewer(own.id, own.name)), f"project {own.name}"


def _print(place: int, hit: Hit, found: Found, names: dict[str, str], *, colour: bool) -> None:
    unit = hit.unit
    text, spans, _ = found.marked(unit.text)
    before, after = (_BOLD, _PLAIN) if colour else ("", "")
    dim, plain = (_DIM, _PLAIN) if colour else ("", "")
    gone = "superseded: " if unit.superseded else ""
    sys.stdout.write(f"{place:2d}. {gone}{marked(text, spans, before, after)}\n")
    facts = [" ".join(f"[{citation}]" for citation in unit.citations), unit.source, unit.section, unit.time[:10]]
    facts += ["everywhere" if unit.scope.everywhere else ", ".join(names.get(p, p) for p in unit.scope.projects)]
    sys.stdout.write(f"    {dim}{printable(' · '.join(fact for fact in facts if fact))}{plain}\n")
    if unit.superseded and unit.successor:
        sys.stdout.write(f"    now: {printable(unit.successor)}\n")


def _as_json(hit: Hit, found: Found, names: dict[str, str]) -> dict[str, Any]:
    unit = hit.unit
    excerpt, spans, cut = found.marked(unit.text)
    return {
        "ref": unit.ref,
        "kind": unit.kind,
        "text": excerpt,
        "cut": cut,
        "marks": spans,
        "citations": list(unit.citations),
        "source": unit.source,
        "section": unit.section,
        "date": unit.time or None,
        "projects": [names.get(project, project) for project in unit.scope.projects],
        "everywhere": unit.scope.everywhere,
        "superseded": unit.superseded,
        "successor": unit.successor or None,
        "score": round(hit.score, 4),
        "covered": round(hit.covered, 4),
    }
