"""What a run carries from stage to stage: settings, clock, state, workspace, models, meter, progress and the stop flag."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from memory.clock import Clock
from memory.errors import Cancelled
from memory.llm.base import Meter, Model
from memory.progress import Progress, silent
from memory.settings import Settings
from memory.state import Store
from memory.workspace import Workspace


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
    run_id: str
    owner: str
    trigger: str = "manual"
    progress: Progress = silent
    cancel: asyncio.Event = field(default_factory=asyncio.Event)

    def check_cancelled(self) -> None:
        """Raises Cancelled when somebody asked the run to stop."""
        if self.cancel.is_set():
            raise Cancelled("The run was stopped before it finished.", hint="Nothing was lost; run it again to go on.")
