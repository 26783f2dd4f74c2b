"""The types the tests of the workspace share, and what lies in a folder."""

from __future__ import annotations

from pathlib import Path

from memory.model import Manifest
from memory.workspace import Workspace

Inputs = tuple[Manifest, dict[str, str]]
Filled = tuple[Workspace, Manifest, dict[str, str]]
ONE, TWO, THREE = "1" * 16, "2" * 16, "3" * 16


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
