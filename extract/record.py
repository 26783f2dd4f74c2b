"""What the model is asked for, and the file that is made of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from extract import form
from memory.documents import PrintedEvent, anchors, print_rollout_summary
from memory.model import MAX_ROLLOUT_SUMMARY_BYTES, Outcome, SummaryHeader, Tier

RESERVE = 200
"""Bytes kept free for the list of human events and the slug, which are known only with the answer."""


class RolloutRecord(BaseModel):
    """The record of one session; both fields empty: nothing worth keeping [Z077]."""

    model_config = ConfigDict(extra="forbid")

    rollout_summary: str = Field(description="The record as Markdown in the given form, or an empty string.")
    rollout_slug: str = Field(description="Two to six lower-case words joined by hyphens, or an empty string.")


def room(header: SummaryHeader) -> int:
    """Bytes a body may fill under this header, as the model is told."""
    return MAX_ROLLOUT_SUMMARY_BYTES - len(print_rollout_summary(header, "").encode()) - RESERVE


def completed(
    header: SummaryHeader, body: str, events: Mapping[int, PrintedEvent], *, slug: str = form.NO_SLUG
) -> SummaryHeader:
    """The header with what only the body tells: outcome, slug, and which of its anchors a person spoke."""
    human = tuple(n for n in sorted(anchors(body)) if n in events and events[n].tier is Tier.HUMAN)
    return replace(header, outcome=form.read(body).outcome or Outcome.UNCERTAIN, slug=form.slug_of(slug), human=human)


def size(header: SummaryHeader, body: str, events: Mapping[int, PrintedEvent], *, slug: str) -> int:
    """Bytes of the whole file, header counted [Z055]."""
    return len(print_rollout_summary(completed(header, body, events, slug=slug), body).encode())
