"""SIGKILL before and after every durable step of everything that changes memory, then a restart.

After each kill: the confirmed summary is byte for byte the old or the new one, the inputs are intact, state and disk
agree once the next start has recovered, the next run finishes the work, nothing is lost and nothing is done twice.
"""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pytest

from memory import failpoints
from tests.torture.deeds import DEEDS
from tests.torture.harness import Kill, Rehearsal, kill, kills_of

pytestmark = pytest.mark.deep

ROOMS = ("cli", "consolidate", "dashboard", "extract", "flows", "hosts", "memory", "prompts", "recall", "rollouts")
OTHERS = ("short.", "topics.", "workspace.index.", "workspace.blocks.")
"""Points with a kill test of their own."""
ROOT = Path(__file__).resolve().parents[2]


def import_rooms() -> None:
    """Imports every module that has points, whichever room it is in."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if path.name != "testing.py" and "failpoints" in path.read_text(encoding="utf-8"):
                importlib.import_module(
                    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                )


@pytest.mark.req("Z025", "Z103", "Z104", "Z105", "Z106", "Z112", "Z117")
@pytest.mark.fault("M72", "M74", "M82", "M83", "X47", "X49", "M48", "M49", "M50")
@pytest.mark.parametrize("name", DEEDS)
def test_a_kill_at_any_step_loses_nothing_and_the_next_run_finishes(
    tmp_path: Path, rehearsals: dict[str, Rehearsal], name: str
) -> None:
    assert failures_of(tmp_path / "world", rehearsals[name], kills_of(rehearsals, long=False)[name]) == []


def failures_of(folder: Path, rehearsal: Rehearsal, kills: list[Kill]) -> list[str]:
    failures = []
    for where in kills:
        try:
            kill(folder, rehearsal, where)
        except AssertionError as error:
            failures.append(f"{where.point}@{where.nth}: {error}")
    return failures


def test_every_declared_point_is_passed_by_a_deed(rehearsals: dict[str, Rehearsal]) -> None:
    import_rooms()
    passed: Counter[str] = Counter()
    for rehearsal in rehearsals.values():
        passed.update(rehearsal.points)
    mine = {point for point in failpoints.known() if not point.startswith(OTHERS)}
    assert sorted(mine - passed.keys()) == []


def test_every_point_that_is_passed_is_declared(rehearsals: dict[str, Rehearsal]) -> None:
    passed = {point for rehearsal in rehearsals.values() for point in rehearsal.points}
    assert sorted(passed - failpoints.known()) == []
