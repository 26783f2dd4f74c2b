"""The policy, with three fakes for a host: what a session gets, what it keeps, and what is taken back."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memory import switches
from memory.settings import load as load_settings
from recall import inject, policy
from recall.inject import Block, Request
from recall.policy import Answer, Call, MemoryPolicy
from recall.ports import History, ModelResolution, Persistence

ROOT = Path(policy.__file__).parents[1]


class Models:
    """Names of models; `calls` counts how often somebody asked."""

    def __init__(self) -> None:
        self.names = {"extract": "small", "consolidate": "large"}
        self.calls = 0

    def resolve(self) -> Mapping[str, str]:
        self.calls += 1
        return self.names


class Records:
    """Conversations by path."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def holds(self, transcript: str, text: str) -> bool:
        return text in self.texts.get(transcript, "")


class Store:
    """Snapshots and spool in memory."""

    def __init__(self) -> None:
        self.sessions: dict[tuple[str, str], dict[str, Any]] = {}
        self.blocks: dict[str, dict[str, Any]] = {}
        self.wakes: list[dict[str, Any]] = []
        self.uses: list[dict[str, float]] = []

    def load(self, host: str, session: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.sessions.get((host, session)))

    def save(self, host: str, session: str, values: dict[str, Any]) -> None:
        self.sessions[host, session] = copy.deepcopy(values)

    def lock(self, host: str, session: str) -> Callable[[], None] | None:
        return lambda: None

    def load_block(self, name: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.blocks.get(name))

    def save_block(self, name: str, values: dict[str, Any]) -> None:
        self.blocks[name] = copy.deepcopy(values)

    def wake(self, host: str, session: str, values: dict[str, Any]) -> None:
        self.wakes.append(values)

    def used(self, host: str, session: str, citations: dict[str, float]) -> None:
        self.uses.append(citations)


class Rig:
    """One user with a memory of three parts; `said` is what each part says now."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.models, self.records, self.store = Models(), Records(), Store()
        self.said = {"summary": "SUM", "user": "USR", "project": "PRJ"}
        self.built: list[Request] = []
        self.turn = 0
        self.now = 2_000_000_000.0
        (home / "watched").write_text("", "utf-8")
        self.set(mode="long")

    def set(self, **memory: Any) -> None:
        """Writes [memory] of config.toml, which CLI and API share."""
        lines = [
            f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}" for key, value in memory.items()
        ]
        (self.home / "config.toml").write_text("[memory]\n" + "\n".join(lines).replace("'", '"') + "\n", "utf-8")

    def say(self, **parts: str) -> None:
        """Memory changes: a file on disk does."""
        self.said.update(parts)
        (self.home / "watched").write_text(repr(self.said), "utf-8")

    def build(self, request: Request) -> Block:
        self.built.append(request)
        text = " ".join(self.said[part] for part in request.parts if self.said[part])
        body = inject._fenced(request.id, [text, f"(text {abs(hash(text)) % 16**12:012x})"]) if text else ""
        return Block(body, inject.digest_of(body), ("aaaa0001",) if body else (), depends=(str(self.home / "watched"),))

    def policy(self) -> MemoryPolicy:
        models: ModelResolution = self.models
        history: History = self.records
        store: Persistence = self.store
        return MemoryPolicy(
            lambda known: switches.load({"SLOWWAVE_HOME": str(self.home)}, known),
            models=models,
            history=history,
            store=store,
            now=self.now,
            build=self.build,
        )

    def send(self, kind: str, session: str = "s1", host: str = "claude", **more: Any) -> Answer:
        """One event, committed. A prompt gets a message id of its own unless it is given one."""
        self.now += 10
        if kind == "prompt" and "message" not in more:
            self.turn += 1
            more["message"] = f"m{self.turn}"
        answer = self.policy().handle(Call(kind, host, session, cwd=str(self.home), **more))
        answer.commit()
        return answer

    def prompt(self, session: str = "s1", host: str = "claude", **more: Any) -> str:
        return self.send("prompt", session, host, **more).text

    def state(self, session: str = "s1", host: str = "claude") -> dict[str, Any]:
        return self.store.sessions[host, session]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


# -- modes ----------------------------------------------------------------------------------------------


@pytest.mark.req("Z004", "Z014")
@pytest.mark.parametrize(
    ("mode", "expected"), [("off", []), ("short", ["USR", "PRJ"]), ("long", ["SUM", "USR", "PRJ"])]
)
def test_each_mode_gives_its_set_of_sources(rig: Rig, mode: str, expected: list[str]) -> None:
    rig.set(mode=mode)
    text = rig.prompt()
    assert [part for part in ("SUM", "USR", "PRJ") if part in text] == expected


@pytest.mark.req("Z004")
@pytest.mark.parametrize("mode", ["medium", "LONG", "", "Short"])
def test_a_mode_that_does_not_exist_switches_memory_off_and_is_named(rig: Rig, mode: str) -> None:
    rig.set(mode=mode)
    assert rig.prompt() == ""
    assert "memory.mode" in rig.state()["diagnostics"][0][0]


@pytest.mark.req("Z005")
def test_without_settings_the_mode_is_short(rig: Rig) -> None:
    (rig.home / "config.toml").unlink()
    text = rig.prompt()
    assert "USR PRJ" in text
    assert "SUM" not in text
    assert rig.state()["mode"] == "short"


@pytest.mark.req("Z006")
def test_the_mode_is_frozen_at_the_first_send_and_not_before(rig: Rig) -> None:
    rig.set(mode="short")
    assert "SUM" not in rig.send("start", source="startup").text
    assert rig.state()["mode"] == ""
    rig.set(mode="long")
    assert "SUM" in rig.prompt()
    assert rig.state()["mode"] == "long"
    rig.set(mode="short")
    rig.say(user="USR2")
    assert "SUM USR2" in rig.prompt()


@pytest.mark.req("Z011")
@pytest.mark.parametrize("later", ["long", "off"])
def test_a_live_session_keeps_the_set_it_began_with(rig: Rig, later: str) -> None:
    rig.set(mode="short")
    rig.prompt()
    rig.set(mode=later)
    rig.say(user="USR2")
    text = rig.prompt()
    assert "USR2 PRJ" in text
    assert "SUM" not in text
    assert rig.prompt("s2") == "" if later == "off" else "SUM" in rig.prompt("s2")


@pytest.mark.req("Z009", "Z010", "Z011")
def test_switched_off_is_off_at_once_and_the_options_are_kept(rig: Rig) -> None:
    rig.set(mode="long", enabled=False)
    assert rig.prompt() == ""
    assert rig.send("start", "s2", source="startup").text == ""
    assert rig.store.wakes == []
    rig.set(mode="long", enabled=True)
    assert "SUM" in rig.prompt("s3")
    assert rig.prompt("s1") == ""  # began without memory and gets none later
    rig.set(mode="long", enabled=False)
    assert inject.WITHDRAWN in rig.prompt("s3")
    assert rig.send("tool", "s3", reads=("aaaa0001",)).outcome == "nothing"
    rig.set(mode="long", enabled=True)
    assert "SUM" in rig.prompt("s3")


@pytest.mark.req("Z007", "Z008", "Z003")
def test_the_policy_and_the_service_read_one_stored_value(rig: Rig, tmp_path: Path) -> None:
    config = rig.home / "config.toml"
    for mode in switches.MODES:
        rig.set(mode=mode)
        text = config.read_text("utf-8")
        assert text.count("mode") == 1
        environ = {"SLOWWAVE_HOME": str(rig.home)}
        assert load_settings(environ=environ).memory.mode == switches.load(environ).mode == mode
    rig.prompt()
    before = rig.state()["parts"]
    with config.open("a", encoding="utf-8") as file:
        file.write('[model]\nname = "another"\n[schedule]\nevery_minutes = 5\n')
    rig.prompt()
    assert rig.state()["parts"] == before
    assert switches.load({"SLOWWAVE_HOME": str(rig.home)}).mode == "long"


def test_settings_that_become_unreadable_leave_a_session_with_those_it_had(rig: Rig) -> None:
    rig.prompt()
    (rig.home / "config.toml").write_text("[memory\nmode = ", "utf-8")
    rig.say(user="USR2")
    assert "SUM USR2" in rig.prompt()
    assert "cannot be read as TOML" in rig.state()["diagnostics"][0][0]
    assert rig.prompt("s2") == ""  # a session that begins now fails closed


# -- turns ----------------------------------------------------------------------------------------------


@pytest.mark.req("Z014", "Z017", "Z018")
def test_a_turn_has_a_selection_and_the_end_of_the_run_releases_it(rig: Rig) -> None:
    rig.send("start", source="startup")
    assert rig.state()["selection"] is None
    rig.prompt(message="m7")
    assert rig.state()["selection"] == {"message": "m7", "parts": ["summary", "user", "project"]}
    rig.send("tool", reads=("aaaa0001",))
    assert rig.state()["selection"]["message"] == "m7"
    rig.send("end")
    assert rig.state()["selection"] is None
    rig.prompt(message="m8")
    assert rig.state()["selection"]["message"] == "m8"
    assert {"batch", "selection", "usage", "block"} <= rig.state().keys()


@pytest.mark.req("Z041", "Z042")
def test_text_is_live_at_the_next_turn_and_stands_still_within_one(rig: Rig) -> None:
    assert "USR" in rig.prompt()
    rig.say(user="EDITED")
    assert rig.send("tool", reads=("aaaa0001",)).text == ""
    assert "EDITED" not in str(rig.store.blocks)
    rig.send("end")
    assert "EDITED" in rig.prompt()


@pytest.mark.req("P024")
@pytest.mark.fault("O47", "O48")
def test_a_block_is_given_once_and_again_only_when_it_changed(rig: Rig) -> None:
    first = rig.send("start", source="startup").text
    assert first
    assert [rig.prompt() for _ in range(10)] == [""] * 10
    assert len(rig.built) == 1
    rig.say(summary="SUM2")
    assert "SUM2" in rig.prompt()
    assert rig.prompt() == ""
    usage = rig.state()["usage"]
    assert (usage["turns"], usage["blocks"]) == (12, 2)
    assert usage["tokens"] > 0


@pytest.mark.req("Z015")
def test_each_turn_of_a_person_asks_for_one_check_and_nothing_else_does(rig: Rig) -> None:
    rig.send("start", source="startup")
    rig.send("tool", reads=("aaaa0001",))
    rig.send("end")
    assert rig.store.wakes == []
    rig.prompt()
    rig.prompt()
    rig.prompt(by_user=False)
    rig.send("tool", reads=("aaaa0001",))
    assert len(rig.store.wakes) == 2
    wake = rig.store.wakes[0]
    assert (wake["host"], wake["session"], wake["models"]) == (
        "claude",
        "s1",
        {"extract": "small", "consolidate": "large"},
    )


@pytest.mark.req("Z018")
def test_a_batch_keeps_the_models_it_was_asked_for_with(rig: Rig) -> None:
    rig.prompt()
    rig.models.names = {"extract": "other", "consolidate": "other"}
    rig.send("tool", reads=("aaaa0001",))
    assert rig.state()["batch"]["models"] == {"extract": "small", "consolidate": "large"}
    rig.prompt()
    assert rig.state()["batch"]["models"]["extract"] == "other"


@pytest.mark.req("Z043")
def test_short_memory_asks_for_no_model_and_no_check(rig: Rig) -> None:
    rig.set(mode="short")
    rig.send("start", source="startup")
    rig.prompt()
    rig.send("tool", reads=("note:x",))
    rig.send("end")
    assert (rig.models.calls, rig.store.wakes) == (0, [])


@pytest.mark.req("P005", "C032")
def test_a_delivery_that_comes_twice_counts_once(rig: Rig) -> None:
    first = rig.send("prompt", message="m1")
    second = rig.send("prompt", message="m1")
    assert bool(first.text)
    assert second.text == ""
    assert len(rig.store.wakes) == 1
    assert rig.state()["usage"]["turns"] == 1
    assert rig.send("start", source="startup").text == ""


@pytest.mark.req("Z016")
def test_sources_read_are_kept_with_their_time_and_handed_on(rig: Rig) -> None:
    rig.prompt()
    rig.store.uses.clear()
    rig.send("tool", reads=("aaaa0001", "note:x"))
    assert rig.store.uses == [{"aaaa0001": rig.now, "note:x": rig.now}]
    assert rig.state()["usage"]["read"] == {"aaaa0001": rig.now, "note:x": rig.now}
    assert rig.send("tool").outcome == "nothing"
    assert rig.send("tool", "never seen", reads=("aaaa0001",)).outcome == "nothing"
    for number in range(300):
        rig.send("tool", reads=(f"note:n{number}",))
    assert len(rig.state()["usage"]["read"]) == policy.KEEP_READS


def test_sources_whose_lines_are_given_count_as_used(rig: Rig) -> None:
    rig.prompt()
    rig.prompt()
    assert [list(used) for used in rig.store.uses] == [["aaaa0001"]]


# -- starts ---------------------------------------------------------------------------------------------


@pytest.mark.fault("X34")
@pytest.mark.parametrize("source", ["clear", "compact"])
def test_where_the_context_is_lost_the_same_text_is_given_again_once(rig: Rig, source: str) -> None:
    first = rig.send("start", source="startup").text
    rig.prompt()
    assert rig.send("start", source=source).text == first
    assert rig.prompt() == ""


@pytest.mark.parametrize("source", ["resume", "fork"])
def test_a_conversation_that_goes_on_gets_the_block_only_when_it_is_not_in_it(rig: Rig, source: str) -> None:
    first = rig.send("start", source="startup").text
    rig.records.texts["t"] = f"... {first} ..."
    assert rig.send("start", source=source, transcript="t").text == ""
    rig.records.texts["t"] = "..."
    assert rig.send("start", source=source, transcript="t").text == first
    rig.say(user="CHANGED")
    rig.records.texts["t"] = first
    assert "CHANGED" in rig.send("start", source=source, transcript="t").text


@pytest.mark.req("P037", "P040")
def test_a_host_that_asks_for_every_request_gets_the_same_block_every_turn(rig: Rig) -> None:
    assert rig.send("start", host="pi", source="startup").text == ""
    texts = [rig.prompt(host="pi") for _ in range(5)]
    assert len(set(texts)) == 1
    assert texts[0]
    assert len(rig.built) == 1
    assert rig.policy().cached(Call("prompt", "pi", "s1", cwd=str(rig.home))) == texts[0]
    rig.say(user="CHANGED")
    assert rig.policy().cached(Call("prompt", "pi", "s1", cwd=str(rig.home))) == ""
    assert "CHANGED" in rig.prompt(host="pi")
    rig.set(mode="long", enabled=False)
    assert rig.prompt(host="pi") == ""


def test_a_file_changed_right_after_it_was_read_is_not_missed(rig: Rig) -> None:
    rig.now = (rig.home / "watched").stat().st_mtime - 9.9  # read within the same second as it was written
    rig.prompt()
    rig.prompt()
    assert len(rig.built) == 2


@pytest.mark.fault("M86")
def test_the_project_is_that_of_the_folder_a_session_began_in(rig: Rig, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    rig.prompt()
    call = Call("prompt", "claude", "s1", cwd=str(other), message="x")
    rig.say(user="USR2")
    rig.policy().handle(call).commit()
    assert [request.cwd for request in rig.built] == [str(rig.home)] * 2
    rig.policy().handle(Call("start", "claude", "s1", cwd=str(other), source="resume")).commit()
    assert rig.built[-1].cwd == str(other)


# -- revocation -----------------------------------------------------------------------------------------


@pytest.mark.req("Z023")
@pytest.mark.fault("X40", "O44")
def test_after_a_clear_a_live_session_gets_what_is_left_or_a_withdrawal(rig: Rig) -> None:
    rig.prompt()
    rig.say(summary="")
    text = rig.prompt()
    assert "SUM" not in text
    assert "USR" in text
    rig.say(user="", project="")
    assert inject.WITHDRAWN in rig.prompt()
    assert rig.prompt() == ""
    rig.say(user="AGAIN")
    assert "AGAIN" in rig.prompt()


@pytest.mark.req("Z023")
def test_mode_off_takes_the_summary_back_and_disabling_takes_everything(rig: Rig) -> None:
    rig.prompt()
    rig.set(mode="off")
    text = rig.prompt()
    assert "USR" in text
    assert "SUM" not in text
    assert rig.store.wakes[1:] == []
    rig.set(mode="off", enabled=False)
    assert inject.WITHDRAWN in rig.prompt()


@pytest.mark.req("Z023")
def test_a_fork_of_a_session_that_had_memory_is_told_that_it_no_longer_holds(rig: Rig) -> None:
    given = rig.prompt("parent")
    rig.records.texts["fork"] = f"{given} and more"
    rig.set(mode="off")
    assert inject.WITHDRAWN in rig.send("start", "child", source="fork", transcript="fork").text
    assert rig.prompt("child", transcript="fork") == ""
    assert inject.WITHDRAWN in rig.prompt("child2", transcript="fork")
    assert rig.prompt("child2", transcript="fork") == ""
    assert rig.prompt("never had any", transcript="other") == ""


# -- the policy itself ----------------------------------------------------------------------------------


@pytest.mark.req("Z012")
@pytest.mark.parametrize(
    "state", [{}, {"mode": 7}, {"usage": {}}, {"usage": None, "mode": "long"}, {"seen": "x"}, {"parts": None}]
)
def test_a_snapshot_of_another_form_is_taken_for_none(rig: Rig, state: dict[str, Any]) -> None:
    rig.prompt()
    rig.store.sessions["claude", "s1"].update(state) if state else rig.store.sessions.update({("claude", "s1"): {}})
    assert "SUM" in rig.prompt() or state == {}
    assert rig.state()["usage"]["turns"] == 1


@pytest.mark.req("C032", "P041", "Z001", "C037", "C038")
def test_giving_memory_makes_no_memory(rig: Rig) -> None:
    before = {path: path.read_bytes() for path in rig.home.rglob("*") if path.is_file()}
    rig.send("start", source="startup")
    rig.prompt()
    rig.send("start", source="compact")
    assert {path: path.read_bytes() for path in rig.home.rglob("*") if path.is_file()} == before


@pytest.mark.req("Z019")
def test_the_policy_knows_no_host_and_nothing_but_the_standard_library() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n"
        "import recall.policy, recall.inject, recall.snapshot, recall.reads\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"memory", "recall"}
    assert "hosts" not in done.stdout


def test_the_switches_have_the_keys_and_defaults_of_the_settings(tmp_path: Path) -> None:
    settings = load_settings(environ={"SLOWWAVE_HOME": str(tmp_path)})
    for section, keys in switches.DEFAULTS.items():
        for key, value in keys.items():
            assert getattr(getattr(settings, section), key) == value
    for name, value in {
        "MEMORY_MODE": "long",
        "MEMORY_ENABLED": "FALSE",
        "INJECT_SHORT_IN_LONG": "0",
        "INJECT_SCOPE": "all",
        "INJECT_PI_CHARS": "77",
    }.items():
        environ = {"SLOWWAVE_HOME": str(tmp_path), f"SLOWWAVE_{name}": value}
        section, _, key = name.lower().partition("_")
        assert switches.load(environ).values[section][key] == getattr(
            getattr(load_settings(environ=environ), section), key
        )


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes", "on", "false", "False", "0", "no", "off"])
def test_words_for_true_and_false_mean_the_same_in_both(tmp_path: Path, word: str) -> None:
    environ = {"SLOWWAVE_HOME": str(tmp_path), "SLOWWAVE_MEMORY_ENABLED": word}
    assert switches.load(environ).enabled is load_settings(environ=environ).memory.enabled
    (tmp_path / "config.toml").write_text(f'[memory]\nenabled = "{word}"\n', "utf-8")
    del environ["SLOWWAVE_MEMORY_ENABLED"]
    assert switches.load(environ).enabled is load_settings(environ=environ).memory.enabled


@pytest.mark.parametrize("store", ["", "default", "team-a", "NOT A NAME"])
def test_home_and_store_are_where_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for environ in (
        {"SLOWWAVE_HOME": str(tmp_path / "x")},
        {"HOME": str(tmp_path)},
        {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "xdg")},
        {"HOME": str(tmp_path), "SLOWWAVE_HOME": "~/y"},
    ):
        if "XDG_DATA_HOME" in environ:
            monkeypatch.setenv("XDG_DATA_HOME", environ["XDG_DATA_HOME"])
        environ |= {"SLOWWAVE_STORE": store} if store else {}
        found = switches.load(environ)
        if store == "NOT A NAME":
            assert (found.home, found.mode) == ("", "off")
            assert "SLOWWAVE_STORE" in found.problem
        else:
            assert found.home == str(load_settings(environ=environ).home)
            assert found.config == str(load_settings(environ=environ).config_file)


@pytest.mark.parametrize(
    "text",
    [
        *["[memory]\nmode = 3\n", "[memory]\nenabled = 'maybe'\n", "[memory]\nenabled = 2\n", "not toml"],
        *["[inject]\nscope = 'some'\n", "[inject]\npi_chars = true\n", "[inject]\npi_chars = -1\n"],
        "[model]\nname = 5\n",
    ],
)
def test_a_value_that_cannot_be_used_switches_off_and_is_refused_by_the_settings_too(tmp_path: Path, text: str) -> None:
    from memory.errors import SettingsError

    (tmp_path / "config.toml").write_text(text, "utf-8")
    environ = {"SLOWWAVE_HOME": str(tmp_path)}
    found = switches.load(environ)
    assert found.mode == "off"
    assert "memory is off" in found.problem
    with pytest.raises(SettingsError):
        load_settings(environ=environ)
