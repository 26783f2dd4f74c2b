"""One run: recover, discover, extract, consolidate, record. Plain Python; Prefect wraps it, it never needs Prefect."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import consolidate
import extract
from consolidate import publish
from consolidate.outcomes import ConsolidateOutcome, Failed
from memory.errors import Cancelled
from memory.progress import Step
from memory.runtime import Runtime
from memory.state import Spend
from rollouts.discover import DiscoverReport, discover

__all__ = ["Options", "RunReport", "run"]
