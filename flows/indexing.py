"""The search index after a publish."""

from __future__ import annotations

from contextlib import closing, suppress

from memory.errors import SlowwaveError
from memory.runtime import Runtime
from recall.search import Searcher


def refresh(runtime: Runtime) -> None:
    """Made anew now, so that no search waits for it [P061]. What is wrong with it whoever searches will meet and say; a
    run is none the worse for it."""
    with suppress(SlowwaveError, OSError), closing(Searcher.of_settings(runtime.settings, store=runtime.store)) as it:
        it.refresh()
