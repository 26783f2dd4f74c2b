"""The stories that are played to the hosts: scenario files in, what the model says next out.

A scenario is one session in one host: what the user types, and for each of those prompts the steps that the
model takes. Which step comes next is read off the request itself (the last prompt that is known, and how many
tool results follow it), so a repeated request gets the same answer and nothing can run out of step.
"""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOSTS = ("codex", "claude", "pi")
MODES = ("terminal", "print")


class ScriptError(ValueError):
    """A scenario file that cannot be played; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Step:
    """One answer of the model: words, a shell command, a file to write, or words with one of the two.

    `fails` says that the story wants this command to fail; a recording in which it does not is refused.
    """

    say: str = ""
    run: str = ""
    path: str = ""
    text: str = ""
    fails: bool = False


@dataclass(frozen=True)
class Turn:
    """What the user types, what happens in the project before, and the model's steps; the last is words."""

    user: str
    steps: tuple[Step, ...]
    prepare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """One session: `mode` says whether it is typed into the host's terminal or given to its print mode."""

    name: str
    host: str
    project: str
    language: str
    about: str
    mode: str
    turns: tuple[Turn, ...]

    def key(self, turn: int, step: int) -> str:
        """A short name of a step, both counted from 0: unique over all scenarios and the same every time."""
        return f"{self.name[:2]}t{turn + 1}s{step + 1}"

    def failing(self) -> set[str]:
        """The keys of the steps that are meant to fail."""
        found = set()
        for number, turn in enumerate(self.turns):
            found |= {self.key(number, index) for index, step in enumerate(turn.steps) if step.fails}
        return found


@dataclass(frozen=True)
class Heard:
    """One thing in a request that the script looks at: a user's text, or (text None) a tool's result."""

    text: str | None


@dataclass(frozen=True)
class Cue:
    """The step to play now; `key` is unique and stable, so identifiers in the recorded files are too."""

    key: str
    scenario: Scenario
    step: Step
    final: bool


def load_scenario(path: Path) -> Scenario:
    """Read one scenario file. Raises ScriptError for a wrong value, KeyError for a missing one."""
    data = tomllib.loads(path.read_text("utf-8"))
    scenario = Scenario(
        name=path.stem,
        host=data["host"],
        project=data["project"],
        language=data["language"],
        about=data["about"],
        mode=data.get("mode", "terminal"),
        turns=tuple(_turn(turn) for turn in data["turns"]),
    )
    if scenario.host not in HOSTS or scenario.mode not in MODES:
        raise ScriptError(f"{path.name}: host must be one of {HOSTS} and mode one of {MODES}")
    for turn in scenario.turns:
        if not turn.steps or turn.steps[-1].run or turn.steps[-1].path or not turn.steps[-1].say:
            raise ScriptError(f"{path.name}: the last step after {turn.user!r} must be words alone")
    return scenario


def load_scenarios(folder: Path) -> list[Scenario]:
    """Read all scenario files of a folder in the order of their names, which is the order of the story."""
    return [load_scenario(path) for path in sorted(folder.glob("*.toml"))]


def _turn(data: dict[str, Any]) -> Turn:
    steps = tuple(Step(**step) for step in data["steps"])
    return Turn(user=data["user"], steps=steps, prepare=tuple(data.get("prepare", ())))


class Script:
    """Finds the cue for a request. Every prompt of all scenarios must be unique, else ScriptError."""

    def __init__(self, scenarios: Iterable[Scenario]) -> None:
        self._turns: dict[str, tuple[Scenario, int]] = {}
        for scenario in scenarios:
            for number, turn in enumerate(scenario.turns):
                if turn.user in self._turns:
                    raise ScriptError(f"{scenario.name}: the prompt {turn.user!r} occurs twice")
                self._turns[turn.user] = (scenario, number)

    def cue(self, heard: Sequence[Heard]) -> Cue | None:
        """Return the step that answers this request, or None when no prompt of ours is in it."""
        known: tuple[Scenario, int] | None = None
        results = 0
        for item in heard:
            if item.text is None:
                results += 1
            elif (found := self._turns.get(item.text.strip())) is not None:
                known, results = found, 0
        if known is None:
            return None
        scenario, number = known
        steps = scenario.turns[number].steps
        index = min(results, len(steps) - 1)
        return Cue(
            key=scenario.key(number, index),
            scenario=scenario,
            step=steps[index],
            final=index == len(steps) - 1,
        )
