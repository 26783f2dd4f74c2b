"""What a run carries from stage to stage: settings, clock, state, workspace, models, meter, progress, stop flag."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from memory import models
from memory.clock import Clock, SystemClock
from memory.errors import Cancelled
from memory.llm.base import Meter, Model, Tokens
from memory.progress import Progress, silent
from memory.redact import Redactor
from memory.settings import RedactSettings, Settings
from memory.state import Ledger, Store
from memory.workspace import Workspace

R = TypeVar("R")


@dataclass(slots=True)
class Runtime:
    """One run. `owner` names this process in leases; `trigger` is `manual`, `schedule` or `hook`."""

    settings: Settings
    clock: Clock
    store: Store
    workspace: Workspace
    extract_model: Model
    consolidate_model: Model
    meter: Meter
    tokens: Tokens
    run_id: str
    owner: str
    trigger: str = "manual"
    progress: Progress = silent
    redactor: Redactor = field(default_factory=lambda: Redactor(RedactSettings()))
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    prefect_run: str | None = None
    """The id of the Prefect run around it."""

    async def close(self) -> None:
        """Releases the models' connections; inside the event loop that used them."""
        await self.extract_model.close()
        await self.consolidate_model.close()

    async def or_stop(self, work: Awaitable[R]) -> R:
        """The work's result, or Cancelled as soon as somebody asks the run to stop; then the work is cancelled."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self.cancel.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self.check_cancelled()
            raise AssertionError("unreachable")
        finally:
            for pending in (task, stop):
                pending.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    def check_cancelled(self) -> None:
        """Raises Cancelled when somebody asked the run to stop."""
        if self.cancel.is_set():
            raise Cancelled("The run was stopped before it finished.", hint="Nothing was lost; run it again to go on.")


@contextmanager
def open_runtime(
    settings: Settings,
    *,
    clock: Clock | None = None,
    trigger: str = "manual",
    progress: Progress = silent,
    run_id: str | None = None,
) -> Iterator[Runtime]:
    """Opens state, workspace, models and ledger for one run and closes the state after it.

    Raises StateError, WorkspaceError or SettingsError when one of them cannot be used.
    """
    # Loading a vocabulary is for runs only: tests and readers that build a Runtime by hand do not pay for it.
    from memory.tokens import TokenCounter

    moment = clock or SystemClock()
    tokens = TokenCounter(settings.model.vocabulary)
    with Store.open(settings, moment) as store:
        identity = run_id or new_run_id(moment)
        yield Runtime(
            settings=settings,
            clock=moment,
            store=store,
            workspace=Workspace.open(settings.home, store.generation),
            extract_model=models.build(settings, "extract", tokens),
            consolidate_model=models.build(settings, "consolidate", tokens),
            meter=Ledger(store, settings.budget, moment, identity, free=models.FREE),
            tokens=tokens,
            run_id=identity,
            owner=f"{socket.gethostname()}:{os.getpid()}:{identity}",
            trigger=trigger,
            progress=progress,
            redactor=Redactor(settings.redact),
        )


def owner_is_gone(owner: str) -> bool:
    """Whether a lease's owner was a process of this machine that no longer exists; False whenever that is not sure.

    A claim of a dead process need not wait for its lease. Being wrong costs nothing but work: the fence decides.
    """
    host, _, rest = owner.partition(":")
    pid = rest.partition(":")[0]
    if host != socket.gethostname() or not pid.isascii() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def new_run_id(clock: Clock) -> str:
    """Sorts by time: `20261130T081400-1f2e3d4c`."""
    return f"{clock.now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
