"""What a model is told when something failed: a sentence of ours, never the content that was at hand."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

from memory.errors import SlowwaveError

MAX_SENTENCE = 2_000
_log = logging.getLogger("slowwave.mcp")


def says(error: SlowwaveError) -> str:
    """An error of ours, made safe like everything else that goes to a model."""
    from recall.inject import safe

    return safe(str(error))[:MAX_SENTENCE]


def unexpected(name: str, error: BaseException) -> str:
    """For a failure nobody thought of: what kind and where, for the log and the model, and nothing of its text."""
    last = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    where = f"{Path(last.filename).name}:{last.lineno}" if last else "unknown place"
    _log.error("%s failed: %s at %s", name[:60], type(error).__name__, where)
    return f"slowwave failed ({type(error).__name__} at {where}). Go on without memory; `slowwave doctor` may know why."
