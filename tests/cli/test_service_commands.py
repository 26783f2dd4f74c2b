"""The commands of the service that start nothing, and what the dashboard's process is put together from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cli import service, web
from dashboard.ports import HostSetup, Runs
from flows.place import Place, Process, State
from flows.remote import Remote
from memory import locks, processes
from memory.errors import UnknownReference, UsageError
from memory.settings import Settings, load
from tests.plugins.command_line import Slowwave
from tests.plugins.ports import reserved


@pytest.fixture
def settings(isolated_home: Path) -> Settings:
    assert isolated_home.is_dir()
    return load()


def test_without_a_service_the_commands_say_so_in_one_sentence(slowwave: Slowwave) -> None:
    assert slowwave("down").out == "The service is not running.\n"
    for words, sentence in (
        (("logs",), "There is no log yet. Start the service: slowwave up"),
        (("cancel",), "No run is going on. See: slowwave status"),
        (("cancel", "../state.db"), "No run ../state.db is going on. See: slowwave status"),
    ):
        done = slowwave(*words)
        assert (done.code, done.err) == (2, f"slowwave: {sentence}\n")
    assert "service    not running; start it with: slowwave up" in slowwave("status").out
    assert slowwave("status", "--json").json["service"] is None


def test_a_unit_is_printed_for_this_installation_and_this_home(slowwave: Slowwave, settings: Settings) -> None:
    printed = slowwave("up", "--print-unit", "systemd").out
    assert f'Environment="SLOWWAVE_HOME={settings.home}"' in printed
    assert " -P -m cli.main up\n" in printed
    assert slowwave("up", "--print-unit", "upstart").code == 2
    assert Place(settings.home).running() is None


@pytest.mark.fault("O30")
def test_a_dashboard_that_others_can_reach_needs_a_token(slowwave: Slowwave, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOWWAVE_SERVICE_HOST", "0.0.0.0")
    done = slowwave("up", "--detach")
    assert done.code == 2
    assert "has no token" in done.err
    monkeypatch.setenv("SLOWWAVE_SERVICE_TOKEN", "t0ken-of-the-test")
    command = service._command(load())
    assert command[command.index("--host") + 1] == "0.0.0.0"
    assert not any("t0ken" in word for word in command), "arguments are seen by everybody"


def test_a_log_is_followed_over_its_turn_over(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    log.write_text("old\n")
    lines = service._Lines(log)
    with log.open("a") as file:
        file.write("one\nhal")
    assert list(lines.new()) == ["one"]
    with log.open("a") as file:
        file.write("f\n")
    assert list(lines.new()) == ["half"]
    log.rename(tmp_path / "service.log.1")
    log.write_text("three\n")
    assert list(lines.new()) == ["three"]
    assert list(lines.new()) == []


def test_a_running_service_and_its_problems_are_told_by_status(slowwave: Slowwave, settings: Settings) -> None:
    place = Place(settings.home)
    place.make()
    mark = processes.born(os.getpid())
    state = State(
        os.getpid(), mark, "2026-11-30T08:00:00Z", True, True, "http://127.0.0.1:1/api", "http://127.0.0.1:2",
        "every 30 minutes", (Process("worker", "waiting"),), ("worker was ended by SIGKILL and is started again.",),
    )  # fmt: skip
    with locks.hold(place.lock, owner="service"):
        place.say(state)
        shown = slowwave("status").out
        assert "service    up, started" in shown
        assert "http://127.0.0.1:2" in shown
        assert "schedule   every 30 minutes" in shown
        assert "problem    worker was ended by SIGKILL and is started again." in shown
        assert slowwave("status", "--json").json["service"]["dashboard"] == "http://127.0.0.1:2"
        assert f"process {os.getpid()}" in slowwave("up").out


def test_a_run_is_done_here_where_the_service_does_not_answer(
    slowwave: Slowwave, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.remote.RETRY_SECONDS", 0.3)
    place = Place(settings.home)
    place.make()
    place.make_auth()
    with reserved() as port, locks.hold(place.lock, owner="service"):
        nobody = f"http://127.0.0.1:{port}/api"
        place.say(State(os.getpid(), processes.born(os.getpid()), "2026-11-30T08:00:00Z", True, True, nobody))
        done = slowwave("run", "--limit", "0")
    assert done.code == 0
    assert "The run is done here." in done.err
    assert "sessions" in done.out


# -- the dashboard's two ports ------------------------------------------------------------------------


def test_what_stands_behind_the_dashboard_has_the_form_of_its_ports(settings: Settings) -> None:
    runs: Runs = Remote(lambda: settings)
    hosts: HostSetup = web.Installers(lambda: settings)
    state = runs.service()
    assert not state.up
    assert state.problems == ("The service is not running; start it with: slowwave up",)
    assert runs.link("20261130T080000-00000000") is None
    with pytest.raises(UnknownReference):
        runs.cancel("20261130T080000-00000000")
    assert [one.host for one in hosts.states()] == ["codex", "claude", "pi"]
    with pytest.raises(UsageError):
        hosts.install("emacs")


def test_a_host_is_installed_and_taken_out_from_the_dashboard(settings: Settings, isolated_home: Path) -> None:
    (isolated_home / ".codex").mkdir(exist_ok=True)
    hosts = web.Installers(lambda: settings)
    changed = hosts.install("codex")
    assert changed
    assert all(str(isolated_home) in text for text in changed)
    assert hosts.states()[0].installed
    assert hosts.uninstall("codex")
    assert not hosts.states()[0].installed


def test_the_dashboard_answers_to_loopback_its_host_and_the_names_of_the_settings(settings: Settings) -> None:
    assert web.allowed(settings) == ("127.0.0.1", "localhost", "[::1]", "127.0.0.1")
    wide = settings.service.model_copy(update={"host": "0.0.0.0", "names": ("memory.example",)})
    assert web.allowed(settings.model_copy(update={"service": wide})) == (
        "127.0.0.1", "localhost", "[::1]", "memory.example",
    )  # fmt: skip
