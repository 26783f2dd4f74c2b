"""Names and places inside a generation [Z044 Z045]. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from memory.errors import InputsChangedError, UsageError, WorkspaceError
from memory.model import Manifest

GENERATIONS = "generations"
GONE_PREFIX = ".tmp-cleared-"
"""Begins the name of what was cleared and is being deleted, inside `generations`."""
QUARANTINE = "quarantine"
"""Folder in the home that holds what `slowwave doctor --fix` set aside."""
MEMORIES = "memories_v2"
VERSIONS = "versions"
BLOCKS = "blocks"
LOCK_NAME = ".lock"
INDEX_NAME = "index.db"
ROLLOUTS = "rollout_summaries"
AD_HOC = "extensions/ad_hoc"
NOTES = f"{AD_HOC}/notes"
NOTE_INSTRUCTIONS = f"{AD_HOC}/instructions.md"
INSTRUCTIONS = "instructions"
WORKSPACE = "workspace"
GIT = ".git"
FOLDERS = (ROLLOUTS, NOTES, INSTRUCTIONS, WORKSPACE)

SOURCE_ID = re.compile(r"[0-9a-f]{16}")
NOTE_NAME = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
INPUT_PATH = re.compile(rf"{ROLLOUTS}/{SOURCE_ID.pattern}\.md|{NOTES}/[A-Za-z0-9_-][A-Za-z0-9._-]{{0,63}}\.md")


def sha256_text(text: str) -> str:
    """sha256 hex over the UTF-8 bytes."""
    return hashlib.sha256(encode(text)).hexdigest()


def encode(text: str, what: str = "The text") -> bytes:
    """UTF-8; raises WorkspaceError for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise WorkspaceError(f"{what} holds characters that are not valid Unicode.", hint="Remove them.") from None


def gone_name(unique: str) -> str:
    """Where something lies while it is being deleted: a path below the home, of a name nobody has."""
    return f"{GENERATIONS}/{GONE_PREFIX}{unique.lstrip('.')}"


def check_plain_name(name: str, what: str) -> str:
    """A generation or run id that is safe as a folder name. Raises UsageError."""
    if not _PLAIN_NAME.fullmatch(name):
        raise UsageError(f"{what} {name[:80]!a} is not valid.", hint="Use 1 to 64 letters, digits, '.', '_' or '-'.")
    return name


def check_source_id(source_id: str) -> str:
    """16 hex digits. Raises UsageError."""
    if not SOURCE_ID.fullmatch(source_id):
        raise UsageError(f"{source_id[:80]!a} is no source id.", hint="A source id has 16 hex digits.")
    return source_id


def check_note_name(name: str) -> str:
    """Raises UsageError saying what a note may be called."""
    if not NOTE_NAME.fullmatch(name):
        raise UsageError(
            f"{name[:80]!a} cannot be the name of a note.",
            hint="Use 1 to 64 letters, digits, '.', '_' or '-', with no '.' at either end.",
        )
    return name


def check_inputs(manifest: Manifest, texts: Mapping[str, str]) -> None:
    """Every input has a proper path and exactly the text its hash says.

    Raises WorkspaceError for a path that is no input's, InputsChangedError naming what is missing or differs.
    """
    paths = [item.path for item in manifest.inputs]
    for path in paths:
        if not INPUT_PATH.fullmatch(path):
            raise WorkspaceError(f"{path[:120]!a} is not the path of an input.", hint="This is a fault in slowwave.")
    if len(set(paths)) != len(paths):
        raise WorkspaceError("An input stands twice in the manifest.", hint="This is a fault in slowwave.")
    wrong = [item.path for item in manifest.inputs if _differs(texts.get(item.path), item.sha256)]
    if wrong:
        raise InputsChangedError(
            f"{len(wrong)} of {len(paths)} inputs are not what the manifest says: {shorten(wrong)}.",
            hint="Run again: the inputs are read anew.",
        )


def _differs(text: str | None, sha256: str) -> bool:
    return text is None or sha256_text(text) != sha256


def shorten(paths: list[str], most: int = 5) -> str:
    """The first few of a list of paths, for a message."""
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more
