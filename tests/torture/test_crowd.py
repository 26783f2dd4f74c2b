"""Eight processes extract and consolidate in one store while a ninth clears and a tenth restores."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.torture.crowd import Crowd, clear, loses_and_revives_nothing, overlaps, restore, said
from tests.torture.harness import asked
from tests.torture.world import complaints

pytestmark = pytest.mark.torture


@pytest.mark.req("Z018", "Z024", "Z118")
@pytest.mark.fault("M43", "X19", "X21")
def test_eight_processes_extract_each_boundary_once_and_consolidate_one_at_a_time(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, seed=1, rounds=2)
    world = crowd.run()
    assert crowd.wrong == []
    assert set(asked(world).values()) == {1}
    assert len(asked(world)) == crowd.sessions
    assert overlaps(world) == []
    report = world.run()
    assert report.outcome in {"ok", "nothing"}
    assert world.lines() == {line for n in range(crowd.sessions) for line in said(f"s{n}", 1, 2)}
    with world.opened() as runtime:
        assert complaints(runtime, ignoring=("permissions",)) == []
        assert all(job.status == "done" for job in runtime.store.jobs.all("extract"))


@pytest.mark.req("Z022", "Z110", "Z116", "Z118")
@pytest.mark.fault("M43", "M55", "X19")
def test_clearing_and_restoring_among_them_loses_and_revives_nothing(tmp_path: Path) -> None:
    loses_and_revives_nothing(Crowd(tmp_path, seed=2, rounds=2, others=(clear, restore)))


def test_the_watch_for_overlaps_sees_one(tmp_path: Path) -> None:
    world = Crowd(tmp_path, seed=0).world()
    world.log.write_text("begin 1 1.0 \nbegin 2 2.0 \nend 1 3.0 \nend 2 4.0 \n")
    assert len(overlaps(world)) == 1
    world.log.write_text("begin 1 1.0 \nend 1 2.0 \nbegin 2 3.0 \nend 2 4.0 \n")
    assert overlaps(world) == []
    assert Counter(kind for kind in ("begin", "end") for _ in world.answers(kind)) == {"begin": 2, "end": 2}
