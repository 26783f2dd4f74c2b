"""The last published summaries with their inputs, for restore, diff and `why` [Z117].

    versions/<number>/memory_summary.md
    versions/<number>/inputs/<path>        exactly as they were consolidated
    versions/<number>/manifest.json        the manifest, the summary's hash and a seal over both

A version is written under a temporary name, flushed and renamed: it is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.clock import iso, parse_iso
from memory.errors import StorageError, UnknownReference, WorkspaceError
from memory.model import MAX_NOTES_BYTES, SUMMARY_NAME, InputFile, LeftOut, Manifest
from memory.workspace import files as layer
from memory.workspace.files import Files, temporary_name
from memory.workspace.layout import INPUT_PATH, NOTES, ROLLOUTS, VERSIONS, encode, sha256_text

FILES = layer.scratch_writing("workspace.version.file")
FLUSH = layer.flushing("workspace.version")
PLACE = layer.moving("workspace.version.place")
RETIRE = layer.moving("workspace.version.retire")
EMPTY = layer.emptying("workspace.version.delete")
CUT = layer.writing("workspace.version.cut")
CUT_AWAY = layer.removing("workspace.version.cut_away")
FOLDER = layer.making("workspace.version.folder")

_NEW = "new-"
_NEXT = "next_summary.md"
_MAX_MANIFEST_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Version:
    """One published summary with exactly what it was made from; `texts` is path -> text."""

    number: int
    summary: str
    sha256: str
    manifest: Manifest
    texts: dict[str, str]


def manifest_data(manifest: Manifest) -> dict[str, Any]:
    """A manifest as plain data for JSON: the form kept in versions and in the database."""
    return {
        "generation": manifest.generation,
        "inputs": [
            {
                "citation": item.citation,
                "path": item.path,
                "sha256": item.sha256,
                "chars": item.chars,
                "project": item.project,
                "projects_global": item.projects_global,
                "pinned": item.pinned,
                "time": iso(item.time),
            }
            for item in manifest.inputs
        ],
        "left_out": [{"citation": o.citation, "path": o.path, "reason": o.reason} for o in manifest.left_out],
        "removed": list(manifest.removed),
    }


def manifest_from_data(data: Mapping[str, Any]) -> Manifest:
    """The inverse of `manifest_data`. Raises KeyError, TypeError or ValueError when something is missing."""
    return Manifest(
        generation=str(data["generation"]),
        inputs=tuple(
            InputFile(
                citation=str(item["citation"]),
                path=str(item["path"]),
                sha256=str(item["sha256"]),
                chars=int(item["chars"]),
                project=str(item["project"]),
                projects_global=bool(item["projects_global"]),
                pinned=bool(item["pinned"]),
                time=parse_iso(item["time"]),
            )
            for item in data["inputs"]
        ),
        left_out=tuple(LeftOut(str(o["citation"]), str(o["path"]), str(o["reason"])) for o in data["left_out"]),
        removed=tuple(str(citation) for citation in data["removed"]),
    )


def save(files: Files, number: int, summary: str, manifest: Manifest, texts: Mapping[str, str], *, keep: int) -> None:
    """`files` lies at the generation. Saving the same version again is fine; another under its number is not."""
    if number < 1:
        raise WorkspaceError(f"{number} is no version number.", hint="This is a fault in slowwave.")
    if number in numbers(files):
        _require_same(files, number, summary, manifest)
    else:
        _place(files, number, summary, manifest, texts)
    for old in numbers(files)[:-keep]:
        with contextlib.suppress(StorageError):  # the new version stands; the next save tries again
            drop(files, old)


def _place(
    files: Files, number: int, summary: str, manifest: Manifest, texts: Mapping[str, str], *, name: str = ""
) -> None:
    temporary = f"{VERSIONS}/{temporary_name()}"
    try:
        for parent in sorted({f"inputs/{item.path}".rpartition("/")[0] for item in manifest.inputs} | {"inputs"}):
            files.make_folder(f"{temporary}/{parent}", FOLDER)
        for item in manifest.inputs:
            files.write(f"{temporary}/inputs/{item.path}", encode(texts[item.path]), FILES)
        files.write(f"{temporary}/{SUMMARY_NAME}", encode(summary), FILES)
        files.write(f"{temporary}/manifest.json", _sealed(number, summary, manifest), FILES)
        files.flush_tree(temporary, FLUSH)
        if name:
            files.remove_tree(f"{VERSIONS}/{name}", EMPTY)
        files.move(temporary, f"{VERSIONS}/{name or number}", PLACE)
    except BaseException:
        _discard(files, temporary)
        raise


def replace(files: Files, number: int, summary: str, manifest: Manifest, texts: Mapping[str, str]) -> None:
    """Puts another content in the place of a kept version (a forget takes sources out of it).

    Where only inputs went, the manifest is the point of change (`_cut`). Otherwise the new content is whole under a
    name of its own before the old one goes; `finish_replacements` at the next start gives it the number when a kill
    came between.
    """
    before = {item.path: item.sha256 for item in read_manifest(files, number).inputs}
    if all(before.get(item.path) == item.sha256 for item in manifest.inputs):
        _cut(files, number, summary, manifest)
        return
    _place(files, number, summary, manifest, texts, name=f"{_NEW}{number}")
    drop(files, number)
    files.move(f"{VERSIONS}/{_NEW}{number}", f"{VERSIONS}/{number}", PLACE)


def _cut(files: Files, number: int, summary: str, manifest: Manifest) -> None:
    """The new summary beside the old one, then the manifest, which says which of the two counts, then what is left
    over. A kill leaves the old version or the new one; doing it again removes the rest."""
    base = f"{VERSIONS}/{number}"
    files.write(f"{base}/{_NEXT}", encode(summary), CUT)
    files.write(f"{base}/manifest.json", _sealed(number, summary, manifest), CUT)
    files.move(f"{base}/{_NEXT}", f"{base}/{SUMMARY_NAME}", PLACE)
    known = {f"inputs/{item.path}" for item in manifest.inputs}
    for folder in (f"inputs/{ROLLOUTS}", f"inputs/{NOTES}"):
        for entry in files.entries(f"{base}/{folder}") or ():
            if f"{folder}/{entry.name}" not in known:
                files.remove(f"{base}/{folder}/{entry.name}", CUT_AWAY)


def finish_replacements(files: Files) -> None:
    """Start-up: a new content whose old one is gone takes its place, one whose old one still stands is dropped."""
    for entry in files.entries(VERSIONS) or ():
        number = entry.name.removeprefix(_NEW)
        if entry.name == number or not number.isdigit():
            continue
        if int(number) in numbers(files):
            files.remove_tree(f"{VERSIONS}/{entry.name}", EMPTY)
        else:
            files.move(f"{VERSIONS}/{entry.name}", f"{VERSIONS}/{number}", PLACE)


def numbers(files: Files) -> list[int]:
    """Kept versions, ascending."""
    entries = files.entries(VERSIONS) or ()
    return sorted(int(e.name) for e in entries if e.kind == "folder" and e.name.isascii() and e.name.isdigit())


def drop(files: Files, number: int) -> bool:
    """Out of sight at once, then deleted. False when there was none."""
    if number not in numbers(files):
        return False
    temporary = f"{VERSIONS}/{temporary_name()}"
    files.move(f"{VERSIONS}/{number}", temporary, RETIRE)
    files.remove_tree(temporary, EMPTY)
    return True


def read_manifest(files: Files, number: int) -> Manifest:
    """What a version was made from, without reading its texts. Raises WorkspaceError when it is damaged."""
    try:
        return manifest_from_data(_manifest(files, number)["manifest"])
    except (KeyError, TypeError, ValueError):
        raise _damaged(files, number, "its manifest") from None


def _summary(files: Files, number: int, sha256: str) -> str:
    """The one the manifest means: a kill between the two leaves it under its first name."""
    for name in (SUMMARY_NAME, _NEXT):
        with contextlib.suppress(WorkspaceError):
            return _text(files, number, name, sha256)
    return _text(files, number, SUMMARY_NAME, sha256)


def summary_hash(files: Files, number: int) -> str:
    """The hash a version's manifest gives for its summary, without reading the inputs."""
    return str(_manifest(files, number)["summary_sha256"])


def read(files: Files, number: int) -> Version:
    """Raises UnknownReference when it is not there, WorkspaceError when one byte of it is not as it was saved."""
    if number not in numbers(files):
        raise UnknownReference(f"Version {number} is not kept.", hint="`slowwave history` lists those that are.")
    data = _manifest(files, number)
    try:
        manifest = manifest_from_data(data["manifest"])
        sha256 = str(data["summary_sha256"])
    except (KeyError, TypeError, ValueError):
        raise _damaged(files, number, "its manifest") from None
    summary = _summary(files, number, sha256)
    texts: dict[str, str] = {}
    for item in manifest.inputs:
        if not INPUT_PATH.fullmatch(item.path):
            raise _damaged(files, number, "its manifest")
        texts[item.path] = _text(files, number, f"inputs/{item.path}", item.sha256)
    return Version(number, summary, sha256, manifest, texts)


def _sealed(number: int, summary: str, manifest: Manifest) -> bytes:
    data = {
        "number": number,
        "summary_sha256": sha256_text(summary),
        "key": manifest.key(),
        "manifest": manifest_data(manifest),
    }
    return json.dumps({**data, "seal": _seal(data)}, ensure_ascii=False, indent=1).encode() + b"\n"


def _seal(data: Mapping[str, Any]) -> str:
    canonical = json.dumps(dict(data), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _manifest(files: Files, number: int) -> dict[str, Any]:
    content = files.read(f"{VERSIONS}/{number}/manifest.json", limit=_MAX_MANIFEST_BYTES)
    try:
        data = json.loads(content.data) if content is not None else None
        if not isinstance(data, dict) or data.pop("seal", None) != _seal(data) or data["number"] != number:
            raise ValueError
        return data
    except (ValueError, KeyError):
        raise _damaged(files, number, "its manifest") from None


def _text(files: Files, number: int, path: str, sha256: str) -> str:
    content = files.read(f"{VERSIONS}/{number}/{path}", limit=MAX_NOTES_BYTES)
    if content is None or hashlib.sha256(content.data).hexdigest() != sha256:
        raise _damaged(files, number, path)
    return content.data.decode("utf-8")


def _damaged(files: Files, number: int, what: str) -> WorkspaceError:
    return WorkspaceError(
        f"Version {number} ({files.full(f'{VERSIONS}/{number}')}) is damaged: {what} is not as it was saved.",
        hint="Restore another version; `slowwave history` lists them.",
    )


def _require_same(files: Files, number: int, summary: str, manifest: Manifest) -> None:
    data = _manifest(files, number)
    if (data["summary_sha256"], data["key"]) != (sha256_text(summary), manifest.key()):
        raise WorkspaceError(
            f"Version {number} exists already with another content.", hint="Run again; the next number is used."
        )


def _discard(files: Files, temporary: str) -> None:
    with contextlib.suppress(WorkspaceError):  # heal removes it
        files.remove_tree(temporary, EMPTY)
