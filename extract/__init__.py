"""Stage 1: one verified summary of each finished session."""

import prompts
from extract.batch import run
from extract.outcomes import ExtractOutcome, ExtractReport
from extract.preview import Preview, preview
from memory.model import MAX_ROLLOUT_SUMMARY_BYTES, SUMMARY_SECTIONS


def instructions() -> str:
    """The stage's instructions in force, for the copy in the workspace [Z045]."""
    return prompts.render("extract_system", sections=SUMMARY_SECTIONS, max_bytes=MAX_ROLLOUT_SUMMARY_BYTES)


__all__ = ["ExtractOutcome", "ExtractReport", "Preview", "instructions", "preview", "run"]
