"""The data epoch: generation, clear watermark, and their copy in `generation.json`.

The database is the truth; the file lets a reader without a database find the workspace, and is written again
whenever it disagrees (a process killed between the two leaves it one step behind).
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

from sqlalchemy import Text, cast, delete, func, literal, select, true, update

from memory import failpoints
from memory.clock import iso, parse_iso
from memory.errors import StateCorruptError, StateError, StateVersionError
from memory.state.base import Aggregate, Tx
from memory.state.dialect import insert
from memory.state.schema import VERSION, hook_uses, intents, jobs, meta, outputs, rollouts, usage, versions

GENERATION_FILE = "generation.json"
_CLEARED = "cleared:"
"""Begins the names of meta rows that say how one rollout stood at the last clear."""

failpoints.declare("state.generation_file.before", "state.generation_file.after")
FORMER = 100
"""Former generations that are remembered by name."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """How a clear holds for one rollout. `watermark` is later than the general one where the rollout's own times were
    ahead of the clock that cleared (another host's clock, one that was set back), so that they do not lift it over the
    clear; None when memory was never cleared. In the file of that `inode` and `fingerprint` the first `end` bytes
    stood there at the clear, whatever times they give."""

    watermark: datetime | None
    end: int = 0
    inode: int = 0
    fingerprint: str = ""

    def end_in(self, inode: int, fingerprint: str) -> int:
        """`end` if it is still that file, else 0: then the times alone decide."""
        return self.end if (inode, fingerprint) == (self.inode, self.fingerprint) else 0


class Meta(Aggregate):
    def generation(self, tx: Tx | None = None) -> str:
        """The generation in force now; `Store.generation` is the one this process works in."""
        return self._get("generation", tx) or ""

    def clear_watermark(self, tx: Tx | None = None) -> datetime | None:
        """Nothing at or before it may become memory again; None when memory was never cleared."""
        return parse_iso(self._get("clear_watermark", tx))

    def cleared(self, rollout: str, tx: Tx | None = None) -> Cleared:
        """What of one rollout may never become memory again."""
        general, words = self.clear_watermark(tx), (self._get(f"{_CLEARED}{rollout}", tx) or "").split(" ")
        if general is None or len(words) != 5:
            return Cleared(general)
        last, mtime_ns, size, inode, fingerprint = words
        own = max(parse_iso(last or None) or general, _moment(int(mtime_ns)))
        return Cleared(max(general, own), int(size), int(inode), fingerprint)

    def _note_cleared(self, tx: Tx) -> None:
        """Keeps how every known rollout stands; what was kept of one that is not known any more stays."""
        c = rollouts.c
        parts = [func.coalesce(cast(c.last_event, Text), ""), *(cast(n, Text) for n in (c.mtime_ns, c.size, c.inode))]
        value = reduce(lambda said, part: said + " " + part, [*parts, c.fingerprint])
        stands = select(literal(_CLEARED, Text) + cast(c.id, Text), value).where(true())
        statement = insert(tx, meta).from_select(["name", "value"], stands)
        changes = {"value": statement.excluded.value}
        tx.execute(statement.on_conflict_do_update(index_elements=["name"], set_=changes))

    def new_generation(self, watermark: datetime) -> str:
        """Starts the next data epoch in one transaction and returns its id [Z110].

        Claims of the old one are fenced off from here on; job counters begin anew, tokens go on rising. Rollout
        rows, outputs, versions, usage and intents are removed; ledger, runs and tombstones stay. The watermark
        never moves back. The caller then writes `generation.json` (`write_generation_file`) and reopens.
        """
        name = new_generation_id()
        with self._db.write() as tx:
            before = self.clear_watermark(tx)
            latest = max(watermark, before) if before else watermark
            fresh = {"status": "released", "boundary": "", "done_boundary": None, "attempts": 0, "retry_at": None}
            none = {"lease_until": None, "finished": None, "error_code": None, "error_message": None}
            self._note_cleared(tx)
            # Jobs first: that waits for writers who hold one, so that the deletions see what they wrote.
            tx.execute(update(jobs).values(generation=name, owner="", updated=self._now(), **fresh, **none))
            for table in (rollouts, outputs, versions, usage, hook_uses, intents):
                tx.execute(delete(table))
            former = [*self.former_generations(tx), self.generation(tx)][-FORMER:]
            self._set(tx, "former_generations", " ".join(former))
            self._set(tx, "generation", name)
            self._set(tx, "clear_watermark", str(iso(latest)))
            self.scrub_needed(tx)
        return name

    def former_generations(self, tx: Tx | None = None) -> list[str]:
        """Those before the one in force, oldest first: `generation.json` may name one of them after a kill, never
        another one."""
        return (self._get("former_generations", tx) or "").split()

    def scrub_due(self) -> bool:
        """Whether rows were deleted whose text may still stand in the database file."""
        return self._get("scrub", None) == "due"

    def scrub_needed(self, tx: Tx) -> None:
        """Notes it in the transaction that deletes."""
        self._set(tx, "scrub", "due")

    def scrubbed(self) -> None:
        """The file was rewritten."""
        if self.scrub_due():
            with self._db.write() as tx:
                self._set(tx, "scrub", "done")

    def _get(self, name: str, tx: Tx | None) -> str | None:
        with self._db.read(tx) as connection:
            return connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar_one_or_none()

    def _set(self, tx: Tx, name: str, value: str) -> None:
        statement = insert(tx, meta)
        changes = {"value": statement.excluded.value}
        tx.execute(
            statement.on_conflict_do_update(index_elements=["name"], set_=changes), {"name": name, "value": value}
        )


def _moment(nanoseconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(max(0, nanoseconds) / 1e9, UTC)
    except (OverflowError, ValueError, OSError):
        return datetime.min.replace(tzinfo=UTC)


def new_generation_id() -> str:
    """12 hex digits."""
    return secrets.token_hex(6)


def check_meta(rows: dict[str, str], place: str, *, user_version: int = VERSION, hint: str = "") -> None:
    """Raises StateVersionError unless the database says version 2 in every place it should."""
    found = rows.get("version")
    if found is None or user_version != VERSION or found != str(VERSION) or not rows.get("generation"):
        said = found if found is not None else (str(user_version) if user_version else "none")
        raise _wrong_version(place, said, hint)


def read_generation_file(home: Path) -> str | None:
    """The generation named by `generation.json`, None where there is no such file.

    Raises StateVersionError for another version and StateCorruptError for a file that is not ours.
    """
    path = home / GENERATION_FILE
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise StateCorruptError(
            f"{path} cannot be read or is not JSON; it was left as it is.",
            hint="`slowwave doctor --fix` sets it aside; it is written again from the state database.",
        ) from None
    version = values.get("version") if isinstance(values, dict) else None
    if version != VERSION:
        raise _wrong_version(str(path), "none" if version is None else str(version)[:20])
    generation = values.get("generation")
    if not isinstance(generation, str) or not generation.isalnum():
        raise StateCorruptError(
            f"{path} names no generation; it was left as it is.",
            hint="`slowwave doctor --fix` sets it aside; it is written again from the state database.",
        )
    return generation


def write_generation_file(home: Path, generation: str) -> None:
    """Atomically: temporary file, fsync, rename, fsync of the folder. Mode 0600. Raises StateError."""
    try:
        with failpoints.step("state.generation_file"):
            _write_atomically(home, generation)
    except OSError as error:
        raise StateError(
            f"{home / GENERATION_FILE} could not be written ({error.strerror}).",
            hint="Free some space or mend the folder's permissions; the next start writes it.",
        ) from None


def _write_atomically(home: Path, generation: str) -> None:
    path = home / GENERATION_FILE
    temporary = home / f".{GENERATION_FILE}.{os.getpid()}.{secrets.token_hex(4)}"
    text = json.dumps({"version": VERSION, "generation": generation}) + "\n"
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(home, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _wrong_version(place: str, found: str, hint: str = "") -> StateVersionError:
    return StateVersionError(
        f"{place} holds state of version {found}; this program reads version {VERSION} only. It was left as it is.",
        hint=hint or "Old state is never converted: move it away, or point SLOWWAVE_HOME at another folder.",
    )
