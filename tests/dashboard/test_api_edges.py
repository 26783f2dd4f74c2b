"""The HTTP API at the edges of every value it takes. What these are is worked out while tests are collected, which
takes seconds: conftest.py leaves this file out of a run that leaves out `torture`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard import described
from tests.plugins.dashboard_site import Site


@pytest.mark.torture
@described.schema(boundaries=True).parametrize()  # type: ignore[untyped-decorator]
@described.examples(20)  # type: ignore[untyped-decorator]
def test_every_answer_is_one_the_description_names_at_the_edges_too(case: Any, target: Site) -> None:
    described.judge(case, target)
