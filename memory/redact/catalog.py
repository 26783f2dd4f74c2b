"""The maintained rule source: Kingfisher's catalog (Betterleaks and Veles rules), matched by its own engine.

The package `kingfisher-secret-scanner` (MongoDB, Apache-2.0) carries the rules and a linear-time matcher. Nothing is
copied from it: the rules are those of the installed version. Scanning is offline; its validators are never used.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

import orjson

from memory.clock import parse_iso
from memory.redact.table import Span

PACKAGE = "kingfisher-secret-scanner"
MAX_AGE_DAYS = 270
"""How old the installed rules may be before `released` should worry somebody."""
_PUBLIC_PARTS = re.compile(
    r"-id(?:\.\d+)?$|-(?:url|host|domain|username|address|name|repository|public-key|pub-key)(?:\.\d+)?$"
)
"""Ends of the names of rules that find what belongs to a secret but is none: account ids, hosts, public keys."""


@dataclass(frozen=True, slots=True)
class CatalogInfo:
    """Which catalog is in use: package version and number of rules; version "" where it is not installed."""

    version: str
    rules: int


class Catalog:
    """The loaded rules. Loading takes about 0.3 s from its cache, 4 s the first time ever, and 50 MB."""

    def __init__(self, cache: Path | None = None) -> None:
        from kingfisher_sdk import Rules, Scanner  # loaded late: a hook that redacts one line does without

        rules = Rules(cache_dir=cache or default_cache())
        self._scanner: Any = Scanner(rules, base64=False)
        self.info = CatalogInfo(version(PACKAGE), len(rules))

    def spans(self, data: bytes) -> Iterator[tuple[Span, str]]:
        """Byte spans of secrets with the names of their rules, in no order, possibly overlapping."""
        if b"\0" in data:
            data = data.replace(b"\0", b" ")
        for found in self._scanner.scan(data):
            name = found.rule_id.rpartition("/")[2].partition(".")[2] or found.rule_id
            if _PUBLIC_PARTS.search(name):
                continue
            where = found.location
            yield (where["start_offset"], where["end_offset"]), re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def default_cache() -> Path | None:
    """In the environment we are installed in: as trusted as the code beside it, and there for every home.

    None where that is read-only; the package then uses the user's cache folder, or none.
    """
    prefix = Path(sys.prefix)
    return prefix / "var" / "slowwave" / "rules" if os.access(prefix, os.W_OK) else None


@lru_cache(maxsize=4)
def load(cache: Path | None = None) -> Catalog | None:
    """One catalog per process and cache folder; None where the package is not installed."""
    try:
        return Catalog(cache)
    except ImportError:
        return None


def installed() -> str:
    """Version of the installed catalog, "" where there is none. Loads nothing."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return ""


def released() -> datetime | None:
    """When the installed rules were built, by the package's own bill of materials; None where it does not say."""
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        return None
    for item in listed:
        if item.name.endswith(".cyclonedx.json"):
            try:
                document = orjson.loads(Path(str(item.locate())).read_bytes())
                return parse_iso(document["metadata"]["timestamp"])
            except (OSError, KeyError, TypeError, orjson.JSONDecodeError):
                return None
    return None
