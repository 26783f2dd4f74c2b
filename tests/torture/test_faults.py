"""The disk says no at every durable step: full, forbidden, read-only, broken; and a rename that fails once.

The deed ends in an error or outcome with a name of ours, the old summary stands, and when the fault is gone the next
run finishes: the same checks as after a kill.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.deeds import DEEDS
from tests.torture.harness import Fault, Rehearsal, fail, faults_of

pytestmark = pytest.mark.deep

NAMED = frozenset({"storage", "state", "fenced", "ok", "nothing", "deferred", "failed", "done"})


@pytest.mark.req("Z103", "Z104", "Z105")
@pytest.mark.fault("M82", "M83", "X18", "X49")
@pytest.mark.parametrize("name", DEEDS)
def test_a_disk_that_refuses_a_step_is_named_and_costs_nothing(
    tmp_path: Path, rehearsals: dict[str, Rehearsal], name: str
) -> None:
    assert failures_of(tmp_path / "world", rehearsals[name], faults_of(rehearsals, long=False)[name]) == []


def failures_of(folder: Path, rehearsal: Rehearsal, faults: list[Fault]) -> list[str]:
    failures = []
    for fault in faults:
        try:
            said = fail(folder, rehearsal, fault)
        except AssertionError as error:
            failures.append(f"{fault}: {error}")
        else:
            failures += [] if said in NAMED else [f"{fault}: it ended as {said}"]
    return failures
