"""The workspace: files of the long memory, what an agent may touch of them, and how they change safely.

`Workspace` is the door; everything durable goes through `files`, everything an agent does through `ConfinedFiles`.
"""

from memory.workspace.confined import ConfinedFiles, Limits
from memory.workspace.diff import WorkspaceDiff
from memory.workspace.healing import HealReport, PendingIntent, Verdict
from memory.workspace.notes import Note, NotesReading
from memory.workspace.staging import Staging
from memory.workspace.versions import Version
from memory.workspace.workspace import Workspace

__all__ = [
    "ConfinedFiles",
    "HealReport",
    "Limits",
    "Note",
    "NotesReading",
    "PendingIntent",
    "Staging",
    "Verdict",
    "Version",
    "Workspace",
    "WorkspaceDiff",
]
