"""What a person asks one host to remember is found by the others through the memory tools, and gone when forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from examples.record.script import Step
from memory.project import project_of
from memory.workspace.topic_text import entry_id
from tests.relay.world import ORIGIN, Said, World, opened, texts

pytestmark = [pytest.mark.hosts]

CANARY = "zebra-umbrella"
WHAT = {"scope": "project", "tier": "profile", "topic": "releases", "title": "Release rule"}
CONTENT = f"Every release of {CANARY} waits for the night build."
ASK = {"query": "release rule night build"}
DONE = Step(say="Done.")

WAIT = Step(say="One moment.", run="sleep 2")
"""Hosts send the first request without the tools of a server that is late, which on a busy machine any server is."""


def load(tool: str) -> Step:
    """Claude Code loads a tool's schema when it is asked for."""
    return Step(say="Loading.", run=f'tool:ToolSearch {{"query": "select:mcp__slowwave__{tool}", "max_results": 3}}')


def use(tool: str, **arguments: Any) -> Step:
    return Step(say="Looking.", run=f"tool:{tool} {json.dumps(arguments)}")


@dataclass
class Played:
    """The whole story as it was played: the requests each prompt led to, and what slowwave said in between."""

    world: World
    bodies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    listed: str = ""
    evidence: dict[str, str] = field(default_factory=dict)
    searched: str = ""
    left: list[str] = field(default_factory=list)
    status: str = ""

    def result(self, name: str) -> str:
        """What the model was told in the last request of a prompt: the answers of its tools."""
        found = self.bodies[name][-1]
        said = list(found.get("input") or found["messages"])
        return "\n".join(texts(said[-3:]))


def story(entry: str) -> list[Said]:
    asks = {
        "claude": (WAIT, load("memory_recall"), use("memory_recall", **ASK), DONE),
        "codex": (WAIT, use("memory_recall", **ASK), DONE),
        "pi": (use("memory_recall", **ASK), DONE),
    }
    forget = (WAIT, load("memory_forget"), use("memory_forget", id=entry), DONE)
    keep = (WAIT, use("memory_remember", **WHAT, content=CONTENT), DONE)
    return [
        Said("keep", "codex", "shop", "Keep our release rule in mind.", keep),
        *(Said(host, host, "shop-two", f"What is the rule, {host}?", steps) for host, steps in asks.items()),
        Said("elsewhere", "pi", "docs", "What is the rule there?", asks["pi"]),
        Said("forget", "claude", "shop", "Forget the release rule.", forget),
        *(Said(f"{host}-after", host, "shop", f"And now, {host}?", steps) for host, steps in asks.items()),
    ]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, hosts_folder: Path) -> Iterator[Played]:
    work = tmp_path_factory.mktemp("tools")
    git = work / "same" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (git / "config").write_text(f'[remote "origin"]\n\turl = {ORIGIN}\n', "utf-8")
    entry = entry_id(project_of(git.parent).id, WHAT["topic"], WHAT["title"])
    (work / "machine").mkdir()
    with opened(work / "machine", hosts_folder, story(entry)) as world:
        world.slowwave("hosts", "install")
        found = Played(world)
        allowed = ["--allowedTools=mcp__slowwave"]
        for said in world.story.values():
            found.bodies[said.name] = world.say(said.name, more=allowed if said.host == "claude" else ())
            if said.name == "elsewhere":
                found.searched = world.slowwave("search", "release rule night build", "--all")
            if said.name in {"claude", "codex", "pi"}:
                found.evidence[said.name] = world.slowwave("evidence", str(world.session_of(said.name)))
        found.left = [
            str(path) for path in world.data.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()
        ]
        found.status = world.slowwave("hosts", "status")
        yield found


def test_the_tools_are_there_when_the_model_needs_them_mostly_with_the_first_request(played: Played) -> None:
    names = [said.name for said in played.world.story.values()]
    assert all("memory_recall" in json.dumps(played.bodies[name][-1]) for name in names)
    first = [name for name in names if "memory_recall" in json.dumps(played.bodies[name][0])]
    assert len(first) > len(names) / 2, first


@pytest.mark.req("P008", "P067")
def test_codex_is_told_that_it_was_kept(played: Played) -> None:
    assert "releases/Release rule (project/profile)" in played.result("keep")


@pytest.mark.req("P017", "P021")
@pytest.mark.parametrize("name", ["claude", "codex", "pi"])
def test_every_host_recalls_it_in_another_checkout_of_the_project(played: Played, name: str) -> None:
    assert CONTENT in played.result(name)
    assert '<slowwave-memory from="memory_recall">' in played.result(name)


@pytest.mark.fault("O18")
def test_another_project_does_not(played: Played) -> None:
    assert CANARY not in json.dumps(played.bodies["elsewhere"])
    assert "Nothing in memory answers this" in played.result("elsewhere")


@pytest.mark.req("Z073")
@pytest.mark.fault("O10")
@pytest.mark.parametrize("name", ["claude", "codex", "pi"])
def test_what_a_tool_of_ours_answered_is_no_evidence_of_the_session(played: Played, name: str) -> None:
    assert f"What is the rule, {name}?" in played.evidence[name]
    assert CANARY not in played.evidence[name]


@pytest.mark.fault("M48", "M49", "M50")
@pytest.mark.parametrize("name", ["claude-after", "codex-after", "pi-after"])
def test_once_forgotten_no_host_finds_it_by_any_path(played: Played, name: str) -> None:
    assert CANARY in played.searched
    assert "Forgotten" in played.result("forget")
    assert "Nothing in memory answers this" in played.result(name)
    assert CANARY not in json.dumps(played.bodies[name])
    assert played.left == []


def test_the_hosts_still_count_as_installed_after_writing_to_their_own_files(played: Played) -> None:
    assert played.status.count(": installed\n") == 3
