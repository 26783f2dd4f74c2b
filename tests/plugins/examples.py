"""Property tests ask what a thing does, never how fast: no example has a deadline, and making examples may take long.

Measured times belong to tests that say so. What else the environment's profile says (CI: the same examples at every
run) stays.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "slowwave",
    parent=settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("slowwave")
