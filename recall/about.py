"""What the tools tell about memory itself, to a session: never more than its project may see [C023 C063]."""

from __future__ import annotations

import re
from collections import Counter

from memory import support
from memory.clock import Clock, iso
from memory.documents import claims, without_marks
from memory.errors import UnknownReference
from memory.model import Claim
from memory.redact import Redactor
from memory.settings import Settings
from memory.state import Store
from memory.workspace import Workspace
from recall import scope
from recall.answers import Because, Condition, Reason, Why
from recall.search import View
from recall.status import read_status
from recall.trace import ClaimTrace, Moment, Support, Tracer

MAX_REASONS = 5
MAX_SAID = 6


def condition(settings: Settings, clock: Clock, viewer: scope.Viewer, view: View) -> Condition:
    """State and counts."""
    mode = settings.memory.mode if settings.memory.enabled else "off"
    visible = dict(sorted(Counter(unit.kind for unit in view.all()).items()))
    if not (settings.home / scope.GENERATION_FILE).exists():
        return Condition("never_used", mode, viewer.name, visible=visible)
    with Store.open(settings, clock) as store:
        workspace = Workspace.open(settings.home, store.generation, create=False)
        found = read_status(settings, store, clock, provider="", workspace=workspace)
        latest = store.versions.latest()
        sessions = sum(row.kept and row.project == viewer.id for row in store.outputs.all())
    return Condition(
        state=found.state,
        mode=mode,
        project=viewer.name,
        version=latest.number if latest else None,
        published=(iso(latest.published) or "") if latest else "",
        sessions=sessions,
        visible=visible,
        problems=(*found.broken, *found.health.problems),
    )


def why(settings: Settings, clock: Clock, viewer: scope.Viewer, reference: str) -> Why:
    """Lines of the summary one may see, and of their sources those one may see. Raises UnknownReference, in the same
    words for what is not there and what one may not see."""
    published = scope.read_published(str(settings.home))
    seen = scope.visible_lines(published.text, published.sources, viewer, settings.inject.scope)
    numbers = {line.number for line in seen.lines}
    asked = [claim for claim in _meant(reference, claims(published.text)) if claim.line in numbers]
    if not asked:
        raise UnknownReference(
            "Nothing one may see here answers to this.", hint="Give a citation, a line number or words of a line."
        )
    with Store.open(settings, clock) as store:
        workspace = Workspace.open(settings.home, store.generation, create=False)
        tracer = Tracer(store, workspace, Redactor(settings.redact))
        traces = [tracer.claim(claim) for claim in asked[:MAX_REASONS]]
    reasons = tuple(_reason(trace, published, viewer, settings.inject.scope) for trace in traces)
    return Why(reasons, len(asked) > MAX_REASONS)


def _meant(reference: str, lines: list[Claim]) -> list[Claim]:
    """By line number, citation (a whole one or its beginning), or words."""
    text = reference.strip()[:500].strip("[] ")
    if re.fullmatch(r"\d{1,4}", text, re.ASCII):
        return [line for line in lines if line.line == int(text)]
    if text.startswith("note:"):
        return [line for line in lines if text in line.citations]
    if re.fullmatch(r"[0-9a-f]{8}|[0-9a-f]{16}", text):
        return [
            line for line in lines if any(name.startswith(text) or text.startswith(name) for name in line.citations)
        ]
    words = support.normalise(text)
    return [line for line in lines if words in support.normalise(without_marks(line.text))] if words else []


def _reason(trace: ClaimTrace, published: scope.Published, viewer: scope.Viewer, setting: str) -> Reason:
    shown = [part for part in trace.supports if _may_see(part.citation, published, viewer, setting)]
    return Reason(
        line=trace.claim.line,
        section=trace.claim.section.removeprefix("## "),
        text=trace.claim.text,
        version=trace.version,
        because=tuple(_because(part) for part in shown),
        elsewhere=len(trace.supports) - len(shown),
    )


def _may_see(citation: str, published: scope.Published, viewer: scope.Viewer, setting: str) -> bool:
    """A line that several projects support is everybody's; what was said in another project's session is not."""
    source = published.sources.get(citation)
    line = scope.Line("", "", (citation,), 0)
    return setting == "all" or (source is not None and scope.is_visible(line, {citation: source}, viewer))


def _because(part: Support) -> Because:
    said = tuple(_said(moment) for moment in part.moments[:MAX_SAID])
    return Because(part.citation, part.source, part.bullets, said, part.problem)


def _said(moment: Moment) -> str:
    who = "user" if moment.spoken else moment.tier.value
    return f"e{moment.number} {who} {(iso(moment.time) or '')[:10]}: {moment.text}"
