"""The whole text of a source, as the reading tools show it: redacted, and without what was forgotten [Z053 M50 M57]."""

from __future__ import annotations

import logging

from memory import forgotten
from memory.clock import Clock
from memory.documents import parse_rollout_summary
from memory.errors import StateError
from memory.redact import Redactor
from memory.settings import Settings
from memory.state import Store
from memory.workspace import Workspace
from recall import scope
from recall.index.unit import Unit

_log = logging.getLogger("slowwave.recall")


def whole_text(settings: Settings, clock: Clock, name: str, unit: Unit) -> str | None:
    """Of the source that a visible unit stands in; None when its file is gone. Raises WorkspaceError."""
    generation, _ = scope.read_generation(str(settings.home))
    if not generation:
        return None
    workspace = Workspace.open(settings.home, generation, create=False)
    text = _note(workspace, name) if name.startswith("note:") else _rollout_summary(workspace, unit)
    if text is None:
        return None
    holds = forgotten_texts(settings, clock)
    return Redactor(settings.redact).redact(forgotten.without_lines(text, holds)).strip("\n")


def forgotten_texts(settings: Settings, clock: Clock) -> forgotten.Holds:
    """Recognises what was forgotten. A state that cannot be opened leaves reading as it is, as it leaves the index:
    what was forgotten has left the files already, and only somebody who wrote it again could have put it back."""
    try:
        with Store.open(settings, clock) as store:
            return forgotten.of_tombstones(store.tombstones.all())
    except StateError as error:
        _log.warning("the state could not be asked what was forgotten (%s)", error.code)
        return forgotten.nothing


def _note(workspace: Workspace, name: str) -> str | None:
    note = next((note for note in workspace.notes().notes if note.citation == name), None)
    return None if note is None else note.body


def _rollout_summary(workspace: Workspace, unit: Unit) -> str | None:
    source_id = unit.group.rstrip("@")
    text = workspace.rollout_summary(source_id)
    if text is None:
        return None
    try:
        return parse_rollout_summary(text)[1]
    except ValueError:
        return None
