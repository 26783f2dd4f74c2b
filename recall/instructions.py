"""A project's own instruction files win: which lines of memory contradict AGENTS.md or CLAUDE.md, and where.

Deliberately narrow, since a line dropped by mistake is a memory lost. Only two things count as a contradiction:

- the same thing is asked for on one side and refused on the other ("use `npm`" and "never use npm");
- both ask for a tool of the same kind, and not the same one ("use Jest" and "use Vitest"), while the file asks for one
  tool of that kind only and the line does not name it.

"Asked for" is a tool of the table below, or a span in backticks, directly behind a word that asks (use, run, prefer,
用, ...) or refuses (never, avoid, instead of, 不要, ...); what is merely mentioned is neither. Standard library only.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from recall.scope import read_file

NAMES = ("AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")
MAX_FILE_BYTES = 65_536
MAX_DEPTH = 8

_KINDS = {
    "package manager": "npm pnpm yarn bun",
    "test runner": "jest vitest mocha ava jasmine",
    "python packages": "pip uv poetry pipenv conda pdm",
    "python tests": "pytest unittest nose",
    "python linter": "ruff flake8 pylint",
    "javascript linter": "eslint biome tslint oxlint",
    "bundler": "webpack vite rollup parcel esbuild",
    "indentation": "tabs spaces",
    "quotes": "single-quotes double-quotes",
    "java build": "maven gradle bazel",
}
_KIND_OF = {tool: kind for kind, tools in _KINDS.items() for tool in tools.split()}
_TOOL = r"(?:" + "|".join(sorted(map(re.escape, _KIND_OF), key=len, reverse=True)) + r")(?![\w-])"
_THING = rf"(?:`[^`\n]{{1,60}}`|{_TOOL})"
_BETWEEN = r"(?:(?:the|a|an|only|to|your|our|its|all|new|always|just|for|us)\s+){0,3}"
_ASK = (
    r"\b(?:uses?|runs?(?: with| on)?|prefers?|adopt(?:s|ed)?|switch(?:ed)? to|mov(?:e|ed) to|migrat(?:e|ed) to"
    r"|(?:indent|format|lint|test|build)(?:ed)? with|written (?:in|with))\s+"
)
_ASK_ZH = r"(?:使用|采用|改用|换成|统一用|一律用|只用|优先用|请用|用)\s*"
_REFUSE = (
    r"\b(?:never|avoid|no longer|not|don['’]t|do not|instead of|rather than|stop|without|no)\s+"
    r"(?:(?:use|using|run|running|add|install|call|with|to)\s+){0,2}"
)
_REFUSE_ZH = r"(?:不要|别|禁止|不再|不得|不用|勿)(?:再)?(?:使用|用|运行|采用)?\s*"
_STANCE = rf"(?P<no>{_REFUSE}|{_REFUSE_ZH})?(?(no)|(?:{_ASK}|{_ASK_ZH})){_BETWEEN}(?P<thing>{_THING})"


class Stance(NamedTuple):
    """What a text asks for or refuses: the thing in lower case, without backticks."""

    thing: str
    wanted: bool


class Contradiction(NamedTuple):
    """`path` and `line` (1-based) of the instruction that wins; `thing` is what the line of memory asks for."""

    path: str
    line: int
    thing: str


class Instruction(NamedTuple):
    """One line of an instruction file that takes a stance."""

    path: str
    line: int
    stances: tuple[Stance, ...]


def candidates(root: str, cwd: str) -> list[str]:
    """Where a project's instruction files may lie: its root and each folder down to `cwd`, at most eight deep."""
    folders = [root]
    inside = os.path.relpath(cwd, root) if cwd else "."
    if not inside.startswith("..") and inside != ".":
        for part in inside.split(os.sep)[:MAX_DEPTH]:
            folders.append(os.path.join(folders[-1], part))
    return [os.path.join(folder, *name.split("/")) for folder in folders for name in NAMES]


def read_instructions(paths: list[str]) -> list[Instruction]:
    """The lines of these files that take a stance. A file that cannot be read has none; the same text counts once."""
    found: list[Instruction] = []
    seen: set[bytes] = set()
    for path in paths:
        try:
            data = read_file(os.path.realpath(path), MAX_FILE_BYTES)
        except (OSError, ValueError):
            continue
        if data is None or data in seen:
            continue
        seen.add(data)
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
            taken = stances(line)
            if taken:
                found.append(Instruction(path, number, taken))
    return found


def stances(text: str) -> tuple[Stance, ...]:
    """What a text asks for and refuses, once each."""
    found: list[Stance] = []
    for match in re.finditer(_STANCE, text, re.IGNORECASE):
        thing, wanted = match["thing"].strip("`").strip().casefold(), match["no"] is None
        if thing:
            found.append(Stance(thing, wanted))
            tool = thing.split(maxsplit=1)[0]
            if wanted and tool != thing and tool in _KIND_OF:  # "run `npm test`" asks for npm
                found.append(Stance(tool, wanted=True))
    return tuple(dict.fromkeys(found))


class Rules:
    """What a project's files ask for and refuse, ready to be asked about many lines."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self._places: dict[Stance, Instruction] = {}
        for item in instructions:
            for stance in item.stances:
                self._places.setdefault(stance, item)
        asked = {stance.thing for stance in self._places if stance.wanted}
        refused = {stance.thing for stance in self._places if not stance.wanted}
        self._undecided = asked & refused
        kinds: dict[str, set[str]] = {}
        for thing in asked & _KIND_OF.keys():
            kinds.setdefault(_KIND_OF[thing], set()).add(thing)
        self._chosen = {kind: things.pop() for kind, things in kinds.items() if len(things) == 1}
        rivals = {tool for tool, kind in _KIND_OF.items() if kind in self._chosen}
        self._words = tuple(sorted(asked | refused | rivals))

    def against(self, text: str) -> Contradiction | None:
        """The instruction a line of memory contradicts, None where it contradicts none."""
        folded = text.casefold()
        if not any(word in folded for word in self._words):
            return None
        mine = stances(text)
        wanted = {stance.thing for stance in mine if stance.wanted}
        for stance in mine:
            opposite = Stance(stance.thing, not stance.wanted)
            if opposite in self._places and opposite not in mine and stance.thing not in self._undecided:
                return self._at(opposite, stance.thing)
            chosen = self._chosen.get(_KIND_OF.get(stance.thing, "")) if stance.wanted else None
            if chosen is not None and chosen not in wanted:
                return self._at(Stance(chosen, wanted=True), stance.thing)
        return None

    def _at(self, stance: Stance, thing: str) -> Contradiction:
        item = self._places[stance]
        return Contradiction(item.path, item.line, thing)
