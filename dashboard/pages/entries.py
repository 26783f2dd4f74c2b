"""Entries of topics: what agents and people kept through the memory tools; part of the page Notes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response

from dashboard import confirmed
from dashboard.desk import AnyLook, Form, Look
from memory.errors import UnknownReference
from memory.workspace.topic_text import TopicEntry

router = APIRouter()
EntryId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]
PREFIX = "mem:"


@router.get("/entries/{entry}")
def entry_page(look: AnyLook, entry: EntryId) -> Response:
    found = _entry(look, entry)
    names = {one.id: one.name for one in confirmed.projects(look.store)}
    return look.page("topic_entry.html", entry=found, key=entry, project=names.get(found.scope, found.scope))


@router.post("/entries/{entry}/forget")
def forget_entry(look: AnyLook, entry: EntryId, form: Form) -> Response:
    found = _entry(look, entry)
    look.long_memory().forget(entries=[found.id])
    return look.redirect("/notes", "entries.forgotten", topic=found.topic, title=found.title)


def _entry(look: Look, entry: str) -> TopicEntry:
    """Raises UnknownReference."""
    for found in look.workspace.topics.read().entries:
        if found.id == PREFIX + entry:
            return found
    raise UnknownReference("There is no entry of this id.", hint="It may have been forgotten; the page Notes has all.")
