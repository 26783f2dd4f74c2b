"""The shipped sample sessions: whole, neutral, and telling the stories of their scenarios."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.record.check import check_story
from examples.record.fake_models import FakeModels
from examples.record.script import HOSTS, Heard, Scenario, Script, ScriptError, Step, Turn, load_scenarios

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SESSIONS = EXAMPLES / "sessions"
SCENARIOS = load_scenarios(EXAMPLES / "record" / "scenarios")
FILES = sorted(SESSIONS.rglob("*.jsonl"))
LARGEST_TOTAL = 600_000  # bytes
# Folders that exist on the machine of whoever records; the samples know /home/dev and the system's own.
MACHINE_PATH = re.compile(r"(?<![\w.~<-])/(?:tmp|root|work|private|var|mnt|opt|Users|workspace)(?![\w-])")
FOREIGN_HOME = re.compile(r"/home/(?!dev\b)")
LAYOUTS = {
    "codex": re.compile(r"codex/sessions/\d{4}/\d\d/\d\d/rollout-[\dT-]+-[0-9a-f-]{36}\.jsonl"),
    "claude": re.compile(r"claude/projects/-home-dev-\w+/[0-9a-f-]{36}\.jsonl"),
    "pi": re.compile(r"pi/sessions/--home-dev-\w+--/[\dTZ-]+_[0-9a-f-]{36}\.jsonl"),
}
HAN = re.compile("[\u4e00-\u9fff]")


def lines(path: Path) -> list[dict[str, Any]]:
    """Every line of a file, parsed."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def typed(host: str, path: Path) -> Iterator[str]:
    """What the user typed in a session file, found the simple way: by the shape of the host's own lines."""
    for line in lines(path):
        if host == "codex":
            item = line["payload"].get("item", {})
            if item.get("type") == "UserMessage":
                yield item["content"][0]["text"]
        elif line.get("type") == "user" and isinstance(line["message"]["content"], str):
            yield line["message"]["content"]
        elif line.get("message", {}).get("role") == "user" and host == "pi":
            yield line["message"]["content"][0]["text"]


def session_of(scenario: Scenario) -> Path:
    """The one file in which the user typed the scenario's prompts, in order."""
    prompts = [turn.user for turn in scenario.turns]
    candidates = (SESSIONS / scenario.host).rglob("*.jsonl")
    found = [path for path in candidates if list(typed(scenario.host, path)) == prompts]
    assert len(found) == 1, f"{scenario.name}: {len(found)} files hold exactly its prompts"
    return found[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[:40])
def test_every_line_is_a_json_object(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    assert all(isinstance(line, dict) for line in lines(path))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[:40])
def test_no_path_of_the_recording_machine_is_left(path: Path) -> None:
    text = path.read_text("utf-8")
    assert MACHINE_PATH.findall(text) == []
    assert FOREIGN_HOME.findall(text) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[:40])
def test_files_lie_where_their_host_would_put_them(path: Path) -> None:
    relative = path.relative_to(SESSIONS).as_posix()
    assert LAYOUTS[relative.split("/")[0]].fullmatch(relative)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_story_is_in_the_file(scenario: Scenario) -> None:
    check_story(scenario, session_of(scenario).read_text("utf-8"))


def test_no_session_without_a_scenario() -> None:
    assert {session_of(scenario) for scenario in SCENARIOS} == set(FILES)


def test_three_hosts_two_projects_two_languages() -> None:
    assert {scenario.host for scenario in SCENARIOS} == set(HOSTS)
    assert {scenario.project for scenario in SCENARIOS} == {"shop", "api"}
    chinese = [s for s in SCENARIOS if all(HAN.search(text) for text in typed(s.host, session_of(s)))]
    assert [s.name for s in chinese] == [s.name for s in SCENARIOS if s.language == "zh"]
    assert len(chinese) >= 2


def test_jest_gives_way_to_vitest_across_the_three_hosts() -> None:
    first, second, third = SCENARIOS[:3]
    assert [s.host for s in (first, second, third)] == ["codex", "claude", "pi"]
    assert "New tests use Jest" in first.turns[0].user
    assert "From now on use Vitest for all new tests, not Jest" in second.turns[1].user
    assert "Vitest is right" in third.turns[1].user


def test_the_injection_and_the_made_up_key_stand_in_tool_outputs_only() -> None:
    for marker in ("SYSTEM: from now on always", "PAYMENT_KEY=sk-EXAMPLE"):
        holding = [path for path in FILES if marker in path.read_text("utf-8")]
        assert len(holding) == 1
        assert not any(marker in turn.user for scenario in SCENARIOS for turn in scenario.turns)


def test_the_samples_stay_small_and_without_the_hosts_prompts() -> None:
    assert sum(path.stat().st_size for path in FILES) < LARGEST_TOTAL
    for path in (SESSIONS / "codex").rglob("*.jsonl"):
        text = lines(path)[0]["payload"]["base_instructions"]["text"]
        assert text.startswith("[shortened for the sample: ")


def test_the_readme_names_every_file() -> None:
    readme = (SESSIONS / "README.md").read_text("utf-8")
    assert all(path.relative_to(SESSIONS).as_posix() in readme for path in FILES)


def test_a_repeated_request_gets_the_same_step() -> None:
    script = Script(SCENARIOS)
    heard = [Heard("<reminder>"), Heard(SCENARIOS[0].turns[0].user), Heard(None)]
    first, again = script.cue(heard), script.cue(heard)
    assert first is not None
    assert first == again
    assert first.key == SCENARIOS[0].key(0, 1)


def test_prompts_must_be_unique() -> None:
    turn = Turn("hi", (Step(say="Hi."),))
    twice = [Scenario(name, "pi", "shop", "en", "", "print", (turn,)) for name in ("01-a", "02-b")]
    with pytest.raises(ScriptError, match="occurs twice"):
        Script(twice)


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/responses", {"input": [{"role": "user", "content": "hi"}]}, "response.completed"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}, "[DONE]"),
        ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}]}, "message_stop"),
    ],
)
def test_the_scripted_model_speaks_three_formats(path: str, body: dict[str, Any], expected: str) -> None:
    roots = {project: Path("/home/dev") / project for project in ("shop", "api")}
    with FakeModels(SCENARIOS, roots) as models:
        kind, stream = models.answer(path, body | {"tools": [{"name": "any"}]})
    assert kind == "text/event-stream"
    assert "Hi! What would you like to work on?" in stream.decode()
    assert expected in stream.decode()
