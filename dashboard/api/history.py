"""Versions for programs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query

from dashboard import versions
from dashboard.api import CHANGING
from dashboard.api.models import Answer
from dashboard.desk import AnyLook, Look
from dashboard.diffing import side_by_side
from dashboard.shown import plain
from memory.state.browse import VersionHead, changes_between, version_heads

router = APIRouter(tags=["history"])
Number = Annotated[int, Path(ge=1, le=versions.MAX_NUMBER)]


class Change(Answer):
    """What became of a line: `added`, `removed`, `superseded`, `merged`, `reworded`; `into` is what took it up."""

    kind: str
    text: str
    reason: str
    into: str


class Version(Answer):
    """A published version. `kept` says whether its files are still there; `money` is None where no price is known."""

    number: int
    published: datetime
    model: str
    requests: int
    input_tokens: int
    output_tokens: int
    money: float | None
    kept: bool
    changes: list[Change]


class History(Answer):
    total: int
    versions: list[Version]


class VersionText(Answer):
    """A version with its text and the citations of its sources."""

    version: Version
    text: str
    sources: list[str]


class DiffRow(Answer):
    """One line before and after; `kind` is `same`, `added`, `removed` or `changed`."""

    kind: str
    section: str
    before: str | None
    after: str | None
    reasons: list[str]


class Restored(Answer):
    """`version` is the new one; `skipped` are sources that stay forgotten, `set_aside` those that came later."""

    version: int
    restored: int
    skipped: list[str]
    set_aside: list[str]


@router.get("/history")
def read_history(
    look: AnyLook,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> History:
    """Every version, newest first."""
    heads, total = version_heads(look.store, limit=limit, offset=offset)
    kept = set(look.workspace.versions())
    return History(total=total, versions=[_version(look, head, kept) for head in heads])


@router.get("/history/{number}")
def read_version(look: AnyLook, number: Number) -> VersionText:
    """One kept version."""
    found, head = versions.kept(look, number), versions.head(look, number)
    return VersionText(
        version=_version(look, head, {number}),
        text=plain(found.summary, look.redactor),
        sources=[item.citation for item in found.manifest.inputs],
    )


@router.get("/history/{number}/diff/{other}")
def read_diff(look: AnyLook, number: Number, other: Number) -> list[DiffRow]:
    """Two kept versions side by side, the older one before."""
    first, last = sorted((number, other))
    before, after = versions.kept(look, first), versions.kept(look, last)
    return [
        DiffRow(
            kind=row.kind,
            section=row.heading.removeprefix("## "),
            before=plain(row.before.text, look.redactor) if row.before is not None else None,
            after=plain(row.after.text, look.redactor) if row.after is not None else None,
            reasons=[plain(f"{kind} ({made}): {why}", look.redactor) for made, kind, why in row.reasons],
        )
        for row in side_by_side(before.summary, after.summary, changes_between(look.store, first, last))
    ]


@router.post("/history/{number}/restore", dependencies=CHANGING)
def restore(look: AnyLook, number: Number) -> Restored:
    """Puts a former version back, as a new one."""
    report = look.long_memory().restore(number)
    return Restored(
        version=report.version,
        restored=report.restored,
        skipped=list(report.skipped),
        set_aside=list(report.set_aside),
    )


def _version(look: Look, head: VersionHead, kept: set[int]) -> Version:
    def text(change: dict[str, object], name: str) -> str:
        return plain(str(change.get(name) or ""), look.redactor)

    return Version(
        number=head.number,
        published=head.published,
        model=plain(head.model, look.redactor),
        requests=head.requests,
        input_tokens=head.input_tokens,
        output_tokens=head.output_tokens,
        money=head.money,
        kept=head.number in kept,
        changes=[
            Change(kind=text(one, "kind"), text=text(one, "text"), reason=text(one, "reason"), into=text(one, "into"))
            for one in head.changes
        ],
    )
