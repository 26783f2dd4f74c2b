"""SIGKILL at a sample of the steps of everything that changes memory, with the state on a server, then a restart.

What must be true afterwards is what tests/torture asks of SQLite: the same drivers, the same deeds.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from tests.plugins.postgres import Server
from tests.torture.deeds import DEEDS
from tests.torture.harness import Copied, Kill, kill, rehearse
from tests.torture.world import STATE

pytestmark = pytest.mark.deep

SAMPLE = ("state.", "extract.", "publish.", "clear.", "forget.", "restore.")
"""Rooms of points that stand around a write of the state; files of the workspace are the same on any database."""
DONE = ("the first run", "a run over grown, new and worthless sessions", "clear", "forget a text", "restore")
_numbers = itertools.count(1)


def copies(server: Server) -> Copied:
    """Every world gets a database of its own, dropped when the next one is made."""
    made: list[str] = []

    def copied(url: str) -> str:
        while len(made) > 1:
            server.drop(made.pop(0))
        name = f"world{next(_numbers)}"
        server.copy(url.rpartition("/")[2], name)
        made.append(name)
        return server.url(name)

    return copied


def sample(points: Counter[str], seen: set[str], skip: str) -> list[Kill]:
    """Those of the state itself, a quarter of the others, each once in all, and a commit or two of each deed."""
    fresh = [point for point in points if point.startswith(SAMPLE) and point not in seen and point != skip]
    own = [point for point in fresh if point.startswith("state.")]
    others = [point for point in fresh if point not in own][::4]
    seen |= points.keys()
    commits = range(2, points["state.commit.after"] + 1, 30)
    return [Kill(point, 1) for point in [*own, *others]] + [Kill("state.commit.after", nth) for nth in commits]


@pytest.mark.req("Z025", "Z103", "Z104", "Z105", "Z106", "Z112", "Z117")
@pytest.mark.fault("M72", "M74", "M82", "X47", "M48")
def test_a_kill_at_any_step_loses_nothing_and_the_next_run_finishes(postgres_server: Server, tmp_path: Path) -> None:
    copied, seen = copies(postgres_server), set[str]()
    failures, kills = [], 0
    for number, name in enumerate(DONE):
        database = f"deed{number}"
        postgres_server.guarded(database)
        rehearsal = rehearse(tmp_path / str(number), DEEDS[name], postgres_server.url(database), copied)
        for where in sample(rehearsal.points, seen, rehearsal.deed.armed):
            kills += 1
            try:
                kill(tmp_path / "world", rehearsal, where, copied)
                here = (tmp_path / "world" / STATE).read_text().rpartition("/")[2]
                for text in rehearsal.deed.gone:
                    assert postgres_server.rows_holding(here, text) == [], text
            except AssertionError as error:
                failures.append(f"{name}: {where.point}@{where.nth}: {error}")
    assert failures == []
    assert kills >= 30, kills
