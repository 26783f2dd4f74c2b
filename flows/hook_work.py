"""What hooks left on disk, taken in by a run: uses are counted, wake-ups answered, what is old deleted [Z016].

Between the hooks, which know no database, and the state, which knows no hooks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from memory.progress import Step
from memory.runtime import Runtime
from memory.wording import counted
from recall import snapshot, spool

KEEP_DAYS = 30
"""How long the snapshot of a session is kept that no hook has come from, and which uses were counted."""


@dataclass(frozen=True, slots=True)
class HookWork:
    """`uses` counted now; `wakes`: sessions that had asked for a check this run answers; `pruned` files deleted."""

    uses: int = 0
    wakes: int = 0
    pruned: int = 0


NO_WORK = HookWork()


def collect(runtime: Runtime, *, whole: bool) -> HookWork:
    """Each use counts once, whenever a process is killed. `whole`: the run looks at everything, so it answers the
    wake-ups that lie there now; those that come later are for the next one."""
    home, now = str(runtime.settings.home), runtime.clock.now()
    before = now - timedelta(days=KEEP_DAYS)
    uses = count_uses(runtime, now)
    runtime.store.usage.forget_counted(before)
    wakes = len(snapshot.take_spool(home, "wake")) if whole else 0
    pruned = snapshot.prune(home, older_than=before.timestamp())
    if uses or wakes:
        runtime.progress(
            Step("recover", f"hooks left {counted(uses, 'use')} of sources and {counted(wakes, 'wake-up')}")
        )
    return HookWork(uses, wakes, pruned)


def count_uses(runtime: Runtime, now: datetime) -> int:
    """Counts what lies in the spool, then deletes it. A source that is no more has no use; a time to come is now."""
    left = spool.take_uses(runtime.settings.home)
    if not left:
        return 0
    known = {row.rollout.citation for row in runtime.store.outputs.all() if row.kept}
    known |= {note.citation for note in runtime.workspace.notes().notes}
    counted = 0
    for one in left:
        uses: dict[str, datetime] = {}
        for name, at in sorted(one.uses.items(), key=lambda item: item[1]):
            # Uses are kept by the short citation, also of a source that has to be cited by its whole id.
            short = name if name.startswith("note:") else name[:8]
            if short in known:
                uses[short] = min(datetime.fromtimestamp(at, UTC), now)
        counted += runtime.store.usage.count(one.session, uses)
        one.done()
    return counted
