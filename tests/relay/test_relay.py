"""A correction made in one host is what the next one is told: real Codex CLI, Claude Code and Pi, a scripted model.

The story is played once; each test then looks at what the model received, or at what was left on the disk.

    jest      Codex, in one checkout: new tests use Jest
    vitest    Claude Code, in another checkout of the same origin: no longer, Vitest
    run       slowwave reads both sessions and publishes a summary
    asks      Pi, Codex and Claude Code ask in the project, Claude Code in another one
    forget    both sessions are forgotten; all three ask again, and Codex goes on with its session
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from examples.record.script import Step
from tests.relay.world import FENCE, Said, World, blocks, opened

pytestmark = [pytest.mark.hosts]

VITEST = "From now on use Vitest for all new tests, not Jest."


def answers(text: str) -> tuple[Step, ...]:
    return (Step(say=text),)


def works(text: str) -> tuple[Step, ...]:
    """A tool call first, so that the turn takes two requests."""
    return (Step(say="I will look.", run="ls"), Step(say=text))


STORY = [
    Said(
        "jest", "codex", "shop", "Please test formatPrice. New tests use Jest, they go under tests/.", works("Added.")
    ),
    Said("vitest", "claude", "shop-two", f"No, we moved to Vitest last week. {VITEST}", works("Understood.")),
    Said("pi", "pi", "shop", "Which test runner do new tests use?", works("Vitest.")),
    Said("codex", "codex", "shop-two", "Which test runner do we use now?", works("Vitest.")),
    Said("claude", "claude", "shop", "Which test runner is in use?", works("Vitest.")),
    Said("elsewhere", "claude", "api", "Which test runner is used here?", answers("I do not know.")),
    Said("pi-after", "pi", "shop", "And which one now?", answers("I do not know.")),
    Said("codex-after", "codex", "shop-two", "Which test runner, once more?", answers("I do not know.")),
    Said("claude-after", "claude", "shop", "What do new tests use?", answers("I do not know.")),
    Said("codex-resumed", "codex", "shop-two", "Are you still sure?", answers("No.")),
]
ASKS, AFTER = ("pi", "codex", "claude"), ("pi-after", "codex-after", "claude-after")


@dataclass
class Played:
    """What the story left: requests by prompt, and what was seen on the way."""

    world: World
    bodies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)
    changed_by_us: set[str] = field(default_factory=set)
    restored: dict[str, bytes] = field(default_factory=dict)
    counted: dict[str, Any] = field(default_factory=dict)
    sources: list[dict[str, Any]] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)

    def block(self, name: str) -> str:
        """The one block in the first request of a prompt."""
        (text,) = blocks(self.bodies[name][0])
        return text


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, hosts_folder: Path) -> Iterator[Played]:
    with opened(tmp_path_factory.mktemp("relay"), hosts_folder, STORY) as world:
        found = Played(world, before=world.configuration())
        world.slowwave("hosts", "install")
        found.status = {host["host"]: host for host in json.loads(world.slowwave("hosts", "status", "--json"))}
        for name in ("jest", "vitest"):
            found.bodies[name] = world.say(name)
        _ours(found, "run")
        for name in (*ASKS, "elsewhere"):
            found.bodies[name] = world.say(name)
            found.evidence[name] = world.slowwave("evidence", str(world.session_of(name)))
        found.counted = json.loads(world.slowwave("run", "--consolidate-only", "--json"))
        found.sources = json.loads(world.slowwave("sources", "--json"))
        found.told = json.loads(world.slowwave("status", "--json"))
        for name in ("jest", "vitest"):
            _ours(found, "forget", f"{world.story[name].host}:{_id(world.session_of(name))}", "--yes")
        for name in AFTER:
            found.bodies[name] = world.say(name)
        found.bodies["codex-resumed"] = world.say("codex-resumed", world.session_of("codex"))
        _ours(found, "hosts", "uninstall")
        found.restored = world.configuration()
        yield found


def _ours(found: Played, *command: str) -> None:
    """A command of slowwave, and which session files of the hosts it changed."""
    before = found.world.sessions()
    found.world.slowwave(*command)
    found.changed_by_us |= {path for path, _ in before.items() ^ found.world.sessions().items()}


def _id(session: Path) -> str:
    """A rollout's file name ends with its session's id."""
    return session.stem[-36:]


# -- what the model received -------------------------------------------------------------------------------------------


@pytest.mark.req("P001", "P002", "P063")
@pytest.mark.parametrize("name", ASKS)
def test_the_correction_reaches_the_next_session_in_every_host(played: Played, name: str) -> None:
    lines = [line for line in played.block(name).splitlines() if line.startswith("- ")]
    assert any(VITEST in line for line in lines)


@pytest.mark.req("P002", "P063")
@pytest.mark.parametrize("name", ASKS)
def test_what_was_corrected_is_not_told_as_current(played: Played, name: str) -> None:
    claims = [line for line in played.block(name).splitlines() if "New tests use Jest" in line]
    assert all("earlier:" in line for line in claims), claims


@pytest.mark.req("P040")
@pytest.mark.parametrize("name", ASKS)
def test_every_request_of_a_turn_holds_the_block_once(played: Played, name: str) -> None:
    assert len(played.bodies[name]) == 2
    for body in played.bodies[name]:
        assert sum(text.count(FENCE + " id=") for text in blocks(body)) == 1


@pytest.mark.req("P037")
def test_pi_gets_the_block_right_before_the_newest_prompt(played: Played) -> None:
    for body in played.bodies["pi"]:
        roles = [message["role"] for message in body["messages"]]
        newest = max(index for index, role in enumerate(roles) if role == "user")
        assert FENCE in json.dumps(body["messages"][newest - 1])
        assert STORY[2].prompt in json.dumps(body["messages"][newest])


@pytest.mark.fault("M87", "O18")
def test_a_session_in_another_project_gets_neither(played: Played) -> None:
    text = json.dumps(played.bodies["elsewhere"])
    assert "Vitest" not in text
    assert "Jest" not in text


def test_before_anything_was_learnt_nothing_was_injected(played: Played) -> None:
    assert [text for name in ("jest", "vitest") for body in played.bodies[name] for text in blocks(body)] == []


@pytest.mark.fault("O44")
@pytest.mark.parametrize("name", AFTER)
def test_after_forget_the_next_request_has_nothing_of_it(played: Played, name: str) -> None:
    text = json.dumps(played.bodies[name])
    assert "Vitest" not in text
    assert "Jest" not in text


@pytest.mark.req("Z023")
def test_a_session_that_goes_on_is_told_that_what_it_had_was_withdrawn(played: Played) -> None:
    found = blocks(played.bodies["codex-resumed"][-1])
    assert VITEST in found[0], "the host keeps its own history"
    assert "Vitest" not in found[-1]
    assert "withdrawn" in found[-1]


# -- what is left on the disk ------------------------------------------------------------------------------------------


@pytest.mark.req("C037")
@pytest.mark.fault("O13")
def test_no_session_file_was_changed_by_us(played: Played) -> None:
    assert played.changed_by_us == set()


@pytest.mark.req("P038")
def test_pi_session_files_hold_no_block(played: Played) -> None:
    for name in ("pi", "pi-after"):
        assert FENCE not in played.world.session_of(name).read_text("utf-8")


@pytest.mark.parametrize("name", [*ASKS, "elsewhere"])
def test_what_was_injected_never_comes_back_as_evidence(played: Played, name: str) -> None:
    text = played.evidence[name]
    assert played.world.story[name].prompt in text
    assert FENCE not in text
    assert VITEST not in text


@pytest.mark.fault("O45")
def test_uninstalling_after_real_use_restores_every_configuration(played: Played) -> None:
    assert played.restored == played.before


def test_every_host_is_found_with_its_version(played: Played) -> None:
    for name in ("codex", "claude", "pi"):
        assert played.status[name]["state"] == "installed"
        assert played.status[name]["version"]


@pytest.mark.fault("M91", "O43")
def test_every_host_called_the_hook_for_every_event(played: Played) -> None:
    lines = (played.world.data / "hook.log").read_text("utf-8").splitlines()
    seen = {tuple(line.split()[1:3]) for line in lines}
    for host in ("codex", "claude"):
        assert {(host, event) for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")} <= seen
    events = ("session_start", "before_agent_start", "agent_settled", "session_shutdown")
    assert {("pi", event) for event in events} <= seen


# -- what the next run learns of it ------------------------------------------------------------------------------------


@pytest.mark.fault("O46")
@pytest.mark.req("Z016")
def test_every_session_that_was_given_a_line_counts_as_a_use_of_its_sources(played: Played) -> None:
    vitest = next(row for row in played.sources if _id(played.world.session_of("vitest")) in row["source"])
    assert vitest["uses"] == len(ASKS)
    assert vitest["last_used"]
    assert played.counted["hooks"]["uses"] >= len(ASKS)
    assert played.counted["hooks"]["wakes"] == 0, "a run over one stage leaves the wake-ups to a whole one"


@pytest.mark.req("P002")
@pytest.mark.fault("X51")
def test_status_tells_what_was_given_and_when_each_host_called(played: Played) -> None:
    given, hooks = played.told["injected"], played.told["hooks"]
    assert given["blocks"] >= len(ASKS)
    assert given["tokens"] > 100
    assert given["problems"] == []
    assert hooks["faults"] == {}
    assert all(hooks["last"].values())
