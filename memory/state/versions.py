"""Published summaries with the inputs they were made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update

from memory.clock import iso, parse_iso
from memory.model import InputFile, LeftOut, Manifest
from memory.state.base import Aggregate, Tx
from memory.state.schema import versions


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One published summary. `manifest` is `manifest_to_dict(...)`; `money` is None where a price is unknown.

    `changes` are dicts of `kind` (added, removed, superseded, merged), `text` and `reason`.
    """

    number: int
    generation: str
    published: datetime
    sha256: str
    manifest: dict[str, Any]
    model: str
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    changes: list[dict[str, Any]] = field(default_factory=list)


class Versions(Aggregate):
    def add(self, row: VersionRow, tx: Tx) -> None:
        """Adds the row inside the publishing transaction (check the lease in it first). Numbers are never reused."""
        tx.execute(insert(versions), {name: getattr(row, name) for name in VersionRow.__dataclass_fields__})

    def rewrite(self, row: VersionRow, tx: Tx) -> None:
        """Replaces a row: a forget takes sources and texts out of the history too. Raises nothing when it is gone."""
        values = {name: getattr(row, name) for name in VersionRow.__dataclass_fields__ if name != "number"}
        tx.execute(update(versions).where(versions.c.number == row.number).values(**values))

    def latest(self, tx: Tx | None = None) -> VersionRow | None:
        with self._db.read(tx) as connection:
            row = connection.execute(select(*versions.c).order_by(versions.c.number.desc()).limit(1)).one_or_none()
        return None if row is None else VersionRow(*row)

    def all(self, tx: Tx | None = None) -> list[VersionRow]:
        """Oldest first."""
        with self._db.read(tx) as connection:
            return [VersionRow(*row) for row in connection.execute(select(*versions.c).order_by(versions.c.number))]

    def next_number(self, tx: Tx | None = None) -> int:
        """One more than the latest, from 1."""
        latest = self.latest(tx)
        return 1 if latest is None else latest.number + 1


def manifest_to_dict(manifest: Manifest) -> dict[str, Any]:
    """A manifest as JSON-ready values; the inverse is `manifest_from_dict`."""
    return {
        "generation": manifest.generation,
        "inputs": [{**asdict(item), "time": iso(item.time)} for item in manifest.inputs],
        "left_out": [asdict(item) for item in manifest.left_out],
        "removed": list(manifest.removed),
    }


def manifest_from_dict(values: Mapping[str, Any]) -> Manifest:
    """Raises KeyError or TypeError on a dict that `manifest_to_dict` did not make."""
    return Manifest(
        generation=values["generation"],
        inputs=tuple(InputFile(**{**item, "time": parse_iso(item.get("time"))}) for item in values["inputs"]),
        left_out=tuple(LeftOut(**item) for item in values.get("left_out", ())),
        removed=tuple(values.get("removed", ())),
    )
