"""Makes the index of a store: collects its units, asks the state what only it knows, writes the file.

Heavy (settings, state, redaction): imported only when an index has to be made.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from memory import forgotten
from memory.clock import SystemClock
from memory.documents import without_marks
from memory.errors import SlowwaveError
from memory.redact import Redactor
from memory.settings import Settings
from memory.state import Store
from memory.workspace import Workspace
from recall.index import meaning
from recall.index.build import build, rows_of
from recall.index.collect import Collected, Facts, Said, Superseded, collect
from recall.index.file import IndexFile, Rows, UnusableIndex
from recall.index.fresh import index_path, inputs_digest, signature, signature_now

ROUNDS = 3
"""Inputs that change while they are read are read again, this often at most."""
SUPERSEDED_KEPT = 300
"""Superseded lines that are looked for in bullets, the latest ones."""


class Made(NamedTuple):
    """An open index; `problems` are what could not be used of its inputs, and why it is not on disk, if it is not."""

    file: IndexFile
    problems: tuple[str, ...] = ()


def made_from(settings: Settings) -> dict[str, str]:
    """What an index remembers of the settings it was made with."""
    redact = hashlib.sha256(settings.redact.model_dump_json().encode()).hexdigest()
    semantic = meaning.model_name() if settings.index.semantic else ""
    return {"evidence": settings.index.evidence, "redact": redact, "semantic": semantic}


def make(
    settings: Settings, generation: str, context: str, store: Store | None = None, *, patient: bool = True
) -> Made:
    """The index of everything on disk now, written where readers look for it; kept in memory where the disk refuses.

    `context` is the caller's text for `fresh.inputs_digest`. Who is not `patient` leaves most of the embedding of new
    texts, where search by meaning is on, to somebody who is. Without `store` the state is opened, if there is one.
    Raises WorkspaceError when the workspace cannot be read.
    """
    if not generation:  # nothing was kept yet: the user's short file may be there all the same
        collected = _collect(settings, generation, Facts(), None)
        return Made(IndexFile.in_memory(rows_of(collected.units, _meta(settings, generation, collected))))
    facts, said, problems = _from_state(settings, generation, store)
    path = index_path(settings.home, generation)
    reasons: list[str] = []
    rows = None
    for _ in range(ROUNDS):
        base = inputs_digest(settings.home, generation, context)
        collected = _collect(settings, generation, facts, said)
        meta = _meta(settings, generation, collected)
        meta["signature"] = signature(base, collected.watched)
        reasons = [*problems, *collected.problems]
        rows, lacking = _with_vectors(settings, rows_of(collected.units, meta), path, patient=patient)
        reasons += lacking
        try:
            build(path, rows)
        except OSError as error:
            reasons.append(f"{path} could not be written ({type(error).__name__})")
            break
        if meta["signature"] == signature_now(settings.home, generation, context, collected.watched):
            return Made(IndexFile.open(path), tuple(reasons))
        with suppress(OSError):  # perhaps something was forgotten meanwhile: it is not left behind
            path.unlink()
    assert rows is not None
    return Made(IndexFile.in_memory(rows), tuple(reasons))


def _with_vectors(settings: Settings, rows: Rows, path: Path, *, patient: bool) -> tuple[Rows, list[str]]:
    """The same rows with their vectors, where search by meaning is on, and why they lack them, where they do."""
    if not settings.index.semantic:
        return rows, []
    encoder = meaning.encoder()
    if encoder is None:
        return rows, [f"index.semantic is on, but its encoder is not there; search goes by words. {meaning.EXTRA}"]
    former: dict[bytes, bytes] = {}
    with suppress(UnusableIndex), closing(IndexFile.open(path)) as old:
        former = old.vectors()
    texts = [unit.text for unit in rows.units]
    room = None if patient else meaning.IMPATIENT
    found, left = meaning.vectors(texts, encoder, former, room=room)
    return rows._replace(meta={**rows.meta, "unembedded": str(left)}, vectors=found), []


def _collect(settings: Settings, generation: str, facts: Facts, said: Said | None) -> Collected:
    workspace = Workspace.open(settings.home, generation, create=False) if generation else None
    return collect(settings.home, workspace, facts, Redactor(settings.redact), said)


def _meta(settings: Settings, generation: str, collected: Collected) -> dict[str, str]:
    return {
        **made_from(settings),
        "generation": generation,
        "projects": json.dumps(collected.projects, ensure_ascii=False),
        "watched": json.dumps(sorted(collected.watched), ensure_ascii=False),
    }


def _from_state(settings: Settings, generation: str, store: Store | None) -> tuple[Facts, Said | None, tuple[str, ...]]:
    """What the state knows; without it the index still has every text, and no sessions."""
    try:
        if store is not None:
            return (*_facts(settings, store), ())
        with Store.open(settings, SystemClock()) as opened:
            if opened.generation != generation:
                return Facts(), None, ("the state is of another generation",)
            return (*_facts(settings, opened), ())
    except SlowwaveError as error:
        return Facts(), None, (f"the state could not be asked ({error.code}); nothing is known of use",)


def _facts(settings: Settings, store: Store) -> tuple[Facts, Said | None]:
    changes = [change for row in store.versions.all() for change in row.changes if change.get("kind") == "superseded"]
    superseded = tuple(
        Superseded(without_marks(change["text"]), without_marks(change.get("into", "")))
        for change in changes[-SUPERSEDED_KEPT:]
        if change.get("text")
    )
    facts = Facts(store.usage.counts(), superseded, forgotten.of_tombstones(store.tombstones.all()))
    if settings.index.evidence == "off":
        return facts, None
    from recall.index.said import Sessions

    paths = {row.id: row.path for row in store.rollouts.all()}
    return facts, Sessions(paths, settings.index.evidence)
