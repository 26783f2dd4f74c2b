"""Uses that hooks left in the spool, for the run that counts them: nothing is deleted before it was counted.

A file is moved aside first, so that a hook which comes meanwhile begins a new one, and deleted with `done`. What a
killed run had moved aside is found again by the next one. A file that cannot be read is dropped. Standard library only.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from recall import scope
from recall.snapshot import MAX_SPOOL_BYTES, VERSION

_CITATION = re.compile(r"[0-9a-f]{8}|[0-9a-f]{16}|note:[A-Za-z0-9._-]{1,64}")
_TAKEN = re.compile(r"\.taken-\d+-(?=used-)")
_KIND = "used-"
LATEST = 32_503_680_000
"""The year 3000, in seconds since the epoch: beyond it no time is meant."""


class Used(NamedTuple):
    """What one session left: `session` names host and session, `uses` are citation -> seconds since the epoch."""

    path: Path
    session: str
    uses: dict[str, float]

    def done(self) -> None:
        """It was counted."""
        _remove(self.path)


def take_uses(home: Path) -> list[Used]:
    """Every file of uses, moved aside. Never raises."""
    try:
        paths = sorted((home / "spool").iterdir())
    except OSError:
        return []
    found: list[Used] = []
    for path in paths:
        plain = _TAKEN.sub("", path.name)
        if not plain.startswith(_KIND) or not plain.endswith(".json"):
            continue
        mine = path if plain != path.name else path.with_name(f".taken-{secrets.randbits(48)}-{plain}")
        with suppress(OSError):
            if mine != path:
                path.rename(mine)
            uses = _read(mine)
            if uses is None:
                _remove(mine)
            else:
                found.append(Used(mine, plain.removeprefix(_KIND).removesuffix(".json"), uses))
    return found


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _read(path: Path) -> dict[str, float] | None:
    try:
        data = scope.read_file(str(path), MAX_SPOOL_BYTES)
        values = json.loads(data) if data is not None else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or values.get("version") != VERSION:
        return None
    uses = values.get("citations")
    if not isinstance(uses, dict):
        return None
    return {
        name: float(at)
        for name, at in uses.items()
        if _CITATION.fullmatch(name) and type(at) in (int, float) and 0 <= at < LATEST
    }
