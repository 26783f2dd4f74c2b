"""Two versions of the summary side by side, each difference with the reason the history keeps for it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from dashboard.shown import prose, visible
from memory.documents import claims
from memory.model import HEADINGS, Claim
from memory.redact import Redactor
from memory.state.browse import VersionHead

_WORD = re.compile(r"[^\W_\u3000-\u9fff\uac00-\ud7a3]+|.", re.DOTALL)
"""A word, or one sign of a script that sets no spaces between words."""

Kind = Literal["same", "added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line before and after. `reasons` are (version, what became of it, why)."""

    kind: Kind
    heading: str
    before: Claim | None
    after: Claim | None
    reasons: tuple[tuple[int, str, str], ...] = ()


def side_by_side(before: str, after: str, between: Iterable[VersionHead]) -> list[Row]:
    """Every line of both summaries, in the order of the headings. `between` are the versions that led from one to the
    other, oldest first."""
    heads = list(between)
    old, new = claims(before), claims(after)
    successors = _successors(heads)
    rows: list[Row] = []
    for heading in HEADINGS:
        left = [claim for claim in old if claim.section == heading]
        right = [claim for claim in new if claim.section == heading]
        rows += [_with_reasons(row, heads) for row in _aligned(heading, left, right, successors)]
    return rows


def marked(row: Row, redactor: Redactor) -> tuple[Markup, Markup]:
    """Both sides of a row for a page; of a line that changed, the words that did stand in `del` and `ins`."""
    texts = ["" if claim is None else claim.text for claim in (row.before, row.after)]
    if row.kind != "changed":
        return prose(texts[0], redactor), prose(texts[1], redactor)
    before, after = map(redactor.redact, texts)
    old, new = _WORD.findall(before), _WORD.findall(after)
    left, right = [], []
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = visible("".join(old[a1:a2])), visible("".join(new[b1:b2]))
        left.append(gone if tag == "equal" else Markup("<del>{}</del>").format(gone) if gone else gone)
        right.append(come if tag == "equal" else Markup("<ins>{}</ins>").format(come) if come else come)
    return Markup("").join(left), Markup("").join(right)


def backwards(rows: Iterable[Row]) -> list[Row]:
    """The way back: what a restore changes."""
    kinds: dict[Kind, Kind] = {"added": "removed", "removed": "added"}
    return [Row(kinds.get(row.kind, row.kind), row.heading, row.after, row.before, row.reasons) for row in rows]


def _successors(heads: list[VersionHead]) -> dict[str, str]:
    """A line -> the line that took it up, over all versions between."""
    into: dict[str, str] = {}
    for head in heads:
        for change in head.changes:
            if change.get("into"):
                into[change["text"]] = change["into"]
    found = {}
    for start in into:
        last, seen = start, {start}
        while (following := into.get(last)) is not None and following not in seen:
            seen.add(following)
            last = following
        found[start] = last
    return found


def _aligned(heading: str, left: list[Claim], right: list[Claim], successors: dict[str, str]) -> list[Row]:
    rows: list[Row] = []
    matcher = difflib.SequenceMatcher(None, [c.text for c in left], [c.text for c in right], autojunk=False)
    for tag, a1, a2, b1, b2 in matcher.get_opcodes():
        if tag == "equal":
            rows += [Row("same", heading, *pair) for pair in zip(left[a1:a2], right[b1:b2], strict=True)]
            continue
        gone, come = left[a1:a2], right[b1:b2]
        for claim in gone:
            target = successors.get(claim.text)
            match = next((other for other in come if other.text == target), None)
            if match is not None:
                come.remove(match)
                rows.append(Row("changed", heading, claim, match))
            else:
                rows.append(Row("removed", heading, claim, None))
        rows += [Row("added", heading, None, claim) for claim in come]
    return rows


def _with_reasons(row: Row, heads: list[VersionHead]) -> Row:
    if row.kind == "same":
        return row
    texts = {claim.text for claim in (row.before, row.after) if claim is not None}
    reasons = tuple(
        (head.number, str(change.get("kind", "")), str(change.get("reason", "")))
        for head in heads
        for change in head.changes
        if change.get("text") in texts or change.get("into") in texts
    )
    return Row(row.kind, row.heading, row.before, row.after, reasons)
