"""The HTTP API as its description has it: what is asked of it, and how an answer is judged."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from dashboard.app import create_app
from dashboard.security import MAX_BODY
from memory.clock import SystemClock
from memory.settings import load
from tests.dashboard.conftest import TOKEN
from tests.plugins.dashboard_site import Recorder, Site


def schema(*, boundaries: bool) -> Any:
    """The description; with `boundaries` every operation is also asked with the edges of each of its values."""
    ports = Recorder()
    app = create_app(load, runs=ports, hosts=ports, clock=SystemClock())
    phases = SchemathesisConfig.from_dict({"phases": {"coverage": {"enabled": boundaries}}})
    return schemathesis.openapi.from_dict(app.openapi(), config=phases)


def judge(case: Any, target: Site) -> None:
    """Asks and holds the answer to the description."""
    # A text may fit the description and still be no note: an empty one, one that is a secret and nothing else.
    response = case.call(base_url=target.origin, headers={"authorization": f"Bearer {TOKEN}"})
    if response.status_code == 413:  # which schemathesis does not take for a refusal
        assert len(response.request.body) > MAX_BODY
        return
    case.validate_response(response, excluded_checks=[positive_data_acceptance])


def examples(number: int) -> Any:
    """So many for each operation, the same at every run."""
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
