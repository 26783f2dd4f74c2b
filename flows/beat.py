"""When the service's processes look after things: all at the same moments.

Code and data that have not been used for seconds are far away, above all in a virtual machine: on one such machine an
idle process that looks at something every ten seconds takes twenty times as long for it as a busy one. So what has to
be looked at is looked at together and once a minute, and whatever can tell of itself is waited for.
"""

from __future__ import annotations

BEAT_SECONDS = 60.0


def until_beat(monotonic: float, every: float = BEAT_SECONDS) -> float:
    """Seconds until the next moment that is a multiple of `every` on the machine's clock that never goes back; more
    than none. Every process of a machine sees the same one."""
    return every - monotonic % every
