"""The only files a consolidation agent can reach [Z090 Z091]."""

from __future__ import annotations

from dataclasses import dataclass

from memory.model import MAX_SUMMARY_BYTES


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one agent's file work: bytes are UTF-8 bytes, operations count reads, writes and edits."""

    file_bytes: int = 1_000_000
    read_bytes: int = 64_000
    write_bytes: int = 2 * MAX_SUMMARY_BYTES
    operations: int = 1_000
    depth: int = 6


class ConfinedFiles:
    """Reads exactly the staged files, writes exactly `memory_summary.md`.

    Every refusal is a PathRefused, every other failure a WorkspaceError; both messages are fit to be sent back to
    the agent and hold no content.
    """

    def list(self) -> list[str]:
        """Every readable path, sorted; `memory_summary.md` only once it exists."""
        raise NotImplementedError

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> str:
        """The text from character `offset` on, at most `limit` characters (code points).

        A result longer than `Limits.read_bytes` is cut and ends with a line that tells how to go on.
        """
        raise NotImplementedError

    def write(self, path: str, text: str) -> None:
        """Replaces the whole summary, atomically."""
        raise NotImplementedError

    def edit(self, path: str, old: str, new: str) -> None:
        """Replaces `old`, which must stand exactly once; else the error says how often it does."""
        raise NotImplementedError
