"""The helpers' assertions say what they compared."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite(
    "tests.torture.harness", "tests.torture.world", "tests.torture.crowd", "tests.torture.sleeper"
)

from memory import failpoints  # noqa: E402
from tests.torture.deeds import DEEDS  # noqa: E402
from tests.torture.harness import Rehearsal, rehearse  # noqa: E402


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


@pytest.fixture(scope="session")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Rehearsal]]:
    """Every deed done once without a kill: the points it passes and what it ends in."""
    folder = tmp_path_factory.mktemp("deeds")
    yield {name: rehearse(folder / str(number), deed) for number, (name, deed) in enumerate(DEEDS.items())}
    shutil.rmtree(folder)
