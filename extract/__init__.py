"""Stage 1: one verified summary of each finished session."""

from extract.batch import run
from extract.outcomes import ExtractOutcome, ExtractReport

__all__ = ["ExtractOutcome", "ExtractReport", "run"]
