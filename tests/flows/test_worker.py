"""The service's worker without Prefect: what it hears of, and when it makes a run of it."""

from __future__ import annotations

import json
import os
import time
from typing import Any, cast

import pytest

from flows import wakeups
from flows.place import Place
from flows.remote import SCHEDULED, Api, ServiceDown
from flows.worker import MARK, Worker, sentence
from memory.settings import ScheduleSettings
from tests.flows.home import Home


@pytest.fixture
def place(home: Home, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("SLOWWAVE_HOME", str(home.data))
    monkeypatch.setenv("HOME", str(home.folder))
    made = Place(home.data)
    made.make()
    return made


def wake(place: Place, session: str, *, ago: float = 5) -> None:
    path = place.spool / f"wake-codex-{session}.json"
    path.write_text("{}")
    stamp = time.time() - ago
    os.utime(path, (stamp, stamp))


class Prefect:
    """In the place of the API: keeps what it is asked for."""

    def __init__(self, *, down: bool = False) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []
        self._down = down

    def __enter__(self) -> Prefect:
        return self

    def __exit__(self, *_: object) -> None: ...

    def create(self, deployment: str, parameters: dict[str, Any]) -> None:
        if self._down:
            raise ServiceDown("The Prefect server does not answer.")
        self.made.append((deployment, parameters))


def worker(place: Place, prefect: Prefect) -> Worker:
    made = Worker(place, lambda: cast("Api", prefect), own=True)
    made._deployments = {SCHEDULED: "the-scheduled-one"}
    return made


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ScheduleSettings(), "every 30 minutes"),
        (ScheduleSettings(every_minutes=90.5), "every 90.5 minutes"),
        (ScheduleSettings(cron="0 8 * * 1"), "cron 0 8 * * 1 (UTC)"),
        (ScheduleSettings(enabled=False, cron="0 8 * * 1"), "off"),
    ],
)
def test_a_schedule_is_told_in_words(settings: ScheduleSettings, words: str) -> None:
    assert sentence(settings) == words


async def test_a_server_of_the_state_that_starts_after_the_service_does_not_end_it(
    home: Home, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("psycopg")
    home.configure(state={"url": "postgresql://somebody@127.0.0.1:1/state"})
    await worker(place, Prefect())._begin_in_order()
    told = json.loads(capsys.readouterr().out.removeprefix(MARK))
    assert told["kind"] == "problem"
    assert "127.0.0.1:1/state cannot be reached" in told["says"]


@pytest.mark.req("Z061")
async def test_wake_ups_become_one_run_and_the_next_ones_keep_their_distance(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    prefect = Prefect()
    one = worker(place, prefect)
    wake(place, "a")
    wake(place, "b")
    assert await one._look_at_wakes() == wakeups.RUNNING_SECONDS
    assert prefect.made == [("the-scheduled-one", {"trigger": "hook"})]
    again = await one._look_at_wakes()
    assert again is not None
    assert 290 < again <= 300, "service.wake_minutes"
    assert len(prefect.made) == 1
    (said,) = [json.loads(line.removeprefix(MARK)) for line in capsys.readouterr().out.split("\n") if line]
    assert said == {"kind": "note", "says": "a run was woken by hooks (2 sessions)"}


@pytest.mark.req("Z009")
@pytest.mark.fault("X8", "O3")
@pytest.mark.parametrize("memory", [{"mode": "short"}, {"mode": "off"}, {"mode": "long", "enabled": False}])
async def test_hooks_wake_nothing_while_long_memory_is_off_and_the_switch_is_read_anew(
    place: Place, home: Home, memory: dict[str, Any]
) -> None:
    prefect = Prefect()
    one = worker(place, prefect)
    wake(place, "a")
    home.configure(memory=memory)
    assert await one._look_at_wakes() is None
    assert prefect.made == []
    home.configure()
    await one._look_at_wakes()
    assert len(prefect.made) == 1


async def test_without_a_wake_up_no_run_is_made(place: Place) -> None:
    prefect = Prefect()
    (place.spool / "used-codex-a.json").write_text("{}")
    assert await worker(place, prefect)._look_at_wakes() is None
    assert prefect.made == []


async def test_a_wake_up_that_prefect_does_not_take_lies_where_it_is(place: Place) -> None:
    wake(place, "a")
    with pytest.raises(ServiceDown):
        await worker(place, Prefect(down=True))._look_at_wakes()
    assert len(wakeups.waiting(place.spool)) == 1
