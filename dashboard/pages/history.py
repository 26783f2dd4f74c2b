"""History: every published version, what changed and why, and the way back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from dashboard import confirmed, versions
from dashboard.desk import AnyLook, Form
from dashboard.diffing import backwards, marked, side_by_side
from dashboard.pages.sessions import Page
from memory.state.browse import changes_between, version_heads
from recall import scope

router = APIRouter()
PER_PAGE = 20
Number = Annotated[int, Path(ge=1, le=versions.MAX_NUMBER)]


@router.get("/history")
def history(look: AnyLook, page: Page = 1) -> Response:
    heads, total = version_heads(look.store, limit=PER_PAGE, offset=(page - 1) * PER_PAGE)
    return look.page(
        "history.html",
        heads=heads,
        kept=look.workspace.versions(),
        current=scope.read_published(str(look.settings.home)).version,
        total=total,
        first=(page - 1) * PER_PAGE + 1,
        last=(page - 1) * PER_PAGE + len(heads),
        page=page,
    )


@router.get("/history/compare")
def compare(
    look: AnyLook,
    a: Annotated[int, Query(ge=1, le=versions.MAX_NUMBER)],
    b: Annotated[int, Query(ge=1, le=versions.MAX_NUMBER)],
) -> Response:
    first, last = sorted((a, b))
    before, after = versions.kept(look, first), versions.kept(look, last)
    old = {item.citation for item in before.manifest.inputs}
    new = {item.citation for item in after.manifest.inputs}
    return look.page(
        "compare.html",
        first=first,
        last=last,
        rows=side_by_side(before.summary, after.summary, changes_between(look.store, first, last)),
        marked=lambda row: marked(row, look.redactor),
        added=sorted(new - old),
        removed=sorted(old - new),
        kept=look.workspace.versions(),
    )


@router.get("/history/{number}")
def version(look: AnyLook, number: Number) -> Response:
    found, head = versions.kept(look, number), versions.head(look, number)
    kept = look.workspace.versions()
    shown = scope.Published(text=found.summary)
    return look.page(
        "version.html",
        head=head,
        sections=confirmed.sections(confirmed.lines(shown)),
        inputs=found.manifest.inputs,
        kept=kept,
        current=scope.read_published(str(look.settings.home)).version,
        before=max((one for one in kept if one < number), default=0),
    )


@router.get("/history/{number}/restore")
def ask_restore(look: AnyLook, number: Number) -> Response:
    found, head = versions.kept(look, number), versions.head(look, number)
    now = scope.read_published(str(look.settings.home))
    between = changes_between(look.store, number, now.version)
    return look.page(
        "restore.html",
        head=head,
        current=now.version,
        marked=lambda row: marked(row, look.redactor),
        rows=[row for row in backwards(side_by_side(found.summary, now.text, between)) if row.kind != "same"],
    )


@router.post("/history/{number}/restore")
def restore(look: AnyLook, number: Number, form: Form) -> Response:
    report = look.long_memory().restore(number)
    told = [look.t("history.restored", restored=report.restored, version=report.version)]
    told += [look.t("history.skipped", n=len(report.skipped))] if report.skipped else []
    told += [look.t("history.aside", n=len(report.set_aside))] if report.set_aside else []
    return look.redirect("/history", "history.restored_all", text=" ".join(told))
