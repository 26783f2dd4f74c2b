"""Storing an extraction so that file and row agree whatever happens between them.

Before the file changes, an intent row says what will be there. A process killed after the file was replaced and before
the row was committed leaves the intent; whoever starts next sees by the file's hash that the work was done and takes
the row from the intent. Where the file is still the former one, nothing had happened yet.
"""

from __future__ import annotations

from collections.abc import Callable

from memory.errors import SlowwaveError
from memory.state import IntentRow, Lease, OutputRow, Store, output_from_dict, output_to_dict
from memory.workspace import Workspace

KIND = "extract"


def announce(store: Store, lease: Lease, row: OutputRow) -> int:
    """Opens the intent under the lease and returns its id. Raises FencedError."""
    with store.write() as tx:
        before = store.outputs.get(row.rollout, tx)
        old = before.sha256 if before is not None else ""
        return store.intents.open(lease, KIND, old or None, row.sha256 or None, output_to_dict(row), tx)


def store_output(store: Store, workspace: Workspace, lease: Lease, row: OutputRow, put: Callable[[], object]) -> None:
    """Changes the file by `put` and saves its row as one step.

    The job's row stays locked while the file is replaced: a worker that lost its claim cannot come between. Raises
    FencedError before anything was touched, WorkspaceError or StateError when disk or state refuse; then what was
    there before stands, or what the next `settle` makes of it.
    """
    intent = announce(store, lease, row)
    try:
        with store.write() as tx:
            store.jobs.check(lease, tx)
            store.intents.close(intent, tx)
            put()
            store.outputs.save(lease, row, tx)
            store.jobs.succeed(lease, tx)
    except SlowwaveError:
        settle_all(store, workspace, force=intent)
        raise


def settle_all(store: Store, workspace: Workspace, *, force: int | None = None) -> list[str]:
    """Settles every interrupted extraction; a line for each, for the log. `force` names an intent that is our own.

    Never raises: what cannot be settled now is settled at the next start.
    """
    try:
        mine = [intent for intent in store.intents.pending() if intent.kind == KIND]
        said = [(intent.job_key, _settle(store, workspace, intent, ours=intent.id == force)) for intent in mine]
    except SlowwaveError as error:
        return [str(error)]
    return [f"{key}: {text}" for key, text in said if text]


def _settle(store: Store, workspace: Workspace, intent: IntentRow, *, ours: bool) -> str:
    row = output_from_dict(intent.payload)
    with store.write() as tx:
        # From here on no living worker is between its file and its row: it would hold this lock.
        still_open = any(other.id == intent.id for other in store.intents.pending(tx))
        if not still_open or store.meta.generation(tx) != workspace.generation:
            return ""
        job = store.jobs.get("extract", intent.job_key, tx)
        alive = job is not None and job.token == intent.token and job.running(store.clock.now()) and not ours
        there = workspace.rollout_summary_sha(row.rollout.source_id)
        # Where the file does not change, only the end of the claim tells that its worker is gone.
        done = there == intent.new_sha and not (alive and intent.old_sha == intent.new_sha)
        if done and not store.tombstones.has("rollout", intent.job_key, tx):
            store.outputs.rewrite(row, tx)
            store.jobs.succeed_interrupted(
                "extract", intent.job_key, token=intent.token, generation=intent.generation, tx=tx
            )
            said = "its interrupted extraction was finished"
        elif alive:
            return ""  # its worker may be about to begin
        else:
            said = "its interrupted extraction left nothing behind"
        store.intents.close(intent.id, tx)
        return said
