"""A person's machine with the three real hosts on it, slowwave installed into them, and a scripted model behind them.

Everything lies in one temporary folder: home, projects, configuration, memory. The hosts are the real programs; only
the model is played, by examples/record/fake_models.py, which also keeps every request it gets.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.record import hosts as machines
from examples.record.bench import Bench, run
from examples.record.fake_models import FakeModels
from examples.record.script import Scenario, Step, Turn

SECONDS = 60
ORIGIN = "git@example.com:acme/shop.git"
CONFIG = """
[memory]
mode = "long"
[rollouts]
generic_roots = []
[extract]
idle_hours = 0
batch = 20
[model]
provider = "offline"
"""
"""`idle_hours = 0` stands for the six hours a session has to rest."""
FENCE = "<slowwave-memory"
NAMES = ("codex", "claude", "pi")


@dataclass(frozen=True)
class Said:
    """One prompt of the story. `name` is unique; the model answers with `steps`, the last of them words."""

    name: str
    host: str
    project: str
    prompt: str
    steps: tuple[Step, ...]


@dataclass
class World:
    """The machine. `say` plays a prompt, `slowwave` runs a command, `bodies` are the requests of a prompt."""

    bench: Bench
    models: FakeModels
    log: Path
    story: dict[str, Said]
    machines: dict[str, machines.Host] = field(default_factory=dict)

    def say(
        self,
        name: str,
        session: Path | None = None,
        *,
        trusted: bool = True,
        more: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> list[dict[str, Any]]:
        """Gives the prompt to its host's print mode and returns the request bodies the model got for it.

        `session` is a session file to go on with, `more` and `variables` are for the host. Codex gets its documented
        switch to run hooks that nobody could approve at a keyboard, unless not `trusted`.
        """
        said = self.story[name]
        host = self.machines[said.host]
        command = host.printing(said.prompt, session)
        if said.host == "codex" and trusted:
            command.insert(command.index("exec") + 1, "--dangerously-bypass-hook-trust")
        command[-1:-1] = more
        environment = host.env(self.models.url) | dict(variables or {})
        run(command, self.bench.project(said.project), environment, SECONDS)
        return self.bodies(name)

    def bodies(self, name: str) -> list[dict[str, Any]]:
        """The request bodies of the turn a prompt started, in order."""
        number = f"{list(self.story).index(name):02d}t"
        lines = [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]
        return [line["request"] for line in lines if (line["cue"] or "").startswith(number)]

    def slowwave(self, *arguments: str) -> str:
        """What a command prints; it must succeed."""
        program = str(Path(sys.executable).with_name("slowwave"))
        return run([program, *arguments], self.bench.home, self.bench.env(), SECONDS)

    @property
    def data(self) -> Path:
        return self.bench.home / ".local" / "share" / "slowwave"

    def sessions(self) -> dict[str, str]:
        """Path -> hash of every session file the hosts have written."""
        files = (path for host in self.machines.values() for path in host.sessions.rglob("*.jsonl"))
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def session_of(self, name: str) -> Path:
        """The session file a prompt stands in."""
        said = self.story[name]
        files = self.machines[said.host].sessions.rglob("*.jsonl")
        return next(path for path in files if said.prompt in path.read_text("utf-8"))

    def configuration(self) -> dict[str, bytes]:
        """Every file of the hosts' configuration that slowwave may touch."""
        home = self.bench.home
        names = (".codex/config.toml", ".codex/hooks.json", ".claude/settings.json", ".claude/commands/remember.md")
        files = [home / name for name in names] + list((home / ".pi" / "agent" / "extensions").rglob("*"))
        return {str(path): path.read_bytes() for path in files if path.is_file()}


class Models(FakeModels):
    """The scripted model, which can also call another tool than the shell: a step `run = "tool:NAME {arguments}"`."""

    def __init__(self, scenarios: list[Scenario], roots: dict[str, Path], log: Path | None = None) -> None:
        super().__init__(scenarios, roots, log)
        self.scenarios = scenarios

    def answer(self, path: str, request: dict[str, Any]) -> tuple[str, bytes]:
        kind, body = super().answer(path, request)
        for step in (step for said in self.scenarios for step in said.turns[0].steps):
            if step.run.startswith("tool:"):
                name, _, arguments = step.run.removeprefix("tool:").partition(" ")
                for shell, (word, form) in SHELLS.items():
                    called = json.dumps(json.dumps({word: step.run}, ensure_ascii=False), ensure_ascii=False).encode()
                    if called in body and f'"name": "{shell}"'.encode() in body:
                        wanted = '"ToolSearch"' if name == "ToolSearch" else form.format(name)
                        body = body.replace(called, json.dumps(arguments, ensure_ascii=False).encode())
                        body = body.replace(f'"name": "{shell}"'.encode(), f'"name": {wanted}'.encode())
        return kind, body


SHELLS = {
    "bash": ("command", '"{}"'),
    "Bash": ("command", '"mcp__slowwave__{}"'),
    "exec_command": ("cmd", '"{}", "namespace": "mcp__slowwave"'),
}
"""Each host's shell: the argument a command stands in, and what one of our tools is called in its place."""


def blocks(body: dict[str, Any]) -> list[str]:
    """Every text of a request that holds our fence."""
    return [text for text in texts(body) if FENCE in text]


def texts(value: Any) -> Iterator[str]:
    """Every text inside a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)


@contextmanager
def opened(work: Path, hosts_folder: Path, story: Sequence[Said], names: Sequence[str] = NAMES) -> Iterator[World]:
    """Builds the machine with these hosts, set up for the scripted model and nothing else yet."""
    (work / "hosts").symlink_to(hosts_folder)
    bench = Bench(work)
    for folder in (bench.home, bench.bin):
        folder.mkdir(parents=True)
    (bench.bin / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    for name in names:
        (bench.bin / name).symlink_to(bench.program(name, name))
    projects = sorted({bench.project(said.project) for said in story})
    for project in projects:
        project.mkdir()
        origin = ORIGIN if project.name.startswith("shop") else f"git@example.com:acme/{project.name}.git"
        run(["git", "init", "--quiet"], project, bench.env(), SECONDS)
        run(["git", "remote", "add", "origin", origin], project, bench.env(), SECONDS)
    scenarios = [
        Scenario(
            f"{number:02d}-{said.name}", said.host, said.project, "en", "", "print", (Turn(said.prompt, said.steps),)
        )
        for number, said in enumerate(story)
    ]
    with Models(scenarios, {project.name: project for project in projects}, work / "requests.jsonl") as models:
        world = World(bench, models, work / "requests.jsonl", {said.name: said for said in story})
        for kind in machines.ALL:
            if kind.name in names:
                world.machines[kind.name] = kind(bench)
                world.machines[kind.name].configure(models.url, projects)
        world.data.mkdir(parents=True, mode=0o700)
        (world.data / "config.toml").write_text(CONFIG, "utf-8")
        yield world
