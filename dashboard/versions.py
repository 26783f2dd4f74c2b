"""Kept versions of the generation in force, as pages and API ask for them."""

from __future__ import annotations

from dashboard.desk import Look
from memory.errors import UnknownReference
from memory.state.browse import VersionHead, changes_between
from memory.workspace import Version

MAX_NUMBER = 2**31 - 1


def head(look: Look, number: int) -> VersionHead:
    """A version without its texts. Raises UnknownReference."""
    found = changes_between(look.store, number - 1, number)
    if not found:
        raise UnknownReference(f"There is no version {number}.", hint="The history lists them.")
    return found[0]


def kept(look: Look, number: int) -> Version:
    """A version whose files are still there. Raises UnknownReference, WorkspaceError for a damaged one."""
    head(look, number)
    if number not in look.workspace.versions():
        raise UnknownReference(
            f"Version {number} is no longer kept.", hint="consolidate.versions says how many are kept."
        )
    return look.workspace.read_version(number)
