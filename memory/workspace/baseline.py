"""The git baseline: one parentless commit that holds the last consolidated inputs and summary [Z107 Z108].

It answers one question, what has changed since; nothing else depends on it. Any git can read it, but no git runs
here: objects are made from the texts at hand, so attributes, ignore files, filters and hooks have no say. Order of
a reset: new objects, then the one reference (atomically), then everything that is no longer reachable goes. A
kill at any point leaves the old or the new commit whole. Objects are not flushed one by one: each is checked
against its name when it is read, and a damaged baseline is as good as none, since then everything counts as added.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree

from memory.errors import WorkspaceError
from memory.model import SUMMARY_NAME
from memory.workspace import files as layer
from memory.workspace.files import Files
from memory.workspace.layout import GIT, INPUT_PATH, encode

OBJECT = layer.scratch_writing("workspace.baseline.object")
REFERENCE = layer.writing("workspace.baseline.reference")
CONFIG = layer.scratch_writing("workspace.baseline.config")
FOLDER = layer.making("workspace.baseline.folder")
PRUNE = layer.emptying("workspace.baseline.prune")

_HEAD = b"ref: refs/heads/main\n"
_REFERENCE = f"{GIT}/refs/heads/main"
_CONFIG = (
    b"[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = true\n\tlogallrefupdates = false\n"
    b"[gc]\n\tauto = 0\n"
)
_TYPES = {b"blob": Blob.type_num, b"tree": Tree.type_num, b"commit": Commit.type_num}
_SHA = re.compile(r"[0-9a-f]{40}")
_MAX_OBJECT_BYTES = 8_000_000
_MAX_ENTRIES = 20_000
_MAX_DEPTH = 4
_AUTHOR = b"slowwave <slowwave@localhost>"
_FILE, _FOLDER = 0o100644, 0o40000


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the baseline holds. `state` is `ok`, `missing` or `damaged`; then the rest is empty.

    `texts` is path -> text of the inputs; `key` is the manifest's key.
    """

    state: str
    texts: Mapping[str, str] = field(default_factory=dict)
    summary: str | None = None
    key: str = ""


class _Damaged(Exception):
    """Something in the repository is not what we wrote."""


def read(files: Files) -> Baseline:
    """Never raises for what it finds inside `.git`; StorageError only when the disk refuses."""
    try:
        commit_id = _head(files)
        if commit_id is None:
            return Baseline("missing")
        commit = _load(files, commit_id)
        if not isinstance(commit, Commit) or commit.parents:
            raise _Damaged
        texts = dict(_walk(files, commit.tree, "", 0))
        summary = texts.pop(SUMMARY_NAME, None)
        if any(not INPUT_PATH.fullmatch(path) for path in texts):
            raise _Damaged
        match = re.search(rb"^key: ([0-9a-f]{64})$", commit.message, re.MULTILINE)
        return Baseline("ok", texts, summary, match[1].decode() if match else "")
    except (_Damaged, UnicodeDecodeError, ValueError):
        return Baseline("damaged")
    except WorkspaceError as error:
        if error.code == "storage":
            raise
        return Baseline("damaged")  # a link or a special file where an object should be


def reset(
    files: Files,
    texts: Mapping[str, str],
    summary: str,
    *,
    key: str,
    at: datetime | None,
    just_read: Mapping[str, str] | None = None,
) -> str:
    """Writes the commit and removes everything else; returns its id. Raises StorageError when the disk refuses.

    `just_read` are texts that were read from the present baseline a moment ago: their objects are intact.
    """
    objects, commit_id = _build({**texts, SUMMARY_NAME: summary}, key, at)
    _prepare(files)
    intact = {Blob.from_string(encode(text)).id.decode() for text in (just_read or {}).values()}
    for name, sha_file in objects.items():
        if name not in intact and not _intact(files, name):
            files.make_folder(f"{GIT}/objects/{name[:2]}", FOLDER)
            files.remove_tree(_object_path(name), PRUNE)
            files.write(_object_path(name), sha_file.as_legacy_object(), OBJECT)
    files.write(_REFERENCE, f"{commit_id}\n".encode(), REFERENCE)
    _prune(files, set(objects))
    return commit_id


# -- building -----------------------------------------------------------------------------------------


def _build(texts: Mapping[str, str], key: str, at: datetime | None) -> tuple[dict[str, ShaFile], str]:
    objects: dict[str, ShaFile] = {}

    def keep(sha_file: ShaFile) -> ObjectID:
        objects[sha_file.id.decode()] = sha_file
        return sha_file.id

    def tree_of(level: Mapping[str, str]) -> ObjectID:
        tree = Tree()
        below: dict[str, dict[str, str]] = {}
        for path, text in level.items():
            name, _, rest = path.partition("/")
            if rest:
                below.setdefault(name, {})[rest] = text
            else:
                tree.add(name.encode(), _FILE, keep(Blob.from_string(encode(text))))
        for name, inner in below.items():
            tree.add(name.encode(), _FOLDER, tree_of(inner))
        return keep(tree)

    commit = Commit()
    commit.tree = tree_of(texts)
    commit.author = commit.committer = _AUTHOR
    commit.author_time = commit.commit_time = int(at.timestamp()) if at is not None else 0
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = f"The last consolidated inputs and summary\n\nkey: {key}\n".encode()
    return objects, keep(commit).decode()


def _prepare(files: Files) -> None:
    """Whatever stands in the place of `.git`, `HEAD`, ... is replaced by what belongs there."""
    for path in (GIT, f"{GIT}/objects", f"{GIT}/refs", f"{GIT}/refs/heads"):
        parent, _, name = path.rpartition("/")
        found = next((entry for entry in files.entries(parent) or () if entry.name == name), None)
        if found is not None and found.kind != "folder":
            files.remove_tree(path, PRUNE)
        files.make_folder(path, FOLDER)
    for name, data in (("HEAD", _HEAD), ("config", _CONFIG)):
        if _content(files, f"{GIT}/{name}") != data:
            files.remove_tree(f"{GIT}/{name}", PRUNE)
            files.write(f"{GIT}/{name}", data, CONFIG)


def _prune(files: Files, keep: set[str]) -> None:
    """Locks, packs, other branches, logs, hooks: nothing stays but the one commit [Z108]."""
    _keep_only(files, GIT, {"HEAD", "config", "objects", "refs"})
    _keep_only(files, f"{GIT}/refs", {"heads"})
    _keep_only(files, f"{GIT}/refs/heads", {"main"})
    _keep_only(files, f"{GIT}/objects", {name[:2] for name in keep})
    for prefix in sorted({name[:2] for name in keep}):
        _keep_only(files, f"{GIT}/objects/{prefix}", {name[2:] for name in keep if name.startswith(prefix)})


def _keep_only(files: Files, path: str, names: set[str]) -> None:
    for entry in files.entries(path) or ():
        if entry.name not in names:
            files.remove_tree(f"{path}/{entry.name}", PRUNE)


# -- reading ------------------------------------------------------------------------------------------


def _head(files: Files) -> str | None:
    head, reference = _content(files, f"{GIT}/HEAD"), _content(files, _REFERENCE)
    if head is None or reference is None:
        return None
    name = reference.decode("ascii").strip()
    if head != _HEAD or not _SHA.fullmatch(name):
        raise _Damaged
    return name


def _content(files: Files, path: str) -> bytes | None:
    """The bytes of a small file; None when it is not there or is no plain file."""
    try:
        content = files.read(path, limit=4096)
    except WorkspaceError as error:
        if error.code == "storage":
            raise
        return None
    return None if content is None else content.data


def _object_path(name: str) -> str:
    return f"{GIT}/objects/{name[:2]}/{name[2:]}"


def _load(files: Files, name: str) -> ShaFile:
    content = files.read(_object_path(name), limit=_MAX_OBJECT_BYTES)
    if content is None:
        raise _Damaged
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(content.data, _MAX_OBJECT_BYTES)
    except zlib.error:
        raise _Damaged from None
    header, separator, body = raw.partition(b"\0")
    kind, _, size = header.partition(b" ")
    if not unpacker.eof or not separator or kind not in _TYPES or size != str(len(body)).encode():
        raise _Damaged
    sha_file = ShaFile.from_raw_string(_TYPES[kind], body)
    if sha_file.sha().hexdigest() != name:
        raise _Damaged
    return sha_file


def _intact(files: Files, name: str) -> bool:
    try:
        _load(files, name)
    except (_Damaged, ValueError):
        return False
    except WorkspaceError as error:
        if error.code == "storage":
            raise
        return False
    return True


def _walk(files: Files, tree_id: bytes, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    tree = _load(files, tree_id.decode("ascii"))
    if not isinstance(tree, Tree) or depth > _MAX_DEPTH or len(tree) > _MAX_ENTRIES:
        raise _Damaged
    for entry in tree.iteritems():
        path = f"{prefix}{entry.path.decode('ascii')}"
        if entry.mode == _FOLDER:
            yield from _walk(files, entry.sha, f"{path}/", depth + 1)
            continue
        blob = _load(files, entry.sha.decode("ascii"))
        if not isinstance(blob, Blob):
            raise _Damaged
        yield path, blob.data.decode("utf-8")
