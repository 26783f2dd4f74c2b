"""The safe mends of `slowwave doctor --fix`, in order: what stops the state from opening, what an interruption left,
what nothing knows of."""

from __future__ import annotations

from consolidate.service import LongMemory
from memory.clock import Clock
from memory.errors import SlowwaveError
from memory.runtime import open_runtime, owner_is_gone
from memory.settings import ModelSettings, Settings
from recall import mending
from recall.doctor import in_use
from recall.mending import Mended


def mend(settings: Settings, clock: Clock) -> tuple[list[Mended], SlowwaveError | None]:
    """What was done, and what stopped it before the end."""
    done: list[Mended] = []
    try:
        done += mending.before_opening(settings, clock)
        if not in_use(settings):
            return done, None
        # No model is asked; that none can be built, for lack of a name, must not stop the mending.
        quiet = settings.model_copy(update={"model": ModelSettings(provider="offline")})
        with open_runtime(quiet, clock=clock) as runtime:
            done += [Mended("left-overs", text) for text in LongMemory(runtime).recover()]
            ended = runtime.store.jobs.reap(owner_is_gone)
            done += [Mended("leases", f"{job.kind} {job.key} may be claimed again") for job in ended]
            done += mending.after_recovery(settings, runtime.store, runtime.workspace, clock)
    except SlowwaveError as error:
        return done, error
    return done, None
