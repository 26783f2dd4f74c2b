"""Which program of a host is on PATH, and of which version: read from the files beside it, without starting it."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-+.][0-9A-Za-z.-]+)?")
_LEVELS = 6


@dataclass(frozen=True, slots=True)
class Program:
    """`version` is None where the files do not tell."""

    path: Path
    version: str | None


def find(command: str, path: str | None = None) -> Program | None:
    """The program `command` starts, None where there is none. `path`: a search path in place of PATH."""
    found = shutil.which(command, path=path)
    return Program(Path(found), version_of(Path(found))) if found else None


def version_of(program: Path) -> str | None:
    """From the package.json of the package it belongs to, else from a folder or file named like a version."""
    try:
        real = program.resolve(strict=True)
    except OSError:
        return None
    for folder in list(real.parents)[:_LEVELS]:
        try:
            said = json.loads((folder / "package.json").read_bytes()).get("version")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(said, str) and _VERSION.fullmatch(said):
            return said
    return next((part for part in reversed(real.parts) if _VERSION.fullmatch(part)), None)
