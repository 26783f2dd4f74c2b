"""When the index has to be made anew: whenever anything it was made from is no longer what it was.

The index remembers a digest of its inputs: the generation, every input file's size, times and inode, the settings that
matter. A reader that finds another digest never uses the file: it makes a new one and puts it in its place in one step.
So a forgotten source is gone from search as soon as its file is, whoever deletes it [M48-M50 P061].
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from recall import scope
from recall.index.file import FORMAT

INDEX_NAME = "index.db"
_INPUTS = ("", "rollout_summaries", "extensions/ad_hoc/notes")
_TOPICS = "extensions/topics"


def index_path(home: Path, generation: str) -> Path:
    """Inside the generation, so that a clear takes it along."""
    return Path(scope.versions_folder(str(home), generation)).parent / INDEX_NAME


def inputs_digest(home: Path, generation: str, context: str) -> str:
    """A digest of every file in the generation that an index is made from; `context` is a text of what else matters."""
    digest = hashlib.sha256(f"{FORMAT}\0{generation}\0{context}\0".encode())
    folder = scope.workspace_folder(str(home), generation)
    for name in _INPUTS:
        for line in _listing(f"{folder}/{name}"):
            digest.update(line.encode("utf-8", "surrogateescape"))
    topics = f"{folder}/{_TOPICS}"
    for scope_name in _names(topics):
        for name in _names(f"{topics}/{scope_name}"):
            line = f"{scope_name}/{name}\0{status(f'{topics}/{scope_name}/{name}')}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    versions = _names(scope.versions_folder(str(home), generation))
    digest.update("/".join(versions).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def signature(inputs: str, watched: Mapping[str, str]) -> str:
    """The digest an index remembers; `watched` has the status of each file outside of the generation."""
    text = "\n".join(f"{path}\0{state}" for path, state in sorted(watched.items()))
    return hashlib.sha256(f"{inputs}\n{text}".encode("utf-8", "surrogateescape")).hexdigest()


def signature_now(home: Path, generation: str, context: str, watched: Iterable[str]) -> str:
    """What the signature of an index made at this moment would be."""
    return signature(inputs_digest(home, generation, context), {path: status(path) for path in watched})


def watched(meta: Mapping[str, str]) -> list[str]:
    """The files outside of the generation that an index was made from."""
    values = json.loads(meta.get("watched", "[]"))
    return [str(value) for value in values] if isinstance(values, list) else []


def _listing(folder: str) -> list[str]:
    return [f"{name}\0{status(f'{folder}/{name}')}\n" for name in _names(folder) if name.endswith(".md")]


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def status(path: str) -> str:
    """What changes whenever a file does."""
    try:
        status = os.lstat(path)
    except OSError:
        return "-"
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
