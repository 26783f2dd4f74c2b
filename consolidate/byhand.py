"""Changes of the confirmed summary that no model makes: what forget and restore have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from consolidate import gate, publish
from consolidate.gate import Change, Source
from memory import forgotten, support
from memory.documents import claims, print_summary
from memory.errors import FencedError, StateBusyError, StateError, WorkspaceError
from memory.model import HEADINGS, Claim, InputFile, Manifest
from memory.runtime import Runtime
from memory.state import Lease


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be forgotten: whole sources by citation, and texts by a test."""

    citations: frozenset[str]
    holds: forgotten.Holds


ALONE_SHARE = 0.8
"""Least share of a line's words that its other sources must hold for it to outlive a forgotten one."""


def _carried_alone(claim: Claim, sources: Mapping[str, Source]) -> bool:
    """Whether what a line says stands in its other sources; the gate's own measure would let a few words of the
    forgotten one through."""
    texts = [sources[citation].text for citation in claim.citations if citation in sources]
    return gate.supported(claim, sources) and support.coverage(claim.text, texts) >= ALONE_SHARE


def without(summary: str, order: Order, sources: Mapping[str, Source]) -> tuple[str, tuple[str, ...], int]:
    """A summary without forgotten sources and texts: new text, lines that left, lines that went on with others."""
    kept: dict[str, list[str]] = {heading: [] for heading in HEADINGS}
    gone: list[str] = []
    carried = 0
    for claim in claims(summary):
        rest = tuple(c for c in claim.citations if c not in order.citations)
        if order.holds(claim.text) or (not rest and claim.citations):
            gone.append(claim.text)
            continue
        if len(rest) < len(claim.citations):
            if not _carried_alone(replace(claim, citations=rest), sources):
                gone.append(claim.text)
                continue
            carried += 1
        marks = " ".join(f"[{citation}]" for citation in rest)
        kept.setdefault(claim.section, []).append(f"{claim.text} {marks}".strip())
    if not gone and not carried:
        return summary, (), 0
    return print_summary(kept), tuple(gone), carried


class _Sources(Mapping[str, Source]):
    """Inputs as the gate sees them, read when they are asked for: a line or two need theirs, hundreds do not."""

    def __init__(self, inputs: Iterable[InputFile], texts: Mapping[str, str]) -> None:
        self._inputs = {item.citation: item for item in inputs if item.path in texts}
        self._texts = texts
        self._read: dict[str, Source] = {}

    def __getitem__(self, citation: str) -> Source:
        if citation not in self._read:
            item = self._inputs[citation]
            text = self._texts[item.path]
            self._read[citation] = (
                gate.source_from_note(citation, text, pinned=item.pinned)
                if citation.startswith("note:")
                else gate.source_from_rollout(citation, text)
            )
        return self._read[citation]

    def __contains__(self, citation: object) -> bool:
        return citation in self._inputs

    def __iter__(self) -> Iterator[str]:
        return iter(self._inputs)

    def __len__(self) -> int:
        return len(self._inputs)


def sources_of(inputs: Iterable[InputFile], texts: Mapping[str, str]) -> Mapping[str, Source]:
    """The sources behind citations, for `without`."""
    return _Sources(inputs, texts)


def claim_by_hand(runtime: Runtime, why: str) -> Lease:
    """The claim under which a change by the user is made. All of them work inside the writer lock, so a claim that
    still runs is a dead process's. Raises StateBusyError when memory was cleared meanwhile."""
    lease = runtime.store.jobs.claim(
        "consolidate",
        f"{runtime.settings.store}/{why}",
        boundary=runtime.run_id,
        owner=runtime.owner,
        lease_seconds=600,
        max_failures=1_000_000,
        again=True,
        holder_gone=True,
    )
    if not isinstance(lease, Lease):
        raise StateBusyError(f"The {why} could not begin ({lease.reason}).", hint="Run the command again.")
    return lease


def change_by_hand(
    runtime: Runtime,
    text: str,
    manifest: Manifest,
    texts: Mapping[str, str],
    changes: tuple[Change, ...],
    *,
    model: str,
    parent: int | None = None,
) -> int:
    """Publishes a text that the user's own request made, under a claim of its own. `model` is the word that stands
    where a model would, `parent` the intent that is fulfilled with it."""
    store = runtime.store
    lease = claim_by_hand(runtime, f"{model}-publish")
    latest = store.versions.latest()
    base = latest.number if latest is not None else None
    candidate = publish.Candidate(text, manifest, texts, changes, model, 0, 0, 0, 0.0, base, parent)
    try:
        return publish.publish_locked(runtime, lease, None, candidate)
    except (WorkspaceError, StateError) as error:
        with suppress(FencedError, StateError):
            store.jobs.fail(lease, error, None)
        raise
